"""Reading a server's log, and finding the lines that say why the server died. Facts about its start are in `start_log`.

vLLM prints the cause of a crash once, in the process where it happened, and then pages about other processes that lost
contact. The cause is the last exception that is not such a consequence.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from regress_gate.redaction import mask
from regress_gate.text import drop_escapes

MAX_BYTES = 4 * 2**20
"""Read from the end of a log, where the cause of a crash is."""
MAX_SCANNED = 2**16
"""Characters of a line that are read. vLLM's longest line, its configuration, has a tenth of it."""
MAX_LINES_SCANNED = 50_000
"""Lines that are read from an end of a log: many times what vLLM prints for a start or a crash."""
MAX_LINES = 6
MAX_LENGTH = 400

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_PREFIX = re.compile(
    r"^(?:\((?P<process>[^()]*?) pid=\d+\) ?)?"
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (?:\[[^\]]*\] ?)?)?"
)

_TIMESTAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? "
_COLLECTOR = re.compile(
    r"(?:\[pod/[^\]\s]+\] "  # kubectl logs --prefix
    r"|[\w.-]+ {2,}\| "  # docker compose logs
    rf"|(?:{_TIMESTAMP}|[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d )\S+ [^\s\[\]]+\[\d+\]: "  # journalctl
    rf"|{_TIMESTAMP}(?:std(?:out|err) [FP] )?"  # kubectl logs --timestamps, files of containerd
    r"){1,3}"
)
"""What programs that collect logs put before each line."""
_DOCKER_LINE = ('{"log":', '{"log" :', '{"stream":')
"""How a line begins in a file of Docker's driver json-file."""

_EXCEPTION = re.compile(
    r"(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning|Failure|Fault|Expired|NotFound|Timeout)"
    r"(?::.*)?"
)
_OTHER_CAUSE = re.compile(
    r"[\w./ -]*: error: .*|Fatal Python error: .*|Segmentation fault.*|Illegal instruction.*|Bus error.*|Killed"
    r"|terminate called .*|.*\bcommand not found\b.*|.*\bNo such file or directory\b.*|.*CUDA error: .*"
    r"|.*\bout of memory\b.*|Aborted.*|.*[Aa]ddress already in use.*"
)
"""Causes that are not Python exceptions."""
_CONSEQUENCE = re.compile(
    r"(?:.*\.)?(?:EngineDeadError|EngineGenerateError|CancelledError|KeyboardInterrupt|SystemExit|BrokenPipeError"
    r"|ConnectionResetError|ConnectionRefusedError|EOFError|ZMQError|ChildProcessError|ProcessLookupError)\b.*"
    r"|.*Engine core initialization failed.*|.*WorkerProc initialization failed.*|.*Executor failed\..*"
    r"|.*Engine process failed to start.*|.*died unexpectedly.*|.*Server process died.*"
    r"|.*Python is likely shutting down.*|(?:\w+)?Warning\b.*|.*exited unexpectedly.*"
)
_ENGINE_DIED = re.compile(r"\bEngineDeadError\b|[Ee]ngine core.* (?:died|exited) unexpectedly")
_REQUEST_FAILED = "Exception in ASGI application"
"""What the web server prints before the traceback of one request that it answers with status 500."""
_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception")


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    level: str
    indented: bool


def read_log_end(path: Path) -> str:
    """The end of a log; empty if there is no log."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MAX_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def strip_prefix(line: str) -> str:
    """A log line without process, level, time and source file."""
    return _split(line).text


def drop_collector(line: str) -> str:
    """A log line as the server printed it, without colours and without what a program that collects logs put around
    it."""
    line = drop_escapes(line)
    if line.startswith(_DOCKER_LINE):
        try:
            printed = json.loads(line)["log"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return line
        return drop_escapes(printed).rstrip("\n") if isinstance(printed, str) else line
    match = _COLLECTOR.match(line)
    return line[match.end() :] if match else line


_NOTABLE = re.compile(
    r"backend|kernel|cache size|memory|cuda ?graph|capture|tuned|configuration from|default \w+ config|schedul"
    r"|disabl|overrid|fall(?:ing)? ?back|chunked prefill|prefix caching|all-?reduce|DeepGEMM|quantiz",
    re.IGNORECASE,
)
MAX_NOTABLE_LINES = 100


def notable_lines(text: str) -> tuple[str, ...]:
    """Lines of a start that say what the server chose, switched off or warns of; each once, without its prefix."""
    chosen: dict[str, None] = {}
    for raw in text.split("\n")[:MAX_LINES_SCANNED]:
        line = _split(raw)
        if line.level in ("WARNING", "INFO") and (line.level == "WARNING" or _NOTABLE.search(line.text)):
            chosen[_cut(mask(line.text))] = None
        if len(chosen) == MAX_NOTABLE_LINES:
            break
    return tuple(chosen)


def decisive_lines(text: str, secrets: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The likeliest cause first, then other causes, the last one first; if there are none, the last errors or lines.

    Secrets are masked: the given ones, and well-known forms of tokens.
    """
    lines = [_split(line) for line in text.split("\n")[-MAX_LINES_SCANNED:]]
    exceptions, of_requests = _exceptions(lines)
    causes = [line for line in exceptions if not is_consequence(line)]
    decisive = [
        *reversed(causes),
        *reversed([line for line in exceptions if line not in causes]),
        *reversed(of_requests),
    ]
    if not decisive:
        complaints = [line.text for line in lines if line.level in ("ERROR", "CRITICAL") and line.text.strip()]
        decisive = (complaints or [line.text for line in lines if line.text.strip()])[-MAX_LINES:]
    unique = dict.fromkeys(_cut(mask(line, secrets)) for line in decisive)
    return tuple(unique)[:MAX_LINES]


def is_consequence(line: str) -> bool:
    """Whether a decisive line only reports that something else failed before."""
    return bool(_CONSEQUENCE.fullmatch(line))


def engine_died(text: str) -> bool:
    """Whether a log reports the end of the engine's process. The API server may live some seconds longer."""
    return bool(_ENGINE_DIED.search(text))


def _split(line: str) -> _Line:
    clean = _CONTROL.sub("", drop_collector(line[:MAX_SCANNED])).rstrip()
    match = _PREFIX.match(clean)
    rest = clean[match.end() :] if match else clean
    return _Line(rest.strip(), (match["level"] or "") if match else "", rest.startswith((" ", "\t")))


def _exceptions(lines: list[_Line]) -> tuple[list[str], list[str]]:
    """Lines with errors of the server, and lines with errors of single requests, both in the order of the log.

    Output of an interpreter that shuts down is left out. A failed request does not end the server, but its traceback is
    in the log of a server that crashes later for another reason.
    """
    of_server: list[str] = []
    of_requests: list[str] = []
    ignored = in_request = False
    for number, line in enumerate(lines):
        if line.text.startswith("Exception ignored in"):
            ignored = True
        elif not line.indented and line.text and line.text != _TRACEBACK and ignored:
            ignored = False
            continue  # the ignored exception
        if line.level and _ENGINE_DIED.search(line.text):
            of_server.append(line.text)
        if line.indented or line.level in ("INFO", "DEBUG", "WARNING"):
            continue
        if _REQUEST_FAILED in line.text:
            in_request = True
        elif _EXCEPTION.fullmatch(line.text):
            (of_requests if in_request and not line.level else of_server).append(_with_details(lines, number))
        elif _OTHER_CAUSE.fullmatch(line.text):
            of_server.append(line.text)
        elif line.text and line.text != _TRACEBACK and not line.text.startswith(_CHAINED):
            in_request = False
    return of_server, of_requests


def _with_details(lines: list[_Line], number: int) -> str:
    """An exception with the next lines of its message, if it is a validation error of pydantic."""
    text = lines[number].text
    if "validation error" in text:
        text += "".join(f" | {line.text}" for line in lines[number + 1 : number + 3] if line.indented)
    return text


def _cut(line: str) -> str:
    return line if len(line) <= MAX_LENGTH else line[:MAX_LENGTH] + "…"
