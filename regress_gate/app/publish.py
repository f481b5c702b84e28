"""`ci publish`: tell GitHub what the gate decided, or that it decided nothing. The decision itself is never changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from regress_gate.errors import InputError, RegressGateError
from regress_gate.files import read_bounded
from regress_gate.github import GitHub, GitHubError
from regress_gate.publish import artefact, check_run, comment, publication
from regress_gate.publish.check_run import CheckPlace
from regress_gate.publish.comment import CommentMode, Marker
from regress_gate.publish.context import DEFAULT_API, RunContext, read_context, read_repository
from regress_gate.publish.job_files import append_outputs, append_summary
from regress_gate.publish.moved_pins import MovedPins, read_moved_pins
from regress_gate.publish.publication import Outcome, Publication
from regress_gate.publish.target import Target, find_target
from regress_gate.publish.writing import NotPermittedError, NotWrittenError
from regress_gate.report.document import View
from regress_gate.report.render.github import write as write_commands
from regress_gate.report.stored import read_stored_view

DEFAULT_NAME = "upgrade"
DEFAULT_ARTEFACT = "regress-gate"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._]*(?:-[A-Za-z0-9._]+)*")
_RUNNING = "The gate is at work. This check is concluded when it ends."


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """What is to be published, and where. None of result, pins and could_not_measure: the artefact of the run."""

    result: Path | None = None
    pins: Path | None = None
    could_not_measure: str | None = None
    comment: CommentMode = CommentMode.ON_CHANGE
    check: bool = True
    name: str = DEFAULT_NAME
    """Tells the gates of one repository apart: part of the check's name and of the comment's marker."""
    artefact: str = DEFAULT_ARTEFACT
    report_url: str | None = None

    @property
    def check_name(self) -> str:
        return f"regress-gate: {self.name}"


@dataclass
class PublishReport:
    """What was done. Texts are raw."""

    done: list[tuple[str, str]] = field(default_factory=list)
    """Place and what happened there."""
    notes: list[str] = field(default_factory=list)
    """Why less was done than could be."""
    problems: list[RegressGateError] = field(default_factory=list)
    """What was to be done and was not; an InputError is a result that cannot be used."""
    commands: str = ""
    """Workflow commands with the annotations: no check run holds them."""
    preview: str = ""
    """Of a dry run: the comment."""


def publish(request: PublishRequest, environment: Mapping[str, str]) -> PublishReport:
    """Write summary, outputs, check run and comment, each whatever becomes of the others.

    Raises InputError where this is no run of a workflow, and NotWrittenError where GitHub does not even say which pull
    request is meant.
    """
    check_options(request)
    context = read_context(environment)
    report = PublishReport()
    client, _ = repository_client(environment)
    with client:
        target = find_target(client, context)
        if target.note:
            report.notes.append(target.note)
        if not target.is_writable:
            return report
        what = _read(request, client, context, report)
        footer = _footer(request, context)
        _write_summary(what, footer, environment, report)
        outputs = {"decision": what.outcome.value, "exit-code": str(what.exit_code)}
        if target.pull_request is not None:
            outputs["pull-request"] = str(target.pull_request)
        outputs["check-url"] = _write_check(request, context, client, what, footer, report)
        outputs["comment-url"] = _write_comment(request, context, target, client, what, footer, report)
        # Last: an exit code among the outputs says that nothing was left open.
        _write_outputs(environment, outputs, report)
        return report


def open_check(request: PublishRequest, environment: Mapping[str, str]) -> PublishReport:
    """Show the check as running. The same errors as `publish`."""
    check_options(request)
    context, report = read_context(environment), PublishReport()
    if context.source is not None:
        raise InputError("measures nothing in a workflow_run", where="--started", todo="leave it out there")
    if not request.check or context.read_only:
        report.notes.append(f"no check run: {context.read_only or '--no-check'}")
        return report
    try:
        client, _ = repository_client(environment)
        with client:
            done = check_run.open_check(client, _place(request, context), _RUNNING)
    except GitHubError as error:
        _not_written(error, context, report)
    else:
        report.done.append(("check run", f"{done.done} {done.url}"))
        _write_outputs(environment, {"check-url": done.url}, report)
    return report


def preview(request: PublishRequest) -> PublishReport:
    """What `publish` would write, from the files alone: nothing is asked and nothing is written."""
    check_options(request)
    if request.result is None and request.pins is None and request.could_not_measure is None:
        raise InputError("there is nothing to show", where="--dry-run", todo="give --result or --pins")
    report = PublishReport()
    what = _read_files(request, report)
    annotations = ", ".join(f"{one.location.file}:{one.location.line}" for one in what.annotations if one.location)
    report.done += [
        ("check run", f"{what.conclusion}: {what.title}"),
        ("annotations", annotations or "none"),
        ("comment", "yes" if _wants_comment(request, what) else "only where there is one already"),
    ]
    report.preview = _comment_body(request, what, _footer(request, None))
    return report


def check_options(request: PublishRequest) -> None:
    """Raises InputError for values that no place could show."""
    if len(request.name) > 40 or not _NAME.fullmatch(request.name):
        todo = "use letters, digits, dots, underscores and single hyphens, at most 40"
        raise InputError(f"{request.name[:60]!r} cannot name a check", where="--name", todo=todo)
    if request.report_url is not None:
        try:
            parts = urlsplit(request.report_url)
            is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.username
        except ValueError:
            is_usable = False
        if not is_usable or not re.fullmatch(r"[!#$%&+,./0-9:;=?@A-Z_a-z~-]{1,2000}", request.report_url):
            raise InputError("is not the address of a page", where="--report-url", todo="write https://HOST/PATH")


# Reading


def _read(request: PublishRequest, client: GitHub, context: RunContext, report: PublishReport) -> Publication:
    given = (request.result, request.pins, request.could_not_measure)
    if context.source is None or any(one is not None for one in given):
        if all(one is None for one in given):
            todo = "give --result, --pins or --could-not-measure"
            raise InputError("there is nothing to publish", where="ci publish", todo=todo)
        return _read_files(request, report)
    try:
        found = artefact.fetch_artefact(client, context.repository, context.source.id, request.artefact)
        if found.result is None and found.pins is None:
            raise artefact.UnusableArtefactError(f"the artefact {request.artefact!r} holds no {artefact.RESULT_NAME}")
        return _publication(found.result, found.pins, artefact.RESULT_NAME, artefact.PINS_NAME)
    except (InputError, artefact.UnusableArtefactError) as error:
        # What somebody uploaded is no fault of the job that reads it.
        report.notes.append(f"no usable result: {error}")
        conclusion = f" It ended as: {context.source.conclusion}." if context.source.conclusion else ""
        return publication.could_not_measure(f"The run left no usable result: {error}.{conclusion}", None)


def _read_files(request: PublishRequest, report: PublishReport) -> Publication:
    """A result that cannot be used is published as such, and is an error of the job that made it."""
    pins: MovedPins | None = None
    try:
        if request.pins is not None:
            pins = read_moved_pins(_content(request.pins), str(request.pins))
        if request.could_not_measure is not None:
            return publication.could_not_measure(request.could_not_measure, pins)
        result = None if request.result is None else _content(request.result)
        return _publication(result, None, str(request.result), "", pins)
    except InputError as error:
        report.problems.append(error)
        return publication.could_not_measure(f"There is no usable result: {error}.", pins)


def _content(path: Path) -> bytes:
    try:
        content = read_bounded(path, artefact.MAX_FILE_BYTES)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=path) from None
    if content is None:
        raise InputError(f"is larger than {artefact.MAX_FILE_BYTES >> 20} MiB", where=path)
    return content


def _publication(
    result: bytes | None, versions: bytes | None, where: str, where_pins: str, pins: MovedPins | None = None
) -> Publication:
    if versions is not None:
        pins = read_moved_pins(versions, where_pins)
    if result is not None:
        return _checked(read_stored_view(result, where), where, pins)
    if pins is not None and pins.candidate is not None:
        raise InputError("a version moved, and there is no result", where=where)
    if pins is not None and pins.moved:
        return publication.unknown_version(pins.why, pins)
    return publication.nothing_moved(pins.why if pins is not None else "")


def _checked(view: View, where: str, pins: MovedPins | None) -> Publication:
    """What can be shown as a whole: what is shown first must not be the last thing that works."""
    try:
        return publication.of_view(view, pins)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise InputError(
            f"holds values that regress-gate did not write ({type(error).__name__})", where=where
        ) from None


# Writing


def repository_client(environment: Mapping[str, str]) -> tuple[GitHub, str]:
    """A client that may write, and the repository, `owner/name`. Raises InputError for what is missing or unusable."""
    token = environment.get("GITHUB_TOKEN", "").strip()
    if not token:
        todo = "give it to the step: `env: {GITHUB_TOKEN: ${{ github.token }}}`"
        raise InputError("is not set", where="GITHUB_TOKEN", todo=todo)
    address = environment.get("GITHUB_API_URL", "").strip() or DEFAULT_API
    return GitHub(address, None, token=token, variable="GITHUB_API_URL"), read_repository(environment)


def _place(request: PublishRequest, context: RunContext) -> CheckPlace:
    url = request.report_url or context.run_url
    return CheckPlace(context.repository, context.head_sha, request.check_name, url)


def _footer(request: PublishRequest, context: RunContext | None) -> str:
    """Markdown of our own: every part of it is made or checked here."""
    links = [f"[report]({request.report_url})"] if request.report_url else []
    parts = []
    if context is not None:
        links += [f"[run]({context.run_url})"] if context.run_url else []
        parts.append(f"Commit {context.head_sha[:12]}")
    parts += links
    text = f"\n{' · '.join(parts)}\n" if parts else ""
    if context is not None and context.from_fork:
        text += (
            "\n**This pull request is from a fork, and its own workflow made the result.** "
            "Look at its changes to workflows and baselines before you rely on it.\n"
        )
    return text


def _write_summary(what: Publication, footer: str, environment: Mapping[str, str], report: PublishReport) -> None:
    try:
        if path := environment.get("GITHUB_STEP_SUMMARY", ""):
            report.done.append(("job summary", append_summary(Path(path), what.view, footer)))
    except InputError as error:
        report.problems.append(NotWrittenError(str(error)))


def _write_outputs(environment: Mapping[str, str], outputs: Mapping[str, str], report: PublishReport) -> None:
    """Those that are not empty."""
    path = environment.get("GITHUB_OUTPUT", "")
    given = {name: value for name, value in outputs.items() if value}
    try:
        if path and given:
            append_outputs(Path(path), given)
    except InputError as error:
        report.problems.append(NotWrittenError(str(error)))


def _write_check(
    request: PublishRequest,
    context: RunContext,
    client: GitHub,
    what: Publication,
    footer: str,
    report: PublishReport,
) -> str:
    """The address of the check run. Without one, its annotations are left to workflow commands."""
    if not request.check or context.read_only:
        report.notes.append(f"no check run: {context.read_only or '--no-check'}")
        report.commands = write_commands(what.found)
        return ""
    summary = what.report + footer
    try:
        done = check_run.conclude_check(
            client, _place(request, context), what.conclusion, what.title, summary, what.annotations
        )
    except GitHubError as error:
        _not_written(error, context, report)
        report.commands = write_commands(what.found)
        return ""
    report.done.append(("check run", f"{done.done} {done.url}"))
    return done.url


def _not_written(error: GitHubError, context: RunContext, report: PublishReport) -> None:
    """What Dependabot's token may not do unless it is asked for is no error of its pull request."""
    if context.is_dependabot and isinstance(error, NotPermittedError):
        report.notes.append(f"a pull request of Dependabot: {error}")
    else:
        report.problems.append(error)


def _wants_comment(request: PublishRequest, what: Publication) -> bool:
    """Whether one is made where there is none."""
    if request.comment is CommentMode.ON_CHANGE:
        return what.outcome.is_worth_a_comment
    return request.comment is CommentMode.ALWAYS and what.outcome is not Outcome.NOTHING_MOVED


def _write_comment(
    request: PublishRequest,
    context: RunContext,
    target: Target,
    client: GitHub,
    what: Publication,
    footer: str,
    report: PublishReport,
) -> str:
    """The address of the comment."""
    if request.comment is CommentMode.OFF or target.pull_request is None:
        return ""
    if context.read_only:
        report.notes.append(
            f"no comment: {context.read_only}; docs/publishing.md shows how a second workflow writes it"
        )
        return ""
    body = _comment_body(request, what, footer)
    try:
        done = comment.write_comment(
            client,
            context.repository,
            target.pull_request,
            context.head_sha,
            request.name,
            body,
            is_wanted=_wants_comment(request, what),
        )
    except GitHubError as error:
        _not_written(error, context, report)
        return ""
    report.done.append(("comment", f"{done.done} {done.url}".strip()))
    return done.url


def _comment_body(request: PublishRequest, what: Publication, footer: str) -> str:
    marker = Marker(request.name, what.outcome.value, what.digest)
    return f"{marker}\n{what.report}{footer}"
