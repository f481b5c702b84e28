"""The two sides of a comparison: which runs count, which are void, and whether the sides may be compared.

Runs that hold the same measurement are one server start, and a measurement that both versions have is a copy.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import product

from regress_gate.measurement.same_measurement import MeasurementIndex
from regress_gate.model.metric import DEFINITIONS_KEY, definition_text, definitions_match
from regress_gate.model.run import IMPORTED_SUITE, BlockPosition, Run, Trial
from regress_gate.model.suite import ConditionLimits
from regress_gate.model.testbed import Comparability, Difference, compare_testbeds
from regress_gate.model.version import Version
from regress_gate.text import plural

TOKEN_TOLERANCE = 0.05
"""Relative difference of mean prompt or output length beyond which two workloads are not the same one."""

DISTURBANCE_SHARE = 0.05
"""Share of the machine's cores by which the outside load of the two sides may differ, and which its host may take away
if the suite sets no limit. Half a core of two made one version look 2.3 times slower and did not affect another."""
LEAST_DISTURBANCE = 0.5
"""CPU cores of outside load beyond which a result that was imported without a suite is void, on a small machine."""
UNKNOWN_CORES = 2
"""Assumed where the number of cores is unknown: the smallest machine that runs a server, so the strictest limit."""


@dataclass(frozen=True, slots=True)
class ExcludedRun:
    run: Run
    reason: str


@dataclass(frozen=True, slots=True)
class ComparisonSide:
    """One version's runs of one suite on one testbed, or on several of one class. `runs` are all that are stored;
    `counted` those that count."""

    version: Version
    runs: tuple[Run, ...]
    counted: tuple[Run, ...]
    void: tuple[ExcludedRun, ...]
    origin: str | None = None
    failed: tuple[Run, ...] = ()
    """Servers that crashed, hung or never became ready. They have no measurements."""


def make_side(
    version: Version, runs: Sequence[Run], limits: ConditionLimits, *, origin: str | None = None
) -> ComparisonSide:
    """Separate the runs that count from those that are void: made under conditions beyond the limits, or marked void.

    A run whose outside load was not recorded is void only if other runs of the same version recorded theirs; if none
    did, the report warns instead. Other conditions that were not recorded make no run void, because a machine may have
    no GPU or may not report them.
    """
    counted, void = [], []
    served = [run for run in runs if run.failure is None]
    recorded = sum(outside_load(run) is not None for run in served)
    for run in served:
        if reasons := _exclusion_reasons(run, limits, recorded):
            void.append(ExcludedRun(run, "; ".join(reasons)))
        else:
            counted.append(run)
    counted, repeated = _without_repeats(counted)
    void += repeated
    failed = tuple(run for run in runs if run.failure is not None)
    return ComparisonSide(version, tuple(runs), tuple(counted), tuple(void), origin, failed)


def runs_that_count(runs: Sequence[Run], limits: ConditionLimits) -> list[Run]:
    """The runs that count, of all versions among `runs`, each judged with the other runs of its version."""
    return [run for side in sides_by_version(runs, limits) for run in side.counted]


def sides_by_version(runs: Iterable[Run], limits: ConditionLimits) -> list[ComparisonSide]:
    """The runs of one suite on one testbed by version; which of them count is decided as in a comparison."""
    by_version: dict[Version, list[Run]] = defaultdict(list)
    for run in runs:
        by_version[run.version].append(run)
    return [make_side(version, same, limits) for version, same in by_version.items()]


def _without_repeats(runs: Sequence[Run]) -> tuple[list[Run], list[ExcludedRun]]:
    """Of runs that share a measurement, the one with the most trials: a file that grew beside a server and was imported
    several times is one server start."""
    starts = list(range(len(runs)))
    """For each run the first that is known to be the same start, in a chain."""

    def first(number: int) -> int:
        while starts[number] != number:
            number = starts[number]
        return number

    index = MeasurementIndex[int]()
    for number, run in enumerate(runs):
        for trial in run.trials:
            for other in index.matches_before_adding(trial, number):
                low, high = sorted((first(number), first(other)))
                starts[high] = low
    longest: dict[int, Run] = {}
    for number, run in enumerate(runs):
        start = first(number)
        if start not in longest or len(run.trials) > len(longest[start].trials):
            longest[start] = run
    kept, repeated = [], []
    for number, run in enumerate(runs):
        if (whole := longest[first(number)]) is run:
            kept.append(run)
        else:
            repeated.append(ExcludedRun(run, f"the same server start as {run_name(whole)}, which has its results"))
    return kept, repeated


def run_name(run: Run) -> str:
    """For reports: the number by which the store knows it, and its label."""
    return run.label if run.id is None else f"run:{run.id} ({run.label})"


def run_start(run: Run) -> datetime | None:
    """When its server, or else the first of its trials, was started; without a time zone it is taken for UTC."""
    times = [run.started] if run.started else [trial.started for trial in run.trials if trial.started]
    return min((time if time.tzinfo else time.replace(tzinfo=UTC) for time in times), default=None)


def separate_copies(
    baseline: ComparisonSide, candidate: ComparisonSide
) -> tuple[ComparisonSide, ComparisonSide, tuple[tuple[Run, Run], ...]]:
    """Both sides without the runs that hold a measurement of the other version, and these in pairs.

    No measurement is of two versions. Which of the two it is not, nothing says, so that neither counts.
    """
    index = MeasurementIndex[Run]()
    for run in baseline.counted:
        for trial in run.trials:
            index.add(trial, run)
    pairs: dict[tuple[int, int], tuple[Run, Run]] = {}
    for run in candidate.counted:
        for trial in run.trials:
            for original in index.matches(trial):
                pairs[id(original), id(run)] = original, run
    if not pairs:
        return baseline, candidate, ()
    both = [{key[side] for key in pairs} for side in (0, 1)]
    kept = [
        replace(side, counted=tuple(run for run in side.counted if id(run) not in copied))
        for side, copied in zip((baseline, candidate), both, strict=True)
    ]
    return kept[0], kept[1], tuple(pairs.values())


def _exclusion_reasons(run: Run, limits: ConditionLimits, recorded: int) -> list[str]:
    """`recorded`: how many runs of the side say what their outside load was."""
    if run.void is not None:
        return [run.void]
    reasons = []
    load, limit = outside_load(run), limits.max_outside_cpu_cores
    if limit is not None and load is None and recorded:
        reasons.append(f"outside CPU load not recorded, while {recorded} other runs record it")
    if limit is None and run.suite == IMPORTED_SUITE:
        limit = max(LEAST_DISTURBANCE, DISTURBANCE_SHARE * (run.testbed.cpu_count or UNKNOWN_CORES))
    if limit is not None and load is not None and load > limit:
        reasons.append(f"{load:.2f} CPU cores were kept busy by other processes (limit {limit:g})")
    steal, limit = _worst_condition(run, "steal_cpu_cores"), limits.max_steal_cpu_cores
    if limit is None:
        limit = DISTURBANCE_SHARE * (run.testbed.cpu_count or UNKNOWN_CORES)
    if steal is not None and steal > limit:
        reasons.append(f"{steal:.2f} CPU cores were taken away by the machine's host (limit {limit:g})")
    throttled, limit = _worst_condition(run, "gpu_throttled"), limits.max_gpu_throttled
    if throttled is not None and limit is not None and throttled > limit:
        reasons.append(f"a GPU was throttled in {throttled:.1%} of the samples (limit {limit:.1%})")
    others, limit = _worst_condition(run, "gpu_other_processes"), limits.max_gpu_other_processes
    if others is not None and limit is not None and others > limit:
        reasons.append(f"{plural(round(others), 'other process', 'other processes')} on the GPUs (limit {limit:g})")
    return reasons


def outside_load(run: Run) -> float | None:
    """CPU cores that other processes kept busy; None if not recorded."""
    return _worst_condition(run, "outside_cpu_cores")


def _worst_condition(run: Run, condition: str) -> float | None:
    """The larger of the whole run's value and its worst trial's; None if nothing was recorded.

    A disturbance can spoil a trial of seconds and hardly change the run's average.
    """
    conditions = [run.conditions, *(trial.conditions for trial in run.trials)]
    recorded: list[float | None] = [getattr(each, condition) for each in conditions]
    return max((value for value in recorded if value is not None), default=None)


def conditions_unrecorded(sides: Sequence[ComparisonSide], limits: ConditionLimits) -> bool:
    """Whether the suite limits the conditions and no counted run says what they were."""
    return limits.max_outside_cpu_cores is not None and all(
        outside_load(run) is None for side in sides for run in side.counted
    )


def compare_sides(baseline: ComparisonSide, candidate: ComparisonSide, limits: ConditionLimits) -> Comparability:
    """Every difference between the sides other than the version, and whether one of them forbids the comparison."""
    left, right = _representative_runs(baseline), _representative_runs(candidate)
    if not left or not right:
        return Comparability()
    differences = _machine_differences(left, right)
    if left[0].suite != right[0].suite:
        differences.append(Difference("suite", str(left[0].suite), str(right[0].suite), True))
    differences += _conditions(baseline, candidate, limits)
    differences += _differing_values(
        "client",
        (trial.source.client_version for trial in _trials(left)),
        (trial.source.client_version for trial in _trials(right)),
    )
    differences += _differing_values(
        "variant", (run.version.variant for run in left), (run.version.variant for run in right)
    )
    places = [[run.place for run in side if run.place is not None] for side in (left, right)]
    differences += _differing_values(
        "suite's text", *((place.suite_digest for place in side) for side in places), blocks=True, short=12
    )
    differences += _differing_values(
        "servers of a block", *((_residency(place) for place in side) for side in places), blocks=True
    )
    differences += _differing_values(
        "clocks of the GPUs", *((_clocks(place) for place in side) for side in places), blocks=True
    )
    differences += _differing_values("provisioned by", *((place.way for place in side) for side in places))
    names = sorted({name for run in (*left, *right) for name in run.libraries})
    for name in names:
        differences += _differing_values(
            name, (r.libraries.get(name) for r in left), (r.libraries.get(name) for r in right)
        )
    return Comparability(tuple(differences))


def _machine_differences(left: Sequence[Run], right: Sequence[Run]) -> list[Difference]:
    """All machines are compared with one: runs under one testbed's name may come from two stores.

    Several hosts that both sides have are the same on both, so that only what keeps them from being one class counts.
    """
    first = left[0].testbed
    others = dict.fromkeys(run.testbed for run in (*right, *left) if run.testbed != first)
    differences = [difference for other in others for difference in compare_testbeds(first, other).differences]
    names = [{run.testbed.name for run in side} for side in (left, right)]
    if names[0] == names[1] and len(names[0]) > 1:
        return [difference for difference in differences if difference.blocks]
    return differences


def _representative_runs(side: ComparisonSide) -> tuple[Run, ...]:
    return side.counted or side.runs


def _trials(runs: Iterable[Run]) -> Iterable[Trial]:
    return (trial for run in runs for trial in run.trials)


def _conditions(baseline: ComparisonSide, candidate: ComparisonSide, limits: ConditionLimits) -> list[Difference]:
    if limits.max_outside_cpu_cores is None:
        return _disturbance(baseline, candidate)
    shown = [
        "recorded" if any(outside_load(run) is not None for run in side.counted) else "not recorded"
        for side in (baseline, candidate)
        if side.counted
    ]
    if len(shown) == 2 and shown[0] != shown[1]:
        return [Difference("outside CPU load", shown[0], shown[1], True)]
    return []


def _disturbance(baseline: ComparisonSide, candidate: ComparisonSide) -> list[Difference]:
    """If the suite sets no limit, the recorded disturbance of the two sides must at least be similar."""
    loads = [
        [load for run in side.counted if (load := outside_load(run)) is not None] for side in (baseline, candidate)
    ]
    if not all(loads):
        return []
    left, right = (sum(side) / len(side) for side in loads)
    cores = min(run.testbed.cpu_count or UNKNOWN_CORES for run in (*baseline.counted, *candidate.counted))
    if abs(left - right) <= DISTURBANCE_SHARE * cores:
        return []
    return [Difference("outside CPU load", f"{left:.2f} cores", f"{right:.2f} cores", True)]


def _residency(place: BlockPosition) -> str:
    return "resident" if place.resident else "one at a time"


def _clocks(place: BlockPosition) -> str:
    return "not locked" if place.locked_clock_mhz is None else f"locked to {place.locked_clock_mhz} MHz"


def _differing_values(
    what: str,
    left: Iterable[str | None],
    right: Iterable[str | None],
    *,
    blocks: bool = False,
    short: int | None = None,
) -> list[Difference]:
    """A difference if both sides have values and they are not the same."""
    ours, theirs = ({value[:short] for value in side if value} for side in (left, right))
    if ours and theirs and ours != theirs:
        return [Difference(what, ", ".join(sorted(ours)), ", ".join(sorted(theirs)), blocks)]
    return []


EXACT_WORKLOAD = (
    "request_rate",
    "max_concurrency",
    "burstiness",
    "num_prompts",
    "input_len",
    "output_len",
    "dataset",
    "batch_size",
    "turns",
    "think_time",
    "together",
)
_FILES = {"dataset_sha256": "the file of recorded prompts", "trace_sha256": "the recorded trace"}
MEAN_WORKLOAD = {"mean_input_tokens": "prompt tokens", "mean_output_tokens": "output tokens"}


def unknown_client_doubt(baseline: Sequence[Trial], candidate: Sequence[Trial]) -> str | None:
    """A warning if the release of vLLM's client is known on one side only: the other may have sent something else."""
    sides = [{trial.workload.get(DEFINITIONS_KEY) for trial in side} for side in (baseline, candidate)]
    if sides[0] == sides[1] or None not in (sides[0] | sides[1]):
        return None
    known = ", ".join(sorted(key for key in sides[0] | sides[1] if key))
    return f"one part was measured by {known}, the client of another part is unknown: import with --client-version"


def workload_difference(baseline: Sequence[Trial], candidate: Sequence[Trial]) -> str | None:
    """Why two sets of trials of one scenario were not the same work; None if they were, as far as is recorded."""
    definitions = [{trial.workload.get(DEFINITIONS_KEY) for trial in side} for side in (baseline, candidate)]
    if not all(definitions_match(*pair) for pair in product(*definitions)):
        words = [", ".join(sorted(map(definition_text, side))) for side in definitions]
        return f"its numbers are defined differently: {words[0]} → {words[1]}; measure both with one client"
    for key in EXACT_WORKLOAD:
        ours, theirs = (
            {trial.workload[key] for trial in side if key in trial.workload} for side in (baseline, candidate)
        )
        if ours and theirs and ours != theirs:
            return f"{key} differs: {_listed(ours)} → {_listed(theirs)}"
    for key, what in _FILES.items():
        files = [{str(t.workload[key])[:12] for t in side if key in t.workload} for side in (baseline, candidate)]
        if all(files) and len(files[0] | files[1]) > 1:  # runs of two files on one side are not one workload
            return f"{what} differs: SHA-256 {_listed(files[0])} → {_listed(files[1])}"
    for ordinal in sorted({trial.ordinal for trial in baseline} & {trial.ordinal for trial in candidate}):
        sent = {trial.workload.get("prompts_sha256") for trial in (*baseline, *candidate) if trial.ordinal == ordinal}
        if len(sent - {None}) > 1:
            return f"trial {ordinal} did not send the same prompts: the servers count their tokens differently?"
    models = [
        {_basename(str(t.workload["model"])) for t in side if t.workload.get("model")} for side in (baseline, candidate)
    ]
    if all(models) and models[0] != models[1]:
        return f"model differs: {_listed(models[0])} → {_listed(models[1])}"
    for key, what in MEAN_WORKLOAD.items():
        means = []
        for side in (baseline, candidate):
            values = [float(trial.workload[key]) for trial in side if trial.workload.get(key) is not None]
            means.append(sum(values) / len(values) if values else None)
        left, right = means
        if left and right and abs(left - right) > TOKEN_TOLERANCE * max(left, right):
            return f"{what} per request differ: {left:.0f} → {right:.0f}"
    return None


def _listed(values: Iterable[object]) -> str:
    return ", ".join(sorted("unlimited" if value is None else str(value) for value in values))


def _basename(model: str) -> str:
    return model.rstrip("/").rpartition("/")[2].lower()
