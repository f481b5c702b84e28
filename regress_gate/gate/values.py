"""Run-level values: what one server start gives for every metric of every scenario."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from regress_gate.model.run import Run

SERVER = "server"
"""Scenario name under which what is measured once per server start is reported."""


@dataclass(slots=True)
class Values:
    """One metric of one scenario on one side."""

    per_run: list[float] = field(default_factory=list)
    requests: int = 0
    smallest_trial: int | None = None
    """Requests sent in the smallest trial behind the values; a failed one still counts as asked for. 0 where a trial
    does not say how many it sent; None for what is not measured per trial."""


SideValues = dict[tuple[str, str], Values]


def run_level_values(runs: Iterable[Run], ordinals: Mapping[str, set[int]] | None = None) -> SideValues:
    """A run's value of a metric is the mean over its trials: trials share the run's luck.

    `ordinals` names, by scenario, the trials that count; a scenario that it does not name counts in full.
    """
    values: SideValues = defaultdict(Values)
    for run in runs:
        by_series: dict[tuple[str, str], list[float]] = defaultdict(list)
        for trial in run.trials:
            if ordinals and trial.ordinal not in ordinals.get(trial.scenario, {trial.ordinal}):
                continue
            for name, value in trial.metrics.items():
                key = (trial.scenario, name)
                by_series[key].append(value)
                entry = values[key]
                requests = trial.requests or 0
                entry.requests += requests
                if entry.smallest_trial is None or requests < entry.smallest_trial:
                    entry.smallest_trial = requests
        group = SERVER if run.place is None else run.place.group
        for name, value in run.metrics.items():
            by_series[group, name].append(value)
        for key, found in by_series.items():
            values[key].per_run.append(sum(found) / len(found))
    return values
