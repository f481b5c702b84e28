"""What a ready server tells of itself, by its log, `/version` and `/metrics`. Not for what it was told to do."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regress_gate.bench.server.bounded import plain
from regress_gate.bench.server.http import get
from regress_gate.bench.server.log_lines import read_start
from regress_gate.bench.server.masking import mask_values
from regress_gate.bench.server.metrics_text import kv_cache_tokens, parse_metrics
from regress_gate.bench.server.start_log import StartLog, read_start_log
from regress_gate.errors import InputError
from regress_gate.model.version import Version

TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class ServerFacts:
    version: Version | None
    """As /version says, else the log."""
    kv_cache_tokens: int | None
    """As the log says, else /metrics."""
    log: StartLog
    """Empty for a server whose log is not ours to read."""

    def as_document(self) -> dict[str, Any]:
        """Plain JSON values of bounded size, to be kept with what was measured on the server."""
        log = self.log
        return {
            "version": None if self.version is None else str(self.version),
            "kv_cache_tokens": self.kv_cache_tokens,
            "architecture": plain(log.architecture),
            "backends": plain(log.backends),
            "non_default_args": plain(log.non_default_args),
            "config": plain(log.config),
            "split": asdict(log.split),
            "max_concurrency": log.max_concurrency,
            "weights_bytes": log.weights_bytes,
        }


def read_facts(url: str, log: Path | None, secrets: tuple[str, ...] = ()) -> ServerFacts:
    """Ask a server that is ready. `secrets` are masked wherever its log has them; `as_document` masks by looks, too."""
    start = read_start_log(mask_values(read_start(log), secrets)) if log else StartLog()
    tokens = start.kv_cache_tokens
    if tokens is None and (answer := get(url, "/metrics", TIMEOUT)) is not None and answer[0] == 200:
        tokens = kv_cache_tokens(parse_metrics(answer[1].decode("utf-8", "replace")))
    return ServerFacts(_asked_version(url) or _version(start.version), tokens, start)


def _asked_version(url: str) -> Version | None:
    answer = get(url, "/version", TIMEOUT)
    if answer is None or answer[0] != 200:
        return None
    try:
        return _version(json.loads(answer[1])["version"])
    except (ValueError, KeyError, TypeError):
        return None


def _version(text: object) -> Version | None:
    try:
        return Version.parse(text) if isinstance(text, str) else None
    except InputError:
        return None
