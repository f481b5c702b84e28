"""Whether a record's scope can hold, and not for everybody, and whether its workarounds are told from it."""

import re
from collections.abc import Iterator
from datetime import date

from regress_gate.known import names
from regress_gate.model.complaint import Found
from regress_gate.model.documents import Location
from regress_gate.model.issue import IssueKind, KnownIssue
from regress_gate.model.scope import Scope

_FOR_EVERYBODY = (IssueKind.DEFAULT_CHANGE, IssueKind.REMOVED_FLAG, IssueKind.NOT_A_BUG)
_GLOBS = (
    *("accelerator", "model", "architecture", "quantization", "kv_cache_dtype", "moe_quantization", "distribution"),
)


def scope(issue: KnownIssue, today: date) -> Iterator[Found]:  # noqa: ARG001
    given = issue.scope
    if given == Scope() and issue.details is None and issue.kind not in _FOR_EVERYBODY:
        what = "the scope is empty, so that the record applies to everybody: narrow it, or say why in details"
        yield ("scope",), what, "warning"
    for location, listed in _globs(given):
        for index, pattern in enumerate(listed):
            yield from _pattern(location[-1], pattern, (*location, index))
    for key in ("parallel", "backends", "workload"):
        if (part := getattr(given, key)) is not None and not part.model_dump(exclude_none=True):
            yield ("scope", key), f"{key} says nothing: leave the key out", "error"
    for key, allowed in (given.engine_args or {}).items():
        if names.canonical_args({key: True}) != {key: True}:
            what = f"engine argument {key}: write its full name, with underscores and no leading dashes or no_"
            yield ("scope", "engine_args", key), what, "error"
        if allowed == []:
            yield ("scope", "engine_args", key), f"engine argument {key}: an empty list never holds", "error"
    for key, values in (given.env or {}).items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
            yield ("scope", "env", key), f"{key!r} is no name of an environment variable", "error"
        if values == []:
            yield ("scope", "env", key), f"variable {key}: an empty list never holds", "error"


def _globs(given: Scope) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """The lists of patterns, with their places."""
    for key in _GLOBS:
        yield ("scope", key), getattr(given, key) or []
    for part, patterns in given.backends or ():
        yield ("scope", "backends", part), patterns or []


def _pattern(field: str, pattern: str, location: Location) -> Iterator[Found]:
    if not pattern.strip("*? /"):
        yield location, f"{field} pattern {pattern!r} matches everything: leave the key out", "error"
    elif pattern.count("[") != pattern.count("]"):
        yield location, f"{field} pattern {pattern!r} has an unfinished [", "error"
    elif field == "accelerator" and "[" in pattern:
        yield location, f"accelerator pattern {pattern!r}: write a part's name, with * or ? and no [", "error"


def workarounds(issue: KnownIssue, today: date) -> Iterator[Found]:  # noqa: ARG001
    """A workaround that is also what the scope asks for could never be told from the trouble."""
    scope_args, scope_env = issue.scope.engine_args or {}, issue.scope.env or {}
    for index, workaround in enumerate(issue.workarounds):
        for key, value in names.canonical_args(workaround.engine_args or {}).items():
            wanted = scope_args.get(key, [])
            if any(names.same_value(value, one) for one in (wanted if isinstance(wanted, list) else [wanted])):
                what = f"the workaround {key}={value} is what the scope asks for"
                yield ("workarounds", index, "engine_args"), what, "error"
        for key, text in (workaround.env or {}).items():
            allowed = scope_env.get(key, [])
            if any(names.same_variable(text, one) for one in (allowed if isinstance(allowed, list) else [allowed])):
                what = f"the workaround {key}={text} is what the scope asks for"
                yield ("workarounds", index, "env"), what, "error"
