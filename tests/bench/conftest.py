"""What holds for all tests of the bench: short waits."""

import pytest

from tests.fake_vllm.quick_starts import shorten_waits


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_waits(monkeypatch.setattr)
