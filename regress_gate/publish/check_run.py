"""The check run on the commit: opened before measuring, always concluded, found again by name, commit and our id.

GitHub does not reopen a check run that is completed, and an update adds its annotations to those that are there. So an
open one is updated once, to its conclusion; what is completed and says something else is replaced by a new check run
of the same name, which is the one that GitHub shows and counts. (https://github.com/orgs/community/discussions/24761)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from github.CheckRun import CheckRun

from regress_gate.github import GitHub
from regress_gate.publish.writing import written
from regress_gate.report.findings import Finding, Level
from regress_gate.text import clip, one_line

PERMISSION = "checks: write"
MAX_MESSAGE_BYTES = 60_000
"""Of an annotation; GitHub allows 64 KB."""
_ANNOTATION_LEVEL = {Level.ERROR: "failure", Level.WARNING: "warning", Level.NOTE: "notice"}
_COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class CheckPlace:
    """Which check run."""

    repository: str
    sha: str
    name: str
    """As people see it and as branch rules demand it."""
    details_url: str

    @property
    def external_id(self) -> str:
        return f"regress-gate:v1:{self.name}"


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    done: str
    url: str


def open_check(client: GitHub, place: CheckPlace, text: str) -> CheckOutcome:
    """Show the check as running. Raises NotWrittenError. May be called again after any interruption."""

    def act() -> CheckOutcome:
        for run in _own_check_runs(client, place):
            if run.status != _COMPLETED:
                return CheckOutcome("open already", run.html_url)
        output: dict[str, Any] = {"title": "Running", "summary": text}
        run = _create(client, place, status="in_progress", output=output)
        return CheckOutcome("opened", run.html_url)

    return written(client, _what(place), PERMISSION, act)


def conclude_check(
    client: GitHub, place: CheckPlace, conclusion: str, title: str, summary: str, annotations: tuple[Finding, ...]
) -> CheckOutcome:
    """Conclude what is open, or else make one that is concluded. The same errors as `open_check`."""

    def act() -> CheckOutcome:
        runs = _own_check_runs(client, place)
        output: dict[str, Any] = {"title": title, "summary": summary}
        unfinished = [run for run in runs if run.status != _COMPLETED]
        newest = runs[0] if runs else None
        for older in unfinished[1:]:  # two runs at the same time each opened one
            older.edit(status=_COMPLETED, conclusion=conclusion, output=output)
        full = {**output, "annotations": [_annotation(one) for one in annotations]}
        if unfinished:
            unfinished[0].edit(status=_COMPLETED, conclusion=conclusion, output=full)
            return CheckOutcome(f"concluded: {conclusion}", unfinished[0].html_url)
        if newest is not None and _says(newest) == (conclusion, title, summary.strip()):
            return CheckOutcome(f"unchanged: {conclusion}", newest.html_url)
        made = _create(client, place, status=_COMPLETED, conclusion=conclusion, output=full)
        return CheckOutcome(f"concluded: {conclusion}", made.html_url)

    return written(client, _what(place), PERMISSION, act)


def _what(place: CheckPlace) -> str:
    return f"the check run on {place.sha[:12]}"


def _create(client: GitHub, place: CheckPlace, **state: Any) -> CheckRun:
    if place.details_url:
        state["details_url"] = place.details_url
    repository = client.api.get_repo(place.repository)
    return repository.create_check_run(place.name, place.sha, external_id=place.external_id, **state)


def _own_check_runs(client: GitHub, place: CheckPlace) -> list[CheckRun]:
    """The newest first. `filter=all`: of several runs, `latest` may be the one that is completed."""
    commit = client.api.get_repo(place.repository).get_commit(place.sha)
    runs = commit.get_check_runs(check_name=place.name, filter="all")
    return sorted((run for run in runs if run.external_id == place.external_id), key=lambda run: run.id, reverse=True)


def _says(run: CheckRun) -> tuple[str, str, str]:
    return run.conclusion, run.output.title or "", (run.output.summary or "").strip()


def _annotation(finding: Finding) -> dict[str, Any]:
    """Annotations are plain text: nothing in them is markup."""
    assert finding.location is not None  # noqa: S101 - only placed findings are annotated
    line = finding.location.line or 1
    message = "\n".join(map(one_line, (finding.text, *finding.details)))
    return {
        "path": finding.location.file,
        "start_line": line,
        "end_line": line,
        "annotation_level": _ANNOTATION_LEVEL[finding.level],
        "title": clip(one_line(finding.title), 250),
        "message": clip(message, MAX_MESSAGE_BYTES // 4) or one_line(finding.title) or "(no text)",
    }
