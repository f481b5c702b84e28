"""What is known of one deployment, as one frozen value that all rules of `audit` read.

Whoever asks for a fact that is not known gets a MissingFact, which names the option that would give it. A default of
the release counts as a fact only where the launch line is complete. Counters of /metrics count over the window between
two scrapes, never since the start of the server.
"""

import math
import re
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

from packaging.specifiers import SpecifierSet
from prometheus_client.parser import text_string_to_metric_families

from regress_gate.errors import InputError
from regress_gate.known.matching.facts import ScopeFacts, derive_facts
from regress_gate.known.matching.names import canonical_args
from regress_gate.model.deployment import ArgValue, Deployment
from regress_gate.model.version import Version
from regress_gate.vllm import release_tables
from regress_gate.vllm.build_config import BuildConfig
from regress_gate.vllm.log_signals import EngineStatistics, LogLine, ServerLog
from regress_gate.vllm.start_log import StartLog

NEEDS_LOG = "--server-log FILE, from the start of the server"
NEEDS_SECOND_START = "--server-log FILE, with a second start of the same server"
NEEDS_METRICS = "--metrics URL or FILE"
NEEDS_WINDOW = "--metrics twice, some time apart and under load"
NEEDS_MODEL = "--model-config DIR, with the model's config.json"
NEEDS_LINE = "--serve-command LINE or --deployment FILE"
NEEDS_ENVIRONMENT = "--deployment FILE that sets the whole environment, or --env"
NEEDS_ACCELERATOR = "--accelerator NAME"
NEEDS_VERSION = "VERSION, the vLLM that runs"
NEEDS_KNOWN_RELEASE = "a regress-gate that knows this release (`audit` knows 0.11 to 0.33)"
NEEDS_CONCURRENCY = "--concurrency N, the requests that you send at once"
NEEDS_TARGETS = "--ttft-target and --itl-target"

MAX_METRICS_BYTES = 16 << 20
_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([kmgKMG])")
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
"""As vLLM reads `32k` and `32K`."""
_MAX_SIZE = 10**9
"""Above it, a number in a model's configuration is no size."""


Source = Literal["log", "metrics", "argument", "environment", "model", "accelerator"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that was seen. Its text comes from outside and is raw."""

    source: Source
    text: str
    line: int | None = None
    """Of the log, from 1."""


class MissingFact(Exception):  # noqa: N818 - no error: the answer "cannot tell"
    """A rule asked for something that is not known of this deployment."""

    def __init__(self, why: str, *needs: str):
        super().__init__(why)
        self.why, self.needs = why, needs


@dataclass(frozen=True, slots=True)
class Scrape:
    """One answer of /metrics: name of a sample to its labels and values."""

    samples: Mapping[str, tuple[tuple[Mapping[str, str], float], ...]]

    def values(self, name: str, **labels: str) -> list[float]:
        """One for each engine and set of labels."""
        return [
            value
            for given, value in self.samples.get(name, ())
            if all(given.get(key) == wanted for key, wanted in labels.items())
        ]

    def total(self, name: str, **labels: str) -> float | None:
        values = self.values(name, **labels)
        return sum(values) if values else None


def parse_scrape(text: str, where: str) -> Scrape:
    """Read the text of /metrics. Raises InputError for what is none."""
    if len(text) > MAX_METRICS_BYTES:
        raise InputError(f"larger than {MAX_METRICS_BYTES >> 20} MiB: not an answer of /metrics", where=where)
    samples: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name.startswith("vllm:") and math.isfinite(sample.value):
                    samples.setdefault(sample.name, []).append((sample.labels, float(sample.value)))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):  # the parser checks little of its input
        raise InputError("is not the text of /metrics", where=where) from None
    if not samples:
        raise InputError("has no metrics of vLLM", where=where, todo="give http://HOST:PORT/metrics")
    return Scrape({name: tuple(found) for name, found in samples.items()})


class LoadMetrics(Protocol):
    """What a server counted under load. Names are those of /metrics. Whoever asks for what is not there gets a
    MissingFact."""

    @property
    def is_window(self) -> bool:
        """Whether counters count over a known time, so that `increase` can be asked for."""
        ...

    @property
    def engines(self) -> int:
        """With a queue of their own."""
        ...

    def has(self, name: str) -> bool: ...

    def gauge(self, name: str) -> float:
        """The sum over all engines, at the end or on average."""
        ...

    def largest(self, name: str) -> float:
        """Over all engines and all times at which it was read."""
        ...

    def most(self, *names: str) -> float:
        """The sum of these gauges over all engines, at the time at which it was largest."""
        ...

    def earlier(self, name: str) -> float | None:
        """The gauge at the beginning; None: not known."""
        ...

    def increase(self, name: str) -> float:
        """How far a counter went up, over all engines."""
        ...

    def label(self, name: str, key: str) -> str | None:
        """Of an information metric such as `vllm:lora_requests_info`, as it was last."""
        ...

    def evidence(self, text: str) -> Evidence:
        """The text with when it was counted."""
        ...


@dataclass(frozen=True, slots=True)
class MetricsWindow:
    """One scrape of /metrics, or two with the time between them."""

    last: Scrape
    first: Scrape | None = None
    """The earlier one; None: there is only one, which says nothing about counters."""
    seconds: float | None = None
    """Between both."""

    @property
    def is_window(self) -> bool:
        return self.first is not None

    @property
    def engines(self) -> int:
        return len(self.last.values("vllm:num_requests_running")) or 1

    def has(self, name: str) -> bool:
        return name in self.last.samples

    def gauge(self, name: str) -> float:
        """The sum over all engines, in the last scrape."""
        if (value := self.last.total(name)) is None:
            raise MissingFact(f"/metrics has no {name}", NEEDS_METRICS)
        return value

    def largest(self, name: str) -> float:
        """Over all engines and scrapes."""
        scrapes = [self.last, *([self.first] if self.first else [])]
        values = [value for scrape in scrapes for value in scrape.values(name)]
        if not values:
            raise MissingFact(f"/metrics has no {name}", NEEDS_METRICS)
        return max(values)

    def most(self, *names: str) -> float:
        """The sum of these gauges over all engines, in the scrape in which it is larger."""
        scrapes = [self.last, *([self.first] if self.first else [])]
        totals = [[scrape.total(name) for name in names] for scrape in scrapes]
        if not any(value is not None for total in totals for value in total):
            raise MissingFact(f"/metrics has no {names[0]}", NEEDS_METRICS)
        return max(sum(value or 0.0 for value in total) for total in totals)

    def earlier(self, name: str) -> float | None:
        return None if self.first is None else self.first.total(name)

    def increase(self, name: str) -> float:
        """How far a counter went up between the scrapes, over all engines."""
        if self.first is None:
            raise MissingFact("one scrape does not show what happens: counters count since the start", NEEDS_WINDOW)
        before, after = self.first.total(name), self.last.total(name)
        if after is None:
            raise MissingFact(f"/metrics has no {name}", NEEDS_WINDOW)
        if after < (before or 0.0):
            raise MissingFact("the server was started again between the scrapes", NEEDS_WINDOW)
        return after - (before or 0.0)

    def label(self, name: str, key: str) -> str | None:
        """Of an information metric. Label sets of the past stay on the page; the value is the time at which one was
        written, so that of each engine the largest is the one that holds."""
        newest: dict[str, tuple[float, Mapping[str, str]]] = {}
        for labels, value in self.last.samples.get(name, ()):
            engine = labels.get("engine", "")
            if engine not in newest or value > newest[engine][0]:
                newest[engine] = value, labels
        return next((labels[key] for _, labels in newest.values() if labels.get(key)), None)

    def evidence(self, text: str) -> Evidence:
        window = "" if self.first is None else " between both scrapes"
        if self.first is not None and self.seconds:
            window += f" ({self.seconds:.0f} s)"
        return Evidence("metrics", text + window)


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The sizes in a model's `config.json`; what it does not say, or says in a form that no model has, is unknown."""

    values: Mapping[str, Any]
    """Of the language model, where a configuration has several parts."""
    whole: Mapping[str, Any]

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "ModelConfig":
        text = config.get("text_config")
        return cls(text if isinstance(text, dict) else config, config)

    def size(self, *names: str) -> int | None:
        """The first of these keys that holds a size."""
        for name in names:
            value = self.values.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MAX_SIZE:
                return value
        return None

    @property
    def heads(self) -> int | None:
        return self.size("num_attention_heads", "n_head", "n_heads")

    @property
    def kv_heads(self) -> int | None:
        return self.size("num_key_value_heads", "n_head_kv", "num_kv_heads") or self.heads

    @property
    def hidden_size(self) -> int | None:
        return self.size("hidden_size", "n_embd", "d_model")

    @property
    def experts(self) -> int | None:
        return self.size("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")

    @property
    def experts_per_token(self) -> int | None:
        return self.size("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "top_k_experts")

    @property
    def is_moe(self) -> bool:
        return (self.experts or 1) > 1

    @property
    def is_latent(self) -> bool:
        """Whether it has multi-head latent attention (MLA), whose KV cache has no heads to divide."""
        return self.size("kv_lora_rank") is not None

    @property
    def is_sparse_latent(self) -> bool:
        """MLA that chooses the tokens it attends to, as DeepSeek-V3.2 does."""
        return self.is_latent and self.size("index_topk") is not None

    @property
    def max_length(self) -> int | None:
        return self.size("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")


@dataclass(frozen=True, slots=True)
class Targets:
    """What the user wants of the server; None: not said."""

    concurrency: int | None = None
    ttft: float | None = None
    """Seconds."""
    itl: float | None = None
    """Seconds."""


@dataclass(frozen=True)
class Observations:
    """All that is known."""

    deployment: Deployment
    version: Version | None = None
    model: ModelConfig | None = None
    log: ServerLog | None = None
    metrics: LoadMetrics | None = None
    targets: Targets = field(default_factory=Targets)

    def under_load(self, metrics: LoadMetrics | None, targets: Targets) -> "Observations":
        """The same server under another load. What was derived of the server is not derived again."""
        other = copy(self)
        for name, value in (("metrics", metrics), ("targets", targets)):
            object.__setattr__(other, name, value)  # of the copy, which nobody else has yet
        return other

    @cached_property
    def facts(self) -> ScopeFacts:
        return derive_facts(self.deployment)

    @cached_property
    def build(self) -> BuildConfig | None:
        """The arguments of the release; None: not known."""
        return None if self.version is None else release_tables.build_config(self.version)

    @property
    def level(self) -> str | None:
        """`sm_90`, `gfx942`."""
        return self.facts.gpu_arch

    def is_release(self, versions: str) -> bool:
        """Whether the release is known, and among these (a PEP 440 specifier)."""
        number = None if self.version is None else self.version.number
        return number is not None and SpecifierSet(versions).contains(number, prereleases=True)

    def platform(self) -> str:
        if self.facts.platform is None:
            raise MissingFact("the platform is not known", NEEDS_ACCELERATOR)
        return self.facts.platform

    def gpu_level(self) -> str:
        if self.facts.gpu_arch is None:
            raise MissingFact("the accelerator is not known", NEEDS_ACCELERATOR)
        return self.facts.gpu_arch

    def given(self, name: str) -> ArgValue | None:
        """The value that the launch line sets; None: it does not set it."""
        facts = self.facts
        if name in facts.open_args:
            raise MissingFact(f"the value of --{name.replace('_', '-')} is not in the launch line", NEEDS_LOG)
        given = self.arguments.get(name)
        if given is not None or facts.complete:
            return given
        raise MissingFact(f"whether --{name.replace('_', '-')} is set is not known", NEEDS_LINE)

    @cached_property
    def arguments(self) -> Mapping[str, ArgValue]:
        """What the launch line sets, and what the start log says of the rest; by full names, without defaults."""
        return canonical_args(self.deployment.engine_args)

    @property
    def start(self) -> StartLog | None:
        """The facts of the start, where there is a log of it."""
        return None if self.log is None else self.log.start

    def argument(self, name: str) -> ArgValue | None:
        """The value that is given, or the release's default for a complete launch line."""
        if (value := self.given(name)) is not None:
            return value
        if name in self.facts.args:
            return self.facts.args[name]
        if self.build is None:
            raise MissingFact("the version of vLLM, and so its defaults, are not known", NEEDS_VERSION)
        entry = self.build.arguments.get(name)
        default = None if entry is None else entry.default
        if isinstance(default, str) and default.startswith("<"):
            raise MissingFact(f"the default of --{name.replace('_', '-')} depends on the machine", NEEDS_LOG)
        return default if isinstance(default, str | int | float) else None

    def whole_number(self, name: str) -> int | None:
        """`argument`, where it is a number: of tensor parallelism, of tokens."""
        value = self.argument(name)
        if isinstance(value, str) and (size := _SIZE.fullmatch(value)):
            return int(float(size[1]) * _UNITS[size[2]])
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def is_on(self, name: str) -> bool:
        return self.argument(name) is True

    def variable(self, name: str) -> str | None:
        """The value of an environment variable; None: it is known not to be set."""
        facts = self.facts
        if name in facts.env:
            return facts.env[name]
        if name in facts.unknown_env:
            raise MissingFact(f"the value of {name} is not known", f"--env {name}=VALUE")
        if not facts.complete_env:
            raise MissingFact(f"whether {name} is set is not known", NEEDS_ENVIRONMENT)
        return None

    def lines(self, *signals: str) -> list[LogLine]:
        """The lines of these signals in the log, which begins with the start of the server if there are none."""
        if self.log is None:
            raise MissingFact("there is no log", NEEDS_LOG)
        found = sorted((line for name in signals for line in self.log.found(name)), key=lambda line: line.number)
        if not found and not self.log.has_start:
            raise MissingFact("the log does not begin with the start of the server", NEEDS_LOG)
        return found

    def statistics(self) -> EngineStatistics:
        """Of the running server, by its log."""
        if self.log is None or self.log.statistics is None or not self.log.statistics.lines:
            raise MissingFact("there is no window of metrics and no log of a server under load", NEEDS_WINDOW)
        return self.log.statistics

    def window(self) -> LoadMetrics:
        if self.metrics is None:
            raise MissingFact("there are no metrics", NEEDS_WINDOW)
        return self.metrics

    def sizes(self) -> ModelConfig:
        if self.model is None:
            raise MissingFact("the sizes of the model are not known", NEEDS_MODEL)
        return self.model

    def has_experts(self) -> bool | None:
        """Whether the model has experts; None: not known."""
        return self.facts.features.get("moe") if self.model is None else self.model.is_moe


def argument_evidence(name: str, value: object) -> Evidence:
    return Evidence("argument", f"--{name.replace('_', '-')} {value}")


def log_evidence(lines: Iterable[LogLine], most: int = 3) -> tuple[Evidence, ...]:
    """The first lines of different texts."""
    unique = {line.text: line for line in reversed(list(lines))}
    chosen = sorted(unique.values(), key=lambda line: line.number)[:most]
    return tuple(Evidence("log", line.text, line.number) for line in chosen)
