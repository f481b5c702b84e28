"""What each release of vLLM prints and exposes, by the table that `.ci/signals.py` reads from the published wheels."""

import json
import re
from collections.abc import Collection, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from packaging.version import Version

TEXTS = ("7,168", "7.25", "CutlassKernel", "FLASH_ATTN", "0.19.0", "[model] ", "{'model': 'm'}")
"""What a `%s` may stand for."""
_PLACEHOLDER = re.compile(r"%(?:\.\d+)?[df]|%0\dd|%[sr]|\{\}")
_NUMBERS = {"d": "7", "f": "7.25"}


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return found


def releases() -> list[str]:
    """All that were read, the oldest first."""
    return list(_table()["releases"])


def line_names() -> list[str]:
    return list(_table()["lines"])


def printed_forms(name: str, release: str, levels: Collection[str] | None = None) -> list[str]:
    """The format strings of a line in a release: of these levels, or all that are not only printed at DEBUG."""
    forms = [form for form in _table()["lines"][name]["forms"] if _within(form["releases"], release)]
    return [form["text"] for form in forms if (form["level"] in levels if levels else form["level"] != "debug")]


def metric_kind(name: str, release: str) -> str | None:
    """Of a metric of engine V1 that a release creates without further flags, `vllm:` left out; None for another."""
    entry = _table()["metrics"].get(name, {})
    return entry["kind"] or "unknown" if _within(entry.get("V1", ()), release) else None


def _within(spans: Any, release: str) -> bool:
    key = Version(release)
    return any(Version(first) <= key and (last is None or key <= Version(last)) for first, last in spans)


def filled(text: str) -> Iterator[str]:
    """A format string with every choice of TEXTS for its texts, and numbers for its numbers."""
    places = _PLACEHOLDER.findall(text)
    for chosen in product(*(TEXTS if one in ("%s", "%r", "{}") else (_NUMBERS[one[-1]],) for one in places)):
        values = iter(chosen)
        yield _PLACEHOLDER.sub(lambda _: next(values), text).replace("%%", "%")  # noqa: B023 - used at once
