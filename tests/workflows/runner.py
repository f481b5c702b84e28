"""Runs the workflows of this repository with act: on this machine, without containers and without GitHub.

Only the actions of others are stand-ins (`stubs/`); the gate is the real one, installed from this checkout by its own
action, and GitHub is `tests.fake_github` on loopback.
"""

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
STUBS = Path(__file__).parent / "stubs"
TOKEN = "ghs_fake"


def program(name: str) -> str:
    """A program of the extra `workflows`. Fails where it is not installed: nothing here is skipped."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    found = shutil.which(name, path=path)
    assert found, f"{name} is not installed: pip install -e '.[test,workflows]'"
    return found


def uses(document: Any) -> Iterator[str]:
    """Every action that a workflow or an action names."""
    if isinstance(document, dict):
        for key, value in document.items():
            if key == "uses" and isinstance(value, str):
                yield value
            else:
                yield from uses(value)
    elif isinstance(document, list):
        for item in document:
            yield from uses(item)


@dataclass
class Step:
    name: str
    result: str = ""
    lines: list[str] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)
    summary: str = ""
    seconds: float = 0.0


@dataclass
class Run:
    """What a run of a workflow left."""

    code: int
    steps: dict[tuple[str, ...], Step]
    """By the ids of the step and of those that it stands in, with the job's first."""
    text: str
    """All that act printed."""
    artifacts: Path

    @property
    def failed(self) -> list[str]:
        """The steps that are red, without those inside of an action."""
        names = [step.name for ids, step in self.steps.items() if step.result == "failure" and len(ids) == 2]
        return [name.partition("@")[0] for name in names]

    @property
    def log(self) -> str:
        return "".join(line for step in self.steps.values() for line in step.lines)

    @property
    def summary(self) -> str:
        return "".join(step.summary for step in self.steps.values())

    def outputs(self, step: str) -> dict[str, str]:
        return next(one.outputs for ids, one in self.steps.items() if ids[1:] == (step,))

    def artifact(self, name: str) -> dict[str, bytes]:
        directory = self.artifacts / name
        files = (file for file in directory.rglob("*") if file.is_file())
        return {str(file.relative_to(directory)): file.read_bytes() for file in files}


@dataclass
class Runner:
    """One machine on which workflows run: its tool cache stays, as on a runner of one's own."""

    directory: Path
    action: Path
    """The files of this repository, as GitHub would fetch them."""
    cache: Path
    """What GitHub's cache holds."""

    @property
    def tools(self) -> Path:
        """Where the tool is installed: act's own place for it."""
        return self.directory / "cache" / "act" / "tool_cache" / "regress-gate"

    def command(
        self,
        workflow: Path,
        event: str,
        event_file: Path,
        variables: Mapping[str, str],
        secrets: Mapping[str, str],
        settings: Mapping[str, str],
    ) -> list[str]:
        documents = [yaml.safe_load(file.read_text()) for file in (workflow, self.action / "action.yml")]
        replaced = {}
        for name in {one for document in documents for one in uses(document) if not one.startswith(".")}:
            repository, _, reference = name.partition("@")
            owner, repository = repository.split("/")[:2]
            here = self.action if owner == "OWNER" else STUBS / repository
            replaced[f"{owner}/{repository}@{reference}"] = here
        labels = {"ubuntu-latest", "ubuntu-24.04", "self-hosted", "gpu"}
        return [
            *(program("act"), event, "--json", "--workflows", str(workflow), "--eventpath", str(event_file)),
            *("--no-cache-server", "--no-skip-checkout"),
            *(part for name, value in secrets.items() for part in ("--secret", f"{name}={value}")),
            *(part for name, value in settings.items() for part in ("--var", f"{name}={value}")),
            *(part for label in labels for part in ("--platform", f"{label}=-self-hosted")),
            *(part for name, path in replaced.items() for part in ("--local-repository", f"{name}={path}")),
            *(part for name, value in variables.items() for part in ("--env", f"{name}={value}")),
        ]

    def environment(self) -> dict[str, str]:
        kept = ("PATH", "HOME", "LANG", "PIP_INDEX_URL", "PIP_CONFIG_FILE", "PIP_FIND_LINKS", "SSL_CERT_FILE")
        return {name: os.environ[name] for name in kept if name in os.environ} | {
            "XDG_CACHE_HOME": str(self.directory / "cache"),
            "XDG_DATA_HOME": str(self.directory / "data"),
        }


def read_run(code: int, text: str, artifacts: Path) -> Run:
    steps: dict[tuple[str, ...], Step] = {}
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        ids = (entry.get("jobID", ""), *entry.get("stepID", ()))
        if len(ids) < 2 or entry.get("stage") != "Main":
            continue
        step = steps.setdefault(ids, Step(entry["step"]))
        if entry.get("raw_output"):
            step.lines.append(entry["msg"])
        if entry.get("command") == "summary":
            step.summary += entry["content"]
        if entry.get("command") == "set-output":
            step.outputs[entry["name"]] = entry["arg"]
        step.result = entry.get("stepResult", step.result)
        step.seconds = entry.get("executionTime", 0) / 1e9 or step.seconds
    return Run(code, steps, text, artifacts)


def export_action(directory: Path) -> Path:
    """The tracked files, and those that would be, as they lie here."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    kept = (
        ".pre-commit-hooks.yaml",
        "action.yml",
        "ci/",
        "regress_gate/",
        "known_issues/",
        "baselines/",
        "constraints.txt",
        "hatch_build.py",
    )
    for name in listed.stdout.decode().split("\0"):
        if name.startswith((*kept, "pyproject.toml", "README.md", "LICENSE")) and (ROOT / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, directory / name)
    return directory


def link_action(files: Path, directory: Path) -> Path:
    """An action whose folders of many files are links: act copies the whole of an action for every run, at a second's
    cost, and copies a link as a link."""
    directory.mkdir()
    for part in files.iterdir():
        if part.is_dir() and part.name != "ci":  # its scripts find the action by their own place
            (directory / part.name).symlink_to(part)
        else:
            part.rename(directory / part.name)
    return directory
