"""From identified results to runs: which results share a server process, and which pass each of them is.

The run is the unit of replication, so results that are not known to come from different server starts form one run.
Refuses results that do not fit together: one scenario with two workloads, one run with two sets of conditions.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from regress_gate.errors import InputError
from regress_gate.ingest.identity import Identity, merge_testbeds
from regress_gate.ingest.interface import Reading
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.model.metric import DEFINITIONS_KEY, METRICS, VLLM_DEFINITIONS_TEXT, definitions_match
from regress_gate.model.run import AUTO_LABEL_PREFIX, FILE_LABEL_PREFIX, Conditions, Run, SuiteRef, Trial, TrialSource
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.text import plural

if TYPE_CHECKING:
    from regress_gate.ingest.sidecar import SidecarFile

COLD_START_REASON = "the first run after a cold start (--first-run cold)"


def exclude_cold_starts(runs: tuple[Run, ...]) -> tuple[tuple[Run, ...], list[str]]:
    """The runs, with the first of each version and testbed marked void, and a note on each of these.

    In a fresh environment the caches of compiled kernels are empty and the first server is slower. The first run is the
    one that started first or, if the files state no times, the one with the lowest run number. Raises InputError if
    neither is known.
    """
    groups: dict[tuple[object, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.version, run.testbed.name), []).append(run)
    cold = {id(first): first for first in map(_first_run, groups.values())}
    notes = [
        f"run {run.label} of {run.version} on {run.testbed.name} is {COLD_START_REASON}: it does not count"
        for run in cold.values()
    ]
    return tuple(replace(run, void=COLD_START_REASON) if id(run) in cold else run for run in runs), notes


def _first_run(runs: list[Run]) -> Run:
    if len(runs) == 1:
        return runs[0]
    started = [(run.started, run) for run in runs if run.started is not None]
    if len(started) == len(runs):
        earliest = min(time for time, _ in started)
        first = [run for time, run in started if time == earliest]
    else:
        numbers = [_run_number(run.label) for run in runs]
        known = [number for number in numbers if number is not None]
        lowest = min(known) if len(known) == len(runs) else None
        first = [run for run, number in zip(runs, numbers, strict=True) if number == lowest and lowest is not None]
    if len(first) != 1:
        what = (
            f"which of {plural(len(runs), 'run')} of {runs[0].version} on {runs[0].testbed.name} was first is not known"
        )
        raise InputError(
            what, where="--first-run", todo="number the runs with --pattern and {run}, or import without it"
        )
    return first[0]


def _run_number(label: str) -> int | None:
    match = re.fullmatch(r"(?:run|start)?[-_= ]?([0-9]{1,9})", label, re.IGNORECASE)
    return int(match[1]) if match else None


_WORKLOAD_TOLERANCE = 0.2
"""Largest relative difference in mean tokens per request between two results of one workload."""
_PER_RUN = frozenset(name for name, metric in METRICS.items() if metric.per_run)
_UNKNOWN = Conditions()
_MEASURED = ("mean_input_tokens", "mean_output_tokens")


class CompleteResult(NamedTuple):
    """One result with its identity, complete except for run and trial."""

    where: str
    """Path and position in the file, for messages."""
    name: str
    """Of the file, without folders."""
    position: int | None
    """Position in the file; None if the file holds one result."""
    reading: Reading
    identity: Identity
    version: Version
    testbed: Testbed
    suite: SuiteRef
    scenario: str
    source: TrialSource
    sidecar: "SidecarFile | None"


@dataclass(slots=True)
class _PendingRun:
    """A run under construction."""

    label: str
    testbed: Testbed
    sidecar: "SidecarFile | None" = None
    members: dict[int, tuple[CompleteResult, int]] = field(default_factory=dict)
    """By index of the result: the result, and the ordinal of its pass in the scenario."""
    passes: dict[str, "_Passes"] = field(default_factory=dict)
    """By scenario."""
    metrics: dict[str, float] = field(default_factory=dict)
    """What is measured once per server start."""


@dataclass(slots=True)
class _Passes:
    """The passes of one scenario in a run under construction."""

    taken: dict[int, CompleteResult] = field(default_factory=dict)
    free: int = 1
    """All smaller ordinals are taken."""
    workload: dict[str, tuple[Any, str]] = field(default_factory=dict)
    """What was sent, as far as any pass states it: each value, and the result that states it."""
    definitions: dict[str | None, str] = field(default_factory=dict)
    """Of the metrics, each with the result that states it."""

    def next_free(self) -> int:
        while self.free in self.taken:
            self.free += 1
        return self.free


@dataclass(frozen=True, slots=True)
class GroupedRuns:
    runs: tuple[Run, ...]
    refused: Mapping[int, str]
    """By index of the result: why it is in no run."""
    placed: Mapping[int, tuple[str, int]]
    """By index of the result: the label of its run, and its ordinal there."""
    notes: tuple[str, ...]


def group_runs(
    items: list[CompleteResult],
    *,
    run_per_file: bool,
    cold_first: bool = False,
    first_files: Mapping[str, str] = MappingProxyType({}),
) -> GroupedRuns:
    """Put the results into runs, in their order.

    `cold_first`: exclude first runs after a cold start; raises InputError if these are not known. `first_files`: by
    hash, of files that have results of an earlier file, the hash of that file. With `run_per_file` they are one run: a
    file that grew beside one server start.
    """
    refused: dict[int, str] = {}
    unlabelled: dict[tuple[object, ...], list[int]] = {}
    labels: dict[int, str] = {}
    for index, item in enumerate(items):
        if (label := item.identity.run) is not None:
            if run_per_file:
                refused[index] = f"its run is {label}, which contradicts --run-per-file; leave one of them out"
            labels[index] = label
        elif run_per_file:
            labels[index] = FILE_LABEL_PREFIX + first_files.get(item.source.sha256, item.source.sha256)[:12]
        else:
            # A sidecar describes one server start, so results with different sidecars are different runs.
            start = item.sidecar.path if item.sidecar else None
            unlabelled.setdefault((item.version, item.testbed.name, item.suite, start), []).append(index)
    notes = []
    for indices in unlabelled.values():
        label = _label_of(items[index].source.sha256 for index in indices)
        labels |= dict.fromkeys(indices, label)
        if len(indices) > 1 and items[indices[0]].sidecar is None:
            notes.append(
                f"{plural(len(indices), 'result')} of {items[indices[0]].version} taken as one server run; give "
                "--run-per-file if each came from its own server start, or --run or --pattern to say which did"
            )
    groups: dict[tuple[object, ...], _PendingRun] = {}
    placed: dict[int, tuple[str, int]] = {}
    # Stated ordinals first: the other results take what is left.
    for index in sorted(range(len(items)), key=lambda index: items[index].identity.trial is None):
        if index in refused:
            continue
        item = items[index]
        key = (item.version, item.testbed.name, item.suite, labels[index])
        if (joined := groups.get(key)) is None:
            joined = groups[key] = _PendingRun(labels[index], item.testbed)
        try:
            placed[index] = (joined.label, _join(joined, index, item))
        except RefusalError as refusal:
            refused[index] = str(refusal)
    runs = tuple(_run(joined) for joined in groups.values() if joined.members)
    if cold_first:
        runs, cold_notes = exclude_cold_starts(runs)
        notes += cold_notes
    return GroupedRuns(runs, refused, placed, tuple(notes))


def _label_of(hashes: Iterable[str]) -> str:
    """Depends on the set of files and not on their order."""
    return AUTO_LABEL_PREFIX + hashlib.sha256("\n".join(sorted(hashes)).encode()).hexdigest()[:12]


def _join(joined: _PendingRun, index: int, item: CompleteResult) -> int:
    """Add the result to the run and return its ordinal. Raises RefusalError if it does not fit."""
    same = joined.testbed is item.testbed
    testbed = item.testbed if same else merge_testbeds(joined.testbed, item.testbed)
    if testbed is None:
        raise RefusalError(
            f"its testbed is {item.testbed.name} with {item.testbed.facts}, "
            f"in other files of run {joined.label} with {joined.testbed.facts}"
        )
    if item.sidecar and joined.sidecar and item.sidecar.content != joined.sidecar.content:
        raise RefusalError(
            f"run {joined.label} has two sets of conditions, {joined.sidecar.path} and {item.sidecar.path}; "
            "give different server starts different run labels"
        )
    if (passes := joined.passes.get(item.scenario)) is None:
        passes = _Passes()
    else:
        _check_workload(item, passes.workload)
        _check_definitions(item, passes.definitions)
    ordinal = item.identity.trial or passes.next_free()
    if ordinal in passes.taken:
        raise RefusalError(
            f"trial {ordinal} of {item.scenario} is also {passes.taken[ordinal].where}; give each its own"
        )
    once = per_run_metrics(item.reading)
    for name, value in once.items():
        if joined.metrics.get(name, value) != value:
            raise RefusalError(
                f"{name} is {value:g} here and {joined.metrics[name]:g} in other results of run {joined.label}, which "
                "started once; give different server starts different run labels"
            )
    if once:
        joined.metrics |= once
    passes.taken[ordinal] = item
    for name, sent in item.reading.workload.items():
        passes.workload.setdefault(name, (sent, item.where))
    passes.definitions.setdefault(item.reading.definitions, item.where)
    joined.passes[item.scenario] = passes
    joined.testbed, joined.sidecar = testbed, joined.sidecar or item.sidecar
    joined.members[index] = (item, ordinal)
    return ordinal


def per_run_metrics(reading: Reading) -> dict[str, float]:
    """Metrics that are measured once per server start: they belong to the run, not to the trial."""
    if _PER_RUN.isdisjoint(reading.metrics):
        return {}
    return {name: reading.metrics[name] for name in reading.metrics.keys() & _PER_RUN}


def _check_workload(item: CompleteResult, known: Mapping[str, tuple[Any, str]]) -> None:
    """Refuse a result with the scenario of others and another workload."""
    for key, left in item.reading.workload.items():
        right, where = known.get(key, (left, item.where))
        same = _within_tolerance(left, right) if key in _MEASURED else left == right
        if not same:
            raise RefusalError(
                f"scenario {item.scenario} would be two workloads: {key} is {_value_text(left)} here "
                f"and {_value_text(right)} in "
                f"{where}; {_separation_hint(item)}"
            )


def _check_definitions(item: CompleteResult, known: Mapping[str | None, str]) -> None:
    """Refuse a result with the scenario of others and metrics of other definitions."""
    mine = item.reading.definitions
    for other, where in known.items():
        if not definitions_match(mine, other):
            raise RefusalError(
                f"scenario {item.scenario} would hold numbers of two definitions, {mine or VLLM_DEFINITIONS_TEXT} "
                f"here and "
                f"{other or VLLM_DEFINITIONS_TEXT} in {where}; {_separation_hint(item)}"
            )


def _separation_hint(item: CompleteResult) -> str:
    if item.identity.scenario is None:
        return "give --scenario or --pattern to tell them apart"
    return "give each workload a scenario of its own, by --pattern with {scenario} or one import for each"


def _within_tolerance(left: float, right: float) -> bool:
    return abs(left - right) <= _WORKLOAD_TOLERANCE * max(left, right)


def _value_text(value: object) -> str:
    return "unlimited" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _run(joined: _PendingRun) -> Run:
    members = [joined.members[index] for index in sorted(joined.members)]
    first = members[0][0]
    trials = tuple([_trial(item, ordinal, joined.sidecar) for item, ordinal in members])
    started = min([trial.started for trial in trials if trial.started], default=None)
    if joined.sidecar is None:
        return Run(first.version, joined.testbed, first.suite, joined.label, trials, started, metrics=joined.metrics)
    known = joined.sidecar.content
    metrics = dict(joined.metrics)
    if known.startup_s is not None:
        metrics["startup_time"] = known.startup_s
    if known.memory_mb_total is not None:
        metrics["peak_memory"] = known.memory_mb_total * 1e6
    return Run(
        version=first.version,
        testbed=joined.testbed,
        suite=first.suite,
        label=joined.label,
        trials=trials,
        started=started if known.started_unix is None else datetime.fromtimestamp(known.started_unix, UTC),
        conditions=Conditions(
            outside_cpu_cores=known.outside_cpu_cores_mean,
            steal_cpu_cores=known.steal_cpu_cores_mean,
            gpu_throttled=known.gpu_throttled,
            gpu_other_processes=known.gpu_other_processes,
        ),
        libraries=known.libraries,
        metrics=metrics,
    )


def _workload(reading: Reading) -> Mapping[str, Any]:
    return (
        reading.workload if reading.definitions is None else {**reading.workload, DEFINITIONS_KEY: reading.definitions}
    )


def _trial(item: CompleteResult, ordinal: int, sidecar: "SidecarFile | None") -> Trial:
    reading = item.reading
    once = per_run_metrics(reading)
    recorded = {} if sidecar is None else sidecar.content.outside_cpu_cores
    cores = recorded.get(PurePath(item.name).stem, recorded.get(item.name))
    metrics = reading.metrics
    return Trial(
        scenario=item.scenario,
        ordinal=ordinal,
        completed=reading.completed,
        failed=reading.failed,
        duration=reading.duration,
        metrics={name: value for name, value in metrics.items() if name not in once} if once else metrics,
        workload=_workload(reading),
        source=item.source,
        conditions=_UNKNOWN if cores is None else Conditions(cores),
        started=reading.started,
        samples=reading.samples,
    )
