"""CONTRIBUTING.md shows each kind of addition as a diff: applied to a copy of the package, it does what the page says.

A section has one diff and one console block. A command that prints nothing below it on the page may print anything.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"


def additions() -> dict[str, tuple[str, str]]:
    """Heading to diff and console block, of every section that has a diff."""
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = {}
    for section in sections:
        heading = section.partition("\n")[0]
        diffs = re.findall(r"^```diff\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
        consoles = re.findall(r"^```console\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
        if diffs:
            (diff,), (console,) = diffs, consoles
            found[heading] = (diff, console)
    return found


ADDITIONS = additions()
FILES = {
    "Add a result format": 2,
    "Add an output format": 2,
    "Add a metric": 1,
    "Add a command": 2,
    "Add a family of accelerators": 2,
}
"""How many files each kind of addition takes."""


def test_every_kind_of_addition_is_shown_with_as_few_files_as_promised():
    shown = {heading: len(re.findall(r"^\+\+\+ ", diff, re.MULTILINE)) for heading, (diff, _) in ADDITIONS.items()}
    assert shown == FILES


@pytest.mark.parametrize("heading", ADDITIONS)
def test_an_addition_works_as_shown(heading, tmp_path):
    diff, console = ADDITIONS[heading]
    for name in ("regress_gate", "known_issues", "baselines"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    subprocess.run(["git", "apply", "-"], input=diff, text=True, cwd=tmp_path, check=True)
    for lint in (["check", "--no-cache"], ["format", "--check", "--no-cache"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *lint, "regress_gate"], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("REGRESS_GATE_", "XDG_"))}
    environment |= {"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path), "COLUMNS": "120"}
    program = (
        f'regress-gate() {{ "{sys.executable}" -m regress_gate "$@"; }}\npython() {{ "{sys.executable}" "$@"; }}\n'
    )
    for call in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command, _, printed = call.partition("\n")
        done = subprocess.run(
            ["bash", "-c", program + command],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert not printed.strip() or done.stdout == printed
