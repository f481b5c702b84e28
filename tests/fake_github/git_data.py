"""GitHub's interface to git's own objects: blobs, trees, commits, references. A tree here is flat: path to blob.

Ids are digests of the content, as git's are, and not the same as git's.
"""

from __future__ import annotations

import base64
import io
import tarfile
from typing import TYPE_CHECKING, Any

from tests.fake_github.answers import Answer, RefusedError, not_found
from tests.fake_github.state import digest

if TYPE_CHECKING:
    from tests.fake_github.rest import Call


def _object(repository: dict[str, Any], sha: str, kind: str) -> dict[str, Any]:
    found = repository["objects"].get(sha)
    if found is None or found["kind"] != kind:
        raise not_found()
    return found  # type: ignore[no-any-return]


def _keep(repository: dict[str, Any], **content: Any) -> str:
    sha = digest(content)
    repository["objects"][sha] = content
    return sha


def _reference(call: Call, name: str) -> dict[str, Any]:
    sha = call.repository["refs"][name]
    return {
        "ref": f"refs/{name}",
        "url": f"{call.request.base}/repos/{call.name}/git/refs/{name}",
        "object": {"type": "commit", "sha": sha},
    }


def get_ref(call: Call) -> Answer:
    if call.captured[0] not in call.repository["refs"]:
        raise not_found()
    return Answer(200, _reference(call, call.captured[0]))


def create_ref(call: Call) -> Answer:
    call.needs("contents")
    name, sha = call.request.json["ref"].removeprefix("refs/"), call.request.json["sha"]
    if not name.startswith(("heads/", "tags/")):
        raise RefusedError(422, "Reference name must start with 'refs/'")
    if sha not in call.repository["objects"]:
        raise RefusedError(422, "Object does not exist")
    if name in call.repository["refs"]:
        raise RefusedError(422, "Reference already exists")
    call.repository["refs"][name] = sha
    return Answer(201, _reference(call, name))


def update_ref(call: Call) -> Answer:
    call.needs("contents")
    name, sha = call.captured[0], call.request.json["sha"]
    if name not in call.repository["refs"]:
        raise RefusedError(422, "Reference does not exist")
    if sha not in call.repository["objects"]:
        raise RefusedError(422, "Object does not exist")
    if not call.request.json.get("force") and call.repository["refs"][name] not in _history(call.repository, sha):
        raise RefusedError(422, "Update is not a fast forward")
    call.repository["refs"][name] = sha
    return Answer(200, _reference(call, name))


def _history(repository: dict[str, Any], sha: str) -> set[str]:
    seen: set[str] = set()
    todo = [sha]
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo += repository["objects"][one]["parents"]
    return seen


def get_commit(call: Call) -> Answer:
    return Answer(200, _commit(call, call.captured[0]))


def _commit(call: Call, sha: str) -> dict[str, Any]:
    commit = _object(call.repository, sha, "commit")
    return {
        "sha": sha,
        "url": f"{call.request.base}/repos/{call.name}/git/commits/{sha}",
        "message": commit["message"],
        "tree": {"sha": commit["tree"], "url": f"{call.request.base}/repos/{call.name}/git/trees/{commit['tree']}"},
        "parents": [{"sha": one} for one in commit["parents"]],
    }


def create_commit(call: Call) -> Answer:
    call.needs("contents")
    given = call.request.json
    tree, parents = given["tree"], given.get("parents", [])
    if tree not in call.repository["objects"] or any(one not in call.repository["objects"] for one in parents):
        raise RefusedError(422, "Tree SHA or parent does not exist")
    # The real id holds the time too: two commits of the same content are two.
    number = call.state.new_id()
    sha = _keep(
        call.repository, kind="commit", tree=tree, parents=parents, message=given.get("message", ""), number=number
    )
    return Answer(201, _commit(call, sha))


def get_tree(call: Call) -> Answer:
    sha = call.captured[0]
    if sha in call.repository["objects"] and call.repository["objects"][sha]["kind"] == "commit":
        sha = call.repository["objects"][sha]["tree"]
    return Answer(200, _tree(call, sha))


def _tree(call: Call, sha: str) -> dict[str, Any]:
    files = _object(call.repository, sha, "tree")["files"]
    base = f"{call.request.base}/repos/{call.name}/git"
    entries = [
        {"path": path, "mode": "100644", "type": "blob", "sha": blob, "url": f"{base}/blobs/{blob}"}
        for path, blob in sorted(files.items())
    ]
    return {"sha": sha, "url": f"{base}/trees/{sha}", "tree": entries, "truncated": call.repository.get("cut", False)}


def create_tree(call: Call) -> Answer:
    call.needs("contents")
    given = call.request.json
    files = dict(_object(call.repository, given["base_tree"], "tree")["files"]) if "base_tree" in given else {}
    for entry in given["tree"]:
        if "content" in entry:
            files[entry["path"]] = _blob(call, entry["content"].encode())
        elif entry.get("sha") in call.repository["objects"]:
            files[entry["path"]] = entry["sha"]
        else:
            raise RefusedError(422, "tree.sha does not exist")
    return Answer(201, _tree(call, _keep(call.repository, kind="tree", files=files)))


def _blob(call: Call, content: bytes) -> str:
    return _keep(call.repository, kind="blob", content=base64.b64encode(content).decode())


def get_blob(call: Call) -> Answer:
    blob = _object(call.repository, call.captured[0], "blob")
    return Answer(200, {"sha": call.captured[0], "encoding": "base64", "content": blob["content"]})


def create_blob(call: Call) -> Answer:
    call.needs("contents")
    given = call.request.json
    plain = base64.b64decode(given["content"]) if given.get("encoding") == "base64" else given["content"].encode()
    return Answer(201, {"sha": _blob(call, plain)})


def tarball_address(call: Call) -> Answer:
    name = call.captured[0]
    sha = call.repository["refs"].get(f"heads/{name}", name)
    _object(call.repository, sha, "commit")
    return Answer(302, b"", {"Location": f"{call.request.storage}/_codeload/{call.name}/{sha}"})


def tarball(repository: dict[str, Any], sha: str) -> Answer:
    """As GitHub packs it: everything below one folder."""
    files = _object(repository, _object(repository, sha, "commit")["tree"], "tree")["files"]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path, blob in files.items():
            content = base64.b64decode(repository["objects"][blob]["content"])
            member = tarfile.TarInfo(f"repository-{sha[:7]}/{path}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return Answer(200, packed.getvalue())
