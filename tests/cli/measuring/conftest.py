"""A laboratory for each test; what a failing one leaves running is ended."""

from collections.abc import Iterator

import pytest

from tests.cli.conftest import Gate
from tests.cli.measuring.lab import Lab


@pytest.fixture
def lab(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    lab = Lab(gate, monkeypatch)
    yield lab
    lab.close()
