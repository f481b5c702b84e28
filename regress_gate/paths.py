"""Where the program's files are: the data that comes with it, and what it keeps for its user.

The one page of directories. They follow the conventions of the system (XDG on Linux); nothing here makes one.
"""

from pathlib import Path
from typing import Literal

from regress_gate.errors import RegressGateError

PACKAGE_DIRECTORY = Path(__file__).parent
WORKFLOW_FOLDER = Path(".github") / "workflows"
"""Below the root of a repository."""


def shipped_directory(name: str) -> Path:
    """The directory `known_issues`, `baselines` or `ci`: beside the package in a checkout, inside it in a wheel.

    Raises RegressGateError when the installation lacks it.
    """
    for candidate in (PACKAGE_DIRECTORY / "_data" / name, PACKAGE_DIRECTORY.parent / name):
        if candidate.is_dir():
            return candidate
    raise RegressGateError(f"this installation lacks its {name} directory; install vllm-regress-gate again")


def shipped_workflows() -> dict[str, Path]:
    """Name to file of the workflows that can be copied into a repository."""
    files = sorted(shipped_directory("ci").glob("*.yml"))
    return {file.stem: file for file in files if file.name != "gitlab.yml"}


def store_file() -> Path:
    """The SQLite file of the default store."""
    return _user_directory("data") / "store.db"


def release_cache_file() -> Path:
    """The package index's answer about vLLM's releases."""
    return _user_directory("cache") / "releases.json"


def release_tables_directory() -> Path:
    """Arguments and variables of releases that are newer than the shipped table, a file for each."""
    return _user_directory("cache") / "release-tables"


def wheel_members_directory() -> Path:
    """Single files of published wheels, by release."""
    return _user_directory("cache") / "wheel-members"


def wheel_index_cache_directory() -> Path:
    """What indexes of wheels answered to the watch, with the tags by which they are asked whether it changed."""
    return _user_directory("cache") / "wheel-index"


def watch_lock_file(store: str) -> Path:
    """Held by the watch that looks on behalf of a store, which is named by a digest."""
    return _user_directory("state") / f"watch-{store}.lock"


def tracker_cache_directory() -> Path:
    """What GitHub answered, in one directory for each interface."""
    return _user_directory("cache")


def environments_directory() -> Path:
    """Virtual environments with vLLM."""
    return _user_directory("cache") / "environments"


def images_directory() -> Path:
    """What container images hold. The images themselves are kept by docker or podman."""
    return _user_directory("cache") / "images"


def models_directory() -> Path:
    """The tiny models that the tool makes itself."""
    return _user_directory("cache") / "models"


def servers_directory() -> Path:
    """One file for each server that the tool has started and not yet stopped."""
    return _user_directory("state") / "servers"


def clocks_directory() -> Path:
    """One file for each process that holds clocks of GPUs."""
    return _user_directory("state") / "clocks"


def fleet_directory() -> Path:
    """Tasks of the nodes of a cluster that shares this directory, while they run."""
    return _user_directory("state") / "fleet"


def logs_directory(experiment: str = "") -> Path:
    """Logs of the servers of an experiment; without one, the directory of all."""
    return _user_directory("state") / "logs" / experiment


def _user_directory(kind: Literal["cache", "data", "state"]) -> Path:
    import platformdirs  # not installed where only the records are read

    find = {
        "cache": platformdirs.user_cache_path,
        "data": platformdirs.user_data_path,
        "state": platformdirs.user_state_path,
    }[kind]
    return find("regress-gate", appauthor=False)
