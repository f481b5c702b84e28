"""A driver as what measures the trials of an experiment in place of the load client. Not for what a driver does."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from regress_gate.bench.drivers.interface import Driver
from regress_gate.bench.load.result import LoadResult
from regress_gate.bench.load.workload import LoadWorkload


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
