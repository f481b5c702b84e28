"""Compare the stored runs of two versions and decide. Not for measuring them: see `measure_comparison`."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from regress_gate.app.deployment_facts import deployment_out
from regress_gate.app.known_issues import find_known_issues, seen_releases
from regress_gate.app.settings import Settings
from regress_gate.app.store_queries import find_build_configs
from regress_gate.errors import InputError, NoDataError, RegressGateError
from regress_gate.gate.comparison_choice import ComparisonChoice, check_one_class, select_comparison
from regress_gate.gate.config_changes import ConfigChange, compare_configs
from regress_gate.gate.decide import GateInput, GateRules, decide_compare
from regress_gate.gate.regression_origin import add_regression_origins, choose_history
from regress_gate.gate.replicates import BlockKey, is_in_block, open_blocks, pair_runs
from regress_gate.gate.series_inputs import needs_samples
from regress_gate.gate.sides import ComparisonSide, make_side, runs_that_count, sides_by_version
from regress_gate.known.matching.facts import derive_facts
from regress_gate.known.records.coverage import never_released
from regress_gate.known.records.releases import shipped_releases
from regress_gate.model.deployment import Deployment
from regress_gate.model.metric import METRICS
from regress_gate.model.policy import Policy, PolicyLayer, PolicyOverrides, Waiver, policy_weaknesses, weak_waivers
from regress_gate.model.result import Result, Verdict, VersionSide
from regress_gate.model.run import IMPORTED_SUITE, Run, SuiteRef
from regress_gate.model.suite import ConditionLimits, Suite
from regress_gate.model.version import Ref, RefKind, Version
from regress_gate.redaction import redact
from regress_gate.report.views.result_view import ResultView
from regress_gate.store.combined import CombinedStore, open_combined_store
from regress_gate.store.store_interface import (
    Holding,
    HoldingOrigin,
    StoredComparison,
    StoreLocation,
    UnfinishedExperiment,
    choose_recent_runs,
    holdings_of,
    run_order,
)
from regress_gate.suites import find_shipped_suite, is_suite_path, load_suite, shipped_suites
from regress_gate.text import did_you_mean


@dataclass(frozen=True, slots=True)
class ComparisonScope:
    """Which stored runs a comparison takes."""

    baseline: Ref
    candidate: Ref
    suite: str | None = None
    """NAME, NAME@VERSION or the path of a suite file; None: the only one that is stored."""
    testbeds: tuple[str, ...] = ()
    """Names, and patterns (`h100-*`). Empty: the only one that is stored. Runs of several hosts of one class are
    compared together, block by block, each of one host."""


KEEPING_TIMEOUT = 5.0
"""Seconds to wait for another process that writes to the store, before a result is left out of it."""

DecideComparison = Callable[[ComparisonScope], Result]
"""`compare_stored` with everything but the scope fixed."""


def compare_stored(
    settings: Settings,
    scope: ComparisonScope,
    *,
    overrides: PolicyOverrides | None = None,
    allow_incomparable: bool = False,
    report_only: bool = False,
    gpu_hour: float | None = None,
) -> Result:
    """The decision on what is stored now. `gpu_hour` is in place of the configured price. Raises NoDataError for
    a version without runs, InputError if the refs leave more than one choice, or for hosts of several classes."""
    now = datetime.now(UTC)
    own = load_suite(scope.suite) if scope.suite is not None and is_suite_path(scope.suite) else None
    refs = scope.baseline, scope.candidate
    with open_combined_store(str(settings.store_url.value)) as store, store.one_state():
        choice = _choose(store, scope, scope.suite if own is None else f"{own.name}@{own.version}")
        suite = own or find_shipped_suite(choice.candidate.suite)
        limits = suite.conditions if suite else ConditionLimits()
        layers = settings.policy_layers(
            suite.gate if suite else None, overrides, f"{suite.name}@{suite.version}" if suite else ""
        )
        policy = Policy().over(*(layer.overrides for layer in layers))
        with_samples = needs_samples([name for name in METRICS if policy.gates(name)])
        holdings = choice.baseline, choice.candidate
        stored = [
            [run for holding in held for run in _load_runs(store, ref, holding, with_samples=with_samples)]
            for ref, held in zip(refs, zip(*choice.pairs, strict=True), strict=True)
        ]
        if len(choice.pairs) > 1 and not allow_incomparable:
            check_one_class(run.testbed for side in stored for run in side)
        unfinished = store.unfinished_experiments()
        blocks = _find_open_blocks(store, stored, choice, unfinished)
        whole = [[run for run in side if not is_in_block(run, blocks)] for side in stored]
        baseline, candidate = (
            make_side(holding.version, side, limits, origin=holding.origin.value)
            for holding, side in zip(holdings, whole, strict=True)
        )
        earlier = _earlier_runs(store, choice, baseline, candidate, limits)
    known = find_known_issues(
        _with_accelerator(settings.deployment, suite, candidate),
        baseline.version,
        candidate.version,
        suite,
        seen_releases(settings.config.check.release_index, now),
    )
    given = GateInput(
        baseline=baseline,
        candidate=candidate,
        suite=choice.candidate.suite,
        definition=suite,
        suite_file=None if own is None else scope.suite,
        findings=known.findings,
        coverage=known.coverage,
        config_changes=_find_config_changes(settings, (baseline, candidate), suite),
        earlier=earlier,
        in_open_blocks=sum(map(len, stored)) - sum(map(len, whole)),
        planned_blocks=_find_planned_blocks(whole, unfinished),
        hosts_left_out=choice.left_out,
        deployment_platform=derive_facts(settings.deployment).platform,
    )
    rules = GateRules(
        policy=policy,
        now=now,
        notices=_notices(layers, settings.waivers, now),
        named_metrics=_named_metrics(layers),
        waivers=settings.waivers,
        allow_incomparable=allow_incomparable,
        report_only=report_only,
        gpu_hour=settings.config.cost.gpu_hour if gpu_hour is None else gpu_hour,
    )
    facts = {
        "deployment": deployment_out(settings.deployed_server),
        "launch_line_is_complete": settings.deployment.complete,
    }
    result = decide_compare(given, rules).model_copy(update=facts)
    if all(series.verdict is not Verdict.REGRESSION for series in result.series):
        return result
    if len(choice.pairs) > 1:
        return result  # other versions were measured on some of the hosts, on other days: hosts would look like steps
    history, unread = _read_history(settings, choice.candidate, baseline.version, candidate.version, limits)
    return add_regression_origins(result, baseline, candidate, history, policy, limits, unread)


def keep_comparison(settings: Settings, result: Result) -> str | None:
    """Store the result beside the runs, unless the newest of the same two versions says the same.

    Returns why it was not stored; None: it is. A store that is missing or cannot be written is no error: the decision
    stands without it.
    """
    url = str(settings.store_url.value)
    if result.baseline is None or result.suite is None or result.testbed is None:
        return "it compared no measurements"
    if not StoreLocation.parse(url).may_exist:
        return "there is no store yet; importing or measuring something makes one"
    from regress_gate.store.repository import find_store  # with SQLAlchemy; the shipped baselines need no database

    comparison = StoredComparison(
        created=result.created,
        testbed=result.testbed.name,
        suite=SuiteRef(result.suite.name, result.suite.version),
        baseline=_build_of(result.baseline),
        candidate=_build_of(result.candidate),
        decision=result.decision,
    )
    try:
        store = find_store(url, timeout=KEEPING_TIMEOUT)
        if store is None:
            return "there is no store yet; importing or measuring something makes one"
        document = _without_secrets(ResultView(result).data())
        with store:
            for name in [host.name for host in result.hosts] or [comparison.testbed]:
                store.add_comparison(replace(comparison, testbed=name), document)
    except RegressGateError as error:
        return str(error)
    return None


def _without_secrets(value: Any) -> Any:
    """JSON values with every text redacted: most are short and hold nothing, so that this is faster than to redact the
    whole result at once."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact(key): _without_secrets(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return value


def _build_of(side: VersionSide) -> Version:
    """A build that is known by its commit alone has that for its version."""
    number = None if side.version.startswith("commit:") else side.version
    return Version(number, side.commit, side.variant)


def _choose(store: CombinedStore, scope: ComparisonScope, suite: str | None) -> ComparisonChoice:
    """What is compared. Only the versions that are named are looked up; an error lists whatever is stored."""
    refs = scope.baseline, scope.candidate
    named = [ref.version for ref in refs if ref.kind is RefKind.VERSION and ref.version is not None]

    def choose(held: Sequence[Holding]) -> ComparisonChoice:
        single = _single_runs(store, refs)
        return select_comparison(*refs, held, store.pinned(), single_runs=single, suite=suite, testbeds=scope.testbeds)

    if len(named) == len(refs):
        with suppress(NoDataError):
            return choose(store.inventory(named))
    inventory = store.inventory()
    try:
        return choose(inventory)
    except NoDataError:
        _refuse_unknown_suite(scope.suite, inventory)
        _refuse_never_released([one for one in named if not any(held.version.matches(one) for held in inventory)])
        raise


def _refuse_unknown_suite(suite: str | None, inventory: Sequence[Holding]) -> None:
    """Raises InputError for the name of a suite that is neither shipped nor stored: a typing error."""
    name = (suite or "").partition("@")[0]
    known = {*shipped_suites(), IMPORTED_SUITE.name, *(held.suite.name for held in inventory)}
    if suite is not None and not is_suite_path(suite) and name not in known:
        near = did_you_mean(name, known)
        raise InputError(f"no suite {name!r} is shipped or stored{near}", where="--suite") from None


def _refuse_never_released(versions: Sequence[Version]) -> None:
    """Raises NoDataError for the first that was never released: there is nothing that could be measured."""
    for version in versions:
        if (nearest := never_released(version, shipped_releases())) is not None:
            raise NoDataError(f"vLLM {version} was never released; the nearest release is {nearest}") from None


def _find_open_blocks(
    store: CombinedStore,
    sides: Sequence[Sequence[Run]],
    choice: ComparisonChoice,
    unfinished: Mapping[str, UnfinishedExperiment],
) -> set[BlockKey]:
    """Blocks of the sides' runs that an unfinished experiment has not measured whole."""
    runs = [run for side in sides for run in side if run.place is not None and run.place.experiment in unfinished]
    # The other side of a block may be a version that is not compared now.
    others = {
        version
        for experiment in {run.place.experiment for run in runs if run.place is not None}
        for version in unfinished[experiment].versions.values()
    }
    for text in others:
        for testbed in choice.testbeds:
            runs += store.runs(version=Version.parse(text), testbed=testbed, suite=choice.candidate.suite)
    return open_blocks(runs, {experiment: plan.versions for experiment, plan in unfinished.items()})


def _find_planned_blocks(
    sides: Sequence[Sequence[Run]], unfinished: Mapping[str, UnfinishedExperiment]
) -> tuple[int, int] | None:
    """Of the newest plan with a fixed number of blocks that is not at its end: whole blocks, and planned ones."""
    blocks: dict[str, set[int]] = defaultdict(set)
    for place in (run.place for side in sides for run in side):
        if place is not None:
            blocks[place.experiment].add(place.block)
    for experiment in sorted(blocks.keys() & unfinished.keys(), reverse=True):
        planned = unfinished[experiment].blocks
        if planned is not None and len(blocks[experiment]) < planned:
            return len(blocks[experiment]), planned
    return None


def _earlier_runs(
    store: CombinedStore,
    choice: ComparisonChoice,
    baseline: ComparisonSide,
    candidate: ComparisonSide,
    limits: ConditionLimits,
) -> list[Run]:
    """The newest other runs that count, of any version: as many as a comparison learns from."""
    pairing = pair_runs(baseline.counted, candidate.counted)
    compared = [*pairing.baseline, *pairing.candidate]
    metrics = {name for run in compared for trial in run.trials for name in trial.metrics}
    paired, testbeds = pairing.is_side_by_side, dict.fromkeys(pair[1].testbed for pair in choice.pairs)
    recent = [
        run
        for testbed in testbeds
        for run in store.recent_runs(
            testbed=testbed, suite=choice.candidate.suite, paired=paired, metrics=metrics, without=compared
        )
    ]
    if len(testbeds) > 1:  # each has given its newest: those of all
        recent = choose_recent_runs(sorted(recent, key=run_order), paired=paired)
    keys = {run.key for run in recent}
    # A run counts or not beside the others of its version, so those of both sides are judged with them.
    judged = {run.key: run for run in (*recent, *baseline.runs, *candidate.runs)}
    return [run for run in runs_that_count(sorted(judged.values(), key=run_order), limits) if run.key in keys]


def _read_history(
    settings: Settings, held: Holding, baseline: Version, candidate: Version, limits: ConditionLimits
) -> tuple[list[ComparisonSide], Sequence[Version]]:
    """Other versions of the testbed and suite, which may show where a regression came from; and those not read."""
    with open_combined_store(str(settings.store_url.value)) as store:
        same = [each for each in store.inventory() if (each.testbed, each.suite) == (held.testbed, held.suite)]
        choice = choose_history(same, baseline, candidate)
        sides = [
            side
            for version in choice.read
            for side in sides_by_version(store.runs(version=version, testbed=held.testbed, suite=held.suite), limits)
            if side.version == version
        ]
    return sides, choice.unread


def _with_accelerator(deployment: Deployment, suite: Suite | None, side: ComparisonSide) -> Deployment:
    """The deployment with the accelerator of the measured testbed, if nothing else names one."""
    named = deployment.accelerator or deployment.platform or deployment.gpu_arch or (suite and suite.accelerator)
    return (
        deployment
        if named or not side.runs
        else deployment.over(Deployment(accelerator=side.runs[0].testbed.accelerator))
    )


def _notices(layers: Sequence[PolicyLayer], waivers: Sequence[Waiver], now: datetime) -> list[str]:
    """One line for each place that makes the policy weaker than the defaults."""
    by_origin: dict[str, list[str]] = {}
    for weakness in policy_weaknesses(layers):
        by_origin.setdefault(weakness.origin, []).append(weakness.text)
    return [
        *(f"{'; '.join(texts)} ({origin})" for origin, texts in by_origin.items()),
        *weak_waivers(waivers, now.date()),
    ]


def _named_metrics(layers: Sequence[PolicyLayer]) -> dict[str, bool]:
    """The patterns of the layer that says what gates, and whether the user wrote it; empty: the defaults hold."""
    naming = next((layer for layer in reversed(layers) if layer.overrides.metrics is not None), None)
    return {} if naming is None else dict.fromkeys(naming.overrides.metrics or (), naming.is_users)


def _find_config_changes(
    settings: Settings, sides: Sequence[ComparisonSide], suite: Suite | None
) -> list[ConfigChange]:
    """What changed besides speed, as far as both builds are known without installing them."""
    known = find_build_configs([side.version for side in sides], settings)
    # The arguments of a CPU build differ from those of a CUDA build: another variant is not used.
    configs = [
        config if config is not None and config.version.variant == side.version.variant else None
        for config, side in zip(known, sides, strict=True)
    ]
    servers = [[run.server for run in side.counted if run.server] for side in sides]
    deployment = settings.deployment if suite is None else settings.deployment.over(suite.deployment())
    return compare_configs(configs[0], configs[1], servers[0], servers[1], deployment)


def _single_runs(store: CombinedStore, refs: Sequence[Ref]) -> dict[int | None, Holding]:
    """The run of each ref `run:N`, as a holding of one run."""
    numbers = [ref.run for ref in refs if ref.run is not None]
    runs = [run for number in numbers if (run := store.run(number)) is not None]
    return {run.id: replace(next(iter(holdings_of([run]))), origin=HoldingOrigin.STORE) for run in runs}


def _load_runs(store: CombinedStore, ref: Ref, holding: Holding, *, with_samples: bool) -> list[Run]:
    if ref.run is not None:
        run = store.run(ref.run)
        return [] if run is None else [run]
    stored = store.runs(
        version=holding.version, testbed=holding.testbed, suite=holding.suite, with_samples=with_samples
    )
    return [run for run in stored if run.version == holding.version]
