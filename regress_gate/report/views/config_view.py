"""Changes of the configuration as a table and as Markdown: what breaks first, then what changed unseen, then the rest.

Takes what the gate found and a reader's options; decides nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from regress_gate.gate.config_changes import ChangeRelevance, ConfigChange, ConfigChangeKind, package_rank
from regress_gate.report.render.markdown_escape import escape
from regress_gate.report.render.render_options import RenderOptions
from regress_gate.report.render.terminal_canvas import Canvas
from regress_gate.report.views.wording import setting
from regress_gate.text import plural

_LONGEST_VALUE = 60
_LONGEST_REASON = 110
"""Of what vLLM says of a deprecation, where it is not the point."""
_UNKNOWN_WEIGHT = package_rank("")
_GONE = (ConfigChangeKind.FLAG_REMOVED, ConfigChangeKind.FLAG_RENAMED, ConfigChangeKind.FLAG_DEPRECATED)
_DEFAULTS = (ConfigChangeKind.DEFAULT_CHANGED, ConfigChangeKind.ENV_DEFAULT_CHANGED)
_ADDED = (ConfigChangeKind.FLAG_ADDED, ConfigChangeKind.ENV_ADDED)
_YOURS = "you set it"


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    rows: tuple[tuple[str, str], ...]
    """What changed, and how."""
    hidden: int = 0
    """Changes that are only counted."""


def sections(changes: Sequence[ConfigChange], *, everything: bool = False) -> list[Section]:
    """The changes in the order of a report; without `everything`, what is new and what hardly matters is counted."""

    def pick(*kinds: ConfigChangeKind, matters: ChangeRelevance | None = None) -> list[ConfigChange]:
        return [one for one in changes if one.kind in kinds and matters in (None, one.matters)]

    blocking = [one for one in changes if one.matters is ChangeRelevance.BLOCKS]
    defaults = pick(*_DEFAULTS, matters=ChangeRelevance.AFFECTS)
    set_by_user = [one for one in pick(*_DEFAULTS) if one.why == _YOURS]
    told = {id(one) for one in [*blocking, *defaults, *set_by_user]}
    yours = [
        one
        for one in pick(*_GONE, ConfigChangeKind.ENV_REMOVED, matters=ChangeRelevance.AFFECTS)
        if id(one) not in told
    ]
    told |= {id(one) for one in yours}

    def rest(*kinds: ConfigChangeKind) -> list[ConfigChange]:
        return [one for one in pick(*kinds) if id(one) not in told]

    dependencies = pick(ConfigChangeKind.DEPENDENCY_CHANGED)
    weighty = [one for one in dependencies if everything or package_rank(one.name) < _UNKNOWN_WEIGHT]
    added = pick(*_ADDED)
    idle = rest(*_DEFAULTS)
    found = [
        _section("Keeps your launch line from starting", blocking, _blocked),
        _section(
            "Taken by neither version", pick(ConfigChangeKind.LAUNCH_REFUSED, matters=ChangeRelevance.INFORMS), _why
        ),
        _section("Yours, and no longer what they were", yours, _why),
        _section("Resolved otherwise from the same arguments", pick(ConfigChangeKind.RESOLVED_CHANGED), _move),
        _section("Changed defaults of what you have not set", defaults, _move),
        _section("Changed defaults of what you set", set_by_user, _move),
        _section("Removed, renamed and deprecated arguments", rest(*_GONE), _gone),
        _section(
            "Changed choices and values", rest(ConfigChangeKind.CHOICES_CHANGED, ConfigChangeKind.VALUE_CHANGED), _value
        ),
        _section("Changed defaults of what is off or without effect", idle if everything else [], _move, len(idle)),
        _section("Removed variables", rest(ConfigChangeKind.ENV_REMOVED), lambda one: f"was {_short(one.before)}"),
        _section("Dependencies", weighty, _move, len(dependencies)),
        _section("New arguments and variables", added if everything else [], lambda one: _short(one.after), len(added)),
    ]
    return [section for section in found if section.rows or section.hidden]


def config_table(changes: Sequence[ConfigChange], options: RenderOptions, *, head: str, verdict: str | None) -> str:
    """For a terminal. `verdict` is what is said of the launch line; None where none is known."""
    canvas = Canvas(options)
    canvas.line(head, "bold")
    if verdict:
        canvas.line(verdict, "bold red" if any(one.matters is ChangeRelevance.BLOCKS for one in changes) else "bold")
    found = sections(changes, everything=options.verbose)
    if not found:
        canvas.gap()
        canvas.line("nothing has changed")
    for section in found:
        size = len(section.rows) + section.hidden
        canvas.heading(f"{section.title} ({size})")
        if section.title == "Removed variables" and not options.verbose:
            canvas.line(", ".join(name for name, _ in section.rows), indent=2)
            continue
        _paint_rows(canvas, section)
        if section.hidden:
            canvas.line(_hidden(section), "dim", indent=2)
    return canvas.finish()


def _paint_rows(canvas: Canvas, section: Section) -> None:
    """Two columns; a name that leaves too little for its text has the line for itself."""
    rows = [(canvas.text(name), canvas.text(text)) for name, text in section.rows]
    narrow = [name.cell_len for name, _ in rows if name.cell_len <= canvas.width // 2]
    for name, text in rows:
        if name.cell_len <= canvas.width // 2:
            canvas.columns([(name, text)], [max(narrow), None], indent=2)
        else:
            canvas.put(name, indent=2)
            canvas.put(text, indent=6)


def config_markdown(changes: Sequence[ConfigChange], options: RenderOptions, *, head: str, verdict: str | None) -> str:
    """For a comment or a summary."""
    lines = [f"## {escape(head)}", ""]
    if verdict:
        lines += [f"**{escape(verdict)}**", ""]
    found = sections(changes, everything=options.verbose)
    if not found:
        lines += ["Nothing has changed.", ""]
    for section in found:
        lines += [f"### {section.title} ({len(section.rows) + section.hidden})", ""]
        if section.rows:
            lines += ["| what | change |", "| --- | --- |"]
            lines += [f"| {escape(name)} | {escape(text)} |" for name, text in section.rows]
            lines.append("")
        if section.hidden:
            lines += [_hidden(section), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _section(
    title: str, changes: Sequence[ConfigChange], text: Callable[[ConfigChange], str], size: int | None = None
) -> Section:
    rows = tuple((one.name, text(one)) for one in changes)
    return Section(title, rows, 0 if size is None else size - len(rows))


def _hidden(section: Section) -> str:
    what = plural(section.hidden, "other" if section.rows else "change", "others" if section.rows else "changes")
    return f"{'and ' if section.rows else ''}{what}; --all lists {'it' if section.hidden == 1 else 'them'}"


def _short(value: Any, longest: int = _LONGEST_VALUE) -> str:
    text = setting(value)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _move(change: ConfigChange) -> str:
    if change.kind is ConfigChangeKind.DEPENDENCY_CHANGED:
        return f"{change.before or 'not there'} → {change.after or 'not there'}"
    return f"{_short(change.before)} → {_short(change.after)}"


def _why(change: ConfigChange) -> str:
    return change.why or _move(change)


def _blocked(change: ConfigChange) -> str:
    if change.kind is ConfigChangeKind.FLAG_RENAMED:
        return f"now {change.after}"
    return "there is no such argument any more" if change.kind is ConfigChangeKind.FLAG_REMOVED else _why(change)


def _gone(change: ConfigChange) -> str:
    if change.kind is ConfigChangeKind.FLAG_RENAMED:
        return f"now {change.after}"
    if change.kind is ConfigChangeKind.FLAG_DEPRECATED:
        return f"deprecated: {_short(change.why, _LONGEST_REASON)}"
    return "removed" + (f": {_short(change.why, _LONGEST_REASON)}" if change.why else "")


def _value(change: ConfigChange) -> str:
    if change.kind is ConfigChangeKind.VALUE_CHANGED:
        return f"values taken: {_move(change)}"
    return change.why or f"now one of {_short(', '.join(change.after))}"
