"""What a ready server reports about itself: its log, `/health`, `/version` and `/metrics`.

Values are kept as plain JSON of bounded size, without secrets. Not for what the server was asked to do, and not for
sending a workload.
"""

import http.client
import json
import ssl
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from regress_gate.errors import InputError
from regress_gate.model.version import Version
from regress_gate.redaction import MASK, mask, mask_values, names_secret
from regress_gate.vllm.log_lines import notable_lines
from regress_gate.vllm.log_signals import LogLine, ServerLog, read_server_log
from regress_gate.vllm.start_log import StartLog, kv_cache_tokens, parse_metrics, read_start_log

MAX_ENTRIES = 200
"""Entries of a mapping or a list; the first ones are kept."""
MAX_LENGTH = 500
"""Characters of a string."""
MAX_INNER = 4 * MAX_LENGTH
"""Characters, as text, of a mapping or a list within another. A longer one is kept as shortened text."""
MAX_SIGNAL_LINES = 3
"""Lines of one signal of the start log that are kept."""
MAX_DEPTH = 4
"""Levels of nesting. Deeper values are kept as text."""
_LARGEST_INTEGER = 2**53
"""JSON readers disagree about larger integers."""


def bounded_json(value: Any, depth: int = MAX_DEPTH) -> Any:
    """The value, shortened to the bounds above, with secrets masked."""
    if value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) <= _LARGEST_INTEGER):
        return value
    if isinstance(value, float) and isfinite(value):
        return value
    if not isinstance(value, (Mapping, list, tuple, Set)) or depth == 0:
        return _bounded_text(value)
    if isinstance(value, Mapping):
        entries = islice(value.items(), MAX_ENTRIES)
        return {
            _bounded_text(key): MASK if _is_secret_entry(key, entry) else _bounded_inner(entry, depth - 1)
            for key, entry in entries
        }
    return [_bounded_inner(entry, depth - 1) for entry in islice(value, MAX_ENTRIES)]


def _bounded_inner(value: Any, depth: int) -> Any:
    kept = bounded_json(value, depth)
    return kept if isinstance(kept, str) or len(str(kept)) <= MAX_INNER else _bounded_text(kept)


def _is_secret_entry(key: object, entry: object) -> bool:
    return isinstance(entry, (str, list, tuple)) and bool(entry) and entry != "None" and names_secret(str(key))


def _bounded_text(value: object) -> str:
    """As text that can be written as UTF-8: without lone surrogates."""
    try:
        text = str(value)[:MAX_INNER]
    except (RecursionError, ValueError):  # nested too deeply, or a number with too many digits
        return "…"
    text = mask(text).encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 1] + "…"


MAX_BODY = 2**24
"""Bytes of a page that are read."""


def http_get(url: str, path: str, timeout: float) -> tuple[int, bytes] | None:
    """Status and body; None without an answer. Proxies are not used."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection = (
        http.client.HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context())
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=timeout)
    )
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        answer = connection.getresponse()
        return answer.status, answer.read(MAX_BODY)
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def is_healthy(url: str, timeout: float) -> bool:
    answer = http_get(url, "/health", timeout)
    return answer is not None and answer[0] == 200


FACTS_TIMEOUT = 10.0
"""Seconds for one page."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    version: Version | None
    """From /version, else from the log."""
    kv_cache_tokens: int | None
    """From the log, else from /metrics."""
    log: StartLog
    """Empty for a server without a readable log."""
    lines: tuple[str, ...] = ()
    """Of the start: warnings, and what was chosen or switched off. Without prefixes."""
    signals: Mapping[str, Sequence[LogLine]] | None = None
    """Lines of the start that rules on a server read, by the names of `vllm.log_signals`. None: the log does not have
    the beginning of the start, so that what is not in it may have been printed."""

    def as_document(self) -> dict[str, Any]:
        """Plain JSON values of bounded size, stored with the run."""
        log = self.log
        return {
            "version": None if self.version is None else str(self.version),
            "kv_cache_tokens": self.kv_cache_tokens,
            "architecture": bounded_json(log.architecture),
            "backends": bounded_json(log.backends),
            "non_default_args": bounded_json(log.non_default_args),
            "config": bounded_json(log.config),
            "split": asdict(log.split),
            "max_concurrency": log.max_concurrency,
            "weights_bytes": log.weights_bytes,
            "max_capture_size": log.max_capture_size,
            "lines": bounded_json(list(self.lines)),
            "signals": None if self.signals is None else _signals_document(self.signals),
        }


def _signals_document(signals: Mapping[str, Sequence[LogLine]]) -> dict[str, list[list[Any]]]:
    """Of each signal the number and text of its first lines with different texts."""
    unique = {name: {line.text: line for line in reversed(lines)}.values() for name, lines in signals.items()}
    return {
        name: [[line.number, bounded_json(line.text)] for line in sorted(lines, key=_line_number)[:MAX_SIGNAL_LINES]]
        for name, lines in unique.items()
    }


def _line_number(line: LogLine) -> int:
    return line.number


def read_facts(url: str, log: Path | None, secrets: tuple[str, ...] = ()) -> ServerFacts:
    """Read the facts of a ready server. `secrets` are masked in its log; `as_document` also masks by pattern."""
    read = None if log is None else _read_log(log)
    text = "" if read is None else mask_values(read.text, secrets)
    start = read_start_log(text)
    tokens = start.kv_cache_tokens
    if tokens is None and (answer := http_get(url, "/metrics", FACTS_TIMEOUT)) is not None and answer[0] == 200:
        tokens = kv_cache_tokens(parse_metrics(answer[1].decode("utf-8", "replace")))
    version = _reported_version(url) or _parse_version(start.version)
    signals = None
    if read is not None and read.has_start:
        signals = {
            name: [replace(line, text=mask_values(line.text, secrets), groups=()) for line in lines]
            for name, lines in read.matches.items()
        }
    return ServerFacts(version, tokens, start, notable_lines(text), signals)


def _read_log(log: Path) -> ServerLog | None:
    try:
        return read_server_log(log)
    except InputError:
        return None


def _reported_version(url: str) -> Version | None:
    answer = http_get(url, "/version", FACTS_TIMEOUT)
    if answer is None or answer[0] != 200:
        return None
    try:
        return _parse_version(json.loads(answer[1])["version"])
    except (ValueError, KeyError, TypeError):
        return None


def _parse_version(text: object) -> Version | None:
    try:
        return Version.parse(text) if isinstance(text, str) else None
    except InputError:
        return None
