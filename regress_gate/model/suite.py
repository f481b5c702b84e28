"""Suites: a named, versioned, fixed list of scenarios. Results of different suite versions are not compared."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    JsonValue,
    StrictBool,
    StringConstraints,
    Tag,
    field_validator,
    model_validator,
)

from regress_gate.model.deployment import ArgValue, Deployment
from regress_gate.model.documents import StrictFloat, StrictInt, StrictModel
from regress_gate.model.policy import PolicyOverrides, parse_limit

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]


IssueId = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9]*(-[A-Z0-9]+)*-\d+$", max_length=60)]

CLIENT_KEYS: dict[str, set[str]] = {
    "completions": {
        *("model", "prompt", "prompt_embeds", "stream", "stream_options", "ignore_eos", "n", "best_of", "echo"),
        *("max_tokens", "max_completion_tokens", "min_tokens", "use_beam_search"),
    },
    "chat": {
        *("model", "messages", "stream", "stream_options", "ignore_eos", "n", "echo"),
        *("max_tokens", "max_completion_tokens", "min_tokens", "use_beam_search"),
    },
    "embeddings": {"model", "input", "inputs", "messages", "stream"},
    "rerank": {"model", "query", "documents", "top_n", "stream"},
}
"""Keys of a request's body, by API, that the client sets itself or whose answers it could not measure."""


class ServerConfig(StrictModel):
    """How the server of a scenario is started."""

    model: str
    engine_args: dict[str, ArgValue] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)


def _seconds(limit: object) -> object:
    return parse_limit("a time", limit, "s") if isinstance(limit, str) else limit


LatencyLimit = Annotated[StrictFloat, Field(gt=0), BeforeValidator(_seconds)]
"""Seconds; in a file also with a unit: `"500ms"`."""


class Slo(StrictModel):
    """Limits for a request to count as good, at least one; None: no limit."""

    ttft: LatencyLimit | None = None
    tpot: LatencyLimit | None = None
    e2el: LatencyLimit | None = None

    @model_validator(mode="after")
    def _has_a_limit(self) -> "Slo":
        if self.ttft is None and self.tpot is None and self.e2el is None:
            raise ValueError("it has no limit: name ttft, tpot or e2el")
        return self


MAX_CONVERSATION_TOKENS = 2048
"""Longer recorded conversations (tokens of prompt and answer) are left out, as in vLLM's own client."""


class RecordedPrompts(StrictModel):
    """A file of recorded texts, instead of random tokens. The seed determines which of them are sent."""

    format: Literal["sharegpt", "custom"]
    """`sharegpt`: conversations, whose first two turns are a prompt and the length of its answer. `custom`: one JSON
    object per line, with `prompt` and optionally `output_tokens`. Both are vLLM's names for these files."""
    file: Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^[^\x00]+$")]
    """Relative to the working directory of the measurement."""


def _kind_of_dataset(dataset: object) -> str:
    return "keys" if isinstance(dataset, dict | RecordedPrompts) else "name"


Dataset = Annotated[
    Annotated[str, Tag("name")] | Annotated[RecordedPrompts, Tag("keys")],
    # So that an error is about what was meant: the keys of a file, or a name.
    Discriminator(_kind_of_dataset),
]


class RecordedTrace(StrictModel):
    """A file of recorded traffic, which is sent again: each request at its time and with its lengths."""

    file: Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^[^\x00]+$")]
    """Relative to the working directory of the measurement."""
    format: Literal["auto", "regress-gate", "mooncake", "azure", "vllm"] = "auto"
    """`regress-gate`: one JSON object per line, with `time` (s), `input_tokens` or `prompt`, and `output_tokens`.
    `mooncake` and `vllm`: with `timestamp` (ms, s), `input_length`, `output_length` and `hash_ids` (blocks of 512, 16
    tokens). `azure`: CSV with TIMESTAMP, ContextTokens, GeneratedTokens. `auto`: as the file looks."""
    scale: StrictFloat = Field(default=1.0, gt=0)
    """All times are multiplied by it: 0.5 sends twice as fast."""
    block_tokens: StrictInt | None = Field(default=None, ge=1)
    """Tokens of a block of `hash_ids`; None: those of the format."""


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """What the measured part of a trace asks for."""

    format: str
    requests: int
    seconds: float
    """From the first request to the last, after scaling."""
    mean_rate: float | None
    """Requests a second; None if all are due at once."""
    busiest_second: int
    """The most requests that are due within one second."""
    input_tokens: tuple[float, float, float] | None
    """Median, 95th percentile and maximum; None if only a server can count them."""
    output_tokens: tuple[float, float, float]
    shared: float | None
    """The share of all prompt tokens that begin a prompt as an earlier one began, the warm-up included: the most that
    a prefix cache can save. None if the file does not tell."""


class Images(StrictModel):
    """Images of a chat request for a vision model, after its text."""

    count: StrictInt = Field(default=1, ge=1, le=32)
    """Of one request."""
    width: StrictInt = Field(ge=16, le=4096)
    """Pixels."""
    height: StrictInt = Field(ge=16, le=4096)
    repeat: StrictBool = False
    """Whether all requests of a scenario have the same images, which a cache remembers."""


class Phases(StrictModel):
    """Seconds in which requests come, and seconds in which none do, in turn. The rate is that over both."""

    on: StrictFloat = Field(gt=0)
    off: StrictFloat = Field(gt=0)


class ConversationShape(StrictModel):
    """How requests form conversations."""

    turns: StrictInt = Field(ge=2, le=1000)
    """Requests of each conversation."""
    think_time: StrictFloat = Field(default=0.0, ge=0, le=3600)
    """Seconds between an answer and the next turn: the mean of an exponential distribution."""


class Workload(StrictModel):
    """The requests to send. Lengths in tokens, rate in requests per second (None: limited only by the concurrency)."""

    api: Literal["completions", "chat", "embeddings", "rerank"] = "completions"
    """vLLM's endpoint. `chat`: one message, which the server puts into the model's template. Embeddings and rerank
    answer in one piece: no TTFT, TPOT or ITL, no output tokens."""
    dataset: Dataset = "random"
    """`random` tokens or recorded prompts; other names are for imported results."""
    input_len: StrictInt | None = Field(default=None, ge=1)
    """Tokens of a prompt; for chat, with the template and without images. For rerank, which takes only text: words of
    one pair of query and document."""
    output_len: StrictInt | None = Field(default=None, ge=1)
    """Tokens of an answer: exactly, or at most with `ignore_eos: false`. Streamed APIs only. None for recorded prompts:
    they have their own lengths."""
    images: Images | None = None
    """Of each chat request."""
    documents: StrictInt | None = Field(default=None, ge=1)
    """Documents of one rerank request."""
    concurrency: StrictInt | None = Field(default=None, ge=1)
    request_rate: StrictFloat | None = Field(default=None, gt=0)
    num_requests: StrictInt | None = Field(default=None, ge=1)
    """Measured requests of one trial."""
    seed: StrictInt | None = None
    arrival: Literal["poisson", "constant", "gamma", "on-off"] = "poisson"
    """Distribution of the arrival times for a request rate. `gamma`: with `burstiness`. `on-off`: with `phases`."""
    burstiness: StrictFloat | None = Field(default=None, ge=0.01, le=1000)
    """Shape of the gamma distribution of the gaps between requests, as in vLLM's client: below 1 they come in bursts, 1
    is poisson, and the larger it is, the more even they are."""
    phases: Phases | None = None
    prefix_len: StrictInt = Field(default=0, ge=0)
    """Tokens of the beginning that all prompts share, part of the input length."""
    warmup_requests: StrictInt = Field(default=0, ge=0)
    """Sent before the measurement, not part of the results."""
    ignore_eos: StrictBool = True
    """Whether the model continues after its end-of-text token, so that every answer has `output_len` tokens."""
    extra_body: dict[str, JsonValue] = Field(default_factory=dict)
    """Added to the body of every request, also of the warm-up: sampling parameters, structured output."""
    lora_adapters: list[Annotated[str, StringConstraints(min_length=1)]] = Field(default_factory=list)
    """Served names of LoRA adapters, used by the requests in turn. Empty: the model itself."""
    slo: Slo | None = None
    trace: RecordedTrace | None = None
    """Instead of lengths and a rate: recorded traffic, whose first requests are the warm-up and the next are
    measured."""
    conversation: ConversationShape | None = None
    """Requests are turns: `input_len` is what each adds, `concurrency` counts conversations, and a `request_rate` of
    turns begins a conversation for every `turns` of them."""
    capacity: StrictFloat | None = Field(default=None, gt=0, lt=1)
    """Instead of a concurrency or a rate: the share of requests that must keep `slo`. The highest rate at which they do
    is searched on the baseline, and both versions are measured at some rates around it."""

    @property
    def is_open_loop(self) -> bool:
        """Whether requests are sent when they are due, however many are in flight."""
        return self.request_rate is not None or self.trace is not None

    @property
    def is_streamed(self) -> bool:
        """Whether tokens are generated, and arrive one by one."""
        return self.api in ("completions", "chat")

    @property
    def missing(self) -> list[str]:
        """Missing keys: without them, the workload can be matched with known issues but not sent."""
        lengths = not isinstance(self.dataset, RecordedPrompts) and self.trace is None
        needed = ["input_len"] * lengths + ["num_requests"] + ["output_len"] * (lengths and self.is_streamed)
        return [name for name in needed if getattr(self, name) is None]

    @model_validator(mode="after")
    def _fits_its_api(self) -> "Workload":
        if self.api == "rerank":
            if self.documents is None:
                raise ValueError("rerank needs documents: how many one request has")
            if self.prefix_len:
                raise ValueError("rerank has no prefix_len: the query is what its pairs share")
            if self.input_len == 1:
                raise ValueError("input_len is 1, but a pair has a query and a document")
        elif self.documents is not None:
            raise ValueError(f"{self.api} has no documents; only rerank has")
        if self.images is not None and self.api != "chat":
            raise ValueError(f"{self.api} has no images; only chat has")
        if not self.is_streamed:
            if self.output_len is not None:
                raise ValueError(f"{self.api} has no output_len: no tokens are generated")
            if self.slo is not None and (self.slo.ttft, self.slo.tpot) != (None, None):
                raise ValueError(f"{self.api} is not streamed: its slo can only name e2el")
        if self.capacity is not None:
            if self.slo is None:
                raise ValueError("capacity needs slo: what its share of requests must keep")
            if self.concurrency is not None or self.request_rate is not None:
                raise ValueError("capacity finds the load itself: leave out concurrency and request_rate")
        if isinstance(self.dataset, RecordedPrompts):
            self._fits_recorded_prompts()
        if self.trace is not None:
            self._fits_trace()
        if self.conversation is not None:
            self._fits_conversation(self.conversation.turns)
        self._fits_arrival()
        if self.conversation is None and self.input_len is not None and self.prefix_len >= self.input_len:
            raise ValueError(f"prefix_len is {self.prefix_len}, must be below input_len ({self.input_len})")
        if owned := sorted(self.extra_body.keys() & CLIENT_KEYS[self.api]):
            raise ValueError(f"extra_body has {', '.join(owned)}, which the client sets itself")
        return self

    def _fits_conversation(self, turns: int) -> None:
        if self.api != "completions":
            raise ValueError(f"{self.api} has no conversation: only completions have turns and answers")
        if self.dataset != "random" or self.trace is not None:
            raise ValueError("a conversation is of random tokens: leave out dataset and trace")
        if self.num_requests is not None and self.num_requests % turns:
            raise ValueError(f"num_requests is {self.num_requests}: give whole conversations, a multiple of {turns}")

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt and its answer, as far as the lengths are given."""
        lengths = (self.input_len or 0) + (self.output_len or 0)
        return lengths if self.conversation is None else self.prefix_len + self.conversation.turns * lengths

    def _fits_recorded_prompts(self) -> None:
        if not self.is_streamed:
            raise ValueError(f"{self.api} has no recorded prompts: its dataset is random")
        if self.input_len is not None or self.prefix_len:
            name = "prefix_len" if self.input_len is None else "input_len"
            raise ValueError(f"recorded prompts have their own lengths: leave out {name}")

    def _fits_arrival(self) -> None:
        for key, arrival in (("burstiness", "gamma"), ("phases", "on-off")):
            if self.arrival == arrival and getattr(self, key) is None:
                raise ValueError(f"arrival {arrival} needs {key}")
            if self.arrival != arrival and getattr(self, key) is not None:
                raise ValueError(f"{key} is for arrival {arrival}, and arrival is {self.arrival}")
            if self.arrival == arrival and self.request_rate is None and self.capacity is None:
                raise ValueError(f"arrival {arrival} needs request_rate")

    def _fits_trace(self) -> None:
        if self.api != "completions":
            raise ValueError(f"{self.api} has no trace: only completions are recorded with their lengths")
        told = (
            "dataset",
            "burstiness",
            "phases",
            "input_len",
            "output_len",
            "prefix_len",
            "request_rate",
            "arrival",
            "capacity",
        )
        if given := [name for name in told if getattr(self, name) != type(self).model_fields[name].default]:
            raise ValueError(f"a trace has its own times, lengths and prompts: leave out {', '.join(given)}")


class Scenario(StrictModel):
    name: Name
    why: str | None = None
    """Why the scenario is in the suite."""
    sees: list[IssueId] = Field(default_factory=list)
    """Ids of known issues whose effect this scenario would show."""
    server: ServerConfig
    workload: Workload
    together: Name | None = None
    """Name of a mix: its scenarios are sent at the same time, each with its own results."""


def _fits_mix(scenario: Scenario) -> None:
    """Raises ValueError for a workload that cannot be a part of a mix."""
    workload = scenario.workload
    if workload.capacity is not None:
        raise ValueError(f"scenario {scenario.name}: capacity is searched with one scenario: leave out together")
    if workload.is_open_loop or workload.num_requests is None:
        return
    if workload.concurrency is None:
        raise ValueError(f"scenario {scenario.name}: together needs a request_rate or a concurrency")
    turns = 1 if workload.conversation is None else workload.conversation.turns
    if workload.num_requests <= turns * workload.concurrency:
        what = f"{workload.num_requests} requests are all sent at the begin by a concurrency of {workload.concurrency}"
        raise ValueError(f"scenario {scenario.name}: {what}, and its mix would be over: send more")


class ConditionLimits(StrictModel):
    """Limits above which a run is void: kept and shown, never averaged in."""

    max_outside_cpu_cores: StrictFloat | None = Field(default=None, ge=0)
    """CPU cores used by processes other than server and client, average over the run."""
    max_steal_cpu_cores: StrictFloat | None = Field(default=None, ge=0)
    """CPU cores' worth of time taken by the host; None: 5 % of the machine's cores."""
    max_gpu_throttled: StrictFloat | None = Field(default=0.05, ge=0, le=1)
    """Fraction of the run in which a GPU was slowed by heat, power brake or hardware protection; None: no limit."""
    max_gpu_other_processes: StrictInt | None = Field(default=0, ge=0)
    """Processes on the GPUs that are not the server's; None: no limit."""


class RunCost(StrictModel):
    """What a run of the suite costs on the machine that it is made for. Used until runs were made there."""

    minutes: StrictFloat = Field(gt=0)
    """Of one run: start, warm-up, all scenarios and stop."""
    gpus: StrictInt = Field(default=1, ge=0)
    """GPUs that it keeps."""
    source: Annotated[str, StringConstraints(min_length=1, max_length=300)]
    """Where the number comes from, in words that follow "by"."""


class Suite(StrictModel):
    name: Name
    version: Name
    description: str
    notice: str | None = None
    """Shown with every report of results of this suite."""
    accelerator: str | None = None
    """The accelerator that the suite is made for; known issues are matched with it unless the user names another."""
    scenarios: list[Scenario] = Field(min_length=1)
    trials: StrictInt = Field(default=1, ge=1, le=100)
    """Passes of each scenario in a run."""
    request_timeout: StrictFloat = Field(default=300.0, gt=0)
    """Seconds after which an unanswered request has failed. A trial without any answer means a hang."""
    conditions: ConditionLimits = ConditionLimits()
    gate: PolicyOverrides = PolicyOverrides()
    """Changes to the default policy; the user's own policy takes precedence."""
    blocks: StrictInt | None = Field(default=None, ge=1, le=100)
    """The most blocks of a comparison, if the user names no number; None: that of the program."""
    cost: RunCost | None = None

    @field_validator("version", mode="before")
    @classmethod
    def _as_text(cls, version: object) -> object:
        return str(version) if type(version) is int else version

    @model_validator(mode="after")
    def _unique_names(self) -> "Suite":
        names = [scenario.name for scenario in self.scenarios]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"scenario {min(repeated)!r} is given twice")
        return self

    @model_validator(mode="after")
    def _mixes_can_be_sent(self) -> "Suite":
        for mix, members in self.mixes().items():
            if len(members) < 2:
                raise ValueError(f"together {mix!r} is only in scenario {members[0].name}: a mix needs two")
            for member in members:
                if member.server != members[0].server:
                    raise ValueError(f"scenario {member.name}: together {mix!r} needs the server of {members[0].name}")
                _fits_mix(member)
        return self

    def mixes(self) -> dict[str, list[Scenario]]:
        """The scenarios that are sent at the same time, by the name of their mix."""
        found: dict[str, list[Scenario]] = {}
        for scenario in self.scenarios:
            if scenario.together is not None:
                found.setdefault(scenario.together, []).append(scenario)
        return found

    def deployment(self) -> Deployment:
        """The facts that all scenarios share, for matching known issues."""
        first, *others = (scenario.server for scenario in self.scenarios)
        return Deployment(
            accelerator=self.accelerator,
            model=first.model if all(server.model == first.model for server in others) else None,
            engine_args={
                key: value
                for key, value in first.engine_args.items()
                if all(key in server.engine_args and server.engine_args[key] == value for server in others)
            },
            env={k: v for k, v in first.env.items() if all(server.env.get(k) == v for server in others)},
        )
