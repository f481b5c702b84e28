"""A session with the loopback server that never really waits."""

from datetime import UTC, datetime
from pathlib import Path

from regress_gate.known.tracker.github import Api
from regress_gate.known.tracker.github_cache import TrackerCache
from regress_gate.known.tracker.github_wire import connect
from tests.known.github_server import GitHub

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def session(
    github: GitHub,
    directory: Path,
    *,
    token: str | None = None,
    offline: bool = False,
    waits: list[float] | None = None,
) -> Api:
    """One run of the program; the next one with the same directory finds what this one kept."""
    return Api(
        github.url,
        TrackerCache(directory / "cache"),
        None if offline else connect(github.url, token),
        anonymous=token is None,
        wait=(waits if waits is not None else []).append,
        now=lambda: NOW,
    )
