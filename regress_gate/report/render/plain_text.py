"""Plain tables and values on a terminal, with everything from outside stripped of control characters."""

from collections.abc import Sequence

from regress_gate.text import sanitise


def plain(value: object) -> str:
    """A value as one printable line."""
    if value is None:
        return "not set"
    if isinstance(value, (list, tuple)):
        return ", ".join(plain(item) for item in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{plain(key)}={plain(item)}" for key, item in value.items()) or "none"
    return sanitise(str(value))


def json_text(value: object) -> str:
    """JSON for a terminal: what is not printable is escaped, also where JSON would allow it."""
    import json

    text = json.dumps(value, indent=2, ensure_ascii=False)
    return "".join(sign if sign.isprintable() or sign == "\n" else json.dumps(sign)[1:-1] for sign in text)


def columns(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """An aligned table without rules, for lists that people pipe into other programs. Numbers stand right."""
    cells = [list(head), *([plain(value) for value in row] for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(head))]
    numeric = [bool(rows) and all(isinstance(row[index], (int, float)) for row in rows) for index in range(len(head))]
    lines = []
    for row in cells:
        parts = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)
