"""The formats that are read, one line a reader; the reader for a file, and names for files that no reader reads.

Every file is shown to all readers. Most files of an import have the same shape, so the readers are asked once for each
shape. `python -m regress_gate.ingest.registry` prints the table of docs/importing.md.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from regress_gate.ingest.content import Content
from regress_gate.ingest.fields import is_list
from regress_gate.ingest.formats.aiperf import AiPerf
from regress_gate.ingest.formats.evalscope import Evalscope
from regress_gate.ingest.formats.genai_perf import GenAiPerf
from regress_gate.ingest.formats.github_action_benchmark import GithubActionBenchmark
from regress_gate.ingest.formats.guidellm import GuideLlm
from regress_gate.ingest.formats.inference_perf import InferencePerf
from regress_gate.ingest.formats.inferencex import InferenceX
from regress_gate.ingest.formats.inferencex_decode import InferenceXDecode
from regress_gate.ingest.formats.llm_d import LlmD
from regress_gate.ingest.formats.llmperf import LlmPerf
from regress_gate.ingest.formats.long_table import LongTable
from regress_gate.ingest.formats.mlperf import MlperfLoadgen
from regress_gate.ingest.formats.perf_eval import PerfEval
from regress_gate.ingest.formats.pytorch_hud import PytorchHud
from regress_gate.ingest.formats.sglang_bench_serving import SglangBenchServing
from regress_gate.ingest.formats.vllm_ci_table import VllmCiTable
from regress_gate.ingest.formats.vllm_console_json import BANNER, VllmConsoleJson
from regress_gate.ingest.formats.vllm_offline import VllmLatency, VllmStartup, VllmThroughput
from regress_gate.ingest.formats.vllm_serve import VllmServe, VllmSweepSummary
from regress_gate.ingest.formats.vllm_serve_console import VllmServeConsole
from regress_gate.ingest.interface import Certainty, Reader
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.model.metric import DEFINITIONS

READERS: tuple[Reader, ...] = (
    VllmServe(),
    VllmSweepSummary(),
    VllmServeConsole(),
    AiPerf(),
    GenAiPerf(),
    InferencePerf(),
    LlmPerf(),
    VllmThroughput(),
    VllmStartup(),
    VllmLatency(),
    VllmConsoleJson(),
    VllmCiTable(),
    PerfEval(),
    PytorchHud(),
    SglangBenchServing(),
    GuideLlm(),
    Evalscope(),
    InferenceX(),
    InferenceXDecode(),
    MlperfLoadgen(),
    GithubActionBenchmark(),
    LongTable(),
    LlmD(),
)

MARKS_IN_TEXTS = (BANNER,)
"""Texts that readers search for inside the values of an object. Apart from these, readers must recognise an object
without nested objects by its keys and the types of its values and list elements alone; `Recogniser` relies on it."""


# The reader for a file

_NO_OBJECT = frozenset([type(None), bool, int, float, str, list])
_MAX_KNOWN_SHAPES = 1000

Kind = type | frozenset[type]
"""Of a list: the types of its elements."""
Shape = tuple[tuple[str, ...], tuple[Kind, ...], bool]
"""Of an object without nested objects: its keys, the kinds of their values, and whether one of its texts contains one
of MARKS_IN_TEXTS."""
Claims = tuple[tuple[Certainty, Reader], ...]


class Recogniser:
    """Finds readers for the files of one import."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = readers
        self._known: dict[Shape, Claims] = {}

    def reader(self, content: Content) -> Reader | None:
        """The reader that is most certain, or None. Raises RefusalError if two are equally certain."""
        claims = self._claims(content)
        if len(claims) <= 1:
            return claims[0][1] if claims else None
        surest = max(certainty for certainty, _ in claims)
        claimants = [reader for certainty, reader in claims if certainty is surest]
        if len(claimants) > 1:
            names = " and ".join(reader.name for reader in self._readers if reader in claimants)
            raise RefusalError(f"could be {names}; say which with --from")
        return claimants[0]

    def _claims(self, content: Content) -> Claims:
        document = content.documents[0] if len(content.documents) == 1 else None
        if not isinstance(document, dict) or content.stream is not None:
            return _ask_readers(self._readers, content.beginning)
        values = document.values()
        kinds = tuple(map(_kind, values))
        shape = (tuple(document), kinds, _is_marked(values))
        if (known := self._known.get(shape)) is None:
            known = _ask_readers(self._readers, content)
            if len(self._known) < _MAX_KNOWN_SHAPES and all(map(_holds_no_object, kinds)):
                self._known[shape] = known
        return known


def _kind(value: object) -> Kind:
    return frozenset(map(type, value)) if is_list(value) else type(value)


def _holds_no_object(kind: Kind) -> bool:
    return kind <= _NO_OBJECT if isinstance(kind, frozenset) else kind in _NO_OBJECT


def _is_marked(values: Iterable[object]) -> bool:
    texts = [value for value in values if type(value) is str]
    return any(mark in text for mark in MARKS_IN_TEXTS for text in texts)


def _ask_readers(readers: Sequence[Reader], content: Content) -> Claims:
    claims = ((reader.recognises(content), reader) for reader in readers)
    return tuple((certainty, reader) for certainty, reader in claims if certainty is not Certainty.NO)


_SUITE = "a test suite definition of vLLM's CI, not a result; `regress-gate suite import` makes a suite of it"
_SEARCH = "the summary of an adaptive search of vLLM's CI: limits that it found, and no measurement"
_SIDE_BY_SIDE = "a table of ISO-Bench, whose rows hold several commits each; import the printed text of each commit"
_PROCESSOR = "a `vllm bench mm-processor` result: times of preparing images, without a server or a load"
_FORWARD = "a list of cases in microseconds, as `vllm bench forward` writes: single forward passes, without a load"


def describe_other_file(content: Content) -> str | None:
    """What the file is, for a refusal; None if it is of no known kind. One line a kind in the tables below."""
    if not content.documents:
        return None
    first = content.documents[0]
    table: Any = _OBJECTS if isinstance(first, dict) else _LISTS if is_list(first) and first else ()
    named = next((name for matches, name in table if matches(first)), None)
    return None if named is None else f"this is {named}"


def _has_keys(*keys: str) -> Callable[[Any], bool]:
    return lambda data: all(key in data for key in keys)


def _is_forward(rows: list[Any]) -> bool:
    return isinstance(rows[0], dict) and any(key.endswith("_us") for key in rows[0])


def _is_suite_definition(rows: list[Any]) -> bool:
    return isinstance(rows[0], dict) and "test_name" in rows[0] and any("parameters" in key for key in rows[0])


_OBJECTS: tuple[tuple[Callable[[dict[str, Any]], bool], str], ...] = (
    (_has_keys("mm_processor_stats"), _PROCESSOR),
    (_has_keys("sla_ttft_ms", "final_last_pass"), _SEARCH),
    (_has_keys("baseline_raw", "human_raw"), _SIDE_BY_SIDE),
    (_has_keys("defaults", "tests"), _SUITE),
    (_has_keys("$defs", "properties"), "a JSON schema, not a result"),
)

_LISTS: tuple[tuple[Callable[[list[Any]], bool], str], ...] = (
    (_is_forward, _FORWARD),
    (_is_suite_definition, _SUITE),
)


# The table of docs/importing.md

BEGIN = "<!-- begin: python -m regress_gate.ingest.registry -->"
END = "<!-- end -->"


def catalogue() -> str:
    """Markdown: the readers with their generations, then definitions that are not vLLM's."""
    return "\n".join([BEGIN, "", *_formats(READERS), "", *_definitions(), "", END, ""])


def _formats(readers: Iterable[Reader]) -> list[str]:
    lines = ["| format (tool) | generation | recognised by | what is read | traps |", "| --- | --- | --- | --- | --- |"]
    for reader in readers:
        first = f"`{reader.name}` ({reader.tool})"
        for generation in reader.generations:
            cells = (first, generation.which, generation.recognised_by, generation.read, generation.traps)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
            first = ""
    return lines


def _definitions() -> list[str]:
    lines = ["| definitions | what is particular |", "| --- | --- |"]
    return lines + [f"| `{key}` | {meaning.replace('|', chr(92) + '|')} |" for key, meaning in DEFINITIONS.items()]


if __name__ == "__main__":
    print(catalogue(), end="")  # noqa: T201 - what it is for
