"""Decide on measured runs of two versions, in four steps: gather, exclude, compare, conclude.

Each step is a function on small values. `conclude` turns what the others found into reasons and warnings (`weighing`,
`reasons`), and those decide. Not for known issues alone, which `check` decides without measurements.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import isfinite
from typing import Literal

from regress_gate import __version__
from regress_gate.gate.audit.causes import explain_regressions
from regress_gate.gate.audit.rule_changes import find_rule_changes
from regress_gate.gate.audit.server_changes import ServerChange, find_server_changes
from regress_gate.gate.config_changes import ConfigChange
from regress_gate.gate.costs import CostInput, find_costs, no_cost_text
from regress_gate.gate.host_effects import host_warnings
from regress_gate.gate.load_curves import load_curves
from regress_gate.gate.measured_issues import join_issues
from regress_gate.gate.objectives import judge_objectives, unjudged_objectives, weigh_objectives
from regress_gate.gate.reasons import (
    WaiverBook,
    advise_compare,
    decision_of,
    exit_code,
    order_reasons,
    version_out,
    weigh_issues,
)
from regress_gate.gate.replicates import Pairing, RunLevelValues, SeriesKey, pair_runs, run_level_values, shared_trials
from regress_gate.gate.series_comparison import SeriesComparison, compare_all_series, distributions
from regress_gate.gate.sides import (
    ComparisonSide,
    compare_sides,
    conditions_unrecorded,
    run_name,
    run_start,
    separate_copies,
)
from regress_gate.gate.weighing import (
    copied_runs_text,
    failed_runs,
    issue_warnings,
    nothing_counts_text,
    pairing_warnings,
    suite_warnings,
    weigh_config,
    weigh_missing_scenarios,
    weigh_named_metrics,
    weigh_platform,
    weigh_series,
    weigh_server_failures,
)
from regress_gate.known.records.coverage import move_of
from regress_gate.model.issue import IssueFinding
from regress_gate.model.policy import Policy, Waiver
from regress_gate.model.result import (
    AuditEffect,
    AuditFindingOut,
    CostOut,
    CoverageOut,
    DifferenceOut,
    ExplanationOut,
    InterimOut,
    KnownIssueOut,
    LoadCurveOut,
    ObjectiveOut,
    PlanOut,
    Reason,
    ReasonCode,
    Result,
    RunOut,
    SeriesResult,
    SuiteOut,
    TestbedOut,
    VersionSide,
    VoidRun,
    WaiverOut,
)
from regress_gate.model.run import Run, SuiteRef
from regress_gate.model.suite import ConditionLimits, Suite
from regress_gate.model.testbed import Comparability
from regress_gate.stats.multiplicity import MeasurementDesign
from regress_gate.text import plural

_Side = Literal["baseline", "candidate"]
_RunState = Literal["counted", "void", "failed", "left_out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateInput:
    """What is known of two versions."""

    baseline: ComparisonSide
    candidate: ComparisonSide
    suite: SuiteRef
    definition: Suite | None = None
    """The suite itself: its scenarios, limits and notice. None if only its name is known."""
    suite_file: str | None = None
    """That it was read from, as the user named it; None: it is shipped, or not known."""
    findings: Sequence[IssueFinding] = ()
    coverage: CoverageOut | None = None
    """How far the known-issue records reach; None: no records were asked."""
    config_changes: Sequence[ConfigChange] = ()
    earlier: Sequence[Run] = ()
    """Runs that count, of any version on this suite and testbed: they show what spread is usual."""
    in_open_blocks: int = 0
    """Runs that were left out, because the other side of their block is not measured yet."""
    planned_blocks: tuple[int, int] | None = None
    """Blocks that are whole, and that were planned, of a fixed plan that is not at its end; None: there is none."""
    hosts_left_out: Sequence[str] = ()
    """Of several hosts that were asked for, those with runs of one version only."""
    deployment_platform: str | None = None
    """On which the versions are to serve; None: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRules:
    """What the user has set for a decision."""

    policy: Policy
    now: datetime
    """When the decision is made. Its date says which waivers have expired."""
    waivers: Sequence[Waiver] = ()
    allow_incomparable: bool = False
    """Compare although the two sides are not comparable."""
    report_only: bool = False
    """Exit with 0 whatever is decided."""
    gpu_hour: float | None = None
    """Price of one GPU for an hour; None: no costs are calculated."""
    notices: Sequence[str] = ()
    """Where the policy or a waiver is weaker than the defaults, and where that was set."""
    named_metrics: Mapping[str, bool] = field(default_factory=dict)
    """Metrics, or patterns, that were named to gate, and whether the user named them and not the suite. Empty: the
    defaults, which gate what there is of them."""


@dataclass(frozen=True, slots=True)
class GatheredSides:
    """The runs of both sides that are compared."""

    baseline: ComparisonSide
    candidate: ComparisonSide
    pairing: Pairing
    comparability: Comparability
    warnings: tuple[str, ...] = ()
    copies: tuple[tuple[Run, Run], ...] = ()
    """Runs of both versions that hold the same measurement; they are not compared."""

    @property
    def by_name(self) -> tuple[tuple[str, ComparisonSide], ...]:
        return ("baseline", self.baseline), ("candidate", self.candidate)


@dataclass(frozen=True, slots=True)
class SideExclusions:
    """What keeps the two sides from being compared."""

    can_compare: bool
    """Whether the sides are comparable, or are to be compared anyway."""
    reasons: tuple[Reason, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Weighed:
    """All that decides, and what goes with it."""

    reasons: list[Reason]
    """The heaviest first."""
    warnings: list[str]
    issues: list[KnownIssueOut]
    audit: list[AuditFindingOut]
    explanations: list[ExplanationOut]
    objectives: list[ObjectiveOut]
    waivers: list[WaiverOut]


def decide_compare(given: GateInput, rules: GateRules) -> Result:
    """The gate on stored runs of two versions."""
    gathered = gather(given)
    exclusions = exclude(gathered, allow_incomparable=rules.allow_incomparable)
    comparison = compare(gathered, exclusions, rules.policy, given.earlier)
    return conclude(given, rules, gathered, exclusions, comparison)


def gather(given: GateInput) -> GatheredSides:
    """The runs that are compared: those of shared blocks if there are any, else all that count and are no copies."""
    limits = given.definition.conditions if given.definition else ConditionLimits()
    baseline, candidate, copies = separate_copies(given.baseline, given.candidate)
    pairing = pair_runs(baseline.counted, candidate.counted)
    baseline = replace(baseline, counted=pairing.baseline)
    candidate = replace(candidate, counted=pairing.candidate)
    warnings = [*suite_warnings(given.suite, given.definition), *pairing_warnings(pairing)]
    if conditions_unrecorded((baseline, candidate), limits):
        warnings.append("the CPU load of other processes was not recorded: nothing shows that the machine was quiet")
    if given.in_open_blocks:
        runs = plural(given.in_open_blocks, "run is", "runs are")
        warnings.append(
            f"{runs} left out: the other side of the block is not measured yet (a measurement still runs, or was "
            "interrupted: --resume goes on)"
        )
    if given.planned_blocks is not None:
        whole, planned = given.planned_blocks
        warnings.append(
            f"{whole} of {planned} planned blocks are measured: who looks before the end of a fixed plan, and stops "
            "where the answer pleases, is wrong more often than is said here (--resume goes on)"
        )
    if given.hosts_left_out:
        names = ", ".join(given.hosts_left_out)
        warnings.append(f"left out, with runs of one version only: {names}")
    return GatheredSides(
        baseline,
        candidate,
        pairing,
        compare_sides(baseline, candidate, limits),
        warnings=tuple(warnings),
        copies=copies,
    )


def exclude(gathered: GatheredSides, *, allow_incomparable: bool = False) -> SideExclusions:
    """What forbids the comparison: servers that failed, sides without a run that counts, sides that are not alike."""
    comparability = gathered.comparability
    is_split = _is_split(gathered)
    can_compare = (comparability.comparable and not is_split) or allow_incomparable
    reasons, warnings = weigh_server_failures(gathered.baseline, gathered.candidate, comparable=can_compare)
    crashed = any(reason.code is ReasonCode.SERVER_FAILED for reason in reasons)
    if gathered.copies:
        text = copied_runs_text(gathered.baseline, gathered.candidate, gathered.copies)
        reasons.append(Reason(code=ReasonCode.COPIED_RUNS, text=text))
    reasons += [
        Reason(code=ReasonCode.INCOMPARABLE, text=nothing_counts_text(side, name))
        for name, side in gathered.by_name
        if not side.counted and not gathered.copies and not (crashed and side is gathered.candidate)
    ]
    if is_split and not gathered.copies:
        text = "the runs are of several hosts and of no block that both versions share: hosts differ as versions do"
        if allow_incomparable:
            warnings.append(f"{text} (--allow-incomparable)")
        else:
            reasons.append(Reason(code=ReasonCode.INCOMPARABLE, text=f"{text}; compare each host by itself"))
    if not (comparability.comparable or allow_incomparable):
        differences = "; ".join(str(difference) for difference in comparability.differences if difference.blocks)
        reasons.append(Reason(code=ReasonCode.INCOMPARABLE, text=f"the two sides are not comparable: {differences}"))
    return SideExclusions(can_compare, tuple(reasons), tuple(warnings))


def _is_split(gathered: GatheredSides) -> bool:
    """Whether a side has runs of several hosts that were not made next to the other side's."""
    hosts = [{run.testbed.name for run in side.counted} for _, side in gathered.by_name]
    return all(hosts) and max(map(len, hosts)) > 1 and not gathered.pairing.is_side_by_side


def compare(
    gathered: GatheredSides, exclusions: SideExclusions, policy: Policy, earlier: Sequence[Run] = ()
) -> SeriesComparison | None:
    """All series of both sides; None where they may not be compared, or one has no run that counts."""
    if not exclusions.can_compare or not (gathered.baseline.counted and gathered.candidate.counted):
        return None
    paired = gathered.pairing.is_side_by_side
    return compare_all_series(gathered.baseline, gathered.candidate, policy, paired=paired, earlier=earlier)


def weigh(
    given: GateInput,
    rules: GateRules,
    gathered: GatheredSides,
    exclusions: SideExclusions,
    comparison: SeriesComparison | None,
) -> Weighed:
    """The reasons and warnings of everything that was found."""
    book = WaiverBook(rules.waivers, rules.now.date())
    issues, reasons = weigh_issues(given.findings, rules.policy, book, has_baseline=True)
    counted = [*gathered.baseline.counted, *gathered.candidate.counted]
    warnings = unjudged_objectives(counted, rules.policy)
    warnings += [*issue_warnings(issues, given.coverage), *gathered.warnings, *exclusions.warnings]
    reasons += [*weigh_config(given.config_changes), *exclusions.reasons]
    objectives = judge_objectives(
        gathered.baseline.counted,
        gathered.candidate.counted,
        rules.policy,
        earlier=given.earlier,
        interim=None if comparison is None else comparison.design.interim,
    )
    reasons += weigh_objectives(objectives, rules.policy, book)
    explanations: list[ExplanationOut] = []
    changes: list[ServerChange] = []
    if comparison is not None:
        reasons += weigh_missing_scenarios(comparison, given.definition, gathered.baseline, gathered.candidate)
        unmeasured, remarks = weigh_named_metrics(
            comparison, rules.named_metrics, gathered.baseline, gathered.candidate
        )
        reasons += [*unmeasured, *weigh_series(comparison, book)]
        reasons += weigh_platform(given.deployment_platform, (gathered.baseline, gathered.candidate))
        warnings += remarks
        warnings += comparison.warnings
        warnings += host_warnings(comparison.hosts, gathered.baseline.counted)
        if not gathered.comparability.comparable:
            warnings.append("compared although the sides are not comparable (--allow-incomparable)")
        issues, explanations = join_issues(
            comparison.series, given.findings, issues, definition=given.definition, side=gathered.candidate
        )
        changes = find_server_changes(gathered.baseline.counted, gathered.candidate.counted)
        sides = gathered.baseline, gathered.candidate
        explanations = explain_regressions(explanations, comparison.series, changes, sides, _suite_out(given))
    waivers = book.outcome()
    warnings += [
        f"the waiver for {w.finding} ({w.owner}) is unused: {w.detail}" for w in waivers if w.state == "unused"
    ]
    audit = _audit_findings(changes, gathered) if comparison is not None else []
    return Weighed(order_reasons(reasons), warnings, issues, audit, explanations, objectives, waivers)


def _audit_findings(changes: Sequence[ServerChange], gathered: GatheredSides) -> list[AuditFindingOut]:
    """What the servers did differently and what the rules of `audit` say of them, new findings first."""
    rules = find_rule_changes(gathered.baseline.counted, gathered.candidate.counted)
    order = list(AuditEffect)
    return sorted([*(change.finding for change in changes), *rules], key=lambda one: order.index(one.effect))


def conclude(
    given: GateInput,
    rules: GateRules,
    gathered: GatheredSides,
    exclusions: SideExclusions,
    comparison: SeriesComparison | None,
) -> Result:
    """The decision with its reasons, and everything that a report shows beside it."""
    weighed = weigh(given, rules, gathered, exclusions, comparison)
    decision = decision_of(weighed.reasons)
    series = list(comparison.series) if comparison else []
    runs = _newest_runs(given) if comparison else []
    costs, remarks = _costs(given, rules, gathered, series)
    return Result(
        tool_version=__version__,
        created=rules.now,
        command="compare",
        decision=decision,
        exit_code=exit_code(decision, rules.policy, report_only=rules.report_only),
        advice=advise_compare(
            decision,
            weighed.reasons,
            series,
            weighed.issues,
            str(gathered.baseline.version),
            str(gathered.candidate.version),
            comparable=gathered.comparability.comparable,
            coverage=given.coverage,
        ),
        reasons=weighed.reasons,
        baseline=_side_out(gathered.baseline),
        candidate=_side_out(gathered.candidate),
        move=move_of(gathered.baseline.version, gathered.candidate.version),
        suite=_suite_out(given),
        testbed=_testbed_out(gathered.candidate, gathered.comparability),
        hosts=list(comparison.hosts) if comparison else [],
        series=_with_run_values(series, [run for _, run in runs], gathered),
        runs=_runs_out(runs, gathered),
        costs=costs,
        load_curves=_load_curves(gathered, rules.policy, comparison),
        distributions=distributions(series, gathered.baseline.counted, gathered.candidate.counted),
        void_runs=_void_runs(gathered),
        failed_runs=failed_runs(gathered.baseline, gathered.candidate),
        known_issues=weighed.issues,
        coverage=given.coverage,
        audit=weighed.audit,
        explanations=weighed.explanations,
        objectives=weighed.objectives,
        waivers=weighed.waivers,
        plan=_plan_out(comparison.design) if comparison else None,
        config_changes=[change.as_document() for change in given.config_changes],
        warnings=[*weighed.warnings, *remarks],
        policy_notices=list(rules.notices),
    )


def _suite_out(given: GateInput) -> SuiteOut:
    notice = given.definition.notice if given.definition else None
    return SuiteOut(name=given.suite.name, version=given.suite.version, file=given.suite_file, notice=notice)


def _void_runs(gathered: GatheredSides) -> list[VoidRun]:
    return [
        VoidRun(side=name, run=run_name(void.run), reason=void.reason)
        for name, side in gathered.by_name
        for void in side.void
    ]


def _costs(
    given: GateInput, rules: GateRules, gathered: GatheredSides, series: Sequence[SeriesResult]
) -> tuple[list[CostOut], list[str]]:
    """The costs, or why there are none."""
    if rules.gpu_hour is None or not series:
        return [], []
    move = move_of(gathered.baseline.version, gathered.candidate.version)
    sides = gathered.baseline.counted, gathered.candidate.counted
    found = CostInput(rules.gpu_hour, *sides, given.definition, move)
    costs = find_costs(found, series)
    return costs, [] if costs else [no_cost_text(found)]


def _load_curves(gathered: GatheredSides, policy: Policy, comparison: SeriesComparison | None) -> list[LoadCurveOut]:
    if comparison is None:
        return []
    sides = gathered.baseline.counted, gathered.candidate.counted
    return load_curves(*sides, policy, incomparable=comparison.incomparable, interim=comparison.design.interim)


# Every run, for pictures

_MOST_RUNS = 100
"""Runs that are kept for pictures: a result holds their values of every series that gates."""
_EARLIEST = datetime.min.replace(tzinfo=UTC)


def _newest_runs(given: GateInput) -> list[tuple[_Side, Run]]:
    """Runs of both sides in the order of time; where it is not known, as they were stored."""
    sides: tuple[tuple[_Side, ComparisonSide], ...] = (("baseline", given.baseline), ("candidate", given.candidate))
    runs = [(name, run) for name, side in sides for run in side.runs]
    return sorted(runs, key=lambda each: _run_order(each[1]))[-_MOST_RUNS:]


def _run_order(run: Run) -> tuple[object, ...]:
    place = run.place
    where = ("", 0, 0) if place is None else (place.experiment, place.block, place.position)
    return run_start(run) or _EARLIEST, *where


def _runs_out(runs: Sequence[tuple[_Side, Run]], gathered: GatheredSides) -> list[RunOut]:
    states: dict[int, tuple[_RunState, str]] = {
        **{id(run): ("left_out", "the same measurement as a run of the other version") for run in _copied(gathered)},
        **{id(each.run): ("void", each.reason) for _, side in gathered.by_name for each in side.void},
        **{id(run): ("failed", run.failure.text) for _, run in runs if run.failure is not None},
        **{id(run): ("counted", "") for _, side in gathered.by_name for run in side.counted},
    }
    blocks: dict[tuple[str, int, str], int] = {}
    several = len(_host_names([run for _, run in runs])) > 1
    out = []
    for side, run in runs:
        state, why = states.get(id(run), ("left_out", "not made in a block with the other version"))
        name = run.testbed.name
        place = None if run.place is None else (run.place.experiment, run.place.block, name)
        block = None if place is None else blocks.setdefault(place, len(blocks) + 1)
        out.append(
            RunOut(
                side=side,
                run=run_name(run),
                testbed=name if several else None,
                started=run_start(run),
                block=block,
                state=state,
                why=why,
            )
        )
    return out


def _copied(gathered: GatheredSides) -> list[Run]:
    return [run for pair in gathered.copies for run in pair]


def _with_run_values(
    series: Sequence[SeriesResult], runs: Sequence[Run], gathered: GatheredSides
) -> list[SeriesResult]:
    ordinals = shared_trials((*gathered.baseline.counted, *gathered.candidate.counted))
    values = [run_level_values([run], ordinals) for run in runs]
    return [
        one.model_copy(update={"run_values": _values_of_runs((one.scenario, one.metric), values)}) if one.gated else one
        for one in series
    ]


def _values_of_runs(key: SeriesKey, values: Sequence[RunLevelValues]) -> list[float | None]:
    """Empty where no run has one."""
    known = [each[key].per_run[0] if key in each and each[key].per_run else None for each in values]
    rounded = [None if value is None or not isfinite(value) else float(f"{value:.6g}") for value in known]
    return rounded if any(value is not None for value in rounded) else []


def _side_out(side: ComparisonSide) -> VersionSide:
    return version_out(side.version).model_copy(update={"runs": len(side.counted), "origin": side.origin})


def _plan_out(design: MeasurementDesign) -> PlanOut:
    interim = design.interim
    return PlanOut(
        paired=design.paired,
        apart=design.apart,
        earlier_runs=sum(len(session[0]) for session in design.earlier if session),
        earlier_sessions=len(design.earlier),
        looks=InterimOut(blocks=interim.blocks, most_blocks=interim.most_blocks) if interim else None,
    )


def _host_names(runs: Sequence[Run]) -> list[str]:
    return sorted({run.testbed.name for run in runs})


def _testbed_out(side: ComparisonSide, comparability: Comparability) -> TestbedOut | None:
    if not side.runs:
        return None
    return TestbedOut(
        name=", ".join(_host_names(side.counted or side.runs[:1])),
        comparable=comparability.comparable,
        differences=[
            DifferenceOut(what=d.what, baseline=d.baseline, candidate=d.candidate, blocks=d.blocks)
            for d in comparability.differences
        ],
    )
