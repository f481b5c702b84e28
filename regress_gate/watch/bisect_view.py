"""The report of `bisect`: the build that brought the change, how sure that is, and every run behind it.

Not for what a search would take (`search_plan_view`). Subjects of commits are texts from outside; the renderers escape
them.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import Any

from regress_gate import __version__
from regress_gate.errors import ExitCode
from regress_gate.known.threads import shown_address
from regress_gate.model.metric import Scale
from regress_gate.model.run import SuiteRef
from regress_gate.model.version import Version
from regress_gate.report.document import (
    Block,
    Cell,
    Code,
    Column,
    Detail,
    Document,
    Figure,
    ItemList,
    Line,
    Link,
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
from regress_gate.report.plots import PointState, TimelineChange, TimelinePanel, TimelinePlot
from regress_gate.report.render.output_formats import HISTORY_FIGURES
from regress_gate.report.views import units
from regress_gate.report.views.wording import bisect_command
from regress_gate.stats.bisection import TwoSteps
from regress_gate.text import plural
from regress_gate.watch.bisection import FAILURE, SearchRun, SearchState
from regress_gate.watch.candidates import Candidate, ChangedFiles

_MOST_BETWEEN = 20
_MOST_LIBRARIES = 12
_HOLD = "Is it one of these? This measures the second build with what the first one has of them: "


class StageEnd(StrEnum):
    """How a search ended."""

    FOUND = "found"
    NO_STEP = "no_step"
    TWO_STEPS = "two_steps"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class SearchStage:
    """A search in one row of builds."""

    kind: str
    """`releases`, `commits` or `chosen`."""
    state: SearchState
    end: StageEnd
    made: int
    """Runs that this call made."""


@dataclass(frozen=True, slots=True)
class KnownIssueNote:
    """A record that may explain the step."""

    id: str
    summary: str
    url: str
    why: str


@dataclass(frozen=True, slots=True)
class BisectReport(View):
    """What a search found. The last stage is the finest one."""

    stages: tuple[SearchStage, ...]
    suite: SuiteRef
    testbed: str
    known_issues: tuple[KnownIssueNote, ...]
    notes: tuple[str, ...]
    place_options: tuple[str, ...] = ()
    """Of the command line, that further commands need as well; with the suite as it was given."""
    search_flags: tuple[str, ...] = ()
    """Of the command line, that a search of a part needs besides."""
    files: ChangedFiles | None = None
    """Of the commit that was found; None: no commit was, or they are not known."""
    left_out: tuple[Version, ...] = ()
    """Releases between the two builds that were found, of a row that somebody chose."""

    @property
    def exit_code(self) -> int:
        """0 if the step was found, in the coarsest row at least; else 3."""
        return ExitCode.PASS if self.stages[0].end is StageEnd.FOUND else ExitCode.INCONCLUSIVE

    @property
    def figure_titles(self) -> Mapping[str, str]:
        return HISTORY_FIGURES

    @property
    def _answer(self) -> SearchStage:
        """The finest stage that found the step, else the first."""
        found = [stage for stage in self.stages if stage.end is StageEnd.FOUND]
        return found[-1] if found else self.stages[0]

    def document(self, detail: Detail) -> Document:
        stage = self._answer
        blocks: list[Block] = [Paragraph(self._lead(stage), is_lead=True), Pairs(tuple(self._facts(stage)))]
        if detail.figures:
            blocks.append(_figure(stage))
        blocks += self._between(stage)
        if self.files is not None:
            blocks.append(_files(self.files))
        if stage.end is StageEnd.FOUND and (changes := _library_changes(stage)):
            held = [] if (command := self._attribution(stage)) is None else [Paragraph((_HOLD, Code(command)))]
            blocks.append(Section("Libraries that differ between the two", (ItemList(tuple(changes)), *held)))
        if self.known_issues:
            items = tuple(
                (f"{one.id} ({one.why}): {one.summary} ", Link(shown_address(one.url))) for one in self.known_issues
            )
            blocks.append(Section("Known issues that may be it", (ItemList(items),)))
        if self.notes:
            blocks.append(Section("Not done", (ItemList(self.notes),)))
        runs = _run_table(stage, detail.rows)
        blocks.append(Section("Runs", (runs,), is_folded=True) if detail.is_page or detail.verbose else _builds(stage))
        return Document(self._title(stage), tuple(blocks), subtitle=stage.state.series.name, name="Bisect")

    def _title(self, stage: SearchStage) -> Line:
        state = stage.state
        low, high, mass = state.place
        first, last = _id(state.row[0]), _id(state.row[-1])
        if stage.end is StageEnd.FOUND:
            return Styled(f"FOUND: {_step_text(state)} came {_where(stage)}, {_sure(mass)} sure", Style.BAD)
        if stage.end is StageEnd.NO_STEP:
            return Styled(f"NO STEP: {first} and {last} do not differ here", Style.WARNING)
        if stage.end is StageEnd.TWO_STEPS:
            return Styled(f"TWO STEPS: one change does not explain what lies between {first} and {last}", Style.WARNING)
        if state.posterior is None:
            return Styled(f"NOT FOUND YET: the ends, {first} and {last}, are not both measured", Style.WARNING)
        return Styled(
            f"NOT FOUND YET: between {_name(state.row[low])} and {_name(state.row[high])} with {mass:.0%}",
            Style.WARNING,
        )

    def _lead(self, stage: SearchStage) -> Line:
        state = stage.state
        low, high, _ = state.place
        if stage.end is StageEnd.FOUND:
            one = state.row[high]
            parts: list[Any] = [f"{_name(state.row[low])} is without it. "]
            if self.left_out:
                names = ", ".join(map(str, self.left_out[:_MOST_BETWEEN]))
                names += ", …" if len(self.left_out) > _MOST_BETWEEN else ""
                parts.append(f"Not searched, since they were no candidates: {names}. ")
            if one.pull is not None:
                parts += ["Its pull request: ", Link(one.pull.url), ". "]
            return (*parts, "Its page: ", Link(one.url))
        if stage.end is StageEnd.NO_STEP:
            return _no_step_text(state)
        if stage.end is StageEnd.TWO_STEPS:
            first, second = self._parts(stage)
            return ("Search the parts one by one: ", Code(first), " and ", Code(second))
        return "The budget is spent. The same command goes on from the runs that are stored."

    def _parts(self, stage: SearchStage) -> list[str]:
        """Commands for the two parts of a row with two steps."""
        state = stage.state
        measured = sorted({each.position for each in state.runs})
        first, second = (0, len(state.row) - 1) if state.two is None else state.two.places
        middle = [at for at in measured if first < at <= second] or measured[1:-1] or [0]
        split = middle[len(middle) // 2]
        commands = []
        for good, bad in ((0, split), (split, len(state.row) - 1)):
            losses = [fmean(each.loss or 0.0 for each in state.runs_at(at)) for at in (good, bad)]
            ends = (str(state.row[at].version) for at in (good, bad))
            words = bisect_command(*ends, scenario=state.series.scenario, metric=state.series.metric)
            is_same_way = losses[1] >= losses[0]
            more = ["--improvement"] if is_same_way == state.series.is_improvement else []
            commands.append(f"{words} {shlex.join([*self.place_options, *self.search_flags, *more])}".strip())
        return commands

    def _attribution(self, stage: SearchStage) -> str | None:
        """The command that measures the slower build with what the faster one has; None where it does not apply."""
        state = stage.state
        if state.series.metric == FAILURE or state.series.is_improvement:
            return None
        low, high, _ = state.place
        ends = (str(state.row[at].version) for at in (low, high))
        return shlex.join(["regress-gate", "compare", *ends, "--measure", "--attribute", *self.place_options])

    def _facts(self, stage: SearchStage) -> list[Pair]:
        state = stage.state
        row = f"{plural(len(state.row), 'build')} from {_id(state.row[0])} to {_id(state.row[-1])}"
        pairs = [
            Pair("searched", f"{row} ({stage.kind}), {len({each.position for each in state.runs})} measured"),
            Pair("runs", f"{len(state.runs)}, of which {stage.made} new; each is one server start"),
        ]
        if state.ends is not None and state.series.known is not None:
            bounds = (_natural(state.ends.interval[0], state), _natural(state.ends.interval[1], state))
            change = units.change(_natural(state.ends.difference, state), state.series.known.scale)
            interval = units.interval((min(bounds), max(bounds))) if all(map(math.isfinite, bounds)) else "no interval"
            runs = " + ".join(map(str, state.ends.runs))
            pairs.append(Pair("the two ends", f"{change} {interval}, 90 %, {runs} runs"))
        if stage.end is StageEnd.FOUND and state.two is not None:
            pairs.append(Pair("beside it", _smaller_step_text(state, state.two)))
        low, high = state.window
        if stage.end is not StageEnd.FOUND and state.posterior is not None:
            pairs.append(Pair("95 % window", f"{_name(state.row[low])} to {_name(state.row[high])}"))
        pairs += [Pair("testbed", self.testbed), Pair("suite", str(self.suite))]
        if stage is not self.stages[0]:
            coarse = self.stages[0].state
            low, high, mass = coarse.place
            text = f"{coarse.row[low].version} → {coarse.row[high].version}, {_sure(mass)} sure"
            pairs.insert(0, Pair("first among releases", text))
        return pairs

    def _between(self, stage: SearchStage) -> list[Block]:
        """Builds that could not be measured and lie where the step is: any of them may have brought it."""
        low, high, _ = stage.state.place
        inner = range(low + 1, high)
        if not inner or stage.end is not StageEnd.FOUND:
            return []
        items = [
            (f"{_name(stage.state.row[at])}: {stage.state.untestable.get(at, 'not measured')} ",
             Link(stage.state.row[at].url))
            for at in inner[:_MOST_BETWEEN]
        ]  # fmt: skip
        lead = f"It may have come with {plural(len(inner), 'build')} before it that cannot be measured:"
        more = [f"and {len(inner) - _MOST_BETWEEN} more"] if len(inner) > _MOST_BETWEEN else []
        return [Section("Not told apart", (Paragraph(lead), ItemList((*items, *more))))]

    def data(self) -> dict[str, Any]:
        """`stages` from the coarsest to the finest; `last_good`, `first_bad` and `change` of the finest that found the
        step, null without one; `parts` are the commands for both parts of a row with two steps. Changes are natural: of
        the value, not of the loss."""
        stage = self._answer
        state = stage.state
        low, high, mass = state.place
        is_found = stage.end is StageEnd.FOUND
        return {
            "schema_version": "1",
            "tool_version": __version__,
            "exit_code": int(self.exit_code),
            "end": stage.end.value,
            "scenario": state.series.scenario,
            "metric": state.series.metric,
            "suite": str(self.suite),
            "testbed": self.testbed,
            "last_good": _candidate_data(state.row[low]) if is_found else None,
            "first_bad": _candidate_data(state.row[high]) if is_found else None,
            "probability": mass if is_found else None,
            "change": _change(state) if is_found else None,
            "parts": self._parts(stage) if stage.end is StageEnd.TWO_STEPS else [],
            "left_out": [str(version) for version in self.left_out],
            "files": None if self.files is None else list(self.files.names),
            "files_changed": None if self.files is None else self.files.count,
            "not_told_apart": [str(state.row[at].version) for at in range(low + 1, high)] if is_found else [],
            "libraries": list(_library_changes(stage)) if is_found else [],
            "known_issues": [
                {"id": one.id, "summary": one.summary, "url": one.url, "why": one.why} for one in self.known_issues
            ],
            "notes": list(self.notes),
            "stages": [_stage_data(each) for each in self.stages],
        }


def _id(one: Candidate) -> str:
    return str(one.version) if one.version.commit is None else one.version.commit[:12]


def _name(one: Candidate) -> str:
    return f"{_id(one)} ({one.subject})" if one.subject else _id(one)


def _where(stage: SearchStage) -> str:
    """`with 0.20.2`; of a row that somebody chose, `between 0.19.1 and 0.20.2`: it need not have their neighbours."""
    low, high, _ = stage.state.place
    name = _name(stage.state.row[high])
    return f"between {_name(stage.state.row[low])} and {name}" if stage.kind == "chosen" else f"with {name}"


def _files(files: ChangedFiles) -> Section:
    count = plural(files.count, "file") + ("" if files.is_all else " or more")
    more = [f"and {files.count - len(files.names)} more"] if files.count > len(files.names) else []
    return Section(f"Files of the commit: {count}", (ItemList((*files.names, *more)),))


def _sure(mass: float) -> str:
    return "over 99.9%" if mass > 0.999 else f"{mass:.1%}"


def _natural(loss: float, state: SearchState) -> float:
    """The change of the value that a difference on the analysis scale is."""
    known = state.series.known
    assert known is not None  # noqa: S101 - failures have no size  # nosec B101
    change = state.series.sign * loss
    return math.expm1(min(change, 50.0)) if known.scale is Scale.RATIO else change


def _change(state: SearchState) -> float | None:
    if state.posterior is None or state.series.known is None:
        return None
    return _natural(state.posterior.step, state)


def _step_text(state: SearchState) -> str:
    if state.series.metric == FAILURE:
        return "the failure"
    change = _change(state)
    assert state.series.known is not None  # noqa: S101 - as above  # nosec B101
    return f"{state.series.metric} {units.change(change, state.series.known.scale)}"


def _smaller_step_text(state: SearchState, two: TwoSteps) -> str:
    measured = sorted({each.position for each in state.runs})
    before = two.places[two.smaller]
    after = measured[measured.index(before) + 1]
    assert state.series.known is not None  # noqa: S101 - failures have no size  # nosec B101
    change = units.change(_natural(two.changes[two.smaller], state), state.series.known.scale)
    return f"a smaller step, {change}, between {_id(state.row[before])} and {_id(state.row[after])}"


def _no_step_text(state: SearchState) -> str:
    if state.series.metric == FAILURE or state.ends is None:
        return "The good end fails as well, or the bad end serves: there is nothing to search for."
    runs = " and ".join(map(str, state.ends.runs))
    text = f"After {runs} server starts their difference is within what starts of one version scatter by."
    if state.ends.p_value > 0.97:
        text += " It has the other sign: search with --improvement."
    return text + " Look again at where the change was seen: another testbed, other flags, another workload."


def _library_changes(stage: SearchStage) -> list[str]:
    """`torch 2.9.0 → 2.10.0` between the neighbours, by their newest runs."""
    low, high, _ = stage.state.place
    runs = [stage.state.runs_at(at) for at in (low, high)]
    if not all(runs):
        return []
    before, after = (dict(each[-1].run.libraries) for each in runs)
    changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    lines = [f"{name} {before.get(name, 'absent')} → {after.get(name, 'absent')}" for name in changed]
    rest = len(lines) - _MOST_LIBRARIES
    return [*lines[:_MOST_LIBRARIES], *([f"and {rest} more"] if rest > 0 else [])]


def _values(runs: Sequence[SearchRun]) -> list[float]:
    return [each.value for each in runs if each.value is not None]


def _shown_unit(state: SearchState) -> tuple[float, str]:
    known = state.series.known
    if known is None:
        return 1.0, ""
    return units.axis_unit([each.value for each in state.runs], known.unit, known.name)


def _builds(stage: SearchStage) -> Table:
    """The measured builds in their order, each with its level."""
    state = stage.state
    factor, unit = _shown_unit(state)
    low, high, _ = state.place
    rows = []
    for at in sorted({each.position for each in state.runs}):
        runs = state.runs_at(at)
        values = _values(runs)
        failed = len(runs) - len(values)
        mean = units.number(fmean(values) * factor) if values and state.series.known else ""
        spread = f"{units.number(min(values) * factor)} to {units.number(max(values) * factor)}" if mean else ""
        text = f"{len(runs)} ({failed} failed)" if failed else str(len(runs))
        side = "without" if at <= low else "with" if at >= high else "?"
        mark = side if state.posterior is not None and stage.end is not StageEnd.NO_STEP else ""
        rows.append(Row((Cell(_name(state.row[at])), Cell(mean), Cell(spread), Cell(text), Cell(mark))))
    columns = ("BUILD", f"MEAN{f', {unit}' if unit else ''}", "RUNS FROM, TO", "RUNS", "CHANGE")
    return Table.of(tuple(map(Column, columns)), tuple(rows))


def _run_table(stage: SearchStage, most: int) -> Table:
    state = stage.state
    factor, unit = _shown_unit(state)
    rows = []
    for number, each in enumerate(state.runs[-most:], max(0, len(state.runs) - most) + 1):
        started = "" if each.run.started is None else f"{each.run.started:%Y-%m-%d %H:%M}"
        value = (
            "failed" if each.value is None else units.number(each.value * factor) if state.series.known else "served"
        )
        id_ = "" if each.run.id is None else f"run:{each.run.id}"
        rows.append(
            Row((Cell(str(number)), Cell(_name(state.row[each.position])), Cell(value), Cell(str(each.block)),
                 Cell(started), Cell(id_)))
        )  # fmt: skip
    columns = ("", "BUILD", f"VALUE{f', {unit}' if unit else ''}", "BLOCK", "STARTED", "STORED AS")
    return Table.of(tuple(map(Column, columns)), tuple(rows))


def _figure(stage: SearchStage) -> Figure:
    state = stage.state
    factor, unit = _shown_unit(state)
    low, high, mass = state.place
    measured = [at for at in sorted({each.position for each in state.runs}) if _values(state.runs_at(at))]
    values = [[value * factor for value in _values(state.runs_at(at))] for at in measured]
    is_found = stage.end is StageEnd.FOUND
    states = tuple(
        (PointState.BEFORE if at <= low else PointState.AFTER if at >= high else PointState.UNKNOWN)
        if is_found else PointState.PLAIN
        for at in measured
    )  # fmt: skip
    changes: tuple[TimelineChange, ...] = ()
    if is_found and low in measured and high in measured:
        text = f"{_step_text(state)} {_where(stage)}, {_sure(mass)} sure"
        at, after = measured.index(high), measured.index(low)
        changes = (TimelineChange(at, after, at, text, is_worse=not state.series.is_improvement),)
    panel = TimelinePanel(
        title=state.series.name,
        unit=unit,
        values=tuple(map(fmean, values)),
        labels=tuple(_name(state.row[at]) for at in measured),
        ranges=tuple((min(each), max(each)) for each in values),
        states=states,
        changes=changes,
    )
    note = "Builds that were not measured are left out."
    return Figure(
        name="history",
        title="Measured builds in their order",
        description=f"{state.series.name} of {plural(len(measured), 'build')}. "
        + (changes[0].text if changes else "No place is shown."),
        plot=TimelinePlot((panel,), "builds", note),
        table=_builds(stage),
    )


def _candidate_data(one: Candidate) -> dict[str, Any]:
    return {
        "version": str(one.version),
        "subject": one.subject or None,
        "url": one.url,
        "pull": None if one.pull is None else one.pull.url,
    }


def _stage_data(stage: SearchStage) -> dict[str, Any]:
    state = stage.state
    low, high, mass = state.place
    return {
        "kind": stage.kind,
        "end": stage.end.value,
        "good": str(state.row[0].version),
        "bad": str(state.row[-1].version),
        "builds": len(state.row),
        "runs_made": stage.made,
        "likely": None if state.posterior is None else [str(state.row[at].version) for at in (low, high)],
        "probability": None if state.posterior is None else mass,
        "untestable": {str(state.row[at].version): why for at, why in state.untestable.items()},
        "runs": [
            {
                "version": str(state.row[each.position].version),
                "value": each.value,
                "failed": each.run.failure is not None,
                "block": each.block,
                "run": each.run.id,
                "started": None if each.run.started is None else each.run.started.isoformat(),
            }
            for each in state.runs
        ],
    }
