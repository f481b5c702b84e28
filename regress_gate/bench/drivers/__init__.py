"""Measure with another tool's load client instead of this tool's own: one module a tool, behind one interface.

For teams whose numbers of record come from that tool. Not the default: a driver cannot know whether its client was the
bottleneck, and results of two clients are not comparable.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from regress_gate.bench.drivers.aiperf_driver import AiPerf
from regress_gate.bench.drivers.driver_interface import Driver
from regress_gate.bench.drivers.guidellm_driver import GuideLlm
from regress_gate.bench.drivers.vllm_bench_driver import VllmBench
from regress_gate.bench.load.load_workload import LoadWorkload
from regress_gate.bench.load.result import LoadResult
from regress_gate.errors import InputError
from regress_gate.text import did_you_mean

DRIVERS: dict[str, type[Driver]] = {driver.name: driver for driver in (VllmBench, GuideLlm, AiPerf)}


def find_driver(name: str, executable: Path | None = None) -> Driver:
    """The driver of that name; `executable` pins the tool, otherwise PATH is searched.

    Raises InputError for an unknown name, and LoadError if the tool is not installed.
    """
    if name not in DRIVERS:
        raise InputError(f"unknown driver {name!r}" + did_you_mean(name, DRIVERS))
    return DRIVERS[name](executable)


@dataclass(frozen=True, slots=True)
class DriverMeter:
    """The `Meter` of an experiment that uses a driver."""

    driver: Driver
    tokenizers: Mapping[str, str] = field(default_factory=dict)
    """Directory or hub name of the model, by scenario. A missing scenario takes the served name."""
    allow_remote: bool = False

    def __call__(
        self,
        url: str,
        model: str,
        workload: LoadWorkload,
        *,
        scenario: str,
        ordinal: int,
        progress: Callable[[int, int], None],
        begins: Callable[[], None],
    ) -> LoadResult:
        """Reports progress once, at the end: the progress of another tool is not visible."""
        result = self.driver.measure(
            url,
            model,
            workload,
            scenario=scenario,
            ordinal=ordinal,
            tokenizer=self.tokenizers.get(scenario),
            allow_remote=self.allow_remote,
            begins=begins,
        )
        progress(workload.num_requests, workload.num_requests)
        return result
