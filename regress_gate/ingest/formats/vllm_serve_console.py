"""The block that `vllm bench serve` prints, as pasted into issues and logs. Not for blocks of other tools.

The printed labels become the keys of the JSON result, which vllm_serve.py reads. Lines before a block (`Traffic request
rate`, `Maximum request concurrency`, the client's `Namespace(…)`) belong to it. SGLang and vLLM-Omni print the same
banner around other quantities; their blocks are refused.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from regress_gate.ingest import parsing
from regress_gate.ingest.content import Content
from regress_gate.ingest.formats.vllm_client import add_client_definitions
from regress_gate.ingest.formats.vllm_serve import normalise
from regress_gate.ingest.interface import Certainty, Context, FileOutcome, Generation, Reading, UnusedResult
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.text import quoted

_BANNER = re.compile(r"=+ Serving Benchmark Result =+")
_END = re.compile(r"={20,}")
_MAX_LINES = 1000
"""Of a block, which has about thirty."""
_QUOTE = " \t>|`"
_LINE = re.compile(r"([^:]{1,80}?):\s*(\S.*)?")
_LATENCY = re.compile(r"(Mean|Median|P\d+(?:\.\d+)?) (TTFT|TPOT|ITL|E2EL) \((\w+)\)")
_NUMBER = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")

_KEYS = {
    "successful requests": "completed",
    "failed requests": "failed",
    "benchmark duration (s)": "duration",
    "total input tokens": "total_input_tokens",
    "total generated tokens": "total_output_tokens",
    "request throughput (req/s)": "request_throughput",
    "request goodput (req/s)": "request_goodput",
    "output token throughput (tok/s)": "output_throughput",
    "total token throughput (tok/s)": "total_token_throughput",
    "maximum request concurrency": "max_concurrency",
    "request rate configured (rps)": "request_rate",
}
_BEFORE = {
    "traffic request rate": "request_rate",
    "maximum request concurrency": "max_concurrency",
    "burstiness factor": "burstiness",
}
_SGLANG = ("backend", "max request concurrency", "total generated tokens (retokenized)", "total input text tokens")
_SGLANG_WORDS = ("E2E Latency", "End-to-End Latency")
_OMNI = re.compile(r"audio|image|video|\(MB\)|\(GB\)|\(frames", re.IGNORECASE)
_NAMESPACE = re.compile(r"\bNamespace\(.*")
_ARGUMENTS = {
    "model_id": re.compile(r"\bmodel='([^']{1,300})'"),
    "num_prompts": re.compile(r"\bnum_prompts=(\d{1,9})\b"),
    "max_concurrency": re.compile(r"\bmax_concurrency=(\d{1,9}|None)\b"),
    "request_rate": re.compile(r"\brequest_rate=([\d.]{1,20}|inf)\b"),
}


class VllmServeConsole:
    name = "vllm-serve-console"
    tool = "vllm bench serve"

    bare_constants = False
    generations = (
        Generation(
            "any",
            "the banner `Serving Benchmark Result`",
            "means, medians and percentiles as printed, with two decimals; several blocks of one text",
            "SGLang and vLLM-Omni print the same banner around other quantities: refused",
        ),
    )

    def recognises(self, content: Content) -> Certainty:
        return Certainty.SURE if content.text is not None and _BANNER.search(content.text) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:
        results: list[Reading | UnusedResult] = []
        for position, (before, block) in enumerate(_blocks(content.text or "")):
            try:
                data = _object(before, block)
                reading = normalise(data, position, with_samples=context.with_samples, printed=True)
                results.append(add_client_definitions(reading, context))
            except RefusalError as refusal:
                results.append(UnusedResult(position, FileOutcome.REFUSED, str(refusal)))
        return results


_Facts = dict[str, tuple[str, str]]
"""What the client printed before a block: label and value by key. A log may have millions of other lines there."""


def _blocks(text: str) -> Iterator[tuple[_Facts, list[str] | None]]:
    """What is stated before each block (since the previous one) and its lines; None for a block without an end."""
    before: _Facts = {}
    block: list[str] | None = None
    for raw in parsing.text_lines(text):
        line = raw.strip(_QUOTE)
        if _BANNER.fullmatch(line):
            if block is not None:
                yield before, None
                before = {}
            block = []
        elif block is None:
            before.update(_facts(line))
        elif _END.fullmatch(line) or len(block) == _MAX_LINES:
            yield before, block if len(block) < _MAX_LINES else None
            before, block = {}, None
        else:
            block.append(line)
    if block is not None:
        yield before, None


def _object(before: _Facts, block: list[str] | None) -> dict[str, Any]:
    """The block as the object that the client would have saved. Raises RefusalError."""
    if block is None:
        raise RefusalError("the block of console text has no closing line of '=': it was cut off")
    data = {key: value if key == "model_id" else _value(key, label, value) for key, (label, value) in before.items()}
    seen: set[str] = set()
    for line in block:
        if not (match := _LINE.fullmatch(line)):
            continue
        label, value = match[1].strip(), (match[2] or "").strip()
        _refuse_other_tools(label, value)
        if (key := _key(label)) is None:
            continue
        if key in seen:
            raise RefusalError(f"{label!r} stands twice in one block: two results are mixed")
        seen.add(key)
        data[key] = _value(key, label, value)
    for key, label in (("completed", "Successful requests"), ("request_throughput", "Request throughput (req/s)")):
        if key not in data:
            raise RefusalError(f"the line {label!r} is missing: the block was cut")
    return data


def _key(label: str) -> str | None:
    """The JSON key of a label; None for lines that are not used."""
    if latency := _LATENCY.fullmatch(label):
        if latency[3] != "ms":
            raise RefusalError(f"{label!r} is not in ms: another tool's text, or edited")
        return f"{latency[1].lower()}_{latency[2].lower()}_ms"
    return _KEYS.get(label.lower())


def _value(key: str, label: str, text: str) -> Any:
    if key == "request_rate" and text.lower() in ("inf", "none"):
        return "inf"
    if key == "max_concurrency" and text.lower() == "none":
        return None
    if not _NUMBER.fullmatch(text):
        raise RefusalError(f"{label!r} is {quoted(text)}, not a number")
    return float(text.replace(",", ""))


def _facts(line: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """What a line before a block states; later lines override earlier ones."""
    if namespace := _NAMESPACE.search(line):
        for key, argument in _ARGUMENTS.items():
            if match := argument.search(namespace[0]):
                yield key, (key, match[1])
    elif (match := _LINE.fullmatch(line)) and (name := _BEFORE.get(match[1].strip().lower())):
        value = (match[2] or "").split(" ")[0]
        if _NUMBER.fullmatch(value) or (name != "burstiness" and value.lower() in ("inf", "none")):
            yield name, (match[1], value)


def _refuse_other_tools(label: str, value: str) -> None:
    if label.lower() in _SGLANG or any(word in label for word in _SGLANG_WORDS):
        raise RefusalError("this is the console text of SGLang's bench_serving; import the JSON lines that it writes")
    if _OMNI.search(label) and value:
        raise RefusalError(f"this is console text of vLLM-Omni ({quoted(label)}), which is not read yet")
