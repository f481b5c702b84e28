"""What comparisons show of known issues in the build that they measured: the strongest evidence that one is gone.

Only what cannot be mistaken counts: the record applies to the deployment, the move from the baseline would bring the
issue (so the baseline is free of it), the testbed is comparable, and the smallest loss that the record claims is
excluded wherever it claims one (`measured: not_observed`).
"""

import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from regress_gate.errors import InputError
from regress_gate.model.finding import Applies, Effect
from regress_gate.model.result import Measured, Result
from regress_gate.model.version import Version

MAX_BYTES = 64 * 1024 * 1024


def read_result(path: Path) -> Result:
    """What `compare --format json` wrote. Raises InputError."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=path) from None
    try:
        if len(text) > MAX_BYTES:
            raise ValueError
        return Result.model_validate(json.loads(text))
    except (ValidationError, ValueError, RecursionError):
        raise InputError("is no result", where=path, todo="write one with `compare … --output json:PATH`") from None


def measured_fixed(results: Iterable[Result], candidate: Version) -> dict[str, str]:
    """By issue: on what it rests that the candidate was measured without it. The newest result counts."""
    found: dict[str, str] = {}
    for result in sorted(results, key=lambda result: result.created):
        if not _is_of(result, candidate) or result.testbed is None or not result.testbed.comparable:
            continue
        for issue in result.known_issues:
            found.pop(issue.id, None)
            free_before = issue.effect is Effect.NEW and issue.applies is Applies.YES
            if free_before and issue.measured is Measured.NOT_OBSERVED:
                found[issue.id] = (
                    f"measured on {result.testbed.name} against {_baseline(result)}: {issue.measured_why} "
                    f"(measured {result.created.date().isoformat()})"
                )
    return found


def _is_of(result: Result, candidate: Version) -> bool:
    side = result.candidate
    try:
        version = Version.parse(side.version)
    except InputError:
        return False
    commit = side.commit or version.commit
    return Version(version.number, commit, side.variant or version.variant).matches(candidate)


def _baseline(result: Result) -> str:
    return "no baseline" if result.baseline is None else result.baseline.version
