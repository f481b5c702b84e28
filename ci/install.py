"""Installs regress-gate into an environment of its own, for action.yml: from this checkout, or another version that is
named, from the package index. Standard library alone.

    install.py plan       writes the outputs `path`, `key` and `ready` of a step
    install.py PATH       makes the environment, unless it is complete

The place and the key follow from everything that the environment is made of, so an environment that exists is never
changed. A complete one has a marker, which is written last.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").is_file())
"""This checkout. Not the parent of this folder: our own CI calls the action through links, and the runner makes copies
of what they lead to (actions/runner, IOUtil.CopyDirectory)."""
PARTS = ("regress_gate", "known_issues", "baselines", "ci", "constraints.txt", "hatch_build.py", "pyproject.toml")
"""What an installation depends on, besides the Python that makes it."""
EXTRAS = "gpu,postgresql"
MARKER = "complete"


class VersionError(Exception):
    """The input `version` names no version."""


def wanted_version() -> str:
    """The input `version`; empty: that of this checkout. Raises VersionError."""
    version = os.environ.get("INPUT_VERSION", "").strip().removeprefix("v")
    if version and not re.fullmatch(r"[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?", version):
        raise VersionError("input version is one version of regress-gate, such as 1.4.2")
    return version


def plan(version: str = "") -> dict[str, str]:
    """Where the environment belongs, its key in a cache, and whether it is there."""
    directory = Path(os.environ.get("RUNNER_TOOL_CACHE") or os.environ["RUNNER_TEMP"]) / "regress-gate"
    digest = hashlib.sha256()
    # An environment points to its Python and holds its own place; it works nowhere else.
    for fact in (sys.version, os.path.realpath(sys.executable), str(directory), EXTRAS, version):
        digest.update(fact.encode() + b"\0")
    for file in _files():
        content = file.read_bytes()
        digest.update(f"{file.relative_to(ROOT).as_posix()}\0{len(content)}\0".encode() + content)
    name = digest.hexdigest()[:32]
    path = directory / name
    return {
        "path": str(path),
        "key": f"regress-gate-{sysconfig.get_platform()}-py{platform.python_version()}-{name}",
        "ready": str(_is_complete(path)).lower(),
    }


def install(path: Path, version: str = "") -> None:
    """Make the environment. Raises CalledProcessError where pip fails, whose output then stands in the log."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Runners of one machine may share the tool cache.
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_complete(path):
            return
        shutil.rmtree(path, ignore_errors=True)
        venv.create(path, with_pip=True, symlinks=True)
        # -I: nothing from the working directory, which is the checkout of a pull request, or from PYTHONPATH.
        pip = [str(path / "bin" / "python"), "-I", "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check"]
        # The constraints are those of this checkout's version; another one may want others. They bind what this project
        # is built with only where that is installed beforehand: pip would take the newest for a build of its own.
        constrained = ["install", "--constraint", str(ROOT / "constraints.txt")]
        for wanted in (
            [["install", f"vllm-regress-gate[{EXTRAS}]=={version}"]]
            if version
            else [[*constrained, *build_requirements()], [*constrained, "--no-build-isolation", f"{ROOT}[{EXTRAS}]"]]
        ):
            subprocess.run([*pip, *wanted], check=True)
        # Later steps get the one command, not the environment's python and pip.
        (path / "command").mkdir()
        (path / "command" / "regress-gate").symlink_to(path / "bin" / "regress-gate")
        (path / MARKER).touch()


def build_requirements() -> list[str]:
    """What a wheel of this checkout is made with."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return list(project["build-system"]["requires"])


def _is_complete(path: Path) -> bool:
    return (path / MARKER).is_file()


def _files() -> list[Path]:
    found: list[Path] = []
    for part in PARTS:
        place = ROOT / part
        found += [place] if place.is_file() else (one for one in place.rglob("*") if one.is_file())
    return sorted(file for file in found if "__pycache__" not in file.parts)


def main(what: str) -> int:
    try:
        version = wanted_version()
    except VersionError as error:
        print(f"::error title=regress-gate::{error}")
        return 2
    if what == "plan":
        with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as outputs:
            outputs.writelines(f"{name}={value}\n" for name, value in plan(version).items())
        return 0
    try:
        install(Path(what), version)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"::error title=regress-gate::the tool could not be installed: {str(error).splitlines()[0]}")
        return 4
    with Path(os.environ["GITHUB_PATH"]).open("a", encoding="utf-8") as path:
        path.write(f"{what}/command\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
