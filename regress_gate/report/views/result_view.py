"""The report of `compare` and `check`: what a person is shown of a result, and in which order.

The decision and one sentence come first, then why, then what differs; every format has this order. A terminal gets one
screen, and everything with `-v`; a page folds what reassures. Series are in `series_view`, known issues in
`issues_view`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any, ClassVar

from regress_gate.model.metric import CAPACITY, METRICS, Direction, Scale
from regress_gate.model.result import (
    AuditEffect,
    CounterTestOut,
    CounterTestOutcome,
    Decision,
    ExplanationOut,
    Move,
    ObjectiveOut,
    ObjectiveSide,
    ObservedCauseOut,
    ReasonCode,
    Result,
    Verdict,
    WaiverOut,
)
from regress_gate.model.run import IMPORTED_SUITE
from regress_gate.report.document import (
    Block,
    Cell,
    Code,
    Column,
    Detail,
    Document,
    Entry,
    EntryList,
    ItemList,
    Line,
    Pair,
    Pairs,
    Paragraph,
    Row,
    Section,
    Style,
    Styled,
    Table,
    View,
)
from regress_gate.report.findings import Findings
from regress_gate.report.render.output_formats import COMPARISON_FIGURES
from regress_gate.report.views import issues_view, units, wording
from regress_gate.report.views.fleet_view import hosts_section
from regress_gate.report.views.result_figures import result_figures
from regress_gate.report.views.result_findings import result_findings
from regress_gate.report.views.series_view import (
    MOST_DECISIVE,
    SeriesFilter,
    decisive_series,
    series_section,
    split_series,
)
from regress_gate.report.views.server_findings_view import findings_left_out, server_findings_sections
from regress_gate.text import plural

_MOST_HOSTS = 4
"""Testbeds that are named where it says what was compared."""
MAX_CONFIG_CHANGES = 2
"""Changes besides speed that a terminal lists; `-v` lists all that matter, `diff-config` all."""
MOST_REASONS = 6
MOST_CAUSES = 5
MOST_ALIKE = 2
"""Void or failed runs, differences and warnings that a terminal lists of each kind."""

_DECISION_STYLE = {Decision.PASS: Style.GOOD, Decision.FAIL: Style.BAD, Decision.INCONCLUSIVE: Style.WARNING}
_FACT_STYLE = {
    **dict.fromkeys(("void", "differs", "notice"), Style.WARNING),
    "failed": Style.BAD,
}
_PARENTHESES = re.compile(r" \([^()]*\)")
_LOUD_FACTS = ("compared", "differs", "void", "failed", "notice")
"""Labels of the facts that a terminal shows without `-v`: what was compared, and what limits the answer."""
_SAID_BY_THE_ADVICE = {ReasonCode.ALL_WITHIN_MARGIN, ReasonCode.NO_BLOCKING_ISSUE}
_LIBRARY = "library_changed:"
_OUTCOMES = {
    ("candidate", CounterTestOutcome.RESTORES): "measured: {} is not {worse}",
    ("candidate", CounterTestOutcome.DOES_NOT_RESTORE): "measured, and not the whole cause: {} is {worse}, too",
    ("candidate", CounterTestOutcome.NOT_DECIDED): "measured without a decision whether {} is {worse}",
    ("candidate", CounterTestOutcome.FAILED): "not measured: {} failed",
    ("baseline", CounterTestOutcome.RESTORES): "measured: {} is {as_bad}",
    ("baseline", CounterTestOutcome.DOES_NOT_RESTORE): "measured, and not the whole cause: {} is not {as_bad}",
    ("baseline", CounterTestOutcome.NOT_DECIDED): "measured without a decision whether {} is {as_bad}",
    ("baseline", CounterTestOutcome.FAILED): "not measured: {} failed",
}
"""Of a counter-test, by the side whose servers were changed."""
_WAIVER_STYLE = {"exceeded": Style.BAD, "expired": Style.WARNING, "used": Style.PLAIN, "unused": Style.MUTED}
_WAIVER_ORDER = list(_WAIVER_STYLE)


@dataclass(frozen=True, slots=True)
class ResultView(View):
    """A result, ready for any renderer."""

    result: Result
    ascii_json: ClassVar[bool] = True

    @property
    def figure_titles(self) -> Mapping[str, str]:
        return COMPARISON_FIGURES if self.result.command == "compare" else {}

    def document(self, detail: Detail) -> Document:
        result = self.result
        title = Styled(wording.decision(result), _DECISION_STYLE[result.decision])
        name = "Comparison" if result.command == "compare" else "Known issues"
        return Document(title, tuple(_report(result, detail)), subtitle=wording.versions(result), name=name)

    def data(self) -> dict[str, Any]:
        """The JSON object of schema_version 1; `created` in UTC with a `Z`, and no number that JSON lacks."""
        plain: dict[str, Any] = _finite(self.result.model_dump(mode="json"))
        return plain | {"created": self.result.created.astimezone(UTC).isoformat().replace("+00:00", "Z")}

    def findings(self) -> Findings:
        return result_findings(self.result)


def _finite(value: Any) -> Any:
    # The free-form parts (plan, change points, engine arguments) are not validated: they may hold NaN.
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value


def _report(result: Result, detail: Detail) -> list[Block]:
    is_brief = not (detail.is_page or detail.verbose)
    facts, waivers = _facts(result)[: detail.lines], _waivers(result)[: detail.lines]
    warnings = _first(_own_warnings(result), MOST_ALIKE, "warning") if is_brief else result.warnings[: detail.lines]
    return [
        *_answer(result, detail),
        *_section("Objectives", _objectives(result, detail)),
        *(_section("Pictures", result_figures(result)) if detail.figures else []),
        *([series_section(result, detail)] if result.command == "compare" else []),
        *hosts_section(result.hosts, detail),
        *_section(issues_view.CAUSES_TITLE, _list(issues_view.cause_lines(result)[: detail.lines])),
        issues_view.issues_section(result, detail),
        *_section("Cost", _costs(result, detail)),
        *_section("Changed settings", _changes(result, detail)),
        *server_findings_sections(result, detail),
        *_section("Waivers", _pairs(waivers)),
        *_section("Warnings", _list(warnings)),
        *(_section("Compared", _pairs(facts), is_folded=True) if detail.is_page else []),
        *_end(result, detail),
    ]


def _section(title: str, blocks: Sequence[Block], *, is_folded: bool = False) -> list[Block]:
    return [Section(title, tuple(blocks), is_folded=is_folded)] if blocks else []


def _list(items: Sequence[str]) -> list[Block]:
    return [ItemList(tuple(items))] if items else []


def _pairs(pairs: Sequence[Pair]) -> list[Block]:
    return [Pairs(tuple(pairs))] if pairs else []


def _first(items: Sequence[str], limit: int, noun: str) -> list[str]:
    """The first items, and a line that counts the others."""
    rest = len(items) - limit
    return [*items[:limit], *([f"and {plural(rest, f'more {noun}')}"] if rest > 0 else [])]


def _own_warnings(result: Result) -> list[str]:
    """Without those that only repeat a known issue, which has a line of its own."""
    names = tuple(one.id for one in result.known_issues)
    return [text for text in result.warnings if not text.startswith(names)]


def _end(result: Result, detail: Detail) -> list[Block]:
    if detail.is_page:
        return [Paragraph(f"regress-gate {result.tool_version}, {result.created.date()}")]
    if not detail.verbose:
        return []
    # The end of a long report is what a terminal still shows.
    return [Paragraph((Styled(wording.decision(result), _DECISION_STYLE[result.decision]), f". {result.advice}"))]


# The answer


def _policy(result: Result) -> list[Block]:
    """Where the policy is weaker than the defaults: who reads only the first lines must know."""
    shown = _first(result.policy_notices, MOST_ALIKE, "setting")
    return [Paragraph(Styled(f"Weaker than the defaults: {text}.", Style.WARNING)) for text in shown]


def _why(result: Result, *, verbose: bool) -> list[Block]:
    """What the servers did differently, for each regression that this may explain: the likeliest cause, what shows it,
    and what would settle it. Where nothing points at one of several, none is named."""
    groups: dict[tuple[object, ...], list[ExplanationOut]] = {}
    for one in result.explanations:
        if one.observed:
            test = one.observed[0].counter_test
            what = tuple(one.observed) if _is_guess(one) else one.observed[0].text
            groups.setdefault((str(what), None if test is None else test.outcome), []).append(one)
    if not groups:
        return []
    most = MOST_CAUSES if verbose else MOST_ALIKE
    items = [_cause_text(result, members, verbose=verbose) for members in list(groups.values())[:most]]
    blocks: list[Block] = [Paragraph(Styled("What may have caused it:", Style.STRONG)), *_list(items)]
    if more := len(groups) - len(items):
        blocks.append(Paragraph(f"and {plural(more, 'more cause')}: --format json has all"))
    known = [one for members in groups.values() for one in members if not _is_guess(one)]
    tests = [one.observed[0].counter_test for one in known]
    open_test = next((test for test in tests if test is not None and test.outcome is None), None)
    if open_test is not None:
        worse = _worse_words([name for one in known for name in one.series])
        how = worse[0] if open_test.side == "candidate" else worse[1]
        blocks.append(Paragraph((f"Measure whether {open_test.text} is {how}: ", Code(open_test.command))))
    return blocks


def _is_guess(one: ExplanationOut) -> bool:
    """Whether nothing that was counted or measured points at the first cause: others weigh the same, or it is a
    dependency that changed, as most do with a release."""
    first, others = one.observed[0], one.observed[1:]
    if first.counter_test is not None and first.counter_test.outcome is not None:
        return False
    return first.finding.startswith(_LIBRARY) or any(other.weight == first.weight for other in others)


def _worse_words(series: Sequence[str]) -> tuple[str, str]:
    """How a server is, and how it is as much as another: only times and rates are slow."""
    metrics = [METRICS.get(name.rpartition("/")[2]) for name in series]
    slow = all(one is not None and one.unit in ("s", "1/s") for one in metrics)
    return ("slower", "as slow") if slow else ("worse", "as bad")


def _cause_text(result: Result, members: Sequence[ExplanationOut], *, verbose: bool) -> str:
    cause, names = members[0].observed[0], [name for one in members for name in one.series]
    series = ", ".join(names[:MOST_ALIKE]) + (f" and {len(names) - MOST_ALIKE} more" if len(names) > MOST_ALIKE else "")
    if _is_guess(members[0]):
        return f"{series}: {_guess_text(result, members[0], verbose=verbose)}"
    text = f"{series}: {cause.text}"
    if (test := cause.counter_test) is not None and test.outcome is not None:
        text += f" ({_outcome_text(test, names)}: {test.outcome_text})"
    if verbose and cause.evidence:
        text += f". {'. '.join(cause.evidence)}"
    others = [_other_text(other, names) for other in members[0].observed[1:]]
    return text + (f". Or: {'; '.join(others)}" if verbose and others else "")


def _guess_text(result: Result, one: ExplanationOut, *, verbose: bool) -> str:
    """That the cause is not known, with what may be it."""
    first = one.observed[0]
    alike = [other.text for other in one.observed if other.weight == first.weight]
    if not first.finding.startswith(_LIBRARY):
        return f"the cause is not known: {'; '.join(alike)} weigh the same"
    changed = [each.text for each in result.audit if each.id.startswith(_LIBRARY) and each.effect is AuditEffect.NEW]
    moves = [text.removeprefix("other dependency: ") for text in changed or alike]
    listed = f" ({'; '.join(moves)})" if verbose or len(moves) == 1 else " (-v lists them)"
    return f"the cause is not known: {plural(len(moves), 'dependency', 'dependencies')} changed{listed}"


def _other_text(cause: ObservedCauseOut, series: Sequence[str]) -> str:
    """A cause that is not the first, with what a counter-test says of it."""
    test = cause.counter_test
    if test is None or test.outcome is None:
        return cause.text
    return f"{cause.text} ({_outcome_text(test, series)})"


def _outcome_text(test: CounterTestOut, series: Sequence[str]) -> str:
    """What a counter-test of these series says, for one with an outcome."""
    assert test.outcome is not None  # noqa: S101 - by its callers
    worse, as_bad = _worse_words(series)
    return _OUTCOMES[test.side, test.outcome].format(test.text, worse=worse, as_bad=as_bad)


def _search(result: Result) -> list[Block]:
    """How to find the build that brought the largest regression, where the tool can measure it."""
    worse = [one for one in decisive_series(result.series) if one.gated and one.verdict is Verdict.REGRESSION]
    suite, baseline, testbed = result.suite, result.baseline, result.testbed
    if (
        not worse
        or suite is None
        or suite.name == IMPORTED_SUITE.name
        or baseline is None
        or result.move is Move.DOWNGRADE
    ):
        return []
    command = wording.bisect_command(
        baseline.version,
        result.candidate.version,
        scenario=worse[0].scenario,
        metric=worse[0].metric,
        suite=suite.argument,
        testbed=None if testbed is None or result.hosts else testbed.name,
    )
    return [Paragraph(("Find the build that brought it: ", Code(command)))]


def _answer(result: Result, detail: Detail) -> list[Block]:
    """What to do, why, and what was compared."""
    if not detail.is_page:
        advice: Line = Styled(result.advice, Style.STRONG)
        facts = _facts(result) if detail.verbose else _loud_facts(result)
        reasons = _terminal_reasons(result, verbose=detail.verbose)
        why = _why(result, verbose=detail.verbose)
        return [*_policy(result), Paragraph(advice), *_list(reasons), *why, *_search(result), *_pairs(facts)]
    facts, left_out = _loud_facts(result)[: detail.lines], ", ".join(_left_out(result, detail))
    note = (Styled("Left out, too long for this place:", Style.STRONG), f" {left_out}. Other formats have everything.")
    return [
        *_policy(result),
        wording.what_to_do(result.advice),
        *_list(wording.reasons(result.reasons, verbose=detail.verbose)[: detail.reasons]),
        *_why(result, verbose=True),
        *_search(result),
        *([Paragraph(note)] if left_out else []),
        *([Paragraph(Styled("What was compared:", Style.STRONG)), *_pairs(facts)] if facts else []),
    ]


def _terminal_reasons(result: Result, *, verbose: bool) -> list[str]:
    if verbose:
        return wording.reasons(result.reasons, verbose=True)
    shown = {one.name for one in decisive_series(result.series)[:MOST_DECISIVE]}
    others = [
        one
        for one in result.reasons
        if one.code not in _SAID_BY_THE_ADVICE
        and one.text not in result.advice
        # The tables below have every number of these.
        and not (one.code is ReasonCode.REGRESSION and one.series in shown)
        and one.code not in (ReasonCode.SLO_BROKEN, ReasonCode.SLO_UNCLEAR, ReasonCode.SLO_CARRIED)
    ]
    return _first(wording.reasons(others), MOST_REASONS, "reason")


_OBJECTIVE_STYLE = {"kept": Style.GOOD, "broken": Style.BAD, "carried": Style.WARNING, "unclear": Style.WARNING}


def _objectives(result: Result, detail: Detail) -> list[Block]:
    """The limits of `[gate.slo]`, those that are not kept first."""
    ordered = sorted(result.objectives, key=lambda one: list(_OBJECTIVE_STYLE).index(one.state), reverse=True)
    rows = []
    for one in ordered[: detail.rows]:
        sign = "≤" if one.direction is Direction.LOWER else "≥"
        levels = [Cell(*_level_text(side, one)) for side in (one.baseline, one.candidate)]
        limit = f"{sign} {units.values((one.limit, None), one.unit, one.metric)[0]}"
        rows.append(Row((one.name, Cell(limit), *levels, Styled(one.state, _OBJECTIVE_STYLE[one.state]))))
    titles = ("OBJECTIVE", "LIMIT", "BASELINE", "CANDIDATE", "STATE")
    columns = [Column(title, "INTERVAL, n" if title in titles[2:4] else "") for title in titles]
    rest = len(ordered) - len(rows)
    more = [Paragraph(f"and {plural(rest, 'more objective')}")] if rest > 0 else []
    return [Table.of(tuple(columns), tuple(rows)), *more] if rows else []


def _level_text(side: ObjectiveSide, one: ObjectiveOut) -> tuple[str, str]:
    """The level, and its interval with the number of servers."""
    if not side.runs:
        return units.UNKNOWN, ""
    if side.level is None:
        return "no answer", f"n={side.runs}"
    (level, _), bounds = units.values((side.level, one.limit), one.unit, one.metric), side.interval
    if bounds is None:
        return level, f"no interval, n={side.runs}"
    factor, _ = units.axis_unit((side.level, one.limit), one.unit, one.metric)
    low, high = ("?" if bound is None else units.number(bound * factor) for bound in bounds)
    return level, f"[{low}, {high}] n={side.runs}"


def _costs(result: Result, detail: Detail) -> list[Block]:
    """What a million output tokens cost: the first in a sentence, all as a table."""
    if not result.costs:
        return []
    first = result.costs[0]
    if not (detail.is_page or detail.verbose):
        return [Paragraph(first.text)]
    rows = [
        Row(
            (
                one.scenario,
                "capacity" if one.basis == CAPACITY else "throughput",
                *(Cell(*_cost_text(side)) for side in (one.baseline, one.candidate)),
                Cell(units.change(one.change, Scale.RATIO), units.interval(one.interval)),
            )
        )
        for one in result.costs[: detail.rows]
    ]
    titles = (
        ("SCENARIO", ""),
        ("FROM", ""),
        ("BASELINE", "INTERVAL, n"),
        ("CANDIDATE", "INTERVAL, n"),
        ("CHANGE", "INTERVAL"),
    )
    basis = f"Per million output tokens, at {first.gpu_hour:g} per GPU hour and {plural(first.gpus, 'GPU')} a server."
    if len({one.gpus for one in result.costs}) > 1:
        basis = f"Per million output tokens, at {first.gpu_hour:g} per GPU hour; servers differ in their GPUs."
    rest = len(result.costs) - len(rows)
    return [
        Paragraph(first.text),
        Table.of(tuple(Column(*title) for title in titles), tuple(rows)),
        Paragraph(Styled(basis + (f" And {plural(rest, 'more scenario')}." if rest else ""), Style.MUTED)),
    ]


def _cost_text(side: ObjectiveSide) -> tuple[str, str]:
    low, high = ("?" if bound is None else units.number(bound) for bound in side.interval or (None, None))
    return units.UNKNOWN if side.level is None else units.number(side.level), f"[{low}, {high}] n={side.runs}"


def _left_out(result: Result, detail: Detail) -> list[str]:
    """What does not fit, in words."""
    worrying, quiet = split_series(result.series, SeriesFilter.WORRYING)
    quiet_rows = detail.quiet_rows if detail.quiet_series else 0
    counts = [
        (len(worrying) - detail.rows, "worse or undecided series", "worse or undecided series"),
        (
            sum(max(len(part) - quiet_rows, 0) for part in split_series(quiet, SeriesFilter.GATED)),
            "series that is no worse or does not gate",
            "series that are no worse or do not gate",
        ),
        *issues_view.left_out(result, detail),
        (len(_facts(result)) - detail.lines, "fact about the runs", "facts about the runs"),
        (
            len(issues_view.cause_lines(result)) - detail.lines,
            "explanation of regressions",
            "explanations of regressions",
        ),
        (
            findings_left_out(result, detail),
            "finding on the servers",
            "findings on the servers",
        ),
        (len(result.objectives) - detail.rows, "objective", "objectives"),
        (len(result.waivers) - detail.lines, "waiver", "waivers"),
        (len(result.warnings) - detail.lines, "warning", "warnings"),
        (len(wording.reasons(result.reasons, verbose=detail.verbose)) - detail.reasons, "reason", "reasons"),
    ]
    return [plural(count, one, several) for count, one, several in counts if count > 0]


# What was compared


def _facts(result: Result, *, blocking_only: bool = False) -> list[Pair]:
    """What was compared, where and with how much evidence. `blocking_only`: of differences between the sides."""
    facts: list[tuple[str, str]] = []
    if result.command == "compare":
        facts.append(("compared", _compared(result)))
    if result.plan is not None:
        facts.append(("judged", wording.evidence(result.plan)))
    for side, version in (("baseline", result.baseline), ("candidate", result.candidate)):
        if version is not None and (build := _build(version.variant, version.commit, version.origin)):
            facts.append((side, f"{version.version} ({build})"))
    for difference in result.testbed.differences if result.testbed else []:
        if blocking_only and not difference.blocks:
            continue
        verdict = "not comparable" if difference.blocks else "noted"
        facts.append(("differs", f"{difference.what}: {difference.baseline} → {difference.candidate} ({verdict})"))
    facts += [("void", f"{_run(void.side, void.run)}: {void.reason}") for void in result.void_runs]
    facts += [
        (
            "failed",
            f"{_run(failed.side, failed.run)}: {failed.text}" + "".join(f" | {line}" for line in failed.lines[:3]),
        )
        for failed in result.failed_runs
    ]
    if result.suite is not None and result.suite.notice:
        # `-v` has the words in parentheses too: the suite's text is part of its digest and stays as it was measured.
        notice = _PARENTHESES.sub("", result.suite.notice) if blocking_only else result.suite.notice
        facts.append(("notice", notice))
    return [Pair(label, Styled(text, _FACT_STYLE.get(label, Style.PLAIN))) for label, text in facts]


def _loud_facts(result: Result) -> list[Pair]:
    """What was compared, and the first of each kind of fact that limits the answer."""
    loud: list[Pair] = []
    facts = _facts(result, blocking_only=True)
    for label in _LOUD_FACTS:
        alike = [pair for pair in facts if pair.label == label]
        loud += alike[:MOST_ALIKE]
        if rest := len(alike[MOST_ALIKE:]):
            loud.append(Pair(label, f"and {rest} more"))
    return loud


def _run(side: str, run: str) -> str:
    return f"{side} {run}" if run.startswith("run:") else f"{side} run {run}"


def _compared(result: Result) -> str:
    """`suite cpu-tiny@1 on testbed lab; 5 runs a side (your store)`."""
    place = [] if result.suite is None else [f"suite {result.suite.name}@{result.suite.version}"]
    if result.testbed is not None:
        where = f"{len(result.hosts)} testbeds" if len(result.hosts) > _MOST_HOSTS else f"testbed {result.testbed.name}"
        place.append(where + ("" if result.testbed.comparable else ", NOT comparable"))
    return "; ".join([*([" on ".join(place)] if place else []), _runs(result)])


def _build(variant: str | None, commit: str | None, origin: str | None) -> str:
    parts = [
        variant,
        f"commit {commit[:12]}" if commit else None,
        wording.ORIGIN.get(origin, origin) if origin else None,
    ]
    return ", ".join(part for part in parts if part)


def _runs(result: Result) -> str:
    """`5 runs a side (shipped baseline)`, or those of each side."""
    sides = [side for side in (result.baseline, result.candidate) if side is not None]
    void = f"; {len(result.void_runs)} void, not counted" if result.void_runs else ""
    origins = [wording.ORIGIN.get(side.origin, side.origin) if side.origin else "" for side in sides]
    if len({(side.runs, origin) for side, origin in zip(sides, origins, strict=True)}) == 1:
        return f"{plural(sides[0].runs, 'run')} a side{f' ({origins[0]})' if origins[0] else ''}{void}"
    counts = (
        f"{plural(side.runs, 'run')} of {side.version}{f' ({origin})' if origin else ''}"
        for side, origin in zip(sides, origins, strict=True)
    )
    return ", ".join(counts) + void


# What else changed


def _changes(result: Result, detail: Detail) -> list[Block]:
    """What changed besides speed and matters to this deployment, and where the rest can be read."""
    is_brief = not (detail.is_page or detail.verbose)
    mattering = [change for change in result.config_changes if change["matters"] != "informs"]
    shown = mattering[: MAX_CONFIG_CHANGES if is_brief else detail.lines]
    texts = [
        (change["name"], change["why"] or f"{wording.setting(change['before'])} → {wording.setting(change['after'])}")
        for change in shown
    ]
    rest = []
    if (more := len(result.config_changes) - len(shown)) and result.baseline is not None:
        which = f"and {more} more" if shown else f"{more}, none of which should matter here"
        rest.append(f"{which}: regress-gate diff-config {result.baseline.version} {result.candidate.version}")
    if not is_brief:
        return _list([f"{name}: {text}" for name, text in texts] + rest)
    entries = [Entry((name,), text, is_short=True) for name, text in texts]
    return [*([EntryList(tuple(entries))] if entries else []), *map(Paragraph, rest)]


# Waivers


def _waivers(result: Result) -> list[Pair]:
    """Those that do not hold first."""
    ordered = sorted(result.waivers, key=lambda one: _WAIVER_ORDER.index(one.state))
    return [Pair(one.state, Styled(_waiver_text(one), _WAIVER_STYLE[one.state])) for one in ordered]


def _waiver_text(one: WaiverOut) -> str:
    # A waiver of a known issue caps no size.
    cap = f", at most +{units.percent(one.max_change)}" if one.max_change > 0 else ""
    return f"{one.finding}{cap}, until {one.until.isoformat()}, {one.owner}: {one.reason} ({one.detail})"
