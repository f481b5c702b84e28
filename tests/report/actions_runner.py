"""How the runner of GitHub Actions finds commands in the output of a step (actions/runner, ActionCommand.cs).

A line is `::name key=value,…::text`, after any white space, or has `##[name key=value;…]text` anywhere in it; the name
must be one that the runner knows.
"""

from dataclasses import dataclass, field

KNOWN = frozenset(
    (
        "internal-set-repo-path", "set-env", "set-output", "save-state", "add-path", "add-mask", "add-matcher",
        "remove-matcher", "debug", "warning", "error", "notice", "group", "endgroup", "echo", "stop-commands",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Command:
    name: str
    properties: dict[str, str] = field(default_factory=dict)
    text: str = ""


def commands_in(output: str) -> list[Command]:
    return [found for line in output.replace("\r", "\n").split("\n") if (found := _new(line) or _old(line))]


def _new(line: str) -> Command | None:
    line = line.lstrip()
    end = line.find("::", 2)
    if not line.startswith("::") or end < 0:
        return None
    return _command(line[2:end], line[end + 2 :], ",", {"%3A": ":", "%2C": ","})


def _old(line: str) -> Command | None:
    begin = line.find("##[")
    end = line.find("]", begin)
    if begin < 0 or end < 0:
        return None
    return _command(line[begin + 3 : end], line[end + 1 :], ";", {"%3B": ";", "%5D": "]"})


def _command(info: str, text: str, separator: str, escapes: dict[str, str]) -> Command | None:
    name, _, pairs = info.partition(" ")
    if name not in KNOWN:
        return None
    properties = dict(pair.split("=", 1) for pair in pairs.split(separator) if "=" in pair)
    return Command(name, {key: _plain(value, escapes) for key, value in properties.items()}, _plain(text, {}))


def _plain(text: str, escapes: dict[str, str]) -> str:
    for escaped, sign in {"%0D": "\r", "%0A": "\n", **escapes, "%25": "%"}.items():
        text = text.replace(escaped, sign)
    return text
