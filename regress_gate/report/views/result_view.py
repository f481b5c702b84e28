"""The report of `compare` and `check`: what a person is shown of a result, and in which order.

Numbers become text here, series become rows and known issues entries. A terminal is read from its end, so decision and
advice frame the report; a page is read from its top, and what reassures is folded there.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from enum import Enum
from typing import Any, ClassVar

from regress_gate.model.result import Decision, Result, SeriesResult, Verdict, WaiverOut
from regress_gate.report.document import (
    Block,
    Cell,
    Column,
    Detail,
    Document,
    ItemList,
    Pair,
    Pairs,
    Paragraph,
    Row,
    RowGroup,
    Section,
    Style,
    Styled,
    Table,
    View,
)
from regress_gate.report.views import issues_view, units, wording
from regress_gate.text import plural

MAX_GATED_ROWS = 40
"""Gated series above which those that are no worse are only counted: the ones that matter must not drown."""
MAX_CONFIG_CHANGES = 8
"""Changes besides speed that are listed; `diff-config` lists all."""
_LONGEST_METRIC = 26
_LONGEST_VALUE = 14

_VERDICT_ORDER = [Verdict.REGRESSION, Verdict.UNDECIDED, Verdict.WITHIN_MARGIN, Verdict.IMPROVEMENT]
_VERDICT_STYLE = {
    Verdict.REGRESSION: Style.BAD,
    Verdict.IMPROVEMENT: Style.GOOD,
    Verdict.WITHIN_MARGIN: Style.PLAIN,
    Verdict.UNDECIDED: Style.WARNING,
}
_DECISION_STYLE = {Decision.PASS: Style.GOOD, Decision.FAIL: Style.BAD, Decision.INCONCLUSIVE: Style.WARNING}
_FACT_STYLE = {"void": Style.WARNING, "failed": Style.BAD, "differs": Style.WARNING, "notice": Style.WARNING}
_WAIVER_STYLE = {"exceeded": Style.BAD, "expired": Style.WARNING, "used": Style.PLAIN, "unused": Style.MUTED}
_WAIVER_ORDER = list(_WAIVER_STYLE)
_LEGEND = "Change: + is worse, for every metric. * gates the decision. ± is the spread between runs, n their number."


class SeriesFilter(Enum):
    """Which series get a row. A regression always does, whether it gates or not."""

    WORRYING = 0
    """Gated ones that are worse or undecided."""
    GATED = 1
    ALL = 2


@dataclass(frozen=True, slots=True)
class ResultView(View):
    """A result, ready for any renderer."""

    result: Result
    ascii_json: ClassVar[bool] = True

    def document(self, detail: Detail) -> Document:
        result = self.result
        title = Styled(wording.decision(result), _DECISION_STYLE[result.decision])
        blocks = _page(result, detail) if detail.is_page else _terminal_report(result, detail)
        return Document(title, tuple(blocks), subtitle=wording.versions(result))

    def data(self) -> dict[str, Any]:
        """The JSON object of schema_version 1; `created` in UTC with a `Z`, and no number that JSON lacks."""
        plain: dict[str, Any] = _finite(self.result.model_dump(mode="json"))
        return plain | {"created": self.result.created.astimezone(UTC).isoformat().replace("+00:00", "Z")}


def _finite(value: Any) -> Any:
    # The free-form parts (plan, change points, engine arguments) are not validated: they may hold NaN.
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value


def _terminal_report(result: Result, detail: Detail) -> list[Block]:
    return [
        *_facts(result, detail),
        *_sections(result, detail),
        *_section("Reasons", wording.reasons(result, verbose=detail.verbose)),
        Paragraph(Styled(result.advice, Style.STRONG)),
    ]


def _page(result: Result, detail: Detail) -> list[Block]:
    reasons = wording.reasons(result, verbose=detail.verbose)
    facts = _facts(result, detail)
    left_out = ", ".join(_left_out(result, detail))
    return [
        Paragraph((Styled("What to do:", Style.STRONG), f" {result.advice}")),
        *([ItemList(tuple(reasons[: detail.reasons]))] if reasons else []),
        *([Paragraph((Styled("Left out, too long for this place:", Style.STRONG),
            f" {left_out}. Other formats of this report have everything."))] if left_out else []),
        *([Section("Compared", tuple(facts))] if facts else []),
        *_sections(result, detail),
        Paragraph(f"regress-gate {result.tool_version}, {result.created.date()}"),
    ]  # fmt: skip


def _sections(result: Result, detail: Detail) -> list[Block]:
    waivers = _waivers(result)[: detail.lines]
    return [
        *([_series_section(result, detail)] if result.command == "compare" else []),
        *_section(issues_view.CAUSES_TITLE, issues_view.cause_lines(result)[: detail.lines]),
        issues_view.issues_section(result, detail),
        *([Section("Waivers", (Pairs(tuple(waivers)),))] if waivers else []),
        *_section("Warnings", result.warnings[: detail.lines]),
    ]


def _section(title: str, items: Sequence[str]) -> list[Block]:
    return [Section(title, (ItemList(tuple(items)),))] if items else []


def _left_out(result: Result, detail: Detail) -> list[str]:
    """What does not fit, in words."""
    worrying, quiet = split_series(result.series, SeriesFilter.WORRYING)
    counts = [
        (len(worrying) - detail.rows, "worse or undecided series", "worse or undecided series"),
        (
            0 if detail.quiet_series else len(quiet),
            "series that is no worse or does not gate",
            "series that are no worse or do not gate",
        ),
        *issues_view.left_out(result, detail),
        (len(fact_pairs(result)) - detail.lines, "fact about the runs", "facts about the runs"),
        (
            len(issues_view.cause_lines(result)) - detail.lines,
            "explanation of regressions",
            "explanations of regressions",
        ),
        (len(result.waivers) - detail.lines, "waiver", "waivers"),
        (len(result.warnings) - detail.lines, "warning", "warnings"),
        (len(wording.reasons(result, verbose=detail.verbose)) - detail.reasons, "reason", "reasons"),
    ]
    return [plural(count, one, several) for count, one, several in counts if count > 0]


# What was compared


def _facts(result: Result, detail: Detail) -> list[Block]:
    facts = fact_pairs(result)[: detail.lines]
    pairs = tuple(Pair(label, Styled(text, _FACT_STYLE.get(label, Style.PLAIN))) for label, text in facts)
    return [Pairs(pairs)] if pairs else []


def fact_pairs(result: Result) -> list[tuple[str, str]]:
    """What was compared, where and with how much evidence: label and text."""
    lines: list[tuple[str, str]] = []
    if result.suite is not None:
        lines.append(("suite", f"{result.suite.name}, version {result.suite.version}"))
    if result.testbed is not None:
        lines.append(("testbed", wording.testbed(result.testbed)))
    if result.command == "compare":
        lines.append(("runs", _runs(result)))
    if result.plan is not None:
        lines.append(("judged", wording.evidence(result.plan)))
    for side, version in (("baseline", result.baseline), ("candidate", result.candidate)):
        if version is not None and (build := _build(version.variant, version.commit, version.origin)):
            lines.append((side, f"{version.version} ({build})"))
    for difference in result.testbed.differences if result.testbed else []:
        verdict = "not comparable" if difference.blocks else "noted"
        lines.append(("differs", f"{difference.what}: {difference.baseline} → {difference.candidate} ({verdict})"))
    lines += [("void", f"{_run(void.side, void.run)}: {void.reason}") for void in result.void_runs]
    lines += [
        (
            "failed",
            f"{_run(failed.side, failed.run)}: {failed.text}" + "".join(f" | {line}" for line in failed.lines[:3]),
        )
        for failed in result.failed_runs
    ]
    lines += [("changed", text) for text in _changes(result)]
    if result.suite is not None and result.suite.notice:
        lines.append(("notice", result.suite.notice))
    return lines


def _run(side: str, run: str) -> str:
    return f"{side} {run}" if run.startswith("run:") else f"{side} run {run}"


def _changes(result: Result) -> list[str]:
    """What changed besides speed and matters to this deployment, the first of it."""
    mattering = [change for change in result.config_changes if change["matters"] != "informs"]
    shown = [
        f"{change['name']}: "
        + (change["why"] or f"{wording.setting(change['before'])} → {wording.setting(change['after'])}")
        for change in mattering[:MAX_CONFIG_CHANGES]
    ]
    more = len(result.config_changes) - len(shown)
    if more and result.baseline is not None:
        shown.append(
            f"{'and ' if shown else ''}{more} {'more' if shown else 'that should not matter here'}: "
            f"regress-gate diff-config {result.baseline.version} {result.candidate.version}"
        )
    return shown


def _build(variant: str | None, commit: str | None, origin: str | None) -> str:
    parts = [
        variant,
        f"commit {commit[:12]}" if commit else None,
        wording.ORIGIN.get(origin, origin) if origin else None,
    ]
    return ", ".join(part for part in parts if part)


def _runs(result: Result) -> str:
    baseline, candidate = (result.baseline.runs if result.baseline else 0), result.candidate.runs
    if baseline == candidate:
        text = plural(baseline, "run") + " a side"
    else:
        text = f"{baseline} baseline, {candidate} candidate"
    return text + (f"; {len(result.void_runs)} void, not counted" if result.void_runs else "")


# Series


def split_series(series: Sequence[SeriesResult], which: SeriesFilter) -> tuple[list[SeriesResult], list[SeriesResult]]:
    """The series that get a row, and those that do not."""
    return [one for one in series if _is_shown(one, which)], [one for one in series if not _is_shown(one, which)]


def _is_shown(one: SeriesResult, which: SeriesFilter) -> bool:
    if one.verdict is Verdict.REGRESSION or which is SeriesFilter.ALL:
        return True
    return one.gated and (which is SeriesFilter.GATED or one.verdict is Verdict.UNDECIDED)


def _series_section(result: Result, detail: Detail) -> Section:
    if not result.series:
        return Section("Series", (Paragraph("No series was measured on both sides."),))
    blocks: list[Block] = [Paragraph(f"{series_tally(result.series)}."), Paragraph(Styled(_LEGEND, Style.MUTED))]
    blocks += _page_series(result, detail) if detail.is_page else _terminal_series(result, verbose=detail.verbose)
    return Section("Series", tuple(blocks))


def _terminal_series(result: Result, *, verbose: bool) -> list[Block]:
    is_crowded = sum(one.gated for one in result.series) > MAX_GATED_ROWS
    which = SeriesFilter.ALL if verbose else SeriesFilter.WORRYING if is_crowded else SeriesFilter.GATED
    shown, hidden = split_series(result.series, which)
    blocks = _series_table(shown)
    if hidden:
        blocks.append(Paragraph(Styled(f"Not shown: {_hidden_text(hidden)}; -v shows them.", Style.MUTED)))
    return blocks


def _page_series(result: Result, detail: Detail) -> list[Block]:
    worrying, quiet = split_series(result.series, SeriesFilter.WORRYING)
    quiet_gated, others = split_series(quiet, SeriesFilter.GATED)
    blocks = _series_table(worrying[: detail.rows])
    if detail.quiet_series:
        for title, series in (
            ("Gated series that are within their margins", quiet_gated),
            ("Series that do not gate", others),
        ):
            blocks += [Section(title, tuple(_series_table(series)), is_folded=True)] if series else []
    return blocks


def _series_table(series: Sequence[SeriesResult]) -> list[Block]:
    """Scenarios in the order of the suite, in each the gated series first, the worst of them first; then footnotes."""
    if not series:
        return []
    notes: dict[str, int] = {}
    scenarios: dict[str, list[SeriesResult]] = {}
    for one in series:
        scenarios.setdefault(one.scenario, []).append(one)
    table = Table(
        columns=(
            Column("metric", max_width=_LONGEST_METRIC),
            Column("baseline", "± cv, n", max_width=_LONGEST_VALUE),
            Column("candidate", "± cv, n", max_width=_LONGEST_VALUE),
            Column("change", f"[{_confidence(series)} interval]"),
            Column("margin", below=0),
            Column("verdict", "(runs a side)"),
        ),
        groups=tuple(
            RowGroup(name, tuple(_row(one, notes) for one in sorted(members, key=_row_order)))
            for name, members in scenarios.items()
        ),
        group_title="scenario",
    )
    pairs = tuple(Pair(f"[{number}]", note) for note, number in notes.items())
    return [table, Pairs(pairs)] if pairs else [table]


def _row_order(one: SeriesResult) -> tuple[bool, int]:
    return not one.gated, _VERDICT_ORDER.index(one.verdict)


def _row(one: SeriesResult, notes: dict[str, int]) -> Row:
    """`notes`: footnotes with their numbers; those of this series are added."""
    baseline, candidate = units.values((one.baseline.mean, one.candidate.mean), one.unit, one.metric)
    numbers = [str(notes.setdefault(note, len(notes) + 1)) for note in one.notes]
    is_undecided = one.verdict is Verdict.UNDECIDED
    verdict = str(one.verdict)
    return Row(
        (
            Cell(one.metric, f"[{','.join(numbers)}]" if numbers else ""),
            Cell(baseline, units.spread(one.baseline.cv, one.baseline.runs)),
            Cell(candidate, units.spread(one.candidate.cv, one.candidate.runs)),
            Cell(units.change(one.change, one.scale), units.interval(one.interval)),
            units.margin(one.margin, one.scale),
            Cell(Styled(verdict, _VERDICT_STYLE[one.verdict]), _runs_needed(one) if is_undecided else ""),
        ),
        mark="*" if one.gated else "",
        is_muted=not one.gated,
    )


def _runs_needed(one: SeriesResult) -> str:
    """`needs 4 more`; empty if not known."""
    if one.runs_needed is None:
        return ""
    more = one.runs_needed - max(one.baseline.runs, one.candidate.runs)
    return f"needs {more} more" if more > 0 else ""


def series_tally(series: Sequence[SeriesResult]) -> str:
    """`3 gated series: 1 regression, 2 within_margin`."""
    gated = Counter(one.verdict for one in series if one.gated)
    counts = [
        plural(gated[Verdict.REGRESSION], "regression"),
        f"{gated[Verdict.UNDECIDED]} undecided",
        f"{gated[Verdict.WITHIN_MARGIN]} within_margin",
        plural(gated[Verdict.IMPROVEMENT], "improvement"),
    ]
    shown = ", ".join(count for count in counts if not count.startswith("0 "))
    return f"{gated.total()} gated series" + (f": {shown}" if shown else "")


def _confidence(series: Sequence[SeriesResult]) -> str:
    """`95%`; the two ends where the series differ in it."""
    levels = sorted({one.confidence for one in series})
    return " to ".join(units.percent(level) for level in (levels[:1] + levels[1:][-1:]))


def _hidden_text(series: Sequence[SeriesResult]) -> str:
    gated = sum(one.gated for one in series)
    parts = [f"{gated} gated (within_margin or improvement)"] if gated else []
    parts += [f"{len(series) - gated} not gated"] if len(series) > gated else []
    return ", ".join(parts)


# Waivers


def _waivers(result: Result) -> list[Pair]:
    """Those that do not hold first."""
    ordered = sorted(result.waivers, key=lambda one: _WAIVER_ORDER.index(one.state))
    return [Pair(one.state, Styled(_waiver_text(one), _WAIVER_STYLE[one.state])) for one in ordered]


def _waiver_text(one: WaiverOut) -> str:
    # A waiver of a known issue caps no size.
    cap = f", at most +{units.percent(one.max_change)}" if one.max_change > 0 else ""
    return f"{one.finding}{cap}, until {one.until.isoformat()}, {one.owner}: {one.reason} ({one.detail})"
