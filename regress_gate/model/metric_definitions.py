"""By whose definitions the numbers of an imported trial were made, where they are not vLLM's own.

A result's `definitions` is a key of `DEFINITIONS`. Two results of different definitions are not compared: the same
name stands for different quantities, or the same quantity is counted from different moments. Not for units: readers
turn those into the catalogue's.
"""

WORKLOAD_KEY = "definitions"
"""Under which a trial's workload holds it."""

VLLM_DEFINITIONS_TEXT = "vLLM's own"
"""What stands in words for no key."""

DEFINITIONS: dict[str, str] = {
    "aiperf": "its first token is the first chunk with text, its last the last chunk with text",
    "aiperf-encoded": "as aiperf, and tokens are counted by encoding the answers again",
    "genai-perf": "its first token is the first answer with text, tokens are counted by encoding the answers again",
    "inference-perf": "its latency runs to the end of the stream, its gaps are between tokens, some of one chunk",
    "inference-perf-chunks": "its latency runs to the end of the stream, its gaps and time per token are of chunks",
    "llmperf": "its latency runs to the end of the stream, tokens are counted by a tokenizer of its own",
    "evalscope-0.17": "its time per output token is per chunk, its percentiles take the next value",
    "evalscope-1.0": "one-token answers count as a time per output token of 0, its percentiles take the next value",
    "evalscope-1.14": "its first token is the first chunk with text, its percentiles take the nearest value",
    "sglang-bench-serving": "a request ends with its stream, not with its last token",
    "sglang-bench-serving-native": "a request ends with its stream, gaps are by token as the server counts them",
    "sglang-bench-serving-retokenised": "a request ends with its stream, gaps are by token as the client counts them",
    "vllm-bench-0.6": "its client up to 0.6 counts output tokens by tokenising the answer again",
    "vllm-bench-0.7": "its client from 0.7 to 0.14 asks for temperature 0, and counts the input tokens it asked for",
    "vllm-bench-0.15": "its client from 0.15 to 0.19 leaves the temperature to the server",
    "vllm-bench-0.20": "its client since 0.20 takes input tokens from the server, which adds its own",
    "vllm-offline": "an engine without a server is given everything at once",
    "mlperf-loadgen": "times begin when a query was due, tokens are those that the tested system reports",
    "github-action-benchmark": "its names say what a value is, not how it was measured",
    "guidellm": "its time per output token is weighted by tokens, a request ends with its connection",
    "guidellm-requests": "made from GuideLLM's times of each request, from first to last chunk with text",
    "llm-d-other": "converted from a tool whose definitions are not known",
}
"""Key to one clause that says what is particular, for the report: `guidellm-0.4` → `its time per output token…`."""


_VLLM = "vllm-bench-"
"""Begins the keys of vLLM's own client, whose releases differ where theirs do."""


def definitions_match(one: str | None, other: str | None) -> bool:
    """Whether numbers may be compared. A client of vLLM's whose release nobody stated may be any of them."""
    return one == other or (None in (one, other) and (one or other or "").startswith(_VLLM))


def definition_text(key: str | None) -> str:
    """The key with what it means; None are vLLM's own definitions."""
    if key is None:
        return VLLM_DEFINITIONS_TEXT
    meaning = DEFINITIONS.get(key)
    return f"{key} ({meaning})" if meaning else key
