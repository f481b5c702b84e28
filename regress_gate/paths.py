"""Where the data that comes with the program stands: beside the package in a checkout, inside it in a wheel."""

from pathlib import Path

from regress_gate.errors import RegressGateError

PACKAGE_DIRECTORY = Path(__file__).parent


def shipped_directory(name: str) -> Path:
    """The directory `known_issues` or `baselines`. Raises RegressGateError when the installation lacks it."""
    for candidate in (PACKAGE_DIRECTORY / "_data" / name, PACKAGE_DIRECTORY.parent / name):
        if candidate.is_dir():
            return candidate
    raise RegressGateError(f"this installation lacks its {name} directory; install vllm-regress-gate again")
