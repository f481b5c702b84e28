"""Shows one made-up file to one reader, with other files beside it."""

import json
from collections.abc import Mapping
from typing import Any

from regress_gate.ingest.content import parse_content
from regress_gate.ingest.interface import Context, Reader, Reading, UnusedResult


def read(
    reader: Reader,
    data: Any,
    name: str = "result.json",
    *,
    beside: Mapping[str, Any] | None = None,
    client_version: str | None = None,
) -> list[Reading | UnusedResult]:
    """All results of the data (written as JSON), which the reader has to recognise surely."""
    found = {other: parse_content(other, json.dumps(value).encode()) for other, value in (beside or {}).items()}
    content = parse_content(name, json.dumps(data).encode())
    assert reader.recognises(content)
    return list(reader.read(content, Context(client_version=client_version, beside=found.get)))


def reading(*arguments: Any, **more: Any) -> Reading:
    """The one reading of a file that holds one."""
    (result,) = read(*arguments, **more)
    assert isinstance(result, Reading), result.reason
    return result


def refusal(*arguments: Any, **more: Any) -> str:
    """Why the one result of a file is none."""
    (result,) = read(*arguments, **more)
    assert isinstance(result, UnusedResult)
    return result.reason
