"""The drivers by name."""

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
    """The driver of that name, ready to measure; `executable` pins the tool, else the user's path is searched.

    Raises InputError for an unknown name, and LoadError when the tool is not there.
    """
    if name not in DRIVERS:
        raise InputError(f"unknown driver {name!r}" + did_you_mean(name, DRIVERS))
    return DRIVERS[name](executable)


# MERGED regress_gate.bench.drivers.meter: A driver as what measures the trials of an experiment in place of the
# load client. Not for what a driver does.


@dataclass(frozen=True, slots=True)
class DriverMeter:
    driver: Driver
    tokenizers: Mapping[str, str] = field(default_factory=dict)
    """By scenario, the directory or hub name of its model; a scenario that is not here takes the served name."""
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
    ) -> LoadResult:
        """Tells progress once, at the end: what another tool is doing cannot be seen."""
        result = self.driver.measure(
            url,
            model,
            workload,
            scenario=scenario,
            ordinal=ordinal,
            tokenizer=self.tokenizers.get(scenario),
            allow_remote=self.allow_remote,
        )
        progress(workload.num_requests, workload.num_requests)
        return result
