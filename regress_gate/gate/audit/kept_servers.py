"""What is kept of a server that was measured, as the observations that the rules of `audit` read.

From the facts of its start log, what it counted during the trials of one scenario, and the testbed. What was not kept
is not known: the environment, for example, and the model's sizes. Not for comparing servers (`rule_changes`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, Never

from regress_gate.gate.audit.observations import (
    NEEDS_WINDOW,
    Evidence,
    MissingFact,
    Observations,
    Targets,
)
from regress_gate.model.deployment import Deployment
from regress_gate.model.run import Run
from regress_gate.vllm.log_signals import LogLine, ServerLog, match_signals
from regress_gate.vllm.server_metrics import COUNTERS, GAUGES, HISTOGRAMS
from regress_gate.vllm.start_log import StartLog, deployment_of_start

_MOST_LINES = 1000
"""Kept lines that are read: many times what the tool keeps."""
_COUNTED = {
    **{f"vllm:{name}_total": ours for ours, names in COUNTERS.items() for name in names},
    **{
        f"vllm:{name}_{part}": f"{ours}_{part}"
        for ours, names in HISTOGRAMS.items()
        for name in names
        for part in ("sum", "count")
    },
}
_READ = {f"vllm:{name}": ours for ours, names in GAUGES.items() for name in names}


@dataclass(frozen=True, slots=True)
class TrialMetrics:
    """What one server counted during the trials of a scenario."""

    scenario: str
    trials: Sequence[Mapping[str, float]]
    """As `vllm.server_metrics.metrics_window` has it, at least one."""

    @property
    def is_window(self) -> bool:
        return True

    @property
    def engines(self) -> int:
        return int(max(trial.get("engines", 1.0) for trial in self.trials))

    def has(self, name: str) -> bool:
        key = _COUNTED.get(name, f"{_READ.get(name)}_max")
        return all(key in trial for trial in self.trials)

    def gauge(self, name: str) -> float:
        """The mean of all readings during trials."""
        return mean(self._values(name, f"{_READ.get(name)}_mean"))

    def largest(self, name: str) -> float:
        if self.engines > 1 and name != "vllm:kv_cache_usage_perc":
            _missing(f"what is kept of {name} is the sum of {self.engines} engines")
        return max(self._values(name, f"{_READ.get(name)}_max"))

    def most(self, *names: str) -> float:
        """Of each gauge the largest sum over all engines is kept."""
        return sum(max(self._values(name, f"{_READ.get(name)}_max")) for name in names)

    def earlier(self, name: str) -> float | None:  # noqa: ARG002 - the first reading is not kept
        return None

    def increase(self, name: str) -> float:
        return sum(self._values(name, _COUNTED.get(name, "")))

    def label(self, name: str, key: str) -> str | None:  # noqa: ARG002 - labels are not kept
        return None

    def evidence(self, text: str) -> Evidence:
        return Evidence("metrics", f"{text}, during {self.scenario}")

    def _values(self, name: str, key: str) -> list[float]:
        if any(key not in trial for trial in self.trials):
            _missing(f"{name} was not counted during {self.scenario}")
        return [trial[key] for trial in self.trials]


def _missing(why: str) -> Never:
    raise MissingFact(why, NEEDS_WINDOW)


def observe_run(run: Run) -> Observations:
    """All that is kept of the server of a run, whatever was sent to it."""
    start = _start_of(run.server)
    known = Deployment(accelerator=run.testbed.accelerator, dependencies=dict(run.libraries))
    warm = run.place is not None and not run.place.cold
    log = _log_of(run.server, start, compiled_before=warm)
    return Observations(known.over(deployment_of_start(start)), run.version, log=log)


def load_of(run: Run, scenario: str) -> tuple[TrialMetrics | None, Targets]:
    """What the server counted during a scenario, and what was sent to it."""
    trials = [trial for trial in run.trials if trial.scenario == scenario]
    counted = [trial.server_metrics for trial in trials if trial.server_metrics]
    sent = {trial.workload.get("max_concurrency") for trial in trials}
    concurrency = sent.pop() if len(sent) == 1 else None
    whole = isinstance(concurrency, int) and not isinstance(concurrency, bool) and concurrency > 0
    metrics = TrialMetrics(scenario, counted) if counted and len(counted) == len(trials) else None
    return metrics, Targets(concurrency=concurrency if whole else None)


def _start_of(server: Mapping[str, Any]) -> StartLog:
    """The facts as they are kept; what has another form than the tool writes is left out."""
    arguments, size = server.get("non_default_args"), server.get("max_capture_size")
    architecture = server.get("architecture")
    return StartLog(
        architecture=architecture if isinstance(architecture, str) else None,
        non_default_args=arguments if isinstance(arguments, Mapping) else None,
        config=_texts(server.get("config")),
        backends=_texts(server.get("backends")),
        max_capture_size=size if isinstance(size, int) and not isinstance(size, bool) else None,
    )


def _texts(value: object) -> dict[str, str]:
    entries = value.items() if isinstance(value, Mapping) else ()
    return {str(key): text for key, text in entries if isinstance(text, str)}


def _log_of(server: Mapping[str, Any], start: StartLog, *, compiled_before: bool) -> ServerLog | None:
    """With the lines of the signals, and whether they are all. Of runs that an older tool made, some lines of the start
    are kept: what is among them was printed, and of what is not nothing is known."""
    if (found := kept_signals(server)) is None:
        return None
    has_start = isinstance(server.get("signals"), Mapping)
    return ServerLog("start log", has_start, found, None, start, compiled_before)


def kept_signals(server: Mapping[str, Any]) -> dict[str, tuple[LogLine, ...]] | None:
    """The lines of each signal that are kept of the start log of a server; None: no line was kept."""
    signals, lines = server.get("signals"), server.get("lines")
    kept: list[tuple[int | None, str]] = []
    if isinstance(signals, Mapping):
        for entries in signals.values():
            for entry in entries if isinstance(entries, list) else []:
                if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], int):
                    kept.append((entry[0], str(entry[1])))
    elif isinstance(lines, list):
        kept = [(None, str(line)) for line in lines]
    else:
        return None
    matches: dict[str, list[LogLine]] = {}
    for number, text in kept[:_MOST_LINES]:
        for name, groups in match_signals(text).items():
            matches.setdefault(name, []).append(LogLine(number or 0, text, groups))
    return {name: tuple(dict.fromkeys(found)) for name, found in matches.items()}
