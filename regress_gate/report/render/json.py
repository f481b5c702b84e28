"""A result for programs. Nothing is rounded, translated or left out."""

from __future__ import annotations

import json
from typing import Any

from regress_gate.redaction import redact
from regress_gate.report.document import View
from regress_gate.report.render.output_formats import RenderOptions


def render(view: View, options: RenderOptions) -> str:  # noqa: ARG001 - the same for every reader
    if view.ascii_json:
        text = json.dumps(_redacted(view.data()), indent=2, ensure_ascii=True, allow_nan=False)
        return _without_commands(text) + "\n"
    return json_text(view.data()) + "\n"


def json_text(value: Any) -> str:
    """JSON for a terminal: what is not printable is escaped, also where JSON would allow it, and secrets are masked."""
    text = json.dumps(_redacted(value), indent=2, ensure_ascii=False)
    return _without_commands("\n".join(line if line.isprintable() else _escaped(line) for line in text.split("\n")))


def _escaped(line: str) -> str:
    return "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in line)


def _redacted(value: Any) -> Any:
    """The same values with secrets masked in each text, before JSON escapes its signs: an escape would end a URL."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact(key) if isinstance(key, str) else key: _redacted(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(each) for each in value]
    return value


def _without_commands(text: str) -> str:
    """The same JSON, in which the runner of GitHub Actions finds no command: `##[` is one anywhere in a line."""
    return text.replace("##[", "#\\u0023[")
