from collections.abc import Iterator

import pytest

from tests.fake_github.server import GitHub, serving


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(GitHub()) as server:
        yield server
