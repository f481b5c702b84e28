"""What is sent and when: every token and time follows from the workload, the scenario's name and the pass.

The generator is SHAKE-256, not a library's, whose streams may change between releases. The same seed gives the same
tokens and times on every machine. The scenario's name and the pass are part of the key: one server gets them one after
another, and with prefix caching a repeated prompt is another workload.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import shake_256
from typing import Any

import numpy as np
import numpy.typing as npt

from regress_gate.bench.load.dataset import Dataset
from regress_gate.bench.load.trace import Trace
from regress_gate.errors import InputError
from regress_gate.model.samples import Floats
from regress_gate.model.suite import Images

# Words of texts for endpoints that take no token ids. Each is short and common, so that most tokenizers have it as one
# token. Texts are made by position: adding, removing or moving a word changes all texts, and so CLIENT_VERSION.

_WORD_LIST = (
    "able about above across act add after again age ago air all also always and animal answer any area arm art "
    "ask back ball bank base bed best better big bird black blood blue board boat body book both box boy bring "
    "build call car care case cause cell center chair change child city class clear close cold color come cost "
    "country course cross cut dark data day deep door down draw dream drive early earth east eat edge end energy "
    "even eye face fact fall family farm fast father feel field final find fine fire first fish floor food foot "
    "force form free friend from full game garden girl give glass go gold good great green ground group grow hand "
    "happy hard head hear heart heat heavy help high hill history hold home horse hot hour house human idea ice "
    "inside island job keep key kind king know land large last late law lead learn leave left letter level life "
    "light line list little long look lost love low machine main make man map market mean metal mind money month "
    "moon more mother mountain move music name near new night north note number ocean office old open order other "
    "paper part party people person picture place plan plant play point power press public question quick rain "
    "read real red rest rich right river road rock room round rule run science sea season second seed send sense "
    "serve ship short show side simple sleep small snow social song sound south space speak special spring star "
    "start state stone street strong student study summer sun system table talk teach team test thing think time "
    "town trade train tree true turn under unit value voice walk wall war warm water way wear week west white "
    "wide wild win wind winter wish woman wood word work world write year yellow young"
)
WORDS = tuple(_WORD_LIST.split())

FIRST_TOKEN, LAST_TOKEN = 1000, 9999
"""Token ids sent: within the vocabulary of every text model, above the control tokens at its start."""


Tokens = npt.NDArray[np.uint32]

MAX_QUERY_WORDS = 16
"""Words of a rerank query. In a shorter pair, half of the words are the query."""


class ServingApi(StrEnum):
    """The endpoint of vLLM that is measured."""

    COMPLETIONS = "completions"
    CHAT = "chat"
    EMBEDDINGS = "embeddings"
    RERANK = "rerank"

    @property
    def path(self) -> str:
        return {ServingApi.RERANK: "/rerank", ServingApi.CHAT: "/v1/chat/completions"}.get(self, f"/v1/{self.value}")

    @property
    def streamed(self) -> bool:
        """Whether the response is a stream of tokens. Other responses come in one piece."""
        return self in (ServingApi.COMPLETIONS, ServingApi.CHAT)


class Arrival(StrEnum):
    """How open-loop requests are spread in time."""

    POISSON = "poisson"
    CONSTANT = "constant"
    GAMMA = "gamma"
    ON_OFF = "on-off"


@dataclass(frozen=True, slots=True)
class RequestSlo:
    """Limits that a request must keep to count as good, in seconds; None: no limit."""

    ttft: float | None = None
    tpot: float | None = None
    e2el: float | None = None

    def __post_init__(self) -> None:
        for name in ("ttft", "tpot", "e2el"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"slo: {name} is {value}, not a positive number of seconds")


@dataclass(frozen=True, slots=True)
class TurnTaking:
    """How the requests of a workload form conversations."""

    turns: int
    """Of each conversation, at least 2."""
    think_time: float = 0.0
    """Mean seconds between the end of an answer and the next turn, exponentially distributed."""

    def __post_init__(self) -> None:
        if self.turns < 2 or not 0 <= self.think_time < math.inf:
            raise InputError(f"conversation: {self.turns} turns with {self.think_time} s between cannot be sent")


@dataclass(frozen=True, slots=True)
class LoadWorkload:
    """One workload. With `request_rate` or `trace` it is an open loop, and `concurrency` is only its cap.

    Otherwise it is a closed loop with `concurrency` requests in flight; None sends all at once. Of conversations,
    `concurrency` counts those that have begun and not ended.
    """

    input_len: int
    """Tokens of a whole prompt, the shared prefix included; for chat, with the template. Of conversations: what each
    turn adds, without the prefix. For rerank: words of a pair of query and document. 0 for recorded prompts and
    traces, which are as long as they are."""
    output_len: int
    """Requested tokens; 0 if the API generates none, and for responses as long as the recorded ones."""
    num_requests: int
    concurrency: int | None = None
    request_rate: float | None = None
    """Requests per second."""
    arrival: Arrival = Arrival.POISSON
    burstiness: float = 1.0
    """Shape of the gamma distribution of gaps, for Arrival.GAMMA: below 1 requests come in bursts."""
    phases: tuple[float, float] = (1.0, 0.0)
    """For Arrival.ON_OFF: seconds with requests and seconds without, in turn, from the first request."""
    prefix_len: int = 0
    """Tokens at the beginning that all prompts share, also those of the warm-up."""
    warmup_requests: int = 0
    """Sent before the measurement in a closed loop of the same concurrency, and not part of the results."""
    seed: int = 0
    slo: RequestSlo | None = None
    api: ServingApi = ServingApi.COMPLETIONS
    images: Images | None = None
    """Of one chat request, after its text; their tokens are not part of `input_len`."""
    documents: int = 0
    """Of one rerank request; 0 for the other APIs."""
    ignore_eos: bool = True
    """Whether every response has exactly `output_len` tokens; otherwise that is the maximum."""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """JSON that is merged into the body of every request."""
    lora_adapters: tuple[str, ...] = ()
    """Served names that the requests use in turn; empty: the target's model."""
    dataset: Dataset | None = None
    """Recorded prompts, for completions and chat; None: random tokens, or words for chat and rerank."""
    trace: Trace | None = None
    """Recorded traffic: exactly the requests that are sent, those of the warm-up first."""
    conversation: TurnTaking | None = None
    """For completions of random tokens: every `turns` requests are one conversation."""
    together: tuple[tuple[str, "LoadWorkload"], ...] = ()
    """Workloads that are sent at the same time to the same model, with the names of their scenarios."""

    def __post_init__(self) -> None:
        generated = self.dataset is None and self.trace is None
        for name, least in (
            ("input_len", 2 if self.api is ServingApi.RERANK else int(generated)),
            ("output_len", int(generated and self.api.streamed)),
            ("num_requests", 1),
            ("concurrency", 1),
            ("documents", 1 if self.api is ServingApi.RERANK else 0),
        ):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"workload: {name} is {value}, must be at least {least}")
        if self.request_rate is not None and not 0 < self.request_rate < math.inf:
            raise InputError(f"workload: request_rate is {self.request_rate}, must be a positive number")
        if self.conversation is not None and self.num_requests % self.conversation.turns:
            what = (
                f"workload: {self.num_requests} requests are no whole conversations of {self.conversation.turns} turns"
            )
            raise InputError(what)
        if generated and self.conversation is None and not 0 <= self.prefix_len < self.input_len:
            raise InputError(f"workload: prefix_len is {self.prefix_len}, must be below input_len ({self.input_len})")
        if self.warmup_requests < 0:
            raise InputError(f"workload: warmup_requests is {self.warmup_requests}, must not be negative")

    @property
    def is_open_loop(self) -> bool:
        """Whether requests are sent when they are due."""
        return self.request_rate is not None or self.trace is not None

    @property
    def turns(self) -> int:
        """Requests that are sent one after another, each after the answer of the one before."""
        return 1 if self.conversation is None else self.conversation.turns

    @property
    def mix(self) -> list["LoadWorkload"]:
        """All workloads that are sent at the same time."""
        return [self, *(other for _, other in self.together)]

    def prompt_tokens(self, turn: int) -> int:
        """Of a request with that many turns before it, where prompts are generated."""
        if self.conversation is None:
            return self.input_len
        return self.prefix_len + (turn + 1) * self.input_len + turn * self.output_len


def measured_prompts(workload: LoadWorkload, scenario: str, ordinal: int) -> list[list[int]]:
    """The token ids of every measured request of pass `ordinal` (from 1), in the order in which they are sent."""
    return _random_prompts(workload, f"{scenario}/{ordinal}", "request", workload.num_requests)


def warmup_prompts(workload: LoadWorkload, scenario: str, ordinal: int) -> list[list[int]]:
    """The same for the warm-up. Its prompts share only the prefix with the measured ones."""
    return _random_prompts(workload, f"{scenario}/{ordinal}", "warm-up", workload.warmup_requests)


def measured_rerank_texts(workload: LoadWorkload, scenario: str, ordinal: int) -> list[tuple[str, list[str]]]:
    """Query and documents of every measured rerank request of pass `ordinal`, in the order in which they are sent."""
    return _random_rerank_texts(workload, f"{scenario}/{ordinal}", "request", workload.num_requests)


def warmup_rerank_texts(workload: LoadWorkload, scenario: str, ordinal: int) -> list[tuple[str, list[str]]]:
    """The same for the warm-up."""
    return _random_rerank_texts(workload, f"{scenario}/{ordinal}", "warm-up", workload.warmup_requests)


def arrival_times(workload: LoadWorkload, scenario: str, ordinal: int) -> Sequence[float]:
    """When each request or conversation of an open loop is due, in seconds from the first. Needs an open loop."""
    if workload.trace is not None:
        recorded: list[float] = workload.trace.measured_times.tolist()
        return recorded
    if workload.request_rate is None:
        raise ValueError("a closed loop has no schedule")
    count, rate = workload.num_requests // workload.turns, workload.request_rate / workload.turns
    uniform = _random_integers(f"{workload.seed}/{scenario}/{ordinal}/arrival", count) / 2**32
    match workload.arrival:
        case Arrival.CONSTANT:
            gaps = np.full(count, 1.0)
        case Arrival.GAMMA:
            gaps = _gamma_gaps(uniform, workload.burstiness)
        case Arrival.POISSON | Arrival.ON_OFF:
            gaps = -np.log1p(-uniform)
    gaps[0] = 0.0
    moments = np.cumsum(gaps) / rate
    if workload.arrival is Arrival.ON_OFF:
        moments = _in_phases(moments, *workload.phases)
    times: list[float] = moments.tolist()
    return times


def _gamma_gaps(uniform: Floats, shape: float) -> Floats:
    """Gaps of mean 1."""
    from scipy.special import gammaincinv  # takes a while, and most workloads have no bursts

    gaps: Floats = gammaincinv(shape, uniform) / shape
    return gaps


def _in_phases(moments: Floats, on: float, off: float) -> Floats:
    """Moments of an even stream, moved into the phases in which requests come."""
    busy = moments * (on / (on + off))
    return np.floor(busy / on) * off + busy


def trace_prompts(workload: LoadWorkload, trace: Trace, scenario: str, ordinal: int) -> Iterator[str | Tokens]:
    """The prompt of every request of a trace in pass `ordinal`, those of the warm-up first: its text, or token ids.

    Equal blocks are equal tokens, in the warm-up too, as they were when the traffic was recorded. All other tokens
    belong to one request and one pass.
    """
    stream = f"{workload.seed}/{scenario}/{ordinal}"
    for number, text in enumerate(trace.texts):
        if text is not None:
            yield text
        elif ids := trace.blocks_of(number):
            blocks = [_random_token_array(f"{stream}/block/{each}", trace.block_tokens) for each in ids]
            yield np.concatenate(blocks)[: trace.input_tokens[number]]
        else:
            yield _random_token_array(f"{stream}/trace/{number}", int(trace.input_tokens[number]))


def conversation_prompts(workload: LoadWorkload, scenario: str, ordinal: int) -> Iterator[Tokens]:
    """The token ids of every turn in pass `ordinal`, conversation after conversation, those of the warm-up first.

    A prompt is the prefix that all conversations share, then the turns and answers before it, then its own turn. The
    answers are made up, of `output_len` tokens each, so that every version is sent the same.
    """
    stream = f"{workload.seed}/{scenario}/{ordinal}"
    prefix = _random_token_array(f"{stream}/prefix", workload.prefix_len)
    for use, count in (("warm-up", workload.warmup_requests), ("request", workload.num_requests)):
        said = prefix
        for number in range(count):
            own = _random_token_array(f"{stream}/{use}/{number}", workload.input_len)
            prompt = np.concatenate((prefix if number % workload.turns == 0 else said, own))
            said = np.concatenate((prompt, _random_token_array(f"{stream}/{use}/{number}/answer", workload.output_len)))
            yield prompt


def think_times(workload: LoadWorkload, scenario: str, ordinal: int) -> list[float]:
    """Seconds that pass before each measured request after the answer before it; not meant for first turns."""
    mean = 0.0 if workload.conversation is None else workload.conversation.think_time
    uniform = _random_integers(f"{workload.seed}/{scenario}/{ordinal}/think", workload.num_requests) / 2**32
    times: list[float] = (-mean * np.log1p(-uniform)).tolist()
    return times


def shuffled_order(workload: LoadWorkload, scenario: str, count: int) -> list[int]:
    """The numbers below `count` in the order in which a scenario takes recorded prompts, pass after pass."""
    keys = _random_integers(f"{workload.seed}/{scenario}/recorded", count)
    order: list[int] = np.argsort(keys, kind="stable").tolist()
    return order


def _random_prompts(workload: LoadWorkload, stream: str, use: str, count: int) -> list[list[int]]:
    prefix = _random_tokens(f"{workload.seed}/{stream}/prefix", workload.prefix_len)
    own = workload.input_len - workload.prefix_len
    return [prefix + _random_tokens(f"{workload.seed}/{stream}/{use}/{number}", own) for number in range(count)]


def _random_rerank_texts(workload: LoadWorkload, stream: str, use: str, count: int) -> list[tuple[str, list[str]]]:
    query_len = min(MAX_QUERY_WORDS, workload.input_len // 2)

    def request(key: str) -> tuple[str, list[str]]:
        own = workload.input_len - query_len
        documents = [_random_text(f"{key}/document/{number}", own) for number in range(workload.documents)]
        return _random_text(f"{key}/query", query_len), documents

    return [request(f"{workload.seed}/{stream}/{use}/{number}") for number in range(count)]


def random_words(key: str, count: int) -> list[str]:
    """More words of a key begin with the fewer ones."""
    return [WORDS[index] for index in (_random_integers(key, count) % len(WORDS)).tolist()]


def _random_text(key: str, words: int) -> str:
    return " ".join(random_words(key, words))


def _random_tokens(key: str, count: int) -> list[int]:
    tokens: list[int] = _random_token_array(key, count).tolist()
    return tokens


def _random_token_array(key: str, count: int) -> Tokens:
    return FIRST_TOKEN + _random_integers(key, count) % (LAST_TOKEN - FIRST_TOKEN + 1)


def _random_integers(key: str, count: int) -> npt.NDArray[np.uint32]:
    return np.frombuffer(shake_256(key.encode()).digest(4 * count), dtype="<u4")
