"""Runs on a branch of the repository: shared by many jobs, never lost, never begun anew."""

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from regress_gate import github as client_module
from regress_gate.errors import InputError
from regress_gate.github import GitHub as Client
from regress_gate.publish.data_branch import MARKER_FILE, DataBranch, append_files, read_files
from tests.cli.conftest import Gate, Outcome
from tests.cli.publishing.conftest import REPO, a_state
from tests.fake_github.server import GitHub, serving

BRANCH = "regress-gate-data"


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    monkeypatch.setattr(client_module, "SECONDS_BETWEEN_WRITES", 0)
    monkeypatch.setattr(client_module.GitHub, "pause", lambda client, seconds: None)  # noqa: ARG005
    with serving(GitHub(state=a_state())) as server:
        for name, value in {
            "GITHUB_REPOSITORY": REPO,
            "GITHUB_API_URL": server.url,
            "GITHUB_TOKEN": "writer",
            "NO_PROXY": "127.0.0.1,localhost",
        }.items():
            monkeypatch.setenv(name, value)
        yield server


def client(github: GitHub) -> Client:
    return Client(github.url, None, token="writer")


def export(gate: Gate) -> Outcome:
    return gate("baseline", "export", "--to-branch", BRANCH)


def import_elsewhere(gate: Gate) -> Outcome:
    return gate("baseline", "import", "--from-branch", BRANCH, "--store", gate.directory / "other.db")


def test_exported_runs_come_back_and_are_there_once(gate: Gate, github: GitHub) -> None:
    gate.import_starts("v0.19.0")
    gate.import_starts("v0.19.1")
    done = export(gate)
    assert done.code == 0, done.err
    files = github.state.files(REPO, BRANCH)
    runs = [path for path in files if path.startswith("runs/")]
    assert done.out == f"{len(runs)} runs added to {BRANCH}, 0 were there\n"
    assert set(files) - set(runs) == {MARKER_FILE}
    again = export(gate)
    assert again.out == f"0 runs added to {BRANCH}, {len(runs)} were there\n"
    assert len([one for one in github.state.writes() if one["method"] == "PATCH"]) == 0
    done = import_elsewhere(gate)
    assert done.code == 0, done.err
    assert done.out.startswith(f"{len(runs)} runs added")
    assert "0 runs added" in import_elsewhere(gate).out
    assert sum(one["path"].endswith("/tarball") or "/tarball/" in one["path"] for one in github.state.requests) == 2


def test_a_later_export_adds_what_is_new(gate: Gate, github: GitHub) -> None:
    gate.import_starts("v0.19.0")
    export(gate)
    before = github.state.files(REPO, BRANCH)
    gate.import_starts("v0.19.1")
    export(gate)
    after = github.state.files(REPO, BRANCH)
    assert before.items() < after.items()


def test_eight_writers_at_once_lose_nothing(github: GitHub) -> None:
    def write(writer: int) -> int:
        files = {f"runs/w{writer}/{number}.json": f"{writer} {number}\n" for number in range(3)}
        return sum(append_files(client(github), DataBranch(REPO, BRANCH), {path: files[path]}, "x") for path in files)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(write, range(8))) == [3] * 8
    files = github.state.files(REPO, BRANCH)
    wanted = {f"runs/w{writer}/{number}.json": f"{writer} {number}\n" for writer in range(8) for number in range(3)}
    assert {path: text for path, text in files.items() if path != MARKER_FILE} == wanted
    # The writers met: otherwise this would show nothing.
    assert any(one["status"] == 422 for one in github.state.requests)


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"schema": "regress-gate-data/2"}', '{"schema": 1}'])
def test_a_branch_that_is_something_else_is_left_as_it_is(gate: Gate, github: GitHub, content: str | None) -> None:
    append_files(client(github), DataBranch(REPO, BRANCH), {"runs/a.json": "x"}, "x")
    repository = github.state.repositories[REPO]
    tree = repository["objects"][repository["objects"][repository["refs"][f"heads/{BRANCH}"]]["tree"]]["files"]
    if content is None:
        del tree[MARKER_FILE]
    else:
        repository["objects"][tree[MARKER_FILE]]["content"] = base64.b64encode(content.encode()).decode()
    before = dict(repository["refs"])
    gate.import_starts("v0.19.0")
    for done in (export(gate), import_elsewhere(gate)):
        assert done.code == 2
        assert "left as it is" in done.error
    assert repository["refs"] == before


@pytest.mark.parametrize("damage", ["", "{", '{"schema": "regress-gate-baseline/1"}'])
def test_a_damaged_run_stops_the_import_and_changes_nothing(gate: Gate, github: GitHub, damage: str) -> None:
    gate.import_starts("v0.19.0")
    export(gate)
    append_files(client(github), DataBranch(REPO, BRANCH), {"runs/z/damaged.json": damage}, "x")
    done = import_elsewhere(gate)
    assert done.code == 2
    assert f"{BRANCH}:runs/z/damaged.json" in done.error
    assert not (gate.directory / "other.db").exists()
    assert len(github.state.files(REPO, BRANCH)) > 2


def test_without_a_branch_there_is_no_data(gate: Gate, github: GitHub) -> None:
    done = import_elsewhere(gate)
    assert done.code == 5
    assert f"has no branch {BRANCH}" in done.error
    assert github.state.writes() == []


def test_a_token_that_can_only_read_is_told_what_is_missing(
    gate: Gate, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate.import_starts("v0.19.0")
    export(gate)
    before = github.state.files(REPO, BRANCH)
    monkeypatch.setenv("GITHUB_TOKEN", "reader")
    gate.import_starts("v0.19.1")
    done = export(gate)
    assert done.code == 4
    assert "`contents: write`" in done.error
    assert github.state.files(REPO, BRANCH) == before
    assert import_elsewhere(gate).code == 0


def test_an_update_whose_answer_is_lost_is_not_made_twice(github: GitHub) -> None:
    branch = DataBranch(REPO, BRANCH)
    append_files(client(github), branch, {"runs/a.json": "a"}, "x")
    github.state.faults.append({"method": "PATCH", "status": 502, "apply": True})
    append_files(client(github), branch, {"runs/b.json": "b"}, "x")
    assert set(read_files(client(github), branch)) == {"runs/a.json", "runs/b.json"}
    assert sum(one["path"].endswith("/git/commits") for one in github.state.writes()) == 2


@pytest.mark.parametrize("name", ["", "-x", "a..b", "a//b", "/a", "a/", "a.lock", "a b", "x" * 101, "a\n"])
def test_a_name_that_no_branch_has_is_refused(name: str) -> None:
    with pytest.raises(InputError):
        DataBranch(REPO, name)


def test_many_large_runs_are_sent_in_parts(github: GitHub) -> None:
    files = {f"runs/{number}.json": json.dumps("x" * 1_000_000) for number in range(9)}
    assert append_files(client(github), DataBranch(REPO, BRANCH), files, "x") == 9
    assert sum(one["path"].endswith("/git/trees") for one in github.state.writes()) == 3
    assert {
        path: content.decode() for path, content in read_files(client(github), DataBranch(REPO, BRANCH)).items()
    } == files


def test_files_or_a_branch_are_named(gate: Gate, github: GitHub) -> None:
    assert gate("baseline", "import").code == 2
    assert github.state.requests == []
