"""Whom to ask, and where what it said is kept. Cheap to import, for who only wants to know if anything is there."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

DEFAULT_API = "https://api.github.com"
SNAPSHOT = "threads.snapshot"
"""The file beside the entries in which the last sync keeps what it saw."""


def api_base(environment: Mapping[str, str]) -> str:
    """The address of the interface: GitHub's own, or the one that REGRESS_GATE_GITHUB_API names."""
    return environment.get("REGRESS_GATE_GITHUB_API") or DEFAULT_API


def api_directory(root: Path, base: str) -> Path:
    """Where what the API at `base` said is kept: servers are never mixed."""
    return root / "tracker" / hashlib.sha256(base.rstrip("/").encode()).hexdigest()[:16]
