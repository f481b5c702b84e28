"""One issue for each finding of the watch in the user's repository: made, edited in place, closed when it is gone.

An issue is the finding's if it is open, has the label, was written by the owner of the token, and begins with the
finding's hidden marker, sign for sign. Nothing else is ever touched, and nothing is opened again. A second hidden line
keeps what people were told, so that a look that is repeated after an interruption at any point repeats nothing. Texts
come after these lines and are escaped, so no text can be a marker, name a person or link threads.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta

import github
from github.Issue import Issue
from github.Repository import Repository

from regress_gate.errors import InputError
from regress_gate.github import GitHub, UnavailableError
from regress_gate.publish.writing import NotPermittedError, NotWrittenError, written
from regress_gate.report.render.markdown import escape
from regress_gate.report.render.output_formats import RenderOptions, render
from regress_gate.text import clip, one_line, plural
from regress_gate.watch.finding import FindingState, LookSummary, WatchFinding
from regress_gate.watch.finding_view import FindingView, build_text, state_text

LABEL = "regress-gate-watch"
PERMISSION = "issues: write"
MOST_COMMENTS = 10
"""On one issue, besides the one with which it is closed."""
MOST_NEW = 10
"""Issues made in one look: a build that breaks everything is one piece of news, not a hundred."""
_BODY_BYTES = 58_000
"""Of the report; GitHub allows 65,536 characters, and there are hidden lines before it and notes after it."""
_TITLE_CHARACTERS = 200
_MOST_FACTS = 200
_MOST_ISSUES = 2_000
_LABEL_COLOUR = "b60205"
_LABEL_TEXT = "A regression that the weekly watch over vLLM builds follows"
_KEY = re.compile(r"[0-9a-f]{8,64}")
_STATE = re.compile(
    r"<!-- regress-gate:watch-state:v1 since=(\d{4}-\d\d-\d\d) state=([a-z]+) comments=(\d{1,4})"
    r" title=([0-9a-f]*) told=([0-9a-f,]*) -->"
)
_NOTE = (
    "regress-gate edits this text, and closes the issue when a look shows that the finding is gone. The first two "
    "lines of the text are hidden, and are how it finds the issue: leave them. Write into comments. Whoever closes the "
    "issue hears no more of this finding."
)


@dataclass(frozen=True, slots=True)
class IssueAction:
    """What was done about one finding, or in a dry run would be."""

    key: str
    title: str
    done: str
    """`created`, `edited`, `edited, with a comment`, `unchanged`, `closed`, or `none: ` and why."""
    url: str = ""
    number: int | None = None
    notes: tuple[str, ...] = ()
    problem: NotWrittenError | None = None
    """What was to be done and was not."""


@dataclass(frozen=True, slots=True)
class _Told:
    """What the issue's text says that people were told of."""

    since: str
    """Day on which the finding was first seen: a later one is another finding."""
    state: str
    comments: int
    title: str
    """Digest of the title as the tool wrote it: one that a person wrote stays."""
    facts: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"<!-- regress-gate:watch-state:v1 since={self.since} state={self.state} comments={self.comments}"
            f" title={self.title} told={','.join(self.facts)} -->"
        )

    def is_decided(self, finding: WatchFinding) -> bool:
        """Of a closed issue: whether a person closed it. They know this finding, and have decided."""
        return self.state != FindingState.GONE and self.since == finding.first_seen.isoformat()

    @classmethod
    def find(cls, body: str) -> _Told | None:
        lines = body.splitlines()
        found = _STATE.fullmatch(lines[1]) if len(lines) > 1 else None
        if found is None:
            return None
        since, state, comments, title, facts = found.groups()
        return cls(since, state, int(comments), title, tuple(filter(None, facts.split(","))))


def marker(key: str) -> str:
    """The first line of the issue of that finding."""
    return f"<!-- regress-gate:watch:v1:{key} -->"


def sync_tracking_issues(
    client: GitHub,
    repository: str,
    findings: Sequence[WatchFinding],
    *,
    look: LookSummary,
    dashboard: str | None = None,
    label: str = LABEL,
    dry_run: bool,
) -> list[IssueAction]:
    """Bring the issues of `owner/name` to what the look found; called again after any interruption, nothing is doubled.

    `dashboard` is the address of a page with pictures: GitHub's interface takes no files for an issue. A dry run reads
    only. What fails for one finding is in its action, which is the last one where GitHub takes nothing more. Raises
    NotWrittenError if GitHub does not even say whose token it is.
    """
    for finding in findings:
        if not _KEY.fullmatch(finding.key):
            raise InputError(f"{finding.key[:40]!r} is no key of a finding", where="watch")
    desk = _Desk(client, repository, look, dashboard, label, dry_run)
    if not findings:
        return []
    desk.viewer = written(client, f"the issues of {repository}", "issues: read", desk.read_viewer)
    actions: list[IssueAction] = []
    for finding in findings:
        try:
            actions.append(desk.sync(finding))
        except NotWrittenError as error:
            actions.append(IssueAction(finding.key, finding.title, "none: GitHub did not take it", problem=error))
            if isinstance(error, NotPermittedError) or client.stopped:
                break
    return actions


def issue_text(finding: WatchFinding, look: LookSummary, dashboard: str | None = None) -> tuple[str, str]:
    """Title and text of the issue as it is first made, without asking GitHub."""
    return _title(finding), _body(finding, look, dashboard, _first_told(finding))


def checked_page(url: str) -> str:
    """The address of a page, safe inside of a link. Raises InputError for anything else."""
    if not re.fullmatch(r"https?://[!#$%&+,./0-9:;=?@A-Z_a-z~-]{1,2000}", url):
        raise InputError("is not the address of a page", where="dashboard", todo="write https://HOST/PATH")
    return url


@dataclass
class _Desk:
    """One look's work on one repository."""

    client: GitHub
    repository: str
    look: LookSummary
    dashboard: str | None
    label: str
    dry_run: bool
    viewer: str | None = None
    """Login of the token's owner; None: GitHub does not say."""
    _made: int = 0
    _notes: list[str] = field(default_factory=list)

    def read_viewer(self) -> str | None:
        """REST does not say it to the token of a job."""
        if self.client.anonymous:
            return None
        _, answer = self.client.api.requester.graphql_query("query { viewer { login } }", {})
        return str(answer["data"]["viewer"]["login"])

    def sync(self, finding: WatchFinding) -> IssueAction:
        what = f"the issue of {clip(one_line(finding.title), 80)}"
        return written(self.client, what, PERMISSION, lambda: self._sync_once(finding))

    def _sync_once(self, finding: WatchFinding) -> IssueAction:
        self._notes = []
        repository = self.client.api.get_repo(self.repository)
        found = sorted(self._own(repository, finding.key, "open"), key=lambda one: one.number)
        if found:
            kept, *copies = found
            self._close_copies(kept, copies)
            return self._update(finding, kept)
        if finding.state is not FindingState.SEEN:
            return self._action(finding, f"none: there is no open issue, and it is {finding.state}")
        closed = list(self._own(repository, finding.key, "closed"))
        before = max(closed, key=lambda one: one.number, default=None)
        told = None if before is None else _Told.find(before.body or "")
        if before is not None and told is not None and told.is_decided(finding):
            return self._action(finding, f"none: #{before.number} was closed by a person", before)
        if self._made >= MOST_NEW:
            return self._action(finding, f"none: {MOST_NEW} issues were made in this look; the report has all findings")
        return self._create(finding, repository, before)

    def _own(self, repository: Repository, key: str, state: str) -> Iterator[Issue]:
        """Issues with the label and the marker. A pull request is listed too, and is never one."""
        line = marker(key)
        for count, issue in enumerate(repository.get_issues(state=state, labels=[self.label])):
            if count >= _MOST_ISSUES:
                raise UnavailableError(f"more than {_MOST_ISSUES} {state} issues have the label {self.label}")
            if (issue.body or "").splitlines()[:1] != [line] or "/pull/" in issue.html_url:
                continue
            if self.viewer is None or (issue.user is not None and issue.user.login == self.viewer):
                yield issue
            elif state == "open":
                self._notes.append(f"#{issue.number} has the marker, was written by another user, and is left alone")

    def _close_copies(self, kept: Issue, copies: Sequence[Issue]) -> None:
        """Two watches at the same time each made one."""
        for copy in copies:
            self._notes.append(f"#{copy.number} is a copy of #{kept.number} and is closed")
            if not self.dry_run:
                copy.edit(body=f"A copy of #{kept.number}.", state="closed", state_reason="not_planned")

    def _create(self, finding: WatchFinding, repository: Repository, before: Issue | None) -> IssueAction:
        if self.dry_run:
            self._made += 1
            return self._action(finding, "created")
        self._ensure_label(repository)
        predecessor = "" if before is None else f"Seen before: #{before.number}"
        text = _body(finding, self.look, self.dashboard, _first_told(finding), predecessor=predecessor)
        issue = repository.create_issue(_title(finding), text, labels=[self.label])
        if self.label.lower() not in {label.name.lower() for label in issue.labels}:
            # Without it the next look would not find the issue, and make another.
            issue.edit(state="closed", state_reason="not_planned")
            raise NotPermittedError(
                f"{self.client.host} drops the label {self.label}: the owner of GITHUB_TOKEN may not set labels in "
                f"{self.repository}; #{issue.number} is closed again"
            )
        self._made += 1
        return self._action(finding, "created", issue)

    def _ensure_label(self, repository: Repository) -> None:
        try:
            repository.get_label(self.label).complete()
        except github.UnknownObjectException:
            try:
                repository.create_label(self.label, _LABEL_COLOUR, _LABEL_TEXT)
            except github.GithubException as error:
                # 422: made meanwhile. Who may not make it may not make an issue, which is refused in clearer words.
                if error.status not in (403, 404, 422):
                    raise

    def _update(self, finding: WatchFinding, issue: Issue) -> IssueAction:
        body = issue.body or ""
        # Where somebody has changed the line, they may know all of it, and the title is theirs.
        told = _Told.find(body) or replace(_first_told(finding), title="")
        news = {digest: text for digest, text in _facts(finding).items() if digest not in told.facts}
        is_gone, comment = finding.state is FindingState.GONE, ""
        if is_gone:
            comment = _closing_comment(finding, self.look)
        elif news and finding.state is FindingState.SEEN:
            if told.comments < MOST_COMMENTS:
                comment = _comment(list(news.values()), finding, self.look)
            told = replace(told, facts=tuple(dict.fromkeys([*told.facts, *news]))[:_MOST_FACTS])
        title = issue.title
        if told.title == _digest(title):
            title = _title(finding)
            told = replace(told, title=_digest(title))
        told = replace(told, state=finding.state.value, comments=told.comments + bool(comment and not is_gone))
        text = _body(finding, self.look, self.dashboard, told, predecessor=_predecessor(body))
        has_comment = bool(comment) and self._comment_once(issue, finding, comment)
        if is_gone:
            if not self.dry_run:
                issue.edit(title=title, body=text, state="closed", state_reason="completed")
            return self._action(finding, "closed", issue)
        if _same(body, text) and issue.title == title:
            return self._action(finding, "unchanged", issue)
        if not self.dry_run:
            issue.edit(title=title, body=text)
        return self._action(finding, "edited, with a comment" if has_comment else "edited", issue)

    def _comment_once(self, issue: Issue, finding: WatchFinding, text: str) -> bool:
        """Whether the look has its comment now. One that was made before an interruption is found by its first line."""
        if issue.locked:
            self._notes.append(f"#{issue.number} is locked: no comment")
            return False
        first = f"<!-- regress-gate:watch-comment:v1:{finding.key} {_digest(self.look.look)} -->"
        if self.dry_run:
            return True
        since = datetime.combine(self.look.day - timedelta(days=1), time.min, UTC)
        for comment in issue.get_comments(since=since):
            is_own = self.viewer is None or (comment.user is not None and comment.user.login == self.viewer)
            if is_own and (comment.body or "").splitlines()[:1] == [first]:
                return True
        issue.create_comment(f"{first}\n{text}")
        return True

    def _action(self, finding: WatchFinding, done: str, issue: Issue | None = None) -> IssueAction:
        number, url = (None, "") if issue is None else (issue.number, issue.html_url)
        return IssueAction(finding.key, finding.title, done, url, number, tuple(self._notes))


# Text


def _title(finding: WatchFinding) -> str:
    """Titles are no Markdown, but for code; a zero-width space parts what GitHub would act on."""
    text = clip(one_line(finding.title), _TITLE_CHARACTERS) or "A regression"
    return re.sub(r"([@#])(?=\w)", "\\1\u200b", text).replace("`", "'")


def _body(
    finding: WatchFinding,
    look: LookSummary,
    dashboard: str | None,
    told: _Told,
    *,
    predecessor: str = "",
) -> str:
    report = render(FindingView(finding, look, has_title=False), "markdown", RenderOptions(max_bytes=_BODY_BYTES))
    parts = [marker(finding.key), str(told), "", report.strip()]
    if finding.state is FindingState.SEEN and told.comments >= MOST_COMMENTS:
        parts += ["", f"{plural(told.comments, 'comment')} were made: changes now stand here only."]
    if dashboard is not None:
        parts += ["", f"[Pictures and history](<{checked_page(dashboard)}>)"]
    parts += ["", predecessor] if predecessor else []
    return "\n".join([*parts, "", "---", f"<sub>{_NOTE}</sub>", ""])


def _predecessor(body: str) -> str:
    """The line that a new issue was made with. The last one, after all texts: none of them can begin a line so."""
    found = re.findall(r"^Seen before: #[0-9]{1,9}$", body, re.MULTILINE)
    return str(found[-1]) if found else ""


def _comment(news: Sequence[str], finding: WatchFinding, look: LookSummary) -> str:
    shown = [f"- {escape(clip(text, 300))}" for text in news[:8]]
    if rest := len(news) - len(shown):
        shown.append(f"- and {rest} more")
    return "\n".join([escape(state_text(finding, look)), "", "New since the last comment:", "", *shown])


def _closing_comment(finding: WatchFinding, look: LookSummary) -> str:
    shown = [f"- {escape(one.name)}: {escape(one.change_text)}" for one in finding.series[:8]]
    against = "" if look.pinned is None else f" against the pinned {look.pinned}"
    newest = "" if look.candidate is None else f"{build_text(look.candidate)}{against}: "
    lines = [f"{escape(newest + state_text(finding, look))}", *(["", *shown] if shown else [])]
    return "\n".join([*lines, "", "If it comes back, a new issue will be made."])


def _facts(finding: WatchFinding) -> dict[str, str]:
    """What people should be told of once: digest to a sentence. Sizes change at each look and are none."""
    facts = {f"first {finding.first_bad}": f"the first build that has it: {build_text(finding.first_bad)}"}
    if finding.last_good is not None:
        facts[f"good {finding.last_good}"] = f"the last build without it: {build_text(finding.last_good)}"
    facts |= {f"series {one.name}": f"{one.name}: {one.change_text}" for one in finding.series}
    facts |= {f"issue {one.id}": f"{one.id} may be the cause: {one.summary}" for one in finding.known_issues}
    return {_digest(name): text for name, text in list(facts.items())[:_MOST_FACTS]}


def _first_told(finding: WatchFinding) -> _Told:
    """Of a new issue, whose text says everything."""
    title = _digest(_title(finding))
    return _Told(finding.first_seen.isoformat(), finding.state.value, 0, title, tuple(_facts(finding)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _same(left: str, right: str) -> bool:
    """GitHub may change the ends of lines."""
    return left.replace("\r\n", "\n").strip() == right.strip()
