"""What holds for all tests of the bench: short waits."""

import pytest

from regress_gate.bench.server import lifecycle, server


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look more often whether a server is ready or gone. No result depends on it."""
    monkeypatch.setattr(server, "_START_POLL", 0.02)
    monkeypatch.setattr(lifecycle, "_END_POLL", 0.01)
