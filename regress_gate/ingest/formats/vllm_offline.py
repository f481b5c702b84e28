"""The benchmarks of vLLM without a server: `vllm bench throughput`, `latency` and `startup`, and their old scripts.

A file is one object. Batch size, lengths and (before 0.31) the model are only in the `.commands` file of vLLM's CI
beside it. Not for requests of a load test.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.content import Content
from regress_gate.ingest.formats.vllm_client import add_commands, read_commands
from regress_gate.ingest.interface import Certainty, Context, Generation, Reading, UnusedResult, read_documents
from regress_gate.measurement.plausibility import RefusalError, check_rate, check_statistics
from regress_gate.model.metric import STATISTICS
from regress_gate.text import excerpt, plural, quoted

OFFLINE = "vllm-offline"
"""Key of DEFINITIONS."""


class OfflineReader(ABC):
    tool: str
    bare_constants = False

    @abstractmethod
    def is_result(self, data: object) -> bool:
        """Whether a JSON value is an object of this format, usable or not."""

    @abstractmethod
    def normalise(self, data: Mapping[str, Any], position: int) -> Reading:
        """Raises RefusalError with the reason when the result must not be used."""

    def recognises(self, content: Content) -> Certainty:
        return Certainty.SURE if content.documents and self.is_result(content.documents[0]) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:
        commands = read_commands(content.name, context)
        return [add_commands(result, commands) for result in read_documents(content.each(), self.read_value)]

    def read_value(self, data: object, position: int) -> Reading | UnusedResult:
        """One JSON value as a reading. Raises RefusalError."""
        if not isinstance(data, dict) or not self.is_result(data):
            raise RefusalError(f"not a {self.tool} result, unlike others in the same file")
        return self.normalise(data, position)


_TOLERANCE = 0.02
"""Largest relative difference between a stated statistic and the one made from the file's times."""


_MAX_REPEATS = 1_000_000
"""Times of one list; each is that of a whole batch or start."""


def repeat_times(data: Mapping[str, Any], key: str) -> list[float]:
    """The list of times (s) at the key; empty if it is missing. Raises RefusalError for anything else."""
    values = fields.items(data, key)
    if len(values) > _MAX_REPEATS:
        raise RefusalError(f"{key} has {len(values):,} times, more than {_MAX_REPEATS:,}")
    if not all(type(value) in (int, float) for value in values):
        raise RefusalError(f"{key} is not a list of numbers")
    try:
        times = [float(value) for value in values]
    except OverflowError:
        raise RefusalError(f"{key} holds a number that is too large") from None
    if not all(map(isfinite, times)):
        raise RefusalError(f"{key} holds a number that is not finite")
    if any(value < 0 for value in times):
        raise RefusalError(f"{key} holds a negative time")
    return times


def check_repeat_statistics(
    values: list[float], mean: tuple[str, float], percentiles: Mapping[str, Any], key: str
) -> None:
    """Refuse stated statistics that are not those of the values. `mean`: key and value; percentiles: `{"99": s}`."""
    import numpy as np  # slow to import, and only lists of iterations need it

    _check_statistic(mean[0], mean[1], float(np.mean(values)))
    for name in percentiles:
        try:
            percent = float(name)
        except ValueError:
            percent = -1.0
        if not 0 <= percent <= 100:
            raise RefusalError(f"{key} has {quoted(name)}, which is no percentile")
        _check_statistic(f"{key} {name}", fields.required(percentiles, name), float(np.percentile(values, percent)))


def _check_statistic(name: str, stated: float, measured: float) -> None:
    if abs(stated - measured) > _TOLERANCE * abs(measured):
        raise RefusalError(f"{name} says {stated:g}, its own times say {measured:g}: wrong unit, or edited")


def repeat_statistics(values: list[float]) -> tuple[dict[str, float], str | None]:
    """The statistics of the catalogue that this number of values allows, and a note on those left out.

    A percentile with less than one value above it would be the largest value.
    """
    import numpy as np  # slow to import, and only lists of iterations need it

    kept = {name: tail for name, tail in STATISTICS.items() if tail is None or len(values) * tail >= 1}
    statistics = {
        name: float(
            np.mean(values) if name == "mean" else np.percentile(values, 50 if tail is None else 100 * (1 - tail))
        )
        for name, tail in kept.items()
    }
    left = [name for name in STATISTICS if name not in kept]
    return statistics, f"{', '.join(left)} of {plural(len(values), 'repeat')} left out" if left else None


class VllmThroughput(OfflineReader):
    """All requests are given to the engine at once."""

    name = "vllm-throughput"
    tool = "vllm bench throughput"
    generations = (
        Generation(
            "all",
            "`elapsed_time` and `requests_per_second`",
            "batch_throughput, total_throughput",
            "`tokens_per_second` counts prompt and output tokens: total_throughput; output tokens alone are not saved; "
            "the model from 0.31 on",
        ),
    )

    def is_result(self, data: object) -> bool:
        return isinstance(data, dict) and "elapsed_time" in data and "requests_per_second" in data

    def normalise(self, data: Mapping[str, Any], position: int) -> Reading:
        requests = fields.count(data, "num_requests")
        elapsed = fields.required(data, "elapsed_time")
        tokens = fields.count(data, "total_num_tokens")
        rate = fields.required(data, "requests_per_second")
        token_rate = fields.number(data, "tokens_per_second")
        if requests == 0:
            raise RefusalError("num_requests is 0: nothing was measured")
        if elapsed <= 0:
            raise RefusalError(f"elapsed_time is {elapsed:g} s")
        check_rate("requests_per_second", rate, requests, elapsed)
        metrics = {"batch_throughput": rate}
        if token_rate is not None:
            check_rate("tokens_per_second", token_rate, tokens, elapsed)
            metrics["total_throughput"] = token_rate
        model = fields.text(data, "model_id")
        workload: dict[str, Any] = {} if model is None else {"model": excerpt(model)}
        if requests is not None:
            workload["num_prompts"] = requests
        return Reading(
            position=position,
            completed=requests,
            failed=0,
            duration=elapsed,
            metrics=metrics,
            workload=workload | {"benchmark": "throughput"},
            definitions=OFFLINE,
        )


class VllmLatency(OfflineReader):
    """Repeated passes of one batch. They share one process, so they are one trial."""

    name = "vllm-latency"
    tool = "vllm bench latency"
    generations = (
        Generation(
            "all",
            "`avg_latency` and `latencies`",
            "batch_latency",
            "a time of `latencies` is that of the whole batch, not of a request; percentiles that so few passes cannot "
            "have are left out; batch size and lengths only from `.commands`; the model from 0.31 on",
        ),
    )

    def is_result(self, data: object) -> bool:
        return isinstance(data, dict) and "avg_latency" in data and fields.is_list(data.get("latencies"))

    def normalise(self, data: Mapping[str, Any], position: int) -> Reading:
        latencies = repeat_times(data, "latencies")
        if not latencies:
            raise RefusalError("latencies is empty: no pass was measured")
        mean = fields.required(data, "avg_latency")
        if not any(latencies):
            raise RefusalError("every latency is 0: nothing was measured")
        if not all(latencies):
            raise RefusalError("latencies holds a 0, which no pass can reach")
        check_repeat_statistics(latencies, ("avg_latency", mean), fields.obj(data, "percentiles"), "percentiles")
        statistics, note = repeat_statistics(latencies)
        check_statistics({"batch_latency": statistics}, None)
        model = fields.text(data, "model_id")
        return Reading(
            position=position,
            completed=None,
            failed=0,
            duration=None,
            metrics={f"batch_latency_{name}": value for name, value in statistics.items()},
            workload=({} if model is None else {"model": excerpt(model)}) | {"benchmark": "latency"},
            definitions=OFFLINE,
            notes=() if note is None else (note,),
        )


_STARTUP_METRICS = {
    "cold_startup": "cold_start_time",
    "warm_startup": "warm_start_time",
    "cold_compilation": "cold_compilation_time",
    "warm_compilation": "warm_compilation_time",
}
"""The catalogue's names by those in the file's keys. The compilation of encoders has none."""


class VllmStartup(OfflineReader):
    """Start times of an engine with empty (cold) and filled (warm) caches.

    Each time is that of a separate process. All times of a file are one trial, whose metrics are the means.
    """

    name = "vllm-startup"
    tool = "vllm bench startup"
    generations = (
        Generation(
            "0.13 and later",
            "`avg_cold_startup_time` or `avg_warm_startup_time`",
            "cold_start_time, warm_start_time, cold_compilation_time, warm_compilation_time",
            "without a server, so no startup_time; a compilation of 0 s (eager mode) is left out",
        ),
    )

    def is_result(self, data: object) -> bool:
        return isinstance(data, dict) and any(f"avg_{name}_time" in data for name in _STARTUP_METRICS)

    def normalise(self, data: Mapping[str, Any], position: int) -> Reading:
        metrics: dict[str, float] = {}
        notes: list[str] = []
        for name, metric in _STARTUP_METRICS.items():
            if (mean := fields.number(data, f"avg_{name}_time")) is None:
                continue
            if mean < 0:
                raise RefusalError(f"avg_{name}_time is negative")
            if values := repeat_times(data, f"{name}_times"):
                percentiles = fields.obj(data, f"{name}_percentiles")
                check_repeat_statistics(values, (f"avg_{name}_time", mean), percentiles, f"{name}_percentiles")
                notes.append(f"{metric} is the mean of {plural(len(values), 'start')}")
            if mean == 0:
                if "startup" in name:
                    raise RefusalError(f"avg_{name}_time is 0, which no start can reach")
                notes.append(f"{metric} is 0 and is left out: nothing was compiled")
                continue
            metrics[metric] = mean
        if not metrics:
            raise RefusalError("no time in it is a measurement")
        return Reading(
            position=position,
            completed=None,
            failed=0,
            duration=None,
            metrics=metrics,
            workload={"benchmark": "startup"},
            notes=tuple(notes),
        )
