"""Definitions of metrics by other tools, for imported trials that do not use vLLM's own definitions.

The `definitions` of a result is a key of `DEFINITIONS`. Results with different definitions are not compared: the same
name means different quantities, or the same quantity starts at different moments. Not for units: readers convert them.
"""

WORKLOAD_KEY = "definitions"
"""Key of the definitions in a trial's workload."""

VLLM_DEFINITIONS_TEXT = "vLLM's own"
"""Text for results without a key."""

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
"""Key to one clause for the report that names the difference: `guidellm` → `its time per output token…`."""


_VLLM = "vllm-bench-"
"""Prefix of the keys of vLLM's own client, whose definitions differ between releases."""


def definitions_match(one: str | None, other: str | None) -> bool:
    """Whether results may be compared. vLLM's client of an unknown release may have any definitions of its releases."""
    return one == other or (None in (one, other) and (one or other or "").startswith(_VLLM))


def definition_text(key: str | None) -> str:
    """The key with its meaning; None: vLLM's own definitions."""
    if key is None:
        return VLLM_DEFINITIONS_TEXT
    meaning = DEFINITIONS.get(key)
    return f"{key} ({meaning})" if meaning else key
