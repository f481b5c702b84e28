"""What a person is shown of a result, and in which order: the part that all formats for people share.

Numbers become text here and series become rows; colours, columns and escaping are the formats' own. All texts are
still raw: a format cleans and escapes whatever it writes.
"""

from collections import Counter
from dataclasses import dataclass
from enum import Enum

from regress_gate.model.result import Result, SeriesResult, Verdict, WaiverOut
from regress_gate.report.views import units, wording
from regress_gate.text import plural

MAX_GATED_ROWS = 40
"""Gated series above which those that are no worse are only counted: the ones that matter must not drown."""

MAX_CONFIG_CHANGES = 8
"""Changes besides speed that are told; `diff-config` tells all."""

_VERDICT_ORDER = [Verdict.REGRESSION, Verdict.INCONCLUSIVE, Verdict.EQUIVALENT, Verdict.IMPROVEMENT]
_WAIVER_ORDER = ["exceeded", "expired", "used", "unused"]


class SeriesFilter(Enum):
    """Which series get a row. A regression always does, whether it gates or not."""

    WORRYING = 0
    """Gated ones that are worse or undecided."""
    GATED = 1
    ALL = 2


@dataclass(frozen=True, slots=True)
class Row:
    metric: str
    gated: bool
    baseline: str
    baseline_spread: str
    candidate: str
    candidate_spread: str
    change: str
    interval: str
    margin: str
    verdict: Verdict
    verdict_word: str
    needs: str
    """`needs 4 more` (runs a side); empty where that is not known or not asked."""
    notes: str
    """Numbers of the footnotes: `[1,2]`, or empty."""


@dataclass(frozen=True, slots=True)
class ScenarioView:
    name: str
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class SeriesView:
    confidence: str
    """`95%`; the two ends where the series differ in it."""
    scenarios: list[ScenarioView]
    notes: list[str]
    """Footnotes in the order of their numbers, each said once."""


def facts(result: Result) -> list[tuple[str, str]]:
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
    told = [
        f"{change['name']}: "
        + (change["why"] or f"{wording.setting(change['before'])} → {wording.setting(change['after'])}")
        for change in mattering[:MAX_CONFIG_CHANGES]
    ]
    more = len(result.config_changes) - len(told)
    if more and result.baseline is not None:
        told.append(
            f"{'and ' if told else ''}{more} {'more' if told else 'that should not matter here'}: "
            f"regress-gate diff-config {result.baseline.version} {result.candidate.version}"
        )
    return told


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


def split_series(series: list[SeriesResult], show: SeriesFilter) -> tuple[list[SeriesResult], list[SeriesResult]]:
    """The series that get a row, and those that do not."""
    return [one for one in series if _is_shown(one, show)], [one for one in series if not _is_shown(one, show)]


def _is_shown(one: SeriesResult, show: SeriesFilter) -> bool:
    if one.verdict is Verdict.REGRESSION or show is SeriesFilter.ALL:
        return True
    return one.gated and (show is SeriesFilter.GATED or one.verdict is Verdict.INCONCLUSIVE)


def has_too_many_rows(series: list[SeriesResult]) -> bool:
    return sum(one.gated for one in series) > MAX_GATED_ROWS


def series_view(series: list[SeriesResult]) -> SeriesView:
    """Series as rows: scenarios in the order of the suite, in each the gated series first, the worst of them first."""
    numbers: dict[str, int] = {}
    scenarios: dict[str, list[SeriesResult]] = {}
    for one in series:
        scenarios.setdefault(one.scenario, []).append(one)
    return SeriesView(
        confidence=_confidence(series),
        scenarios=[
            ScenarioView(name, [_row(one, numbers) for one in sorted(members, key=_row_order)])
            for name, members in scenarios.items()
        ],
        notes=list(numbers),
    )


def _row_order(one: SeriesResult) -> tuple[bool, int]:
    return not one.gated, _VERDICT_ORDER.index(one.verdict)


def _row(one: SeriesResult, numbers: dict[str, int]) -> Row:
    baseline, candidate = units.values((one.baseline.mean, one.candidate.mean), one.unit, one.metric)
    marks = [str(numbers.setdefault(note, len(numbers) + 1)) for note in one.notes]
    undecided = one.verdict is Verdict.INCONCLUSIVE
    return Row(
        metric=one.metric,
        gated=one.gated,
        baseline=baseline,
        baseline_spread=units.spread(one.baseline.cv, one.baseline.runs),
        candidate=candidate,
        candidate_spread=units.spread(one.candidate.cv, one.candidate.runs),
        change=units.change(one.change, one.scale),
        interval=units.interval(one.interval),
        margin=units.margin(one.margin, one.scale),
        verdict=one.verdict,
        verdict_word="~ undecided" if undecided else str(one.verdict),
        needs=_needs(one) if undecided else "",
        notes=f"[{','.join(marks)}]" if marks else "",
    )


def _needs(one: SeriesResult) -> str:
    if one.runs_needed is None:
        return ""
    more = one.runs_needed - max(one.baseline.runs, one.candidate.runs)
    return f"needs {more} more" if more > 0 else ""


def tally(series: list[SeriesResult]) -> str:
    """`3 gated series: 1 regression, 2 equivalent`."""
    gated = Counter(one.verdict for one in series if one.gated)
    counts = [
        plural(gated[Verdict.REGRESSION], "regression"),
        f"{gated[Verdict.INCONCLUSIVE]} undecided",
        f"{gated[Verdict.EQUIVALENT]} equivalent",
        plural(gated[Verdict.IMPROVEMENT], "improvement"),
    ]
    told = ", ".join(count for count in counts if not count.startswith("0 "))
    return f"{gated.total()} gated series" + (f": {told}" if told else "")


def _confidence(series: list[SeriesResult]) -> str:
    levels = sorted({one.confidence for one in series})
    return " to ".join(units.percent(level) for level in (levels[:1] + levels[1:][-1:]))


def hidden_series_text(series: list[SeriesResult]) -> str:
    """Series without a row, in words; empty for none."""
    gated = sum(one.gated for one in series)
    parts = [f"{gated} gated (equivalent or better)"] if gated else []
    parts += [f"{len(series) - gated} not gated"] if len(series) > gated else []
    return ", ".join(parts)


def waivers(result: Result) -> list[tuple[str, str]]:
    """State and text of each waiver, those that do not hold first."""
    ordered = sorted(result.waivers, key=lambda one: _WAIVER_ORDER.index(one.state))
    return [(one.state, _waiver(one)) for one in ordered]


def _waiver(one: WaiverOut) -> str:
    # A waiver of a known issue caps no size.
    cap = f", at most +{units.percent(one.max_change)}" if one.max_change > 0 else ""
    return f"{one.finding}{cap}, until {one.until.isoformat()}, {one.owner}: {one.reason} ({one.detail})"
