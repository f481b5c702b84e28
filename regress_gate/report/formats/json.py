"""The machine's view: schema_version "1" of the JSON contract. Nothing is rounded, translated or left out."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

from regress_gate.model.result import Result
from regress_gate.report.render.render_options import RenderOptions


def render(result: Result, options: RenderOptions) -> str:  # noqa: ARG001 - the same document for every reader
    # Escaped to ASCII: any terminal, log or locale can carry it, and no control character survives.
    return json.dumps(document(result), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def document(result: Result) -> dict[str, Any]:
    """The result as plain JSON values; `created` in UTC with a `Z`, and no number that JSON lacks."""
    plain: dict[str, Any] = _finite(result.model_dump(mode="json"))
    return plain | {"created": _zulu(result.created)}


def _zulu(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _finite(value: Any) -> Any:
    # The free-form parts (plan, change points, engine arguments) are not validated: NaN may hide there.
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value
