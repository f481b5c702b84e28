"""A session with the loopback server that never really waits."""

from datetime import UTC, datetime
from pathlib import Path

from regress_gate.github import GitHub as Client
from tests.fake_github.server import GitHub

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def session(
    github: GitHub,
    directory: Path,
    *,
    token: str | None = None,
    offline: bool = False,
    waits: list[float] | None = None,
) -> Client:
    """One run of the program; the next one with the same directory finds what this one kept."""
    wait = (waits if waits is not None else []).append
    return Client(github.url, directory / "cache", token=token, offline=offline, wait=wait, now=lambda: NOW)
