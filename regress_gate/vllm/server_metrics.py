"""Reading a server's `/metrics`, in the Prometheus text format, for facts about the server. Not for time series."""

import re
from dataclasses import dataclass
from math import nan

_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)(?: \S+)?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One line of the text."""

    name: str
    labels: dict[str, str]
    value: float
    """NaN if it is not a number."""


def parse_metrics(text: str) -> list[MetricSample]:
    """All samples; other lines are skipped."""
    found = []
    for line in text.splitlines():
        if not line.startswith("#") and (sample := _SAMPLE.fullmatch(line.strip())):
            labels = {key: re.sub(r"\\(.)", r"\1", value) for key, value in _LABEL.findall(sample["labels"] or "")}
            found.append(MetricSample(sample["name"], labels, _value(sample["value"])))
    return found


def kv_cache_tokens(samples: list[MetricSample]) -> int | None:
    """Tokens that fit in the KV caches of all engines, from their blocks; None if the server does not report them."""
    total = 0
    for sample in samples:
        if sample.name == "vllm:cache_config_info":
            blocks, size = sample.labels.get("num_gpu_blocks", ""), sample.labels.get("block_size", "")
            if not blocks.isdecimal() or not size.isdecimal():
                return None
            total += int(blocks) * int(size)
    return total or None


def _value(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return nan
