"""Choose what is compared: from two refs and what is stored, to two builds, a suite and one or several testbeds.

Several testbeds are compared together only if they are asked for, and only those on which both versions were measured.
Nothing is guessed: if several choices are left, the error lists them with the flag that chooses.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from regress_gate.errors import InputError, NoDataError
from regress_gate.model.run import IMPORTED_SUITE, SuiteRef
from regress_gate.model.testbed import Testbed, asks_for_several, compare_testbeds, is_wanted_testbed
from regress_gate.model.version import Channel, Ref, RefKind, Version
from regress_gate.store.store_interface import Holding, HoldingOrigin, Pin
from regress_gate.text import did_you_mean, natural_key, plural


@dataclass(frozen=True, slots=True)
class ComparisonChoice:
    """The holdings to compare, in pairs: one for each testbed. A pair differs in suite or testbed only where the two
    refs have none in common, and then there is no other."""

    pairs: tuple[tuple[Holding, Holding], ...]
    left_out: tuple[str, ...] = ()
    """Testbeds that were asked for and have runs of one version only."""

    @property
    def baseline(self) -> Holding:
        """Of the first testbed; version and suite are those of all."""
        return self.pairs[0][0]

    @property
    def candidate(self) -> Holding:
        return self.pairs[0][1]

    @property
    def testbeds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(holding.testbed for pair in self.pairs for holding in pair))


def select_comparison(
    baseline: Ref,
    candidate: Ref,
    holdings: Sequence[Holding],
    pins: Sequence[Pin],
    *,
    single_runs: Mapping[int | None, Holding] = MappingProxyType({}),
    suite: str | None = None,
    testbeds: Sequence[str] = (),
) -> ComparisonChoice:
    """Choose what to compare. `single_runs` has, by run number, what the refs `run:N` stand for; `testbeds` are names
    and patterns, and several of them are compared together.

    Raises NoDataError when a ref has no stored runs, and InputError when more than one choice is left. The user's
    own store goes before shipped runs, and a suite and testbed that both versions share go before all others.
    """
    kept = [holding for holding in holdings if _is_wanted(holding, suite, testbeds)]
    testbed = testbeds[0] if testbeds and not asks_for_several(testbeds) else None
    ours, theirs = (_matching_holdings(ref, kept, pins, single_runs) for ref in (baseline, candidate))
    for ref, mine, others in ((baseline, ours, theirs), (candidate, theirs, ours)):
        if not mine:
            measure = f"compare {baseline} {candidate} --measure"
            raise NoDataError(_nothing_stored_text(ref, kept, holdings, others, testbed, measure))
    pairs = _pairs(ours, theirs)
    if all(any(holding.origin is HoldingOrigin.STORE for holding in side) for side in (ours, theirs)):
        # Both versions were measured by the user: the shipped runs, a demonstration, must not answer instead.
        ours, theirs = _own_first(ours), _own_first(theirs)
        pairs = _pairs(ours, theirs)
    own = [pair for pair in pairs if all(holding.origin is HoldingOrigin.STORE for holding in pair)]
    mixed = [pair for pair in pairs if any(holding.origin is HoldingOrigin.STORE for holding in pair)]
    pairs = _distinct(own or mixed or pairs)
    if asks_for_several(testbeds):
        return _choose_several(baseline, candidate, pairs, (*ours, *theirs), testbeds)
    if not pairs:  # the comparison is then refused with the differences, which says more than "no data"
        same_suite = [(left, right) for left in ours for right in theirs if left.suite.name == right.suite.name]
        pairs = same_suite or [(left, right) for left in ours for right in theirs]
    if all(_build(left) == _build(right) for left, right in pairs) and not _are_different_runs(baseline, candidate):
        raise InputError(f"{baseline} and {candidate} are the same stored build ({pairs[0][0].version})")
    if len(pairs) > 1:
        places = sorted(
            {f"--suite {left.suite} --testbed {left.testbed} ({_versions(left, right)})" for left, right in pairs}
        )
        raise InputError(
            f"{baseline} and {candidate} can be compared in more than one way",
            todo="choose one: " + " | ".join(places[:_MOST_WAYS]),
        )
    return ComparisonChoice((pairs[0],))


def _choose_several(
    baseline: Ref,
    candidate: Ref,
    pairs: Sequence[tuple[Holding, Holding]],
    stored: Sequence[Holding],
    testbeds: Sequence[str],
) -> ComparisonChoice:
    """Of `pairs` on one testbed each, those of the only two builds and suite that are left."""
    alike: dict[tuple[Version, Version, SuiteRef], list[tuple[Holding, Holding]]] = {}
    for left, right in pairs:
        if left.version != right.version:
            alike.setdefault((left.version, right.version, left.suite), []).append((left, right))
    if len(alike) > 1:
        listed = [
            f"{old} {new} --suite {suite} ({plural(len(each), 'testbed')})" for (old, new, suite), each in alike.items()
        ]
        raise InputError(
            f"{baseline} and {candidate} can be compared in more than one way",
            todo="choose one: " + " | ".join(sorted(listed)[:_MOST_WAYS]),
        )
    if not alike:
        raise InputError(
            f"{baseline} and {candidate} were not both measured on any of {', '.join(testbeds)}",
            where="--testbed",
            todo="hosts differ: measure both versions on the same one, next to each other",
        )
    chosen = sorted(next(iter(alike.values())), key=lambda pair: natural_key(pair[0].testbed))
    paired = {holding.testbed for pair in chosen for holding in pair}
    alone = dict.fromkeys(holding.testbed for holding in stored if holding.testbed not in paired)
    return ComparisonChoice(tuple(chosen), tuple(alone))


def check_one_class(testbeds: Iterable[Testbed]) -> None:
    """Raises InputError if hosts that are to be compared together are not of one class, with what differs first."""
    first, *others = {testbed.name: testbed for testbed in testbeds}.values()
    for other in others:
        differing = [each for each in compare_testbeds(first, other).differences if each.blocks]
        if differing:
            one = differing[1]  # the first is the name
            raise InputError(
                f"{first.name} and {other.name} are not of one class: {one.what} is {one.baseline} and {one.candidate}",
                where="--testbed",
                todo="name hosts of one class, or compare each by itself",
            )


def resolve_ref(
    ref: Ref,
    kept: Sequence[Holding],
    pins: Sequence[Pin],
    *,
    everything: Sequence[Holding],
    single_runs: Mapping[int | None, Holding] = MappingProxyType({}),
) -> list[Holding]:
    """The holdings that a ref may mean. Raises NoDataError, listing what is stored, when there is none."""
    holdings = _matching_holdings(ref, kept, pins, single_runs)
    if not holdings:
        raise NoDataError(_nothing_stored_text(ref, kept, everything))
    return holdings


def _matching_holdings(
    ref: Ref, kept: Sequence[Holding], pins: Sequence[Pin], single_runs: Mapping[int | None, Holding]
) -> list[Holding]:
    holdings: list[Holding] = []
    match ref.kind:
        case RefKind.VERSION if ref.version is not None:
            holdings = _named_by(ref.version, kept)
        case RefKind.PINNED:
            newest = next((pin for pin in pins if any(h.version.matches(pin.version) for h in kept)), None)
            if newest is None:
                raise NoDataError("no pinned version has stored runs; pin one with `regress-gate baseline pin VERSION`")
            holdings = _named_by(newest.version, kept)
        case RefKind.LATEST:
            holdings = _newest(holding for holding in kept if holding.version.channel is Channel.RELEASE)
        case RefKind.NIGHTLY if ref.day is None:
            builds = [h for h in kept if h.version.channel in (Channel.NIGHTLY, Channel.COMMIT) and h.last is not None]
            last = max((h.last for h in builds if h.last is not None), default=None)
            holdings = [holding for holding in builds if holding.last == last]
        case RefKind.RUN:
            holdings = [single_runs[ref.run]] if ref.run in single_runs else []
        case _:
            pass
    return holdings


def _named_by(version: Version, kept: Sequence[Holding]) -> list[Holding]:
    """Where a build of exactly this name was measured, builds that are more than it (`0.19.1+fork`) are not meant."""
    matching = [holding for holding in kept if holding.version.matches(version)]
    exact = {_suite_and_testbed(holding) for holding in matching if holding.version == version}
    return [one for one in matching if one.version == version or _suite_and_testbed(one) not in exact]


def _pairs(ours: Sequence[Holding], theirs: Sequence[Holding]) -> list[tuple[Holding, Holding]]:
    return [(left, right) for left in ours for right in theirs if _suite_and_testbed(left) == _suite_and_testbed(right)]


def _newest(holdings: Iterable[Holding]) -> list[Holding]:
    releases = [(holding.version.order_key, holding) for holding in holdings]
    newest = max((key for key, _ in releases if key is not None), default=None)
    return [holding for key, holding in releases if key == newest]


def _is_wanted(holding: Holding, suite: str | None, testbeds: Sequence[str]) -> bool:
    is_of_suite = suite is None or suite in (holding.suite.name, str(holding.suite))
    return is_of_suite and is_wanted_testbed(holding.testbed, testbeds)


def _own_first(holdings: Sequence[Holding]) -> list[Holding]:
    """Without shipped runs, if the user has runs of their own: a demonstration must not replace them."""
    own = {_suite_and_testbed(holding) for holding in holdings if holding.origin is HoldingOrigin.STORE}
    return [holding for holding in holdings if not own or _suite_and_testbed(holding) in own]


def _distinct(pairs: Sequence[tuple[Holding, Holding]]) -> list[tuple[Holding, Holding]]:
    """One pair for each choice: runs of one build that are partly shipped and partly stored are compared together."""
    distinct: dict[tuple[object, ...], tuple[Holding, Holding]] = {}
    for left, right in sorted(pairs, key=lambda pair: [holding.origin is not HoldingOrigin.STORE for holding in pair]):
        distinct.setdefault((_build(left), _build(right)), (left, right))
    return list(distinct.values())


def _build(holding: Holding) -> tuple[Version, SuiteRef, str]:
    return holding.version, *_suite_and_testbed(holding)


def _are_different_runs(baseline: Ref, candidate: Ref) -> bool:
    """Two runs of one build may be compared; a run and the build that it belongs to share their evidence."""
    return baseline.run is not None and candidate.run is not None and baseline.run != candidate.run


def _suite_and_testbed(holding: Holding) -> tuple[SuiteRef, str]:
    return holding.suite, holding.testbed


def _versions(left: Holding, right: Holding) -> str:
    return f"{left.version} → {right.version}"


_MOST_LISTED = 20
_MOST_WAYS = 8


def _nothing_stored_text(
    ref: Ref,
    kept: Sequence[Holding],
    everything: Sequence[Holding],
    others: Sequence[Holding] = (),
    testbed: str | None = None,
    measure: str | None = None,
) -> str:
    """What is stored instead, on the testbed in question if there is one, and the command that would fill the gap.

    `kept` are the holdings of the suite and testbed that were asked for, `others` those of the other version. `measure`
    is the command that measures both versions: only this project can add to the testbed of shipped runs.
    """
    if not everything:
        return f"no stored runs for {ref}; nothing is stored yet: import results with `regress-gate import`"
    others = _own_first(others)
    places = list(dict.fromkeys(_suite_and_testbed(holding) for holding in others or (kept if testbed else ())))
    testbeds = list(dict.fromkeys([testbed] if testbed else [place[1] for place in places]))
    if len(testbeds) != 1:
        return f"no stored runs for {ref}; stored: {_listed_versions(everything)} (see `regress-gate baseline list`)"
    here = [holding for holding in everything if holding.testbed == testbeds[0]]
    if not here:
        named = sorted({holding.testbed for holding in everything}, key=natural_key)
        shared = {holding.suite for holding in everything if holding.suite != IMPORTED_SUITE}
        suite = f"--suite {next(iter(shared)).name} " if len(shared) == 1 else ""
        command = f"{measure or f'run {ref}'} {suite}--testbed {testbeds[0]}"
        nothing = f"nothing is stored on testbed {testbeds[0]}{did_you_mean(testbeds[0], named)}"
        return f"{nothing}; `regress-gate {command}` would fill the gap"
    text = f"no stored runs for {ref} on {testbeds[0]}; stored there: {_listed_versions(here)}"
    suites = list(dict.fromkeys(suite for suite, _ in places))
    if ref.kind is RefKind.RUN or len(suites) != 1:
        return f"{text} (see `regress-gate baseline list`)"
    if measure is not None and others and all(holding.origin is HoldingOrigin.SHIPPED for holding in others):
        command = f"{measure} --suite {suites[0].name}"
    elif suites[0] == IMPORTED_SUITE:
        command = f"import FILE… --version {ref} --testbed {testbeds[0]}"
    else:
        command = f"run {ref} --suite {suites[0].name} --testbed {testbeds[0]}"
    return f"{text}; `regress-gate {command}` would fill the gap"


def _listed_versions(holdings: Sequence[Holding]) -> str:
    versions = list(dict.fromkeys(holding.version for holding in holdings))
    return ", ".join(map(str, versions[:_MOST_LISTED])) + (", …" if len(versions) > _MOST_LISTED else "")
