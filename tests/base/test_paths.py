"""The tool's files follow the directories of the user's system."""

from pathlib import Path

import pytest

from regress_gate import paths
from regress_gate.errors import RegressGateError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for kind in ("CACHE", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))
    return tmp_path


@pytest.mark.parametrize(
    ("find", "expected"),
    [
        (paths.store_file, "data/regress-gate/store.db"),
        (paths.release_cache_file, "cache/regress-gate/releases.json"),
        (paths.tracker_cache_directory, "cache/regress-gate"),
        (paths.environments_directory, "cache/regress-gate/environments"),
        (paths.images_directory, "cache/regress-gate/images"),
        (paths.models_directory, "cache/regress-gate/models"),
        (paths.servers_directory, "state/regress-gate/servers"),
        (paths.clocks_directory, "state/regress-gate/clocks"),
        (lambda: paths.logs_directory("e1"), "state/regress-gate/logs/e1"),
    ],
)
def test_user_directories(home: Path, find, expected: str) -> None:
    assert find() == home / expected
    assert list(home.iterdir()) == []  # nothing is made


@pytest.mark.parametrize("name", ["known_issues", "baselines"])
def test_shipped_directories(name: str) -> None:
    assert paths.shipped_directory(name).is_dir()


def test_an_installation_without_its_data_says_so() -> None:
    with pytest.raises(RegressGateError, match="lacks its no_such_data directory; install"):
        paths.shipped_directory("no_such_data")
