"""`ci versions` and `ci check` in real git repositories: what a change moves, and between which commits."""

import json
from pathlib import Path

import pytest

from tests.factories.git_checkout import Checkout

OLD, NEW = "0.19.1", "0.32.0"
COMPOSE = "services:\n  llm:\n    image: vllm/vllm-openai:v{}\n"


def versions(gate, *arguments):
    """The JSON of a successful call."""
    done = gate("ci", "versions", *arguments, "--format", "json")
    assert (done.code, done.err) == (0, "")
    return done.json


def moved(answer):
    return [(one["file"], one["line"], one["from"], one["to"], one["change"]) for one in answer["moved"]]


# What moved


def test_a_bump_is_shown_with_both_versions_file_and_line(gate, repo):
    repo.commit({"requirements.txt": "torch\nvllm==0.19.1\n"})
    repo.commit({"requirements.txt": "# newer\ntorch\nvllm==0.32.0\n"})
    answer = versions(gate, "--base", "HEAD~1", "--head", "HEAD")
    assert (answer["baseline"], answer["candidate"], answer["outcome"]) == (OLD, NEW, "moved")
    assert moved(answer) == [("requirements.txt", 3, OLD, NEW, "moved")]
    assert answer["why"] == "requirements.txt:3 moved from 0.19.1 to 0.32.0"
    assert gate("ci", "versions", "--base", "HEAD~1").out.startswith(
        "vLLM 0.19.1 → 0.32.0\nrequirements.txt:3 moved from 0.19.1"
    )


def test_without_a_moved_version_it_says_so_and_exits_0(gate, repo):
    repo.commit({"compose.yaml": COMPOSE.format(OLD)})
    repo.commit({"compose.yaml": COMPOSE.format(OLD) + "    command: --model x\n", "app.py": "x = 1\n"})
    answer = versions(gate, "--base", "HEAD~1")
    assert (answer["outcome"], answer["baseline"], answer["candidate"]) == ("unchanged", None, None)
    assert answer["why"] == "no vLLM version moved"
    assert answer["moved"] == []


def test_one_target_in_several_files_is_one_move(gate, repo):
    repo.commit({"compose.yaml": COMPOSE.format(OLD), "requirements.txt": "vllm==0.19.1\n", "Dockerfile": "FROM a\n"})
    repo.commit({"compose.yaml": COMPOSE.format(NEW), "requirements.txt": "vllm==0.32.0\n", "Dockerfile": "FROM b\n"})
    answer = versions(gate, "--base", "HEAD~1")
    assert (answer["baseline"], answer["candidate"], len(answer["moved"])) == (OLD, NEW, 2)


def test_different_targets_are_named_and_refused_until_a_path_chooses(gate, repo):
    repo.commit({"a/compose.yaml": COMPOSE.format(OLD), "b/compose.yaml": COMPOSE.format(OLD)})
    repo.commit({"a/compose.yaml": COMPOSE.format("0.30.0"), "b/compose.yaml": COMPOSE.format(NEW)})
    refused = gate("ci", "versions", "--base", "HEAD~1", "--format", "json")
    assert refused.code == 2
    assert refused.error == (
        "pins moved to different versions: a/compose.yaml:3 0.19.1 → 0.30.0, b/compose.yaml:3 0.19.1 → 0.32.0; "
        "name the files of one deployment: `regress-gate ci versions PATH…`"
    )
    assert refused.json["outcome"] == "ambiguous"
    for path in ("b", "b/", "b/*.yaml", "b/compose.yaml"):
        assert versions(gate, path, "--base", "HEAD~1")["candidate"] == NEW


def test_different_versions_before_are_refused_too(gate, repo):
    repo.commit({"a.yaml": COMPOSE.format("0.18.0"), "b.yaml": COMPOSE.format(OLD)})
    repo.commit({"a.yaml": COMPOSE.format(NEW), "b.yaml": COMPOSE.format(NEW)})
    refused = gate("ci", "versions", "--base", "HEAD~1")
    assert refused.code == 2
    assert (
        "pins of different versions moved to 0.32.0: a.yaml:3 0.18.0 → 0.32.0, b.yaml:3 0.19.1 → 0.32.0" in refused.err
    )


def test_a_downgrade_is_a_move(gate, repo):
    repo.commit({"Dockerfile": "FROM vllm/vllm-openai:v0.32.0\n"})
    repo.commit({"Dockerfile": "FROM vllm/vllm-openai:v0.19.1\n"})
    answer = versions(gate, "--base", "HEAD~1")
    assert (answer["baseline"], answer["candidate"]) == (NEW, OLD)


def test_a_first_pin_has_a_candidate_and_no_baseline(gate, repo):
    repo.commit({"app.py": ""})
    repo.commit({"requirements.txt": "vllm==0.32.0\n"})
    answer = versions(gate, "--base", "HEAD~1")
    assert (answer["outcome"], answer["baseline"], answer["candidate"]) == ("moved", None, NEW)
    assert moved(answer) == [("requirements.txt", 1, None, NEW, "added")]


def test_a_removed_pin_is_said(gate, repo):
    repo.commit({"requirements.txt": "vllm==0.32.0\ntorch\n"})
    repo.commit({"requirements.txt": "torch\n"})
    answer = versions(gate, "--base", "HEAD~1")
    assert (answer["outcome"], answer["candidate"]) == ("unchanged", None)
    assert answer["why"].endswith("vllm==0.32.0 (requirements.txt:1) is no longer pinned")
    assert moved(answer) == [("requirements.txt", 1, NEW, None, "removed")]


def test_a_renamed_file_has_not_moved_its_version(gate, repo):
    repo.commit(
        {"a/compose.yaml": COMPOSE.format(OLD), "values.yaml": "image: {repository: vllm/vllm-openai, tag: v0.19.1}\n"}
    )
    repo.git("mv", "a", "b")
    repo.git("mv", "values.yaml", "values-prod.yaml")
    repo.commit()
    assert versions(gate, "--base", "HEAD~1")["moved"] == []


def test_a_version_that_moves_with_a_rename_is_one_move(gate, repo):
    repo.commit({"old/compose.yaml": COMPOSE.format(OLD)})
    repo.git("mv", "old", "new")
    repo.commit({"new/compose.yaml": COMPOSE.format(NEW)})
    assert moved(versions(gate, "--base", "HEAD~1")) == [("new/compose.yaml", 3, OLD, NEW, "moved")]


def test_a_pin_that_goes_from_one_kind_of_file_to_another_is_a_move(gate, repo):
    repo.commit({"requirements.txt": "vllm==0.19.1\n"})
    (repo.root / "requirements.txt").unlink()
    repo.commit({"pyproject.toml": '[project]\ndependencies = ["vllm==0.32.0"]\n'})
    answer = versions(gate, "--base", "HEAD~1")
    assert (answer["baseline"], answer["candidate"]) == (OLD, NEW)


# What names no version


@pytest.mark.parametrize(
    ("path", "text", "why"),
    [
        ("requirements.txt", "vllm>=0.30\n", ">=0.30 is a range"),
        ("requirements.txt", "vllm\n", "no version is given"),
        (
            "compose.yaml",
            "services: {a: {image: 'vllm/vllm-openai:latest'}}\n",
            "the image's tag 'latest' names no version",
        ),
        ("Dockerfile", f"FROM vllm/vllm-openai@sha256:{'a' * 64}\n", "the image is named by its digest alone"),
        ("Dockerfile", "FROM ghcr.io/acme/vllm-server:1.4\n", "the tag '1.4' of ghcr.io/acme/vllm-server need not be"),
    ],
)
def test_a_move_to_something_that_names_no_version_is_unknown_and_exits_3(gate, repo, path, text, why):
    before = {"requirements.txt": "vllm==0.19.1\n", "Dockerfile": "FROM vllm/vllm-openai:v0.19.1\n"}
    repo.commit({path: before.get(path, "services: {a: {image: 'vllm/vllm-openai:v0.19.1'}}\n")})
    repo.commit({path: text})
    done = gate("ci", "versions", "--base", "HEAD~1", "--format", "json")
    assert (done.code, done.err) == (3, "")
    assert (done.json["outcome"], done.json["baseline"], done.json["candidate"]) == ("unknown", OLD, None)
    assert why in done.json["why"]
    assert done.json["moved"][0]["to"] is None


DIGESTS = [f"sha256:{letter * 64}" for letter in "ab"]
IMAGE = "services: {{a: {{image: 'vllm/vllm-openai:v{}@{}'}}}}\n"
HELM = "image: {{repository: vllm/vllm-openai, tag: v{}, digest: '{}'}}\n"


@pytest.mark.parametrize(("path", "form"), [("compose.yaml", IMAGE), ("values.yaml", HELM)])
@pytest.mark.parametrize(
    ("now", "digest", "why"),
    [
        (OLD, DIGESTS[1], "its digest moved and its tag did not: what runs is another image"),
        (NEW, DIGESTS[0], "its tag moved and its digest did not: what runs is the same image"),
    ],
)
def test_a_tag_and_a_digest_that_contradict_each_other_name_no_version(gate, repo, path, form, now, digest, why):
    repo.commit({path: form.format(OLD, DIGESTS[0])})
    repo.commit({path: form.format(now, digest)})
    done = gate("ci", "versions", "--base", "HEAD~1", "--format", "json")
    assert done.code == gate("ci", "check", "--base", "HEAD~1").code == 3
    assert (done.json["outcome"], done.json["baseline"], done.json["candidate"]) == ("unknown", OLD, None)
    assert why in done.json["why"]
    assert [(one["to"], one["why"]) for one in done.json["moved"]] == [(None, why)]
    assert why in gate("ci", "versions", "--base", "HEAD~1").out


@pytest.mark.parametrize(("before", "after"), [("", f"@{DIGESTS[0]}"), (f"@{DIGESTS[0]}", "")])
def test_a_digest_that_comes_or_goes_moves_no_version(gate, repo, before, after):
    repo.commit({"Dockerfile": f"FROM vllm/vllm-openai:v{OLD}{before}\n"})
    repo.commit({"Dockerfile": f"FROM vllm/vllm-openai:v{OLD}{after}\n"})
    assert versions(gate, "--base", "HEAD~1")["outcome"] == "unchanged"


def test_a_tag_that_moves_with_its_digest_is_a_move(gate, repo):
    repo.commit({"compose.yaml": IMAGE.format(OLD, DIGESTS[0])})
    repo.commit({"compose.yaml": IMAGE.format(NEW, DIGESTS[1])})
    assert versions(gate, "--base", "HEAD~1")["candidate"] == NEW


def test_a_move_from_latest_has_a_candidate(gate, repo):
    repo.commit({"Dockerfile": "FROM vllm/vllm-openai:latest\n"})
    repo.commit({"Dockerfile": "FROM vllm/vllm-openai:v0.32.0\n"})
    answer = versions(gate, "--base", "HEAD~1")
    assert (answer["outcome"], answer["baseline"], answer["candidate"]) == ("moved", None, NEW)


def test_a_lock_file_decides_over_a_range(gate, repo):
    lock = '[[package]]\nname = "vllm"\nversion = "{}"\n'
    project = '[project]\ndependencies = ["vllm>={},<0.33"]\n'
    repo.commit({"pyproject.toml": project.format("0.10"), "uv.lock": lock.format(OLD)})
    repo.commit({"pyproject.toml": project.format("0.19"), "uv.lock": lock.format(OLD)})
    answer = versions(gate, "--base", "HEAD~1")
    assert (answer["outcome"], answer["candidate"]) == ("unchanged", None)
    assert answer["moved"][0]["decided_by"] == "uv.lock"
    repo.commit({"pyproject.toml": project.format("0.30"), "uv.lock": lock.format(NEW)})
    answer = versions(gate, "--base", "HEAD~1")
    assert (answer["baseline"], answer["candidate"]) == (OLD, NEW)


def test_the_lock_of_a_workspace_decides_for_its_members_alone(gate, repo):
    lock = '[[package]]\nname = "a"\nsource = { editable = "services/a" }\n\n'
    lock += '[[package]]\nname = "vllm"\nversion = "0.19.1"\n'
    project = '[project]\ndependencies = ["vllm>={}"]\n'
    files = ("services/a/pyproject.toml", "services/b/pyproject.toml")
    repo.commit({"uv.lock": lock, **{file: project.format("0.18") for file in files}})
    repo.commit({file: project.format("0.19") for file in files})
    done = gate("ci", "versions", "--base", "HEAD~1", "--format", "json")
    assert (done.code, done.json["outcome"]) == (3, "unknown")
    assert [one["decided_by"] for one in done.json["moved"]] == ["uv.lock", None]


def test_a_compiled_file_decides_over_its_source(gate, repo):
    repo.commit({"requirements.in": "vllm>=0.18\n", "requirements.txt": "vllm==0.19.1\n"})
    repo.commit({"requirements.in": "vllm>=0.19\n"})
    assert versions(gate, "--base", "HEAD~1")["moved"][0]["decided_by"] == "requirements.txt"


def test_a_range_that_allows_the_new_version_does_not_stand_in_its_way(gate, repo):
    repo.commit(
        {
            "pyproject.toml": '[project]\ndependencies = ["vllm>=0.19"]\n',
            "Dockerfile": "FROM vllm/vllm-openai:v0.19.1\n",
        }
    )
    repo.commit(
        {
            "pyproject.toml": '[project]\ndependencies = ["vllm>=0.30"]\n',
            "Dockerfile": "FROM vllm/vllm-openai:v0.32.0\n",
        }
    )
    answer = versions(gate, "--base", "HEAD~1")
    assert (answer["outcome"], answer["candidate"], "names no version" in answer["why"]) == ("moved", NEW, False)


def test_a_compose_file_takes_its_tag_from_env(gate, repo):
    repo.commit(
        {"d/compose.yaml": "services: {a: {image: 'vllm/vllm-openai:${TAG}'}}\n", "d/.env": "A=1\nTAG=v0.19.1\n"}
    )
    repo.commit({"d/.env": "A=2\nTAG=v0.32.0\n"})
    assert moved(versions(gate, "--base", "HEAD~1")) == [("d/.env", 2, OLD, NEW, "moved")]


def test_the_commit_of_a_submodule_is_a_version(gate, repo, tmp_path):
    vllm = Checkout.new(tmp_path / "vllm")
    first = vllm.commit({"a": "1"})
    second = vllm.commit({"a": "2"})
    repo.git(
        "-c", "protocol.file.allow=always", "submodule", "add", "--quiet", f"file://{vllm.root}", "third_party/vllm"
    )
    modules = '[submodule "x"]\n\tpath = third_party/vllm\n\turl = https://github.com/vllm-project/vllm.git\n'
    Checkout(repo.root / "third_party/vllm").git("checkout", "--quiet", first)
    repo.commit({".gitmodules": modules})
    Checkout(repo.root / "third_party/vllm").git("checkout", "--quiet", second)
    repo.commit()
    answer = versions(gate, "--base", "HEAD~1", "--head", "HEAD")
    assert (answer["baseline"], answer["candidate"]) == (f"commit:{first}", f"commit:{second}")


# Between which commits


def test_by_default_the_working_tree_is_compared_with_where_the_branch_began(gate, repo):
    repo.commit({"requirements.txt": "vllm==0.18.0\n"})
    repo.git("checkout", "--quiet", "-b", "bump")
    repo.git("checkout", "--quiet", "main")
    repo.commit({"requirements.txt": "vllm==0.18.0\n", "Dockerfile": "FROM vllm/vllm-openai:v0.31.0\n"})
    repo.git("checkout", "--quiet", "bump")
    repo.commit({"requirements.txt": "vllm==0.19.1\n"})
    assert moved(versions(gate)) == [("requirements.txt", 1, "0.18.0", OLD, "moved")]
    repo.write("requirements.txt", "vllm==0.32.0\n")
    assert moved(versions(gate)) == [("requirements.txt", 1, "0.18.0", NEW, "moved")]
    assert versions(gate, "--base", "main...")["baseline"] == "0.18.0"


def test_before_the_first_commit_every_pin_is_new(gate, repo):
    repo.write("requirements.txt", "vllm==0.32.0\n")
    repo.git("add", "--all")
    assert moved(versions(gate)) == [("requirements.txt", 1, None, NEW, "added")]


@pytest.mark.usefixtures("repo")
def test_a_repository_without_commits_and_pins_is_compared_with_nothing(gate):
    assert versions(gate)["why"] == "no vLLM version moved"


def test_a_folder_of_the_repository_is_as_good_as_its_root(gate, repo, monkeypatch):
    repo.commit({"a/requirements.txt": "vllm==0.19.1\n", "b/requirements.txt": "vllm==0.19.1\n"})
    repo.commit({"a/requirements.txt": "vllm==0.32.0\n", "b/requirements.txt": "vllm==0.30.0\n"})
    monkeypatch.chdir(repo.root / "a")
    assert moved(versions(gate, "--base", "HEAD~1", "."))[0][0] == "a/requirements.txt"
    assert versions(gate, "--base", "HEAD~1", "../b")["candidate"] == "0.30.0"


def event(tmp_path: Path, monkeypatch, name: str, **content) -> None:
    file = tmp_path / "event.json"
    file.write_text(json.dumps(content))
    monkeypatch.setenv("GITHUB_EVENT_NAME", name)
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(file))


def pull_request(repo: Checkout) -> tuple[str, str, str]:
    """Base, head, and GitHub's merge of a branch that bumps, while the base got a bump of its own before."""
    repo.commit({"requirements.txt": "torch\nvllm==0.18.0\n"})
    repo.git("checkout", "--quiet", "-b", "bump")
    head = repo.commit({"requirements.txt": "torch\nvllm==0.32.0\n"})
    repo.git("checkout", "--quiet", "main")
    base = repo.commit({"README.md": "x", "Dockerfile": "FROM vllm/vllm-openai:v0.31.0\n"})
    repo.git("checkout", "--quiet", "--detach", "main")
    repo.git("merge", "--quiet", "--no-ff", "-m", "merge", "bump")
    merge = repo.git("rev-parse", "HEAD")
    repo.git("update-ref", "refs/pull/7/merge", merge)
    return base, head, merge


def test_a_pull_request_works_on_the_shallow_checkout_that_actions_makes(gate, repo, tmp_path, monkeypatch):
    base, head, merge = pull_request(repo)
    clone = Checkout.new(tmp_path / "clone")
    clone.git("remote", "add", "origin", f"file://{repo.root}")
    clone.git("fetch", "--quiet", "--depth=1", "origin", f"+{merge}:refs/remotes/pull/7/merge")
    clone.git("checkout", "--quiet", "--detach", "refs/remotes/pull/7/merge")
    monkeypatch.chdir(clone.root)
    event(tmp_path, monkeypatch, "pull_request", pull_request={"base": {"sha": base}, "head": {"sha": head}})
    offline = gate("ci", "versions", "--offline")
    assert offline.code == 2
    assert "--offline is given" in offline.error
    assert "fetch-depth: 0" in offline.error
    answer = versions(gate)
    assert moved(answer) == [("requirements.txt", 2, "0.18.0", NEW, "moved")]
    assert answer["base"] == base


def test_a_checkout_of_the_head_alone_needs_the_history(gate, repo, tmp_path, monkeypatch):
    base, head, _ = pull_request(repo)
    event(tmp_path, monkeypatch, "pull_request_target", pull_request={"base": {"sha": base}, "head": {"sha": head}})
    repo.git("checkout", "--quiet", head)
    assert moved(versions(gate)) == [("requirements.txt", 2, "0.18.0", NEW, "moved")]
    clone = Checkout.new(tmp_path / "clone")
    clone.git("remote", "add", "origin", f"file://{repo.root}")
    clone.git("fetch", "--quiet", "--depth=1", "origin", head)
    clone.git("checkout", "--quiet", "--detach", head)
    monkeypatch.chdir(clone.root)
    refused = gate("ci", "versions")
    assert refused.code == 2
    assert "the history up to the commit that the change began at is not in this checkout" in refused.error
    assert "fetch-depth: 0" in refused.error


def test_a_push_is_compared_with_what_was_there_before(gate, repo, tmp_path, monkeypatch):
    before = repo.commit({"requirements.txt": "vllm==0.18.0\n"})
    repo.commit({"requirements.txt": "vllm==0.19.1\n"})
    repo.commit({"requirements.txt": "vllm==0.32.0\n"})
    event(tmp_path, monkeypatch, "push", before=before)
    assert versions(gate)["baseline"] == "0.18.0"
    event(tmp_path, monkeypatch, "push", before="0" * 40)  # a new branch
    assert versions(gate)["outcome"] == "unchanged"
    event(tmp_path, monkeypatch, "merge_group", merge_group={"base_sha": before})
    assert versions(gate)["baseline"] == "0.18.0"


def shallow(repo: Checkout, directory: Path, commit: str) -> Checkout:
    """A checkout of one commit without a branch, as CI makes it."""
    clone = Checkout.new(directory)
    clone.git("remote", "add", "origin", f"file://{repo.root}")
    clone.git("fetch", "--quiet", "--depth=1", "origin", f"+{commit}:refs/remotes/origin/bump")
    clone.git("checkout", "--quiet", "--detach", commit)
    return clone


@pytest.mark.parametrize("variable", ["CI", "GITHUB_ACTIONS", "TF_BUILD", "JENKINS_URL"])
@pytest.mark.parametrize("is_push", [True, False])
def test_in_ci_a_change_of_which_nobody_says_what_was_before_does_not_pass(
    gate, repo, tmp_path, monkeypatch, variable, is_push
):
    repo.commit({"requirements.txt": "vllm==0.19.1\n"})
    head = repo.commit({"requirements.txt": "vllm==0.32.0\n"})
    monkeypatch.chdir(shallow(repo, tmp_path / "clone", head).root)
    monkeypatch.setenv(variable, "true")
    if is_push:
        event(tmp_path, monkeypatch, "push", before="0" * 40)  # a new branch
    for command in ("versions", "check"):
        refused = gate("ci", command)
        assert (refused.code, refused.out) == (2, "")
        assert refused.error.startswith("HEAD: there is nothing to compare it with")
        assert "fetch-depth: 0), or name a commit with --base" in refused.error


def test_in_ci_a_commit_of_the_default_branch_moves_nothing_by_itself(gate, repo, tmp_path, monkeypatch):
    """As a scheduled run, of which no event says what was before."""
    repo.commit({"requirements.txt": "vllm==0.19.1\n"})
    monkeypatch.setenv("CI", "true")
    event(tmp_path, monkeypatch, "schedule")
    assert "HEAD was compared with itself" in versions(gate)["why"]
    repo.git("checkout", "--quiet", "-b", "bump")
    repo.commit({"requirements.txt": "vllm==0.32.0\n"})
    assert versions(gate)["candidate"] == NEW


def test_on_a_machine_of_ones_own_a_checkout_without_a_branch_is_compared_with_the_working_tree(
    gate, repo, tmp_path, monkeypatch
):
    clone = shallow(repo, tmp_path / "clone", repo.commit({"requirements.txt": "vllm==0.19.1\n"}))
    monkeypatch.chdir(clone.root)
    monkeypatch.setenv("CI", "false")
    assert "HEAD was compared with itself" in versions(gate)["why"]
    clone.write("requirements.txt", "vllm==0.32.0\n")
    assert versions(gate)["candidate"] == NEW


def test_gitlab_names_the_commit_too(gate, repo, monkeypatch):
    before = repo.commit({"requirements.txt": "vllm==0.18.0\n"})
    repo.commit({"requirements.txt": "vllm==0.32.0\n"})
    monkeypatch.setenv("CI_MERGE_REQUEST_DIFF_BASE_SHA", before)
    assert versions(gate)["baseline"] == "0.18.0"


def test_gitlab_merges_a_branch_into_its_target_to_try_it(gate, repo, monkeypatch):
    pull_request(repo)
    monkeypatch.setenv("CI_MERGE_REQUEST_DIFF_BASE_SHA", repo.git("merge-base", "main", "bump"))
    monkeypatch.setenv("CI_MERGE_REQUEST_EVENT_TYPE", "merged_result")
    assert moved(versions(gate)) == [("requirements.txt", 2, "0.18.0", NEW, "moved")]


@pytest.mark.parametrize("content", ["", "{", "[1]", "[" * 100_000])
def test_an_event_that_is_none_is_refused_or_passed_over(gate, repo, tmp_path, monkeypatch, content):
    repo.commit({"requirements.txt": "vllm==0.18.0\n"})
    (tmp_path / "event.json").write_text(content)
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(tmp_path / "event.json"))
    done = gate("ci", "versions")
    assert done.code == (0 if content == "[1]" else 2)


@pytest.mark.parametrize("revision", ["nowhere", "--exec=touch x", "-h", "HEAD:requirements.txt", "", "a\nb", "é"])
def test_a_revision_that_is_none_is_refused_by_name(gate, repo, revision):
    repo.commit({"requirements.txt": "vllm==0.18.0\n"})
    refused = gate("ci", "versions", f"--base={revision}")
    assert refused.code == 2
    assert "no commit" in refused.error


def test_outside_a_repository_it_says_what_to_do(gate, tmp_path, monkeypatch):
    (tmp_path / "none").mkdir()
    monkeypatch.chdir(tmp_path / "none")
    assert gate("ci", "versions", "--pins").error.endswith("none: is not a git repository; run this in a checkout")


def test_a_path_that_git_does_not_track_is_refused(gate, repo):
    repo.commit({"requirements.txt": "vllm==0.18.0\n"})
    assert gate("ci", "versions", "--base", "HEAD", "deploi").error.startswith("deploi: git tracks no such file")
    assert "outside the repository" in gate("ci", "versions", "--base", "HEAD", "/etc").error


# What is pinned


def test_all_pins_are_listed_with_the_reason_where_there_is_no_version(gate, repo):
    repo.commit(
        {"requirements.txt": "vllm>=0.19,<0.33\n", "compose.yaml": COMPOSE.format(NEW), "docs/x.md": "vllm==0.1.0\n"}
    )
    answer = versions(gate, "--pins")
    assert [(pin["file"], pin["line"], pin["version"], pin["why"]) for pin in answer["pins"]] == [
        ("compose.yaml", 3, NEW, ""),
        ("requirements.txt", 1, None, ">=0.19,<0.33 is a range"),
    ]
    assert "compose.yaml:3" in gate("ci", "versions", "--pins").out
    assert versions(gate, "--pins", "compose.yaml")["pins"] == answer["pins"][:1]
    assert gate("ci", "versions", "--pins", "--base", "HEAD").code == 2


def test_a_repository_without_pins_says_so(gate, repo):
    repo.commit({"app.py": ""})
    assert "no file pins a version of vLLM" in gate("ci", "versions", "--pins").out


# The check of the move


def test_the_move_is_checked_as_check_does_it(gate, repo):
    repo.commit({"Dockerfile": "FROM vllm/vllm-openai:v0.19.0\n"})
    repo.commit({"Dockerfile": "FROM vllm/vllm-openai:v0.19.1\n"})
    facts = ("--accelerator", "H100", "--model", "Qwen/Qwen3-8B", "--format", "json")
    done = gate("ci", "check", "--base", "HEAD~1", *facts)
    alone = gate("check", "0.19.1", "--from", "0.19.0", *facts)
    assert done.code == alone.code
    assert done.json["known_issues"] == alone.json["known_issues"]
    assert (done.json["baseline"]["version"], done.json["candidate"]["version"]) == ("0.19.0", "0.19.1")
    assert "Dockerfile:1 moved from 0.19.0 to 0.19.1" in done.err


def test_a_deployment_file_that_names_the_candidate_is_no_contradiction(gate, repo):
    text = "docker run --gpus all vllm/vllm-openai:v{} --model Qwen/Qwen3-8B\n"
    repo.commit({"run.sh": text.format("0.19.0")})
    repo.commit({"run.sh": text.format("0.19.1")})
    done = gate("ci", "check", "--base", "HEAD~1", "--deployment", "run.sh", "--accelerator", "H100")
    assert done.err == "regress-gate: note: run.sh:1 moved from 0.19.0 to 0.19.1\n"


def test_without_a_moved_version_the_check_passes_at_once(gate, repo):
    repo.commit({"Dockerfile": "FROM vllm/vllm-openai:v0.19.0\n"})
    repo.commit({"README.md": "x"})
    done = gate("ci", "check", "--base", "HEAD~1")
    assert (done.code, done.out) == (0, "")
    assert done.err == "regress-gate: note: no vLLM version moved\n"


def test_a_commit_that_is_compared_with_itself_is_said(gate, repo):
    """As on the default branch of a CI that does not name the commit before."""
    repo.commit({"Dockerfile": "FROM vllm/vllm-openai:v0.19.0\n"})
    assert "HEAD was compared with itself; --base names the commit before" in versions(gate)["why"]


def test_a_version_that_is_not_known_does_not_pass_the_check(gate, repo):
    repo.commit({"Dockerfile": "FROM vllm/vllm-openai:v0.19.0\n"})
    repo.commit({"Dockerfile": "FROM vllm/vllm-openai:latest\n"})
    codes = [gate("ci", "check", "--base", "HEAD~1", *flags).code for flags in ((), ("--report-only",))]
    codes += [gate("ci", "check", "--base", "HEAD~1", "--on-inconclusive", word).code for word in ("pass", "fail")]
    assert codes == [3, 0, 0, 1]
