"""Whether a version is affected, and whether a fix is known: by the record alone, or by the source of the build.

Releases and release candidates are evaluated as OSV evaluates them, in PEP 440 order. The names of nightlies and
commits have no order, so they are known only if a record names exactly that commit. A closed thread alone is never a
fix. A record's `code` is evaluated on the source of a build, which is neither imported nor executed, and what cannot be
read is not known. Not for: where the source comes from, and what a build's history says
(`known.tracker.verification`).
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version as Pep440

from regress_gate.bench.inspect.wheel_metadata import DemandedVersions
from regress_gate.known.matching import names
from regress_gate.known.threads import ThreadRef, published_kind
from regress_gate.model.issue import VLLM_REPO, Change, CodeCondition, Event, IssueKind, KnownIssue, Range, Status
from regress_gate.model.version import Version, version_key
from regress_gate.vllm.build_config import Argument, BuildConfig, is_fixed


def affects(issue: KnownIssue, version: Version) -> bool | None:
    """Whether the issue is in that build; None if the record and the build's name do not decide it.

    A release candidate (0.20.0rc1) answers None while it and its release fall on different sides of an event: the
    change may have come before or after it was cut. Records that name a candidate decide for that release's others.
    """
    ranges = _vllm_ranges(issue)
    if any(len(part.events) == 1 and part.events[0].introduced == "0" for part in ranges):
        return True
    key = version.order_key
    if key is None:
        return _affects_commit(ranges, version.commit)
    releases = [part for part in ranges if part.type == "ECOSYSTEM"]
    if not releases:
        return None
    affected = any(_is_in_range(part, key) for part in releases)
    if key.is_prerelease:
        final = version_key(key.base_version)
        named = [event.key for part in releases for event in part.events]
        decided = any(name.is_prerelease and name.base_version == key.base_version for name in named)
        if not decided and affected != any(_is_in_range(part, final) for part in releases):
            return None
    return affected


def has_fix_before(issue: KnownIssue, version: Version) -> bool:
    """Whether a fix is recorded at or before that release, even if the issue came back later."""
    key = version.order_key
    if key is None:
        return _affects_commit(_vllm_ranges(issue), version.commit) is False
    releases = [part for part in _vllm_ranges(issue) if part.type == "ECOSYSTEM"]
    return any(event.fixed and event.key <= key for part in releases for event in part.events)


def introduced_in_series(issue: KnownIssue, version: Version) -> bool:
    """Whether the issue came with a release of the version's own series: 0.24.0 or 0.24.1 for 0.24.1."""
    key = version.order_key
    releases = [part for part in _vllm_ranges(issue) if part.type == "ECOSYSTEM"]
    brought = [event.key for part in releases for event in part.events if event.introduced]
    return key is not None and any(at.release[:2] == key.release[:2] for at in brought)


def has_recorded_fix(issue: KnownIssue) -> bool:
    return any(event.fixed for part in _vllm_ranges(issue) for event in part.events)


def range_text(issue: KnownIssue) -> str:
    """`0.20.0 to before 0.23.0`, `since 0.11.1, no fixed release known`, `every version so far`."""
    releases = [part for part in _vllm_ranges(issue) if part.type == "ECOSYSTEM"]
    texts = [text for part in releases for text in _interval_texts(part.in_order)]
    return "; ".join(texts) or "known by commits only"


def _interval_texts(events: list[Event]) -> Iterator[str]:
    start = ""
    for event in events:
        if event.introduced:
            start = event.introduced
        elif event.fixed:
            yield f"{start} to before {event.fixed}" if start != "0" else f"before {event.fixed}"
            start = ""
        else:
            yield f"{start} to {event.last_affected}" if start != "0" else f"up to {event.last_affected}"
            start = ""
    if start:
        yield "every version so far" if start == "0" else f"since {start}, no fixed release known"


def release_events(issue: KnownIssue) -> list[Event]:
    """Where the issue begins and ends among releases."""
    return [event for part in _vllm_ranges(issue) if part.type == "ECOSYSTEM" for event in part.events]


def _vllm_ranges(issue: KnownIssue) -> list[Range]:
    return [part for entry in issue.affected if entry.package.name == "vllm" for part in entry.ranges]


def _is_in_range(part: Range, key: Pep440) -> bool:
    """OSV's walk: the last event at or before the version decides; `last_affected` still includes its version."""
    affected = False
    for event in part.in_order:
        if event.introduced and key >= event.key:
            affected = True
        elif (event.fixed and key >= event.key) or (event.last_affected and key > event.key):
            affected = False
    return affected


def _affects_commit(ranges: list[Range], commit: str | None) -> bool | None:
    for part in ranges:
        for event in part.events:
            known = event.value
            if part.type == "GIT" and commit and (commit.startswith(known) or known.startswith(commit)):
                return event.fixed is None
    return None


_CLOSINGS = {
    "stale": "closed by the inactivity bot",
    "not_planned": "closed as not planned",
    "duplicate": "closed as a duplicate",
    "completed": "closed as completed",
}


def fix_status(issue: KnownIssue, candidate: Version, *, in_code: bool | None = None) -> tuple[Status, str]:
    """The status for that candidate, and its reason, with the date of the review or of the last look at the thread.

    `in_code`: whether the build's own source has the fault, which beats the versions.
    """
    if in_code is not None:
        why = f"measured in the code of this build (record reviewed {issue.reviewed.isoformat()})"
        if not in_code:
            return Status.ABSENT_IN_CODE, why
        return Status.FIX_NOT_IN_CANDIDATE if has_recorded_fix(issue) else fix_status(issue, candidate)[0], why
    if has_recorded_fix(issue):
        return _status_by_ranges(issue, candidate)
    seen = f"(tracker seen {issue.tracker.checked.isoformat()})"
    match issue.tracker.state:
        case "open" if issue.tracker.state_reason == "reopened":
            return Status.OPEN, f"reopened, no fix known {seen}"
        case "open":
            return Status.OPEN, f"open, no fix known {seen}"
        case "closed":
            how = _CLOSINGS.get(issue.tracker.state_reason or "", "closed for an unknown reason")
            return Status.CLOSED_UNFIXED, f"{how}, no fix known {seen}"
        case "merged" if tracks_the_cause(issue):
            return Status.CLOSED_UNFIXED, f"the thread is the change itself; no revert is known {seen}"
        case "merged":
            return Status.UNKNOWN, f"merged, but no fixed release is recorded {seen}"
        case _ if kind := published_kind(issue.tracker.url):
            day = issue.tracker.checked.isoformat()
            return Status.UNKNOWN, f"no thread; read in the published {kind} on {day}"
        case _:
            return Status.UNKNOWN, f"the state of the thread is not known {seen}"


def tracks_the_cause(issue: KnownIssue) -> bool:
    """Whether the thread is the pull request that caused the issue: its merge is not a fix."""
    thread = ThreadRef.parse(issue.tracker.url)
    if thread is None or thread.kind != "pull":
        return False
    if any(_names_thread(change, thread) for change in issue.changes.fixed_by):
        return False
    if any(_names_thread(change, thread) for change in issue.changes.introduced_by):
        return True
    urls = {(reference.type, reference.url) for reference in issue.references}
    if ("FIX", issue.tracker.url) in urls:
        return False
    return ("INTRODUCED", issue.tracker.url) in urls or issue.kind is IssueKind.DEFAULT_CHANGE


def _names_thread(change: Change, thread: ThreadRef) -> bool:
    return change.pull == thread.number and (change.repo or VLLM_REPO).lower().endswith("/" + thread.repo.lower())


def _status_by_ranges(issue: KnownIssue, candidate: Version) -> tuple[Status, str]:
    record = f"(affected: {range_text(issue)}; record reviewed {issue.reviewed.isoformat()})"
    fixed, fix = ("reverted", "revert") if issue.kind is IssueKind.DEFAULT_CHANGE else ("fixed", "fix")
    match affects(issue, candidate):
        case None:
            return Status.UNKNOWN, f"whether {candidate} has the {fix} is not known {record}"
        case True if has_fix_before(issue, candidate):
            return Status.FIX_NOT_IN_CANDIDATE, f"{fixed} earlier, but back in {candidate} {record}"
        case True:
            return Status.FIX_NOT_IN_CANDIDATE, f"{candidate} does not have the recorded {fix} {record}"
        case False if has_fix_before(issue, candidate):
            return Status.FIX_IN_CANDIDATE, f"{candidate} has the recorded {fix} {record}"
        case _:
            return Status.FIX_NOT_IN_CANDIDATE, f"{candidate} has neither the issue nor the {fix} {record}"


# By the source of the build

ReadFile = Callable[[str], str | None]
"""The text of a file of the build by its path in the wheel; None if the build has no such file."""
_MISSING = object()


class BuildSource:
    """The source of one build.

    `read` gives the text of a file, `config` the defaults of arguments and variables, `demanded` what its metadata
    demands; the last two give None if it is not known, and are called when the first condition needs them. All may
    raise what they like, which is passed on.
    """

    def __init__(
        self,
        read: ReadFile,
        config: Callable[[], BuildConfig | None],
        demanded: Callable[[], DemandedVersions | None],
    ):
        self._read, self._config, self._demanded = cache(read), cache(config), cache(demanded)
        self._definitions: dict[str, Mapping[str, str] | None] = {}

    def has_fault(self, issue: KnownIssue) -> bool | None:
        """Whether every condition of the record holds; None if that is not known, or it has none."""
        return all_hold(self.holds(condition) for condition in issue.code)

    def reason(self, issue: KnownIssue) -> str:
        """The conditions that decide `has_fault`, in words."""
        failed = [condition.text for condition in issue.code if self.holds(condition) is False]
        return f"it is not so that {failed[0]}" if failed else "; ".join(condition.text for condition in issue.code)

    def holds(self, condition: CodeCondition) -> bool | None:
        """Whether one condition holds; None if what it needs cannot be read."""
        if condition.file is not None:
            return self._text_holds(condition)
        if condition.requires is not None:
            return self._requirement_holds(condition.requires, str(condition.version))
        config = self._config()
        if config is None:
            return None
        if condition.argument is not None:
            found = config.arguments.get(condition.argument)
            default = found.default if isinstance(found, Argument) else _MISSING
            complete = bool(config.arguments) and not config.unread
        else:
            default = config.env.get(str(condition.env), _MISSING)
            complete = bool(config.env) and not config.unread
        if default is _MISSING:
            return False if complete else None
        return _same_default(condition.default, default)

    def _requirement_holds(self, package: str, versions: str) -> bool | None:
        demanded = self._demanded()
        if demanded is None or package not in demanded:
            return None if demanded is None else False
        allowed = demanded[package]
        return None if allowed is None else not (allowed & SpecifierSet(versions)).is_unsatisfiable()

    def _text_holds(self, condition: CodeCondition) -> bool | None:
        text = self._read(str(condition.file))
        if text is not None and condition.within is not None:
            definitions = self._definitions_of(str(condition.file), text)
            if definitions is None:
                return None
            text = definitions.get(condition.within)
        is_in = text is not None and any(wanted in text for wanted in condition.present or condition.absent or ())
        return is_in if condition.present is not None else not is_in

    def _definitions_of(self, file: str, text: str) -> Mapping[str, str] | None:
        if file not in self._definitions:
            self._definitions[file] = _definitions(text)
        return self._definitions[file]


def all_hold(answers: Iterable[bool | None]) -> bool | None:
    """False if one is False, else None if one is unknown or there is none, else True."""
    found = list(answers)
    if False in found:
        return False
    return None if None in found or not found else True


def _same_default(wanted: Any, found: Any) -> bool | None:
    if not is_fixed(found):
        return None
    if wanted is None or found is None:
        return wanted is found
    if isinstance(wanted, bool) or isinstance(found, bool):
        return names.same_env_value(str(wanted), str(found))
    return isinstance(found, str | int | float) and names.same_value(wanted, found)


def _definitions(source: str) -> Mapping[str, str] | None:
    """`class Foo`, `def make`, `def Foo.make` with their texts, decorators included; None for what is no Python.

    Of several definitions of one name, all texts.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    lines = source.replace("\r\n", "\n").split("\n")  # as Python counts them: `splitlines` also splits at form feeds
    found: dict[str, str] = {}
    for name, node in _named_nodes(tree.body, ""):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        found[name] = found.get(name, "") + "\n".join(lines[first - 1 : node.end_lineno]) + "\n"
    return found


def _named_nodes(
    body: Iterable[ast.stmt], prefix: str
) -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield f"class {prefix}{node.name}", node
            yield from _named_nodes(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"def {prefix}{node.name}", node
        elif isinstance(node, ast.If | ast.Try):
            for part in (node.body, node.orelse, *(handler.body for handler in getattr(node, "handlers", ()))):
                yield from _named_nodes(part, prefix)
