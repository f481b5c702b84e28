"""The lines of a server's log that say why it died. Not for facts about a server that lives.

A dying vLLM prints the cause once, in the process that met it, and then pages about processes that lost a partner.
The cause is the last exception that is not such a consequence.
"""

import re
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 4 * 2**20
"""Read from the end of a log; the cause of a death is not far from it."""
MAX_LINES = 6
MAX_LENGTH = 400

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_PREFIX = re.compile(
    r"^(?:\((?P<process>[^()]*?) pid=\d+\) ?)?"
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (?:\[[^\]]*\] ?)?)?"
)
_SECRET = re.compile(r"\b(hf_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{8,})|(?<=api_key=)'[^']*'|(?<=api-key=)\S+|://[^/@\s]+@")

_EXCEPTION = re.compile(
    r"(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning|Failure|Fault|Expired|NotFound|Timeout)"
    r"(?::.*)?"
)
_PLAIN = re.compile(
    r"[\w./ -]*: error: .*|Fatal Python error: .*|Segmentation fault.*|Illegal instruction.*|Bus error.*|Killed"
    r"|terminate called .*|.*\bcommand not found\b.*|.*\bNo such file or directory\b.*|.*CUDA error: .*"
    r"|.*\bout of memory\b.*|Aborted.*|.*[Aa]ddress already in use.*"
)
"""Causes that are no Python exception."""
_CONSEQUENCE = re.compile(
    r"(?:.*\.)?(?:EngineDeadError|EngineGenerateError|CancelledError|KeyboardInterrupt|SystemExit|BrokenPipeError"
    r"|ConnectionResetError|ConnectionRefusedError|EOFError|ZMQError|ChildProcessError|ProcessLookupError)\b.*"
    r"|.*Engine core initialization failed.*|.*WorkerProc initialization failed.*|.*Executor failed\..*"
    r"|.*Engine process failed to start.*|.*died unexpectedly.*|.*Server process died.*"
    r"|.*Python is likely shutting down.*|(?:\w+)?Warning\b.*"
)
_TRACEBACK = "Traceback (most recent call last):"


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    level: str
    indented: bool


def read_log(path: Path) -> str:
    """The end of a log; empty when there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MAX_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def strip_prefix(line: str) -> str:
    """A log line without process, level, time and place."""
    return _split(line).text


def decisive_lines(text: str) -> tuple[str, ...]:
    """The likeliest cause first, then others, the last first; without any, the last complaints or words."""
    lines = [_split(line) for line in text.split("\n")]
    exceptions = _exceptions(lines)
    causes = [line for line in exceptions if not _CONSEQUENCE.fullmatch(line)]
    found = [*reversed(causes), *reversed([line for line in exceptions if line not in causes])]
    if not found:
        complaints = [line.text for line in lines if line.level in ("ERROR", "CRITICAL") and line.text.strip()]
        found = (complaints or [line.text for line in lines if line.text.strip()])[-MAX_LINES:]
    unique = dict.fromkeys(_shown(line) for line in found)
    return tuple(unique)[:MAX_LINES]


def _split(line: str) -> _Line:
    clean = _CONTROL.sub("", _ANSI.sub("", line)).rstrip()
    found = _PREFIX.match(clean)
    rest = clean[found.end() :] if found else clean
    return _Line(rest.strip(), (found["level"] or "") if found else "", rest.startswith((" ", "\t")))


def _exceptions(lines: list[_Line]) -> list[str]:
    """Lines that name what went wrong, in their order; what an interpreter says while it shuts down is left out."""
    found = []
    ignored = False
    for number, line in enumerate(lines):
        if line.text.startswith("Exception ignored in"):
            ignored = True
        elif not line.indented and line.text and line.text != _TRACEBACK and ignored:
            ignored = False
            continue  # the exception that was ignored
        if line.indented or line.level in ("INFO", "DEBUG", "WARNING"):
            continue
        if _EXCEPTION.fullmatch(line.text):
            found.append(_with_details(lines, number))
        elif _PLAIN.fullmatch(line.text):
            found.append(line.text)
    return found


def _with_details(lines: list[_Line], number: int) -> str:
    """An exception whose message goes on below, as those of pydantic do."""
    text = lines[number].text
    if "validation error" in text:
        text += "".join(f" | {line.text}" for line in lines[number + 1 : number + 3] if line.indented)
    return text


def _shown(line: str) -> str:
    line = _SECRET.sub("***", line)
    return line if len(line) <= MAX_LENGTH else line[:MAX_LENGTH] + "…"
