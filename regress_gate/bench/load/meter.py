"""The load client as what measures the trials of an experiment. Not for what the client does."""

from collections.abc import Callable
from dataclasses import dataclass

from regress_gate.bench.load.measure import DEFAULT_LIMITS, Limits, measure_load
from regress_gate.bench.load.result import LoadResult
from regress_gate.bench.load.target import Target
from regress_gate.bench.load.workload import LoadWorkload


@dataclass(frozen=True, slots=True)
class OwnClient:
    limits: Limits = DEFAULT_LIMITS
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
        return measure_load(
            Target(url, model),
            workload,
            scenario=scenario,
            ordinal=ordinal,
            limits=self.limits,
            allow_remote=self.allow_remote,
            progress=progress,
        )
