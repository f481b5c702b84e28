"""The REST calls (and the one GraphQL query) with which a workflow publishes, and what GitHub refuses of them.

The texts of refusals are GitHub's own where a test or a user reads them.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from tests.fake_github import git_data, issues
from tests.fake_github.answers import Answer, RefusedError, Request, not_found
from tests.fake_github.state import State

MAX_COMMENT = 65_536
MAX_CHECK_TEXT = 65_535
MAX_ANNOTATIONS = 50
CONCLUSIONS = (
    "action_required",
    "cancelled",
    "failure",
    "neutral",
    "skipped",
    "stale",
    "success",
    "timed_out",
)
QUERY_WORDS = """
query String Int owner name number after first viewer login repository pullRequest headRefOid comments pageInfo
hasNextPage endCursor nodes databaseId url body isMinimized viewerDidAuthor author __typename
"""
"""Of GitHub's schema, as far as it is known here. Any other field is refused, as GitHub does."""


@dataclass
class Call:
    """One request to a repository that exists, by a token that may read it."""

    state: State
    request: Request
    name: str
    repository: dict[str, Any]
    token: dict[str, Any] | None
    captured: tuple[str, ...] = field(default=())

    def needs(self, *alternatives: str) -> None:
        """Raises RefusedError where the token lacks all of these permissions to write."""
        if self.token is None:
            raise RefusedError(401, "Requires authentication")
        own = self.token["repository"] == self.name
        if not own or not any(self.token["permissions"].get(one) == "write" for one in alternatives):
            wanted = "; ".join(f"{one.replace('-', '_')}=write" for one in alternatives)
            raise RefusedError(403, "Resource not accessible by integration", {"X-Accepted-GitHub-Permissions": wanted})

    @property
    def reader(self) -> dict[str, Any]:
        return self.token or {"login": None, "app": None}


def answer(state: State, request: Request) -> Answer | None:
    """None: nothing of this module."""
    token = _token(state, request)
    if request.path == "/graphql":
        return _graphql(state, request, token)
    if request.path == "/rate_limit":
        return Answer(200, {"resources": {"core": {"limit": 1000, "remaining": 999}}})
    if request.path == "/user":
        if token is None:
            raise RefusedError(401, "Requires authentication")
        if token["app"]:
            raise RefusedError(403, "Resource not accessible by integration")
        return Answer(200, {"login": token["login"], "type": "User"})
    if found := re.fullmatch(r"/_blob/(\d+)", request.path):
        if "authorization" in request.headers:  # the storage refuses what it does not know
            return Answer(400, b"<Error>InvalidAuthenticationInfo</Error>")
        artifact = _artifact(state, int(found[1]))
        if artifact["zeros"]:
            return Answer(200, b"", zeros=artifact["zeros"], sent=lambda number: artifact.update(sent=number))
        return Answer(200, base64.b64decode(artifact["content"]))
    if "authorization" in request.headers and request.path.startswith("/_"):
        return Answer(400, b"<Error>InvalidAuthenticationInfo</Error>")
    if found := re.fullmatch(r"/_codeload/([^/]+/[^/]+)/(\w+)", request.path):
        return git_data.tarball(state.repositories[found[1]], found[2])
    found = re.match(r"/repos/([^/]+/[^/]+)(?=/|$)", request.path)
    if found is None or found[1] not in state.repositories:
        return None
    name, path = found[1], request.path[found.end() :]
    repository = state.repositories[name]
    if repository["private"] and (token is None or token["repository"] != name):
        raise not_found()
    for method, pattern, route in ROUTES:
        if method == request.method and (match := re.fullmatch(pattern, path)):
            captured = tuple(unquote(part) for part in match.groups())
            return route(Call(state, request, name, repository, token, captured))
    raise not_found()


def _token(state: State, request: Request) -> dict[str, Any] | None:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if not kind:
        return None
    if token not in state.tokens:
        raise RefusedError(401, "Bad credentials")
    return state.tokens[token]


# Pull requests and comments


def _show_repository(call: Call) -> Answer:
    return Answer(200, {"full_name": call.name, "default_branch": call.repository["default_branch"]})


def _list_pulls(call: Call) -> Answer:
    state = call.request.query.get("state", "open")
    head = call.request.query.get("head", "")
    pulls = [one for one in call.repository["pulls"] if state in ("all", one["state"])]
    if ":" in head:  # a head of another form is ignored
        pulls = [one for one in pulls if f"{one['head']['user']['login']}:{one['head']['ref']}" == head]
    return call.request.page([_pull(call, one) for one in pulls])


def _pull(call: Call, pull: dict[str, Any]) -> dict[str, Any]:
    return {"url": call.request.base + f"/repos/{call.name}/pulls/{pull['number']}", **pull}


def _find_pull(call: Call, number: str) -> dict[str, Any]:
    for pull in call.repository["pulls"]:
        if pull["number"] == int(number):
            return dict(pull)
    raise not_found()


def _get_pull(call: Call) -> Answer:
    return Answer(200, _pull(call, _find_pull(call, call.captured[0])))


def _find_thread(call: Call, number: str) -> dict[str, Any]:
    """A pull request, or an issue."""
    if any(one["number"] == int(number) for one in call.repository["issues"]):
        return issues.find_issue(call, number)
    return _find_pull(call, number)


def _comment(call: Call, comment: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": comment["id"],
        "body": comment["body"],
        "user": {"login": comment["login"], "type": "Bot" if comment["login"].endswith("[bot]") else "User"},
        "html_url": f"https://github.example/{call.name}/pull/{comment['issue']}#issuecomment-{comment['id']}",
        "url": call.request.base + f"/repos/{call.name}/issues/comments/{comment['id']}",
    }


def _list_comments(call: Call) -> Answer:
    _find_thread(call, call.captured[0])
    found = call.state.comments(call.name, int(call.captured[0]))
    return call.request.page([_comment(call, one) for one in found])


def _body(call: Call) -> str:
    body = call.request.json.get("body")
    if not isinstance(body, str) or not body.strip():
        raise RefusedError(422, "Validation Failed", errors=[{"code": "missing_field", "field": "body"}])
    if len(body) > MAX_COMMENT:
        text = f"Body is too long (maximum is {MAX_COMMENT} characters)"
        raise RefusedError(
            422, "Validation Failed", errors=[{"code": "unprocessable", "field": "data", "message": text}]
        )
    return body


def _create_comment(call: Call) -> Answer:
    thread = _find_thread(call, call.captured[0])
    call.needs(*(("pull-requests", "issues") if "head" in thread else ("issues",)))
    if thread["locked"]:
        raise RefusedError(403, "Unable to create comment because issue is locked.")
    assert call.token is not None
    id_ = call.state.add_comment(call.name, thread["number"], _body(call), login=call.token["login"])
    return Answer(201, _comment(call, next(one for one in call.repository["comments"] if one["id"] == id_)))


def _find_comment(call: Call) -> dict[str, Any]:
    for comment in call.repository["comments"]:
        if comment["id"] == int(call.captured[0]):
            return comment  # type: ignore[no-any-return]
    raise not_found()


def _get_comment(call: Call) -> Answer:
    return Answer(200, _comment(call, _find_comment(call)))


def _edit_comment(call: Call) -> Answer:
    call.needs("pull-requests", "issues")
    comment = _find_comment(call)
    comment["body"] = _body(call)
    comment["edits"] += 1
    return Answer(200, _comment(call, comment))


def _delete_comment(call: Call) -> Answer:
    call.needs("pull-requests", "issues")
    call.repository["comments"].remove(_find_comment(call))
    return Answer(204, b"")


def _graphql(state: State, request: Request, token: dict[str, Any] | None) -> Answer:
    if token is None:
        raise RefusedError(401, "This endpoint requires you to be authenticated.")
    query, variables = str(request.json.get("query")), request.json.get("variables", {})
    if unknown := set(re.findall(r"[A-Za-z_]\w*", query)) - set(QUERY_WORDS.split()):
        return Answer(200, {"errors": [{"message": f"Field '{min(unknown)}' doesn't exist on type 'Query'"}]})
    if "repository" not in query:
        return Answer(200, {"data": {"viewer": {"login": token["login"]}}})
    name = f"{variables['owner']}/{variables['name']}"
    repository = state.repositories.get(name)
    if repository is None or (repository["private"] and token["repository"] != name):
        return _graphql_missing(f"Could not resolve to a Repository with the name '{name}'.")
    if repository["private"] and not {"pull-requests", "issues"} & set(token["permissions"]):
        error = {"type": "FORBIDDEN", "message": "Resource not accessible by integration"}
        return Answer(200, {"data": None, "errors": [error]})
    pull = next((one for one in repository["pulls"] if one["number"] == variables["number"]), None)
    if pull is None:
        return _graphql_missing(f"Could not resolve to a PullRequest with the number of {variables['number']}.")
    comments = state.comments(name, variables["number"])
    start = int(variables.get("after") or 0)
    shown = comments[start : start + 100]
    nodes = [
        {
            "databaseId": one["id"],
            "url": f"https://github.example/{name}/pull/{one['issue']}#issuecomment-{one['id']}",
            "body": one["body"],
            "isMinimized": one["minimised"],
            "viewerDidAuthor": one["login"] == token["login"],
            # In GraphQL the author of an app's comment has no [bot] in its name; the viewer has.
            "author": {
                "__typename": "Bot" if one["login"].endswith("[bot]") else "User",
                "login": one["login"].removesuffix("[bot]"),
            },
        }
        for one in shown
    ]
    page = {"hasNextPage": start + 100 < len(comments), "endCursor": str(start + 100)}
    found = {"pullRequest": {"headRefOid": pull["head"]["sha"], "comments": {"pageInfo": page, "nodes": nodes}}}
    return Answer(200, {"data": {"viewer": {"login": token["login"]}, "repository": found}})


def _graphql_missing(text: str) -> Answer:
    return Answer(200, {"data": {"repository": None}, "errors": [{"type": "NOT_FOUND", "message": text}]})


# Check runs


def _needs_app(call: Call) -> None:
    call.needs("checks")
    assert call.token is not None
    if not call.token["app"]:
        raise RefusedError(403, "You must authenticate via a GitHub App.")


def _check_run(call: Call, run: dict[str, Any]) -> dict[str, Any]:
    output = {**run["output"], "annotations_count": len(run["annotations"])}
    return {
        **{key: value for key, value in run.items() if key != "annotations"},
        "output": output,
        "url": call.request.base + f"/repos/{call.name}/check-runs/{run['id']}",
        "html_url": f"https://github.example/{call.name}/runs/{run['id']}",
        "app": {"slug": run["app"]},
    }


def _invalid(text: str) -> RefusedError:
    return RefusedError(422, f"Invalid request.\n\n{text}")


def _check_output(output: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if not {"title", "summary"} <= output.keys():
        raise _invalid('"title", "summary" weren\'t supplied.')
    for key in ("summary", "text"):
        if len(output.get(key) or "") > MAX_CHECK_TEXT:
            raise _invalid(f"Only {MAX_CHECK_TEXT} characters are allowed; {len(output[key])} were supplied.")
    annotations = output.get("annotations", [])
    if len(annotations) > MAX_ANNOTATIONS:
        raise _invalid(f"No more than {MAX_ANNOTATIONS} items are allowed; {len(annotations)} were supplied.")
    for one in annotations:
        path = one.get("path")
        if not isinstance(path, str) or not path or path.startswith("/"):
            raise _invalid(f'"{path}" is not a valid path.')
        if not all(isinstance(one.get(key), int) and one[key] >= 1 for key in ("start_line", "end_line")):
            raise _invalid("start_line and end_line must be at least 1.")
        if one.get("annotation_level") not in ("notice", "warning", "failure"):
            raise _invalid(f'"{one.get("annotation_level")}" is not a member of ["notice", "warning", "failure"].')
        if not one.get("message") or len(one["message"].encode()) > 65_536 or len(one.get("title", "")) > 255:
            raise _invalid("message or title is empty or too long.")
    kept = {key: output.get(key) for key in ("title", "summary", "text")}
    return kept, annotations


def _state_of(given: dict[str, Any]) -> dict[str, Any]:
    conclusion = given.get("conclusion")
    if conclusion is not None and conclusion not in CONCLUSIONS:
        raise _invalid(f'"{conclusion}" is not a possible value.')
    status = "completed" if conclusion else given.get("status", "queued")
    if status not in ("queued", "in_progress", "completed"):
        raise _invalid(f'"{status}" is not a possible value.')
    if status == "completed" and not conclusion:
        raise _invalid("If the status is completed, a conclusion is needed.")
    return {"status": status, "conclusion": conclusion}


def _create_check_run(call: Call) -> Answer:
    _needs_app(call)
    given = call.request.json
    if given.get("head_sha") not in call.repository["commits"]:
        raise RefusedError(422, f"No commit found for SHA: {given.get('head_sha')}")
    if not given.get("name"):
        raise _invalid('"name" wasn\'t supplied.')
    output, annotations = _check_output(given["output"]) if "output" in given else ({}, [])
    assert call.token is not None
    run = {
        "id": call.state.new_id(),
        "name": given["name"],
        "head_sha": given["head_sha"],
        "external_id": given.get("external_id", ""),
        "details_url": given.get("details_url"),
        "app": call.token["app"],
        "output": output,
        "annotations": annotations,
        **_state_of(given),
    }
    call.repository["check_runs"].append(run)
    return Answer(201, _check_run(call, run))


def _find_check_run(call: Call) -> dict[str, Any]:
    for run in call.repository["check_runs"]:
        if run["id"] == int(call.captured[0]):
            return run  # type: ignore[no-any-return]
    raise not_found()


def _edit_check_run(call: Call) -> Answer:
    _needs_app(call)
    run, given = _find_check_run(call), call.request.json
    assert call.token is not None
    if run["app"] != call.token["app"]:
        raise RefusedError(403, "Invalid app_id - check run can only be modified by the GitHub App that created it.")
    if "output" in given:
        output, annotations = _check_output(given["output"])
        run["output"] = output
        run["annotations"] += annotations  # an update adds to what is there
    # What is completed stays so, and keeps its conclusion.
    if run["status"] != "completed" and ("status" in given or "conclusion" in given):
        run.update(_state_of(given))
    return Answer(200, _check_run(call, run))


def _get_check_run(call: Call) -> Answer:
    return Answer(200, _check_run(call, _find_check_run(call)))


def _list_check_runs(call: Call) -> Answer:
    if call.captured[0] not in call.repository["commits"]:
        raise RefusedError(422, f"No commit found for SHA: {call.captured[0]}")
    runs = call.state.check_runs(call.name, call.captured[0])
    if "check_name" in call.request.query:
        runs = [one for one in runs if one["name"] == call.request.query["check_name"]]
    if call.request.query.get("filter", "latest") == "latest":
        runs = list({(one["name"], one["app"]): one for one in runs}.values())
    paged = call.request.page([_check_run(call, one) for one in reversed(runs)])
    return Answer(200, {"total_count": len(runs), "check_runs": paged.content}, paged.headers)


# Artifacts


def _list_artifacts(call: Call) -> Answer:
    if call.repository["private"] and call.token and "actions" not in call.token["permissions"]:
        raise RefusedError(
            403, "Resource not accessible by integration", {"X-Accepted-GitHub-Permissions": "actions=read"}
        )
    found = [one for one in call.repository["artifacts"] if one["run"] == int(call.captured[0])]
    if "name" in call.request.query:
        found = [one for one in found if one["name"] == call.request.query["name"]]
    shown = [{key: one[key] for key in ("id", "name", "expired", "size_in_bytes")} for one in found]
    for one in shown:
        one["url"] = call.request.base + f"/repos/{call.name}/actions/artifacts/{one['id']}"
        one["archive_download_url"] = f"{one['url']}/zip"
    paged = call.request.page(shown)
    return Answer(200, {"total_count": len(shown), "artifacts": paged.content}, paged.headers)


def _download_artifact(call: Call) -> Answer:
    if call.token is None:
        raise RefusedError(401, "Requires authentication")
    one = next((one for one in call.repository["artifacts"] if one["id"] == int(call.captured[0])), None)
    if one is None:
        raise not_found()
    if one["expired"]:
        raise RefusedError(410, "Artifact has expired")
    return Answer(302, b"", {"Location": f"{call.request.storage}/_blob/{one['id']}"})


def _artifact(state: State, id_: int) -> dict[str, Any]:
    for repository in state.repositories.values():
        for one in repository["artifacts"]:
            if one["id"] == id_:
                return one  # type: ignore[no-any-return]
    raise not_found()


ROUTES: list[tuple[str, str, Callable[[Call], Answer]]] = [
    ("GET", "", _show_repository),
    ("GET", "/pulls", _list_pulls),
    ("GET", r"/pulls/(\d+)", _get_pull),
    ("GET", r"/issues/(\d+)/comments", _list_comments),
    ("POST", r"/issues/(\d+)/comments", _create_comment),
    ("GET", r"/issues/comments/(\d+)", _get_comment),
    ("PATCH", r"/issues/comments/(\d+)", _edit_comment),
    ("DELETE", r"/issues/comments/(\d+)", _delete_comment),
    ("GET", "/issues", issues.list_issues),
    ("POST", "/issues", issues.create_issue),
    ("GET", r"/issues/(\d+)", issues.get_issue),
    ("PATCH", r"/issues/(\d+)", issues.edit_issue),
    ("POST", r"/issues/(\d+)/labels", issues.add_labels),
    ("GET", r"/labels/([^/]+)", issues.get_label),
    ("POST", "/labels", issues.create_label),
    ("POST", "/check-runs", _create_check_run),
    ("GET", r"/check-runs/(\d+)", _get_check_run),
    ("PATCH", r"/check-runs/(\d+)", _edit_check_run),
    ("GET", r"/commits/([^/]+)/check-runs", _list_check_runs),
    ("GET", r"/actions/runs/(\d+)/artifacts", _list_artifacts),
    ("GET", r"/actions/artifacts/(\d+)/zip", _download_artifact),
    ("GET", r"/git/ref/(.+)", git_data.get_ref),
    ("POST", "/git/refs", git_data.create_ref),
    ("PATCH", r"/git/refs/(.+)", git_data.update_ref),
    ("GET", r"/git/commits/(\w+)", git_data.get_commit),
    ("POST", "/git/commits", git_data.create_commit),
    ("GET", r"/git/trees/([^/]+)", git_data.get_tree),
    ("POST", "/git/trees", git_data.create_tree),
    ("GET", r"/git/blobs/(\w+)", git_data.get_blob),
    ("POST", "/git/blobs", git_data.create_blob),
    ("GET", r"/tarball/(.+)", git_data.tarball_address),
]
