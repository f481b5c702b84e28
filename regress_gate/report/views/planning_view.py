"""The reports of `compare --plan` (what blocks would cost and could show) and `calibrate` (how much series scatter)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regress_gate.bench.experiment.experiment_plan import LEVELS, MOST_PROBES
from regress_gate.gate.audit.causes import MOST_CAUSES
from regress_gate.gate.early_stopping import ExpectedStop
from regress_gate.gate.planning import CapacityPlan, RunPlan, SeriesPlan
from regress_gate.model.suite import TraceFacts
from regress_gate.report.document import (
    Block,
    Cell,
    Column,
    Detail,
    Document,
    Figure,
    Pair,
    Pairs,
    Paragraph,
    Row,
    Style,
    Styled,
    Table,
    View,
)
from regress_gate.report.findings import Case, Finding, Findings, Level, Outcome, Rule, worst_first
from regress_gate.report.plots import NoisePlot, NoiseRow
from regress_gate.report.render.output_formats import NOISE_FIGURES
from regress_gate.report.views.suite_view import trace_text, traces_data
from regress_gate.report.views.wording import what_to_do
from regress_gate.stats.design import FIRST_ANALYSIS
from regress_gate.text import duration_text, plural

LARGEST_CHANGE = 10.0
"""A larger loss is shown as `none`: its size has no meaning any more."""
_PLAN_LEGEND = (
    Pair("SPREAD", "between server starts of one version, in so many RUNS"),
    Pair("FINDS", "the smallest loss that is called a regression, four times in five"),
    Pair(
        "SHOWS",
        'the smallest margin that an unchanged version is shown to keep, four times in five; "~" if that is more than '
        "the MARGIN: the series will probably stay undecided",
    ),
)


@dataclass(frozen=True, slots=True)
class PlanView(View):
    """What `compare --measure` would do. `budget` in seconds; None: no limit."""

    versions: Sequence[str]
    suite: str
    testbed: str
    plan: RunPlan
    budget: float | None
    counter_test_starts: int | None = None
    """Server starts that one counter-test takes at most; None: none are measured."""
    traces: Mapping[str, TraceFacts | str] = field(default_factory=dict)
    """By scenario: the recorded traffic that is sent."""

    def document(self, detail: Detail) -> Document:  # noqa: ARG002 - there is nothing to leave out
        plan = self.plan
        most = "at most " if plan.stops_early and plan.blocks > 1 else ""
        versions = " and ".join(self.versions)
        after = f", {most}{plan.runs_a_side} after that" if plan.blocks else ": nothing is missing"
        pairs = [Pair("runs", f"{plan.runs_a_side - plan.blocks} a side are stored{after}")]
        if plan.blocks:
            pairs.append(Pair("time", _time(plan, self.budget)))
            if plan.likely_end is not None and plan.runs_a_side > FIRST_ANALYSIS:
                pairs.append(Pair("ends", _expected_stop(plan.likely_end)))
        pairs += [Pair("capacity", _capacity_text(each)) for each in plan.capacities if plan.blocks]
        pairs += [Pair(scenario, trace_text(facts)) for scenario, facts in self.traces.items()]
        if self.counter_test_starts is not None:
            starts = plural(self.counter_test_starts, "server start")
            text = f"at most {starts} for each counter-test, of at most {MOST_CAUSES} for each regression"
            pairs.append(Pair("if slower", text))
        blocks: list[Block] = [Pairs(tuple(pairs)), _plan_table(plan.series), Pairs(_PLAN_LEGEND)]
        blocks.append(
            Paragraph(
                "Both describe a series by itself: what the gate learns from the other series, from earlier runs and "
                "from pairs comes on top."
            )
        )
        if undecided := sum(each.stays_undecided for each in plan.series):
            blocks.append(
                Paragraph(
                    f"{undecided} of {len(plan.series)} gated series will probably stay undecided even if nothing "
                    "changed: plan more runs (--runs), quieten the machine, or widen the margins."
                )
            )
        title = f"{most}{plural(plan.blocks, 'block')} of {versions} with {self.suite} on {self.testbed}"
        return Document(title, tuple(blocks), name="Plan")

    def data(self) -> dict[str, Any]:
        plan = self.plan.as_document()
        if self.counter_test_starts is not None:
            plan |= {"counter_test_starts": self.counter_test_starts, "most_counter_tests": MOST_CAUSES}
        return {"plan": plan | ({"traces": traces_data(self.traces)} if self.traces else {})}


def _plan_table(series: Sequence[SeriesPlan]) -> Table:
    titles = ("SPREAD", "RUNS", "MARGIN", "FINDS", "SHOWS")
    columns = Column("SERIES"), *(Column(title, is_right=True) for title in titles)
    rows = [
        Row(
            (
                each.name,
                percent(each.run_cv),
                str(each.noise_runs) if each.noise_runs else "assumed",
                percent(each.margin),
                percent(each.detectable),
                Cell(percent(each.shown_within), "~" if each.stays_undecided else ""),
            )
        )
        for each in sorted(series, key=lambda each: (-each.shown_within / each.margin, each.name))
    ]
    return Table.of(columns, tuple(rows))


def _capacity_text(capacity: CapacityPlan) -> str:
    rates = f"{capacity.requests} requests at each of {len(LEVELS)} rates in each run"
    if not capacity.is_searched:
        return f"{capacity.scenario}: {rates}, if the stored ones are of the baseline; else they are searched first"
    search = f"its rates are searched first, on one more server start with at most {MOST_PROBES} probes, and on another"
    search += " of the candidate with one, or as many if it carries less"
    return f"{capacity.scenario}: {search}; then {rates}"


def _expected_stop(stop: ExpectedStop) -> str:
    unchanged = f"about block {stop.unchanged}" if stop.unchanged else "the last block"
    lost = f"block {stop.lost}" if stop.lost else "the last"
    return f"after {unchanged} if unchanged, {lost} if twice a margin is lost"


def _time(plan: RunPlan, budget: float | None) -> str:
    if plan.seconds is None or plan.seconds_a_block is None:
        return "not known: no run of this suite was made on this testbed yet"
    text = f"about {duration_text(plan.seconds)}"
    if plan.blocks > 1:
        text += f"{' at most' if plan.stops_early else ''}, {duration_text(plan.seconds_a_block)} a block"
    if plan.hosts > 1:
        text += f" on each of {plan.hosts} hosts"
    if plan.gpus and plan.gpu_minutes is not None:
        text += f"; {plan.gpu_minutes:.0f} GPU minutes{' at most' if plan.stops_early else ''}"
    if plan.estimated_by is not None:
        text += f" (estimated by {plan.estimated_by})"
    if budget is None:
        return text
    if plan.seconds > budget:
        return f"{text}: not one block fits the budget of {duration_text(budget)}"
    return f"{text}, within the budget of {duration_text(budget)}"


def percent(value: float | None) -> str:
    """`3.1%`; `none` if no number is large enough."""
    if value is None or value >= LARGEST_CHANGE:
        return "none"
    return f"{value:.1%}" if value < 0.9995 else f"{value:.0%}"


# calibrate

STAR_LEVEL = 0.05
"""Chance that any of all effects of order and time is starred if there is none."""
_DECISIONS = {"pass": "passes", "fail": "FAILS", "inconclusive": "stays undecided"}
_CALIBRATION_LEGEND = (
    Pair("SPREAD", "between server starts, relative (of fractions for failures and answers)"),
    Pair(
        "n=5",
        'the smallest loss that is called a regression with five runs a side, four times in five; "none" if no loss is '
        "large enough",
    ),
    Pair("SECOND", "effect of being started second in a block"),
    Pair(
        "A BLOCK",
        'drift from block to block; both are positive for larger values, which need not be worse; "*": shown to be '
        "there, over all series together",
    ),
)


@dataclass(frozen=True, slots=True)
class CalibrationView(View):
    """The object that `calibrate --format json` prints."""

    calibration: Mapping[str, Any]

    @property
    def figure_titles(self) -> Mapping[str, str]:
        return NOISE_FIGURES

    def document(self, detail: Detail) -> Document:
        data = self.calibration
        headline = f"{data['version']} against itself {_DECISIONS[data['decision']]}"
        reasons = "; ".join(data["reasons"])
        parts = [f"{data['runs']} runs count"]
        parts += [f"{len(data['void_runs'])} void ({data['void_runs'][0]})"] if data["void_runs"] else []
        parts += [f"{data['failed_runs']} failed"] if data["failed_runs"] else []
        parts += [] if data["minutes_a_block"] is None else [f"{data['minutes_a_block']:.1f} minutes a block"]
        place, counts = f"{data['suite']} on {data['testbed']}", ", ".join(parts)
        blocks: list[Block] = [Paragraph(f"{place}: {counts}")]
        if detail.is_page:
            blocks = [what_to_do(self._advice()), Paragraph(f"{reasons}. {counts}.")]
        if detail.figures:
            blocks.append(_noise_figure(data["series"]))
        if data["series"]:
            blocks += [_calibration_table(data["series"]), Pairs(_CALIBRATION_LEGEND)]
        else:
            blocks.append(Paragraph("No series has two runs that count, so the spread is unknown."))
        if not detail.is_page:
            return Document(f"{headline}: {reasons}", tuple(blocks), name="Noise")
        return Document(Styled(headline, self._style()), tuple(blocks), subtitle=place, name="Noise")

    def _style(self) -> Style:
        decision, noisy = self.calibration["decision"], self._noisy
        return Style.BAD if decision == "fail" else Style.GOOD if decision == "pass" and not noisy else Style.WARNING

    @property
    def _noisy(self) -> int:
        return sum(_stays_undecided(each) is not None for each in self.calibration["series"])

    def _advice(self) -> str:
        data = self.calibration
        if data["failed_runs"] or data["runs"] < 2:
            return "Find out why so few runs count, and calibrate again."
        if data["decision"] == "fail":
            return _CALIBRATION_RULE.text
        if self._noisy:
            return (
                f"{self._noisy} of {len(data['series'])} series will probably stay undecided with five runs a side: "
                "plan more runs, quieten the machine, or widen their margins."
            )
        enough = "Nothing is to be done: five runs a side decide every series."
        return enough if data["decision"] == "pass" else "Calibrate with more runs: too few count for an answer."

    def data(self) -> Mapping[str, Any]:
        return self.calibration

    def findings(self) -> Findings:
        data = self.calibration
        title = f"{data['version']} against itself {_DECISIONS[data['decision']]}"
        levels = {"pass": Level.NOTE, "inconclusive": Level.WARNING, "fail": Level.ERROR}
        return Findings(
            name=f"calibrate: {data['version']}, {data['suite']} on {data['testbed']}",
            headline=title,
            advice=self._advice(),
            level=Level.ERROR if data["failed_runs"] else levels[data["decision"]],
            cases=tuple(_calibration_cases(data, title)),
            findings=worst_first(_calibration_findings(data, title)),
            category="calibrate",
        )


_NOISE_RULE = Rule(
    "noise",
    "A series scatters so much that it will probably stay undecided",
    Level.WARNING,
    "Plan more runs, quieten the machine, or widen the margin.",
    tags=("vllm", "measurement"),
)
_CALIBRATION_RULE = Rule(
    "calibration",
    "A version does not pass against itself",
    Level.ERROR,
    "That happens by chance in at most 5 % of calibrations; if it happens twice, do not trust this machine's numbers.",
    tags=("vllm", "measurement"),
)


def _stays_undecided(each: Mapping[str, Any]) -> str | None:
    """Why an unchanged version would probably not be shown to pass with five runs a side."""
    within = each["shown_within"].get("5")
    if within is not None and within <= each["margin"]:
        return None
    shown = "no margin" if within is None else f"a margin of {percent(within)}"
    return f"five runs a side show {shown}, not {percent(each['margin'])}: it will probably stay undecided"


def _calibration_cases(data: Mapping[str, Any], title: str) -> Iterator[Case]:
    outcomes = {"pass": Outcome.PASSED, "inconclusive": Outcome.SKIPPED, "fail": Outcome.FAILURE}
    yield Case(
        "regress-gate", "decision", outcomes[data["decision"]], data["decision"], title, details=tuple(data["reasons"])
    )
    if data["failed_runs"] or data["runs"] < 2:
        text = f"{data['failed_runs']} failed, {data['runs']} count: too little was measured"
        yield Case("servers", "runs", Outcome.ERROR, "could_not_measure", text, details=tuple(data["void_runs"]))
    for each in data["series"]:
        why = _stays_undecided(each)
        numbers = [("run_cv", each["run_cv"]), ("margin", each["margin"]), ("noise_runs", each["noise_runs"])]
        numbers += [
            (f"{key}.{runs}", value)
            for key in ("detectable_change", "shown_within")
            for runs, value in each[key].items()
            if value is not None
        ]
        yield Case(
            each["scenario"],
            each["metric"],
            Outcome.PASSED if why is None else Outcome.SKIPPED,
            "" if why is None else "noise",
            why or f"spread {percent(each['run_cv'])} between server starts",
            numbers=tuple(numbers),
        )


def _calibration_findings(data: Mapping[str, Any], title: str) -> Iterator[Finding]:
    place = (data["suite"], data["testbed"])
    if data["decision"] == "fail":
        reasons = "; ".join(data["reasons"])
        yield Finding(_CALIBRATION_RULE, Level.ERROR, title, reasons, fingerprint=(_CALIBRATION_RULE.id, *place))
    for each in data["series"]:
        if (why := _stays_undecided(each)) is not None:
            name = f"{each['scenario']}/{each['metric']}"
            title = f"{name} scatters"
            yield Finding(
                _NOISE_RULE,
                Level.WARNING,
                title,
                f"{name}: {why}",
                subject=name,
                fingerprint=(_NOISE_RULE.id, *place, name),
            )


_MOST_NOISE_ROWS = 60


def _noise_figure(series: Sequence[Mapping[str, Any]]) -> Figure:
    """The noisiest first. What can be found is said for the number of runs in the middle of the table."""
    ordered = sorted(series, key=lambda each: -each["run_cv"])
    shown = ordered[:_MOST_NOISE_ROWS]
    counts = list(shown[0]["detectable_change"]) if shown else []
    runs = counts[len(counts) // 2] if counts else ""
    beyond = sum(each["run_cv"] > each["margin"] for each in series)
    note = f"The {len(shown)} noisiest of {len(ordered)} series." if len(ordered) > len(shown) else ""
    return Figure(
        name="noise",
        title=NOISE_FIGURES["noise"],
        description=f"{len(series)} series; {beyond} scatter more than their margin. {note}".strip(),
        plot=NoisePlot(
            tuple(
                NoiseRow(
                    label=f"{each['scenario']}/{each['metric']}",
                    spread=each["run_cv"],
                    detectable=_finite_size(each["detectable_change"].get(runs)),
                    margin=each["margin"],
                )
                for each in shown
            ),
            detectable=f"loss found with {runs} runs a side, 4 times in 5",
            note=note,
        ),
        table=_calibration_table(shown) if shown else Table.of((), ()),
    )


def _finite_size(loss: float | None) -> float | None:
    return None if loss is None or loss >= LARGEST_CHANGE else loss


def _calibration_table(series: Sequence[Mapping[str, Any]]) -> Table:
    counts = [f"n={runs}" for runs in series[0]["detectable_change"]]
    titles = ("SPREAD", "MARGIN", *counts, "SECOND", "A BLOCK")
    columns = Column("SERIES"), *(Column(title, is_right=True) for title in titles)
    rows = [
        Row(
            (
                f"{each['scenario']}/{each['metric']}",
                percent(each["run_cv"]),
                percent(each["margin"]),
                *(_short_percent(value) for value in each["detectable_change"].values()),
                _effect(each["second_in_block"]),
                _effect(each["drift_per_block"]),
            )
        )
        for each in sorted(series, key=lambda each: -each["run_cv"])
    ]
    return Table.of(columns, tuple(rows))


def _short_percent(loss: float | None) -> str:
    if loss is None or loss >= LARGEST_CHANGE:
        return "none"
    return f"{loss:.1%}" if loss < 0.0995 else f"{loss:.0%}"


def _effect(effect: Mapping[str, Any] | None) -> Cell:
    if effect is None:
        return Cell("-")
    return Cell(f"{effect['effect']:+.1%}", "*" if effect["p_adjusted"] <= STAR_LEVEL else "")
