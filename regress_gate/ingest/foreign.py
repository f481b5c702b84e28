"""Names files of known tools that are no measurement of a server, so that a refusal can say what the file is.

One line per kind. Not for reading them, and not for formats that have a reader.
"""

from collections.abc import Callable
from typing import Any

from regress_gate.ingest.content import Content

_SUITE = "a test suite definition of vLLM's CI, not a result; `regress-gate suite import` makes a suite of it"
_SEARCH = "the summary of an adaptive search of vLLM's CI: limits that it found, and no measurement"
_SIDE_BY_SIDE = "a table of ISO-Bench, whose rows hold several commits each; import the printed text of each commit"
_PROCESSOR = "a `vllm bench mm-processor` result: times of preparing images, without a server or a load"
_FORWARD = "a list of cases in microseconds, as `vllm bench forward` writes: single forward passes, without a load"


def name_of(content: Content) -> str | None:
    """A sentence naming what the file is; None when it is of no known kind."""
    if not content.documents:
        return None
    first = content.documents[0]
    table: Any = _OBJECTS if isinstance(first, dict) else _LISTS if isinstance(first, list) and first else ()
    named = next((name for matches, name in table if matches(first)), None)
    return None if named is None else f"this is {named}"


def _has(*keys: str) -> Callable[[Any], bool]:
    return lambda data: all(key in data for key in keys)


def _is_forward(rows: list[Any]) -> bool:
    return isinstance(rows[0], dict) and any(key.endswith("_us") for key in rows[0])


def _is_suite_definition(rows: list[Any]) -> bool:
    return isinstance(rows[0], dict) and "test_name" in rows[0] and any("parameters" in key for key in rows[0])


_OBJECTS: tuple[tuple[Callable[[dict[str, Any]], bool], str], ...] = (
    (_has("mm_processor_stats"), _PROCESSOR),
    (_has("sla_ttft_ms", "final_last_pass"), _SEARCH),
    (_has("baseline_raw", "human_raw"), _SIDE_BY_SIDE),
    (_has("defaults", "tests"), _SUITE),
    (_has("$defs", "properties"), "a JSON schema, not a result"),
)

_LISTS: tuple[tuple[Callable[[list[Any]], bool], str], ...] = (
    (_is_forward, _FORWARD),
    (_is_suite_definition, _SUITE),
)
