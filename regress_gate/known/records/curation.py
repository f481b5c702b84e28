"""What a curator needs: the linter, and drafts of new records.

The linter finds everything wrong or doubtful in a directory of records, in one pass over all files. Loading answers
"can this record be used?"; linting answers "should it be believed?". Not for: what only a person or GitHub can answer
(does the thread support it? is the fix in the tag?). A draft is written from a thread's address, and from what the
thread says of itself where it was read: a placeholder marks what the curator must write, and the linter refuses a draft
until every placeholder is gone.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from regress_gate.errors import InputError
from regress_gate.known.matching import names
from regress_gate.known.records.coverage import lint_coverage
from regress_gate.known.records.loading import COVERAGE_NAME, SUFFIX, read_document, read_issue, record_files
from regress_gate.known.records.releases import (
    BUILDS_COMMAND,
    BUILDS_NAME,
    BuildProof,
    load_builds,
    names_commit,
    release_date,
)
from regress_gate.model.deployment import Deployment
from regress_gate.model.documents import Document, KeyPath, LintMessage, LocatedMessage
from regress_gate.model.issue import (
    VLLM_REPO,
    Change,
    CodeCondition,
    Event,
    IssueKind,
    KnownIssue,
    Range,
    Reference,
    Scope,
)
from regress_gate.model.version import Version
from regress_gate.text import did_you_mean, sanitise
from regress_gate.vllm.collect_env import deployment_from_collect_env
from regress_gate.vllm.release_tables import names_of
from regress_gate.vllm.serve_command import parse_serve_command

_UNSCOPED_KINDS = (IssueKind.DEFAULT_CHANGE, IssueKind.REMOVED_FLAG, IssueKind.NOT_A_BUG)
_GLOB_KEYS = (
    *("accelerator", "model", "architecture", "quantization", "kv_cache_dtype", "moe_quantization", "distribution"),
)


def _check_scope(issue: KnownIssue, today: date) -> Iterator[LocatedMessage]:  # noqa: ARG001
    given = issue.scope
    if given == Scope() and issue.details is None and issue.kind not in _UNSCOPED_KINDS:
        what = "the scope is empty, so the record applies to every deployment: narrow it, or give the reason in details"
        yield ("scope",), what, "warning"
    yield from _check_scope_keys(given, ("scope",))
    for index, exception in enumerate(given.unless or []):
        yield from _check_scope_keys(exception, ("scope", "unless", index))


def _check_scope_keys(given: Scope, path: KeyPath) -> Iterator[LocatedMessage]:
    """`path`: the keys that lead to this scope in the record."""
    for keys, listed in _list_globs(given):
        for index, pattern in enumerate(listed):
            yield from _check_glob(keys[-1], pattern, (*path, *keys, index))
    for key in ("parallel", "backends", "workload"):
        if (part := getattr(given, key)) is not None and not part.model_dump(exclude_none=True):
            yield (*path, key), f"{key} is empty: remove the key", "error"
    for key, allowed in (given.engine_args or {}).items():
        if names.canonical_args({key: True}) != {key: True}:
            what = f"engine argument {key}: write its full name, with underscores and no leading dashes or no_"
            yield (*path, "engine_args", key), what, "error"
        if allowed == []:
            yield (*path, "engine_args", key), f"engine argument {key}: an empty list never matches", "error"
        yield from _check_values(f"engine argument {key}", allowed, (*path, "engine_args", key))
    for key, values in (given.env or {}).items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
            yield (*path, "env", key), f"{key!r} is not a name of an environment variable", "error"
        if values == []:
            yield (*path, "env", key), f"variable {key}: an empty list never matches", "error"
        yield from _check_values(f"variable {key}", values, (*path, "env", key))


def _check_values(what: str, allowed: object, path: KeyPath) -> Iterator[LocatedMessage]:
    if isinstance(allowed, list) and names.ANY_VALUE in allowed:
        yield path, f"{what}: `*` means any value, so it stands alone and not in a list", "error"
    for value in allowed if isinstance(allowed, list) else [allowed]:
        if isinstance(value, str) and re.search(r"[\w-]\*$", value):
            yield path, f"{what}: values are no patterns, so {value!r} never matches: list the values", "error"


def _list_globs(given: Scope) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """The lists of patterns, with their keys in the scope."""
    for key in _GLOB_KEYS:
        yield (key,), getattr(given, key) or []
    for part, patterns in given.backends or ():
        yield ("backends", part), patterns or []


def _check_glob(field: str, pattern: str, location: KeyPath) -> Iterator[LocatedMessage]:
    if not pattern.strip("*? /"):
        yield location, f"{field} pattern {pattern!r} matches everything: remove the key", "error"
    elif pattern.count("[") != pattern.count("]"):
        yield location, f"{field} pattern {pattern!r} has an unfinished [", "error"
    elif field == "accelerator" and "[" in pattern:
        yield location, f"accelerator pattern {pattern!r}: write a part's name, with * or ? and no [", "error"


def _check_workarounds(issue: KnownIssue, today: date) -> Iterator[LocatedMessage]:  # noqa: ARG001
    """A workaround must differ from the scope; else it cannot be distinguished from the issue."""
    scope_args, scope_env = issue.scope.engine_args or {}, issue.scope.env or {}
    for index, workaround in enumerate(issue.workarounds):
        for key, value in names.canonical_args(workaround.engine_args or {}).items():
            wanted = scope_args.get(key, [])
            if any(names.same_value(value, one) for one in (wanted if isinstance(wanted, list) else [wanted])):
                what = f"the workaround {key}={value} is part of the scope"
                yield ("workarounds", index, "engine_args"), what, "error"
        for key, text in (workaround.env or {}).items():
            allowed = scope_env.get(key, [])
            if any(names.same_env_value(text, one) for one in (allowed if isinstance(allowed, list) else [allowed])):
                what = f"the workaround {key}={text} is part of the scope"
                yield ("workarounds", index, "env"), what, "error"


def _check_code(issue: KnownIssue, today: date) -> Iterator[LocatedMessage]:  # noqa: ARG001
    for index, condition in enumerate(issue.code):
        here = ("code", index)
        if condition in issue.code[:index]:
            yield here, "the condition is given twice", "error"
        for key, part in (("argument", "arguments"), ("env", "env")):
            name = getattr(condition, key)
            if name is not None and name not in names_of(part):
                yield (*here, key), f"no release has {name}{did_you_mean(name, names_of(part))}", "error"


REVIEW_AFTER = timedelta(days=180)
PLACEHOLDER = "TODO"
"""Written by `issues new` where the curator must write something."""


def _check_tracker(issue: KnownIssue, today: date) -> Iterator[LocatedMessage]:
    url, state, reason = issue.tracker.url, issue.tracker.state, issue.tracker.state_reason
    if number := re.fullmatch(r"VLLM-(\d+)", issue.id):
        threads = [f"{VLLM_REPO}/{kind}/{number[1]}" for kind in ("issues", "pull")]
        if url not in threads:
            yield ("tracker", "url"), f"{issue.id} is tracked at {threads[0]}, not at {url}", "error"
    if Reference(type="REPORT", url=url) not in issue.references:
        yield ("references",), f"the tracker {url} is not among the references as REPORT", "error"
    if state == "closed" and reason is None:
        yield ("tracker", "state"), "closed without state_reason: write the reason, or `unknown`", "warning"
    if state == "open" and reason not in (None, "reopened", "unknown"):
        yield ("tracker", "state_reason"), f"an open thread cannot have the reason {reason!r}", "error"
    if issue.tracker.checked > today:
        yield ("tracker", "checked"), f"checked in the future ({issue.tracker.checked})", "error"


def _check_review_date(issue: KnownIssue, today: date) -> Iterator[LocatedMessage]:
    if issue.reviewed > today:
        yield ("reviewed",), f"reviewed in the future ({issue.reviewed})", "error"
    elif today - issue.reviewed > REVIEW_AFTER:
        yield ("reviewed",), f"last reviewed {issue.reviewed}, over {REVIEW_AFTER.days} days ago", "warning"


def _check_references(issue: KnownIssue, today: date) -> Iterator[LocatedMessage]:  # noqa: ARG001 (all checks have this signature)
    seen: set[tuple[str, str]] = set()
    for index, reference in enumerate(issue.references):
        link = (reference.type, reference.url.rstrip("/"))
        if link in seen:
            yield ("references", index, "url"), f"{link[1]} is given twice as {link[0]}", "error"
        seen.add(link)


def _check_placeholders(issue: KnownIssue, today: date) -> Iterator[LocatedMessage]:  # noqa: ARG001
    """Placeholders of a draft."""
    named: dict[KeyPath, str | None] = {
        ("summary",): issue.summary,
        ("details",): issue.details,
        ("evidence",): issue.evidence,
        **{("scope", "accelerator", index): text for index, text in enumerate(issue.scope.accelerator or [])},
        **{("scope", "model", index): text for index, text in enumerate(issue.scope.model or [])},
        **{("workarounds", index, "text"): fix.text for index, fix in enumerate(issue.workarounds)},
    }
    for location, text in named.items():
        if text is not None and PLACEHOLDER in text:
            key = next(part for part in reversed(location) if isinstance(part, str))
            yield location, f"{key} still has a {PLACEHOLDER}", "error"


def _check_signature(issue: KnownIssue, today: date) -> Iterator[LocatedMessage]:  # noqa: ARG001
    for index, part in enumerate(issue.signature):
        if part.change is None:
            continue
        low, high = part.change
        fits = {"worse": low > 0, "better": high < 0, "unchanged": low <= 0 <= high}[part.direction]
        if not fits:
            what = f"direction {part.direction} does not fit the change [{low:g}, {high:g}]; positive means worse"
            yield ("signature", index, "change"), what, "error"
    if issue.kind is IssueKind.PERFORMANCE and not issue.signature:
        yield ("kind",), "a performance issue without a signature cannot be joined with measurements", "warning"


def _check_versions(issue: KnownIssue, today: date) -> Iterator[LocatedMessage]:  # noqa: ARG001 (all checks have this signature)
    ranges = [
        (("affected", at, "ranges", index), part)
        for at, entry in enumerate(issue.affected)
        for index, part in enumerate(entry.ranges)
    ]
    for location, part in ranges:
        yield from _check_events(part, location)
    events = [event for _, part in ranges for event in part.events]
    if any(event.fixed for event in events) and not any(link.type == "FIX" for link in issue.references):
        yield ("references",), "there is a fixed event, but no FIX reference that shows it", "error"
    if not any(part.type == "ECOSYSTEM" for _, part in ranges):
        yield ("affected",), "no ECOSYSTEM range: the record cannot be matched with any release", "warning"
    if not issue.version_regression and not any(event.introduced == "0" for event in events):
        what = 'not a version regression, yet introduced after version "0": a move across it would be reported as new'
        yield ("version_regression",), what, "warning"


def _check_events(part: Range, location: KeyPath) -> Iterator[LocatedMessage]:
    """Events must be in order and alternate: introduced, fixed (or last_affected), introduced, …"""
    before, open_ = None, False
    for index, event in enumerate(part.events):
        here = (*location, "events", index)
        if bool(event.introduced) == open_:
            yield here, f"{event.value}: introduced and fixed (or last_affected) must alternate", "error"
        open_ = bool(event.introduced)
        if part.type == "ECOSYSTEM":
            key = event.key
            # A single affected version is introduced and last affected at once; a fix must come after.
            if before is not None and (key < before or (key == before and not event.last_affected)):
                yield here, f"{event.value} is not after the event before it", "error"
            before = key


def _check_changes(issue: KnownIssue, today: date) -> Iterator[LocatedMessage]:
    """A change cannot be in a release from before its merge, and a fix cannot be older than its issue."""
    brought, fixes = issue.changes.introduced_by, issue.changes.fixed_by
    for key, listed in (("introduced_by", brought), ("fixed_by", fixes)):
        for index, change in enumerate(listed):
            if change.merged is not None and change.merged > today:
                yield ("changes", key, index, "merged"), f"merged in the future ({change.merged})", "error"
    first = min((change.merged for change in brought if change.merged), default=None)
    for index, fix in enumerate(fixes):
        here = ("changes", "fixed_by", index)
        if first is not None and fix.merged is not None and fix.merged < first:
            yield (*here, "merged"), f"merged on {fix.merged}, before what it fixes ({first})", "error"
        back = fix.reverted_by.merged if fix.reverted_by else None
        if back is not None and fix.merged is not None and back < fix.merged:
            yield (*here, "reverted_by"), f"reverted on {back}, before it was merged ({fix.merged})", "error"
    yield from _check_release_dates(issue, "introduced", brought)
    yield from _check_release_dates(issue, "fixed", [fix for fix in fixes if fix.reverted_by is None])
    if fixes and all(fix.reverted_by for fix in fixes) and _ends_fixed(issue):
        yield ("changes", "fixed_by"), "every fix was reverted, yet the last event is fixed", "error"


def _check_release_dates(issue: KnownIssue, kind: str, listed: Sequence[Change]) -> Iterator[LocatedMessage]:
    """The release of an event must not be older than every change that may have caused it."""
    days = [change.merged for change in listed if change.repo == VLLM_REPO]
    named = [(place, event.value) for place, event in _release_events(issue) if getattr(event, kind) not in (None, "0")]
    if not days or None in days or not named:
        return
    earliest = min(day for day in days if day is not None)
    for place, version in named:
        published = release_date(version)
        if published is not None and published < earliest:
            what = f"{kind} {version} was published on {published}, before the change was merged ({earliest})"
            yield place, what, "error"


def _release_events(issue: KnownIssue) -> Iterator[tuple[KeyPath, Event]]:
    for at, entry in enumerate(issue.affected):
        for number, part in enumerate(entry.ranges):
            if part.type == "ECOSYSTEM" and entry.package.name == "vllm":
                for index, event in enumerate(part.events):
                    yield ("affected", at, "ranges", number, "events", index), event


def _ends_fixed(issue: KnownIssue) -> bool:
    events = sorted((event for _, event in _release_events(issue)), key=lambda event: event.key)
    return bool(events) and events[-1].fixed is not None


_CHECKS: tuple[Callable[[KnownIssue, date], Iterator[LocatedMessage]], ...] = (
    _check_tracker,
    _check_review_date,
    _check_references,
    _check_placeholders,
    _check_versions,
    _check_changes,
    _check_code,
    _check_signature,
    _check_scope,
    _check_workarounds,
)


def lint_records(directory: Path, *, today: date, unshown: list[LintMessage] | None = None) -> list[LintMessage]:
    """All messages, ordered by file and line. Raises InputError if the directory cannot be listed.

    `unshown` collects the events that are shown neither by the code nor by a named commit: most of older records.
    """
    messages = list(_check_file_names(directory))
    records: list[tuple[Path, Document, KnownIssue]] = []
    for path in record_files(directory):
        try:
            document = read_document(path)
            records.append((path, document, read_issue(document)))
        except InputError as error:
            messages.append(LintMessage(path, error.line, error.what, "error"))
    for path, document, issue in records:
        if path.name != issue.id + SUFFIX:
            what = f"the file is not named by its id: call it {issue.id}{SUFFIX}"
            messages.append(LintMessage(path, document.line(("id",)), what, "error"))
        for check in _CHECKS:
            for location, what, severity in check(issue, today):
                messages.append(LintMessage(path, document.line(location), what, severity))
    messages.extend(_check_shared_names(records))
    messages.extend(_check_builds(directory, records, unshown if unshown is not None else []))
    messages.extend(_check_coverage(directory / COVERAGE_NAME, today))
    return sorted(messages, key=lambda message: (message.file, message.line or 0, message.what))


def _check_builds(
    directory: Path, records: list[tuple[Path, Document, KnownIssue]], unshown: list[LintMessage]
) -> Iterator[LintMessage]:
    """Records whose events disagree with the table of builds. Code that is not in it shows nothing."""
    try:
        table = load_builds(directory)
    except InputError as error:
        yield LintMessage(directory / BUILDS_NAME, None, error.what, "error")
        return
    for path, document, issue in records:
        answers = table.answers(issue) if table else None
        proof = BuildProof(issue, answers or {})
        if wrong := proof.disagreements:
            others = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            what = f"events and code disagree on {wrong[0]}{others}: see `issues verify --builds {issue.id}`"
            yield LintMessage(path, document.line(("affected",)), what, "warning")
        for location, event in _release_events(issue):
            if event.introduced != "0" and not proof.shows(event) and not names_commit(issue, event):
                kind = next(iter(event.model_fields_set))
                what = f"{kind} {event.value} is shown neither by code nor by a named commit"
                what += f"; its code was not evaluated yet: {BUILDS_COMMAND}" if issue.code and answers is None else ""
                unshown.append(LintMessage(path, document.line(location), what, "warning"))


def _check_coverage(path: Path, today: date) -> Iterator[LintMessage]:
    if not path.exists():
        return
    try:
        document = read_document(path)
        for location, what, severity in lint_coverage(document, today):
            yield LintMessage(path, document.line(location), what, severity)
    except InputError as error:
        yield LintMessage(path, error.line, error.what, "error")


def _check_file_names(directory: Path) -> Iterator[LintMessage]:
    record_files(directory)  # raises for a missing directory
    for path in directory.iterdir():
        if path.suffix == ".yml":
            yield LintMessage(path, None, f"is not loaded: call it {path.stem}{SUFFIX}", "error")


def _check_shared_names(records: list[tuple[Path, Document, KnownIssue]]) -> Iterator[LintMessage]:
    """Ids, aliases and tracker threads that more than one record claims."""
    owners: dict[str, Path] = {}
    for path, document, issue in records:
        claims: list[tuple[KeyPath, str]] = [(("id",), issue.id), (("tracker", "url"), issue.tracker.url)]
        claims += [(("aliases", index), alias) for index, alias in enumerate(issue.aliases)]
        own: set[str] = set()
        for location, name in claims:
            key = name.casefold().rstrip("/")
            if (first := owners.setdefault(key, path)) != path:
                yield LintMessage(path, document.line(location), f"{name} already belongs to {first.name}", "error")
            elif key in own:
                yield LintMessage(path, document.line(location), f"alias {name} is given twice, or is the id", "error")
            own.add(key)


_THREAD_URL = re.compile(
    r"https://github\.com/(?P<repo>[\w.-]+/[\w.-]+)/(?P<kind>issues|pull)/(?P<number>[1-9]\d{0,8})"
)
_PREFIXES = {"vllm-project/vllm": "VLLM"}


def draft_id(url: str) -> str:
    """`VLLM-28882`; for threads of other repositories the prefix is the repository's name.

    Raises InputError for anything but the address of an issue or pull request on GitHub.
    """
    match = _match_thread(url)
    name = match["repo"].rpartition("/")[2]
    prefix = _PREFIXES.get(match["repo"].casefold()) or re.sub(r"[^A-Z0-9]+", "-", name.upper()).strip("-")
    if not re.match("[A-Z]", prefix):
        prefix = f"X-{prefix}".rstrip("-")
    return f"{prefix}-{match['number']}"


_LAUNCH_LINE = re.compile(
    r"^[ \t>$#]*((?:[A-Z][A-Z0-9_]*=\S+[ \t]+)*vllm[ \t]+serve[ \t](?:[^\n\\]|\\\r?\n|\\.)*)", re.MULTILINE
)
_MAX_POST = 200_000
_RELEASE = re.compile(r"\d+\.\d+\.\d+(?:\.post\d+)?")


@dataclass(frozen=True, slots=True)
class ReportedCase:
    """What a thread says of itself, for a draft of its record."""

    state: str
    """open, closed, merged or unknown."""
    reason: str | None
    """Why it was closed."""
    seen: date
    version: Version | None
    """That its author runs, by the output of collect-env in the first post."""
    deployment: Deployment
    """By that output, and by the first launch line in the post."""


def read_reported(post: str) -> tuple[Version | None, Deployment]:
    """Version and deployment of a thread's first post, which may hold anything; nothing for one without them."""
    post = post[:_MAX_POST]
    version, told = None, Deployment()
    with suppress(InputError):
        facts = deployment_from_collect_env(post, "the thread")
        version, told = facts.version, facts.deployment
    if line := _LAUNCH_LINE.search(post):
        with suppress(InputError):
            served = parse_serve_command(line[1])
            told = told.model_copy(
                update={"model": served.model, "quantization": served.quantization, "engine_args": served.engine_args}
            )
    return version, told


def _quoted(text: str) -> str:
    """A YAML scalar on one line, whatever the text holds."""
    return json.dumps(sanitise(text)[:120])


def _draft_events(case: ReportedCase | None) -> str:
    note = '# {fixed: "…"} needs a FIX reference that shows it'
    if case is None or case.version is None:
        return f'[{{introduced: "{PLACEHOLDER}"}}] {note}'
    if _RELEASE.fullmatch(str(case.version)) is None:
        return f'[{{introduced: "{PLACEHOLDER}"}}] # the author runs {case.version}; {note[2:]}'
    return f'[{{introduced: "{case.version}"}}] # that the author runs: an earlier one may have it; {note[2:]}'


def _draft_scope(case: ReportedCase | None) -> Iterator[str]:
    """Lines of the scope. What the thread does not say is marked."""
    told = case.deployment if case else Deployment()
    if told.platform:
        yield f"platform: [{told.platform}]"
    note = " # without vendor, memory and form factor" if told.accelerator else ""
    yield f"accelerator: [{_quoted(told.accelerator or PLACEHOLDER)}]{note}"
    yield f"model: [{_quoted(told.model or PLACEHOLDER)}]"
    if told.quantization:
        yield f"quantization: [{_quoted(told.quantization)}]"
    for name, key in (("tensor", "tensor_parallel_size"), ("pipeline", "pipeline_parallel_size")):
        size = told.engine_args.get(key)
        if isinstance(size, int) and size > 1:
            yield f"# parallel: {{{name}: {_quoted(str(size))}}}"
    others = {
        key: value
        for key, value in told.engine_args.items()
        if not key.endswith("_parallel_size") and key != "quantization"
    }
    if others:
        listed = ", ".join(f"{_quoted(key)}: {_quoted(str(value))}" for key, value in others.items())
        yield f"# engine_args: {{{listed}}} # of the launch line: keep those that matter"


def draft_record(
    url: str,
    *,
    today: date,
    fix: str | None = None,
    conditions: Sequence[CodeCondition] = (),
    case: ReportedCase | None = None,
) -> str:
    """The text of the file `ID.yaml`. Raises InputError as `draft_id` does.

    `conditions`: proposals for `code` from the diff of `fix`, which stand in the draft as comments. `case`: what the
    thread says of itself, None if it was not read.
    """
    thread = _match_thread(url)[0]
    proposed = (
        "" if fix is None else f"# code: # by the diff of {fix}; keep what only builds with the fault have, or lack\n"
    )
    for condition in conditions:
        key, texts = ("present", condition.present) if condition.present else ("absent", condition.absent)
        proposed += f"#   - {{file: {condition.file}, {key}: {(texts or [''])[0]}}}\n"
    scope = "\n  ".join(_draft_scope(case))
    state = "state: unknown # open closed merged; with state_reason where closed"
    if case and case.state != "unknown":
        state = f"state: {case.state}" + (f"\n  state_reason: {case.reason}" if case.reason else "")
    return f"""\
id: {draft_id(url)}
summary: "{PLACEHOLDER}: what the user sees, with the model, the hardware and the size, in at most 160 signs"
kind: performance # performance accuracy crash hang memory startup default-change removed-flag not-a-bug
severity: medium # critical high medium low
references:
  - {{type: REPORT, url: {thread}}}
affected:
  - package: {{ecosystem: PyPI, name: vllm}}
    ranges:
      - type: ECOSYSTEM
        events: {_draft_events(case)}
{proposed}scope: # every key must hold, a list means any of; as narrow as the evidence
  {scope}
signature: # the loss as a fraction, positive for worse; leave `change` out where the thread has no number
  - {{metric: ttft, direction: worse}}
workarounds: []
tracker:
  url: {thread}
  {state}
  checked: {(case.seen if case else today).isoformat()}
confidence: low # high medium low
evidence: >-
  {PLACEHOLDER}: which statement in the thread supports which version and which part of the scope, and what is inferred.
reviewed: {today.isoformat()}
"""


def _match_thread(url: str) -> re.Match[str]:
    match = _THREAD_URL.match(url.strip())
    if match is None:
        todo = "write https://github.com/OWNER/NAME/issues/NUMBER"
        raise InputError(f"{url[:200]!r} is not a thread on GitHub", where="URL", todo=todo)
    rest = url.strip()[match.end() :]
    if rest and not rest.startswith(("/", "#", "?")):
        raise InputError(
            f"{url[:200]!r} is not a thread on GitHub", where="URL", todo="end it with the thread's number"
        )
    return match
