"""Issues and labels of a repository, and what GitHub refuses of them. Comments are those of `rest`, as on GitHub.

A pull request is an issue too: it is in the list of issues, with a key `pull_request`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fake_github.answers import Answer, RefusedError, not_found

if TYPE_CHECKING:
    from tests.fake_github.rest import Call

MAX_BODY = 65_536
MAX_TITLE = 256
MAX_LABEL = 50
_REASONS = ("completed", "not_planned", "duplicate", "reopened", None)


def _invalid(field: str, text: str, code: str = "custom") -> RefusedError:
    error = {"resource": "Issue", "code": code, "field": field, "message": text}
    return RefusedError(422, "Validation Failed", errors=[error])


def _enabled(call: Call) -> None:
    if not call.repository["has_issues"]:
        raise RefusedError(410, "Issues has been disabled in this repository.")


def _may_label(call: Call) -> bool:
    """Only who may push (or an app that may write issues) sets labels."""
    return call.token is not None and call.token.get("role", "write") == "write"


def as_json(call: Call, issue: dict[str, Any]) -> dict[str, Any]:
    base = f"{call.request.base}/repos/{call.name}"
    login = issue["login"]
    return {
        **{key: issue[key] for key in ("number", "title", "body", "state", "state_reason", "locked")},
        "id": 10_000 + issue["number"],
        "url": f"{base}/issues/{issue['number']}",
        "html_url": f"https://github.example/{call.name}/issues/{issue['number']}",
        # Who deleted their account has no user any more.
        "user": None if login is None else {"login": login, "type": "Bot" if login.endswith("[bot]") else "User"},
        "labels": [{"name": name, "url": f"{base}/labels/{name}"} for name in issue["labels"]],
    }


def _pull_as_issue(call: Call, pull: dict[str, Any]) -> dict[str, Any]:
    base = f"{call.request.base}/repos/{call.name}"
    return {
        "number": pull["number"],
        "title": pull.get("title", "Bump vLLM"),
        "body": pull.get("body", ""),
        "state": pull["state"],
        "state_reason": None,
        "locked": pull["locked"],
        "url": f"{base}/issues/{pull['number']}",
        "html_url": f"https://github.example/{call.name}/pull/{pull['number']}",
        "user": {"login": pull.get("login", "somebody"), "type": "User"},
        "labels": [{"name": name} for name in pull.get("labels", [])],
        "pull_request": {"url": f"{base}/pulls/{pull['number']}"},
    }


def list_issues(call: Call) -> Answer:
    """The newest first; `labels` are names of which each must be there."""
    _enabled(call)
    query = call.request.query
    wanted = {name.lower() for name in query.get("labels", "").split(",") if name}
    shown = [
        *(as_json(call, one) for one in call.repository["issues"]),
        *(_pull_as_issue(call, one) for one in call.repository["pulls"]),
    ]
    kept = [
        one
        for one in sorted(shown, key=lambda one: -one["number"])
        if query.get("state", "open") in ("all", one["state"])
        and wanted <= {label["name"].lower() for label in one["labels"]}
    ]
    return call.request.page(kept)


def find_issue(call: Call, number: str) -> dict[str, Any]:
    for issue in call.repository["issues"]:
        if issue["number"] == int(number):
            return issue  # type: ignore[no-any-return]
    raise not_found()


def get_issue(call: Call) -> Answer:
    _enabled(call)
    return Answer(200, as_json(call, find_issue(call, call.captured[0])))


def _check(given: dict[str, Any]) -> None:
    title, body = given.get("title", "x"), given.get("body") or ""
    if not isinstance(title, str) or not title.strip():
        raise _invalid("title", "title can't be blank", "missing_field")
    if len(title) > MAX_TITLE:
        raise _invalid("title", f"title is too long (maximum is {MAX_TITLE} characters)")
    if len(body) > MAX_BODY:
        raise _invalid("body", f"body is too long (maximum is {MAX_BODY} characters)")
    if given.get("state") not in (None, "open", "closed"):
        raise _invalid("state", "state is not included in the list", "invalid")
    if given.get("state_reason") not in _REASONS:
        raise _invalid("state_reason", "state_reason is not included in the list", "invalid")


def _known_labels(call: Call, names: list[str]) -> list[str]:
    """As they are written in the repository. What it does not know is made, as GitHub does."""
    written = {name.lower(): name for name in call.repository["labels"]}
    for name in names:
        if len(name) > MAX_LABEL:
            raise _invalid("labels", "name is too long (maximum is 50 characters)", "invalid")
        if name.lower() not in written:
            written[name.lower()] = name
            call.repository["labels"][name] = {"color": "ededed", "description": None}
    return [written[name.lower()] for name in names]


def create_issue(call: Call) -> Answer:
    _enabled(call)
    call.needs("issues")
    given = call.request.json
    if "title" not in given:
        raise _invalid("title", "title can't be blank", "missing_field")
    _check(given)
    assert call.token is not None
    # Silently dropped where the author may not set any.
    labels = _known_labels(call, given.get("labels", [])) if _may_label(call) else []
    login = call.token["login"]
    issue = call.state.add_issue(call.name, given["title"], given.get("body") or "", login=login, labels=labels)
    return Answer(201, as_json(call, issue))


def edit_issue(call: Call) -> Answer:
    _enabled(call)
    call.needs("issues")
    issue, given = find_issue(call, call.captured[0]), call.request.json
    _check(given)
    assert call.token is not None
    if not _may_label(call) and issue["login"] != call.token["login"]:
        raise RefusedError(403, "Must have admin rights to Repository.")
    if "body" in given:
        issue["edits"] += issue["body"] != given["body"]
        issue["body"] = given["body"]
    issue["title"] = given.get("title", issue["title"])
    if given.get("state", issue["state"]) != issue["state"]:
        issue["state"] = given["state"]
        closed = issue["state"] == "closed"
        issue["state_reason"] = given.get("state_reason", "completed") if closed else "reopened"
    return Answer(200, as_json(call, issue))


def add_labels(call: Call) -> Answer:
    _enabled(call)
    call.needs("issues")
    issue = find_issue(call, call.captured[0])
    if not _may_label(call):
        raise RefusedError(403, "Must have admin rights to Repository.")
    given = call.request.json
    names = _known_labels(call, given["labels"] if isinstance(given, dict) else given)
    issue["labels"] += [name for name in names if name not in issue["labels"]]
    return Answer(200, [{"name": name} for name in issue["labels"]])


def get_label(call: Call) -> Answer:
    for name, label in call.repository["labels"].items():
        if name.lower() == call.captured[0].lower():
            return Answer(200, {"name": name, **label})
    raise not_found()


def create_label(call: Call) -> Answer:
    call.needs("issues", "pull-requests")
    if not _may_label(call):
        raise not_found()
    given = call.request.json
    name, color = given.get("name", ""), given.get("color", "")
    if name.lower() in map(str.lower, call.repository["labels"]):
        error = {"resource": "Label", "code": "already_exists", "field": "name"}
        raise RefusedError(422, "Validation Failed", errors=[error])
    if not name or len(name) > MAX_LABEL or len(given.get("description") or "") > 100 or len(color) != 6:
        raise RefusedError(422, "Validation Failed", errors=[{"resource": "Label", "code": "invalid"}])
    call.repository["labels"][name] = {"color": color, "description": given.get("description")}
    return Answer(201, {"name": name, **call.repository["labels"][name]})
