"""Names and units under which a github-action-benchmark history holds a metric that is surely one of ours.

Only names that vLLM's clients print or write, or that the catalogue has, with a unit that fits. Not for guessing.
"""

import re
from dataclasses import dataclass

from regress_gate.ingest.interface import RefusalError
from regress_gate.ingest.text import shown
from regress_gate.model.metric import METRICS

_TIME = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_REQUESTS = ("req/s", "requests/s", "requests/sec", "request/s", "prompts/s", "1/s")
_TOKENS = ("tok/s", "tokens/s", "tokens/sec", "token/s", "1/s")
_LATENCY = re.compile(
    r"(mean|median|p50|p90|p95|p99)_(ttft|tpot|itl|e2el|request_latency)(?:_(ms|s))?"
    r"|(ttft|tpot|itl|e2el)_(mean|median|p90|p95|p99)"
)
_RATES = {
    "request_throughput": ("request_throughput", _REQUESTS),
    "request_goodput": ("goodput", _REQUESTS),
    "goodput": ("goodput", _REQUESTS),
    "output_throughput": ("output_throughput", _TOKENS),
    "output_token_throughput": ("output_throughput", _TOKENS),
    "total_throughput": ("total_throughput", _TOKENS),
    "total_token_throughput": ("total_throughput", _TOKENS),
}
_UNIT_IN_NAME = re.compile(r"(.*\S) ?\(([^()]{1,20})\)")


@dataclass(frozen=True, slots=True)
class Known:
    metric: str
    factor: float
    """To the catalogue's unit."""

    @property
    def smaller_is_better(self) -> bool:
        return METRICS[self.metric].direction.value == "lower_is_better"


def known(name: str, unit: str) -> Known | None:
    """What a name without its scenario stands for; None where that is not sure.

    Raises RefusalError where the name is known and its unit is not, or where both contradict each other.
    """
    if match := _UNIT_IN_NAME.fullmatch(name):
        name, in_name = match[1], match[2]
        if unit and in_name != unit:
            raise RefusalError(f"{shown(name)} is in {shown(in_name)} by its name and in {shown(unit)} by its unit")
        unit = in_name
    key = re.sub(r"[ -]+", "_", name.strip().lower())
    if key in _RATES:
        metric, units = _RATES[key]
        if unit.lower() not in units:
            raise RefusalError(f"{shown(name)} is in {shown(unit)}, not in one of {', '.join(units)}")
        return Known(metric, 1.0)
    if (latency := _LATENCY.fullmatch(key)) is None:
        return None
    if unit.lower() not in _TIME or latency[3] not in (None, unit.lower()):
        raise RefusalError(f"{shown(name)} is in {shown(unit)}, which is not the unit of its name, or none of time")
    family = latency[2] or latency[4]
    statistic = latency[1] or latency[5]
    family = "e2el" if family == "request_latency" else family
    return Known(f"{family}_{'median' if statistic == 'p50' else statistic}", _TIME[unit.lower()])
