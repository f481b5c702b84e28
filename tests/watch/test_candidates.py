"""Which builds lie between two versions: releases by their number, commits of main by GitHub's word."""

from collections.abc import Iterator

import pytest

from regress_gate.errors import InputError
from regress_gate.github import GitHub as Client
from regress_gate.github import UnavailableError
from regress_gate.model.version import Version
from regress_gate.watch.candidates import chosen_candidates, commits_between, releases_between
from tests.fake_github.server import GitHub, serving, sha

MAIN = [
    ("a", "First (#1)"),
    ("b", "Second (#2)"),
    ("c", "Faster \x1b[31mkernels (#3)"),
    ("d", "No number"),
    ("e", "Last (#5)"),
]


@pytest.fixture
def github() -> Iterator[GitHub]:
    with serving(GitHub()) as github:
        github.history(*MAIN, **{"v0.19.0": ("b", [("x", "Pick (#9)")]), "v0.20.0": ("e", [])})
        yield github


def between(github: GitHub, good: str, bad: str, variant: str | None = None) -> list[tuple[str, str]]:
    with Client(github.url, None) as client:
        row = commits_between(client, Version.parse(good), Version.parse(bad), variant)
    return [(str(one.version), one.subject) for one in row]


def test_releases_stand_for_the_commits_of_main_that_they_were_cut_from(github):
    names = [f"commit:{sha(name)}" for name in "bcde"]
    assert [version for version, _ in between(github, "0.19.0", "0.20.0")] == names


def test_commits_are_named_by_the_first_line_of_their_message_without_escape_sequences(github):
    row = between(github, f"commit:{sha('b')}", f"commit:{sha('d')}", "cu129")
    assert [subject for _, subject in row] == ["Second (#2)", "Faster kernels (#3)", "No number"]
    assert all(version.endswith("+cu129") for version, _ in row)


def test_a_nightly_build_is_found_by_its_commit(github):
    row = between(github, "0.19.0", f"0.19.1rc1.dev3+g{sha('d')[:9]}")
    assert [subject for _, subject in row][-1] == "No number"


def test_an_order_that_is_the_other_way_round_is_refused(github):
    with pytest.raises(InputError, match="does not come after"):
        between(github, "0.20.0", "0.19.0")


def test_a_commit_that_github_does_not_know_is_not_guessed(github):
    with pytest.raises(UnavailableError):
        between(github, "0.19.0", "commit:" + "0" * 40)


def test_a_commit_leads_to_its_page_and_its_pull_request(github):
    with Client(github.url, None) as client:
        row = commits_between(client, Version.parse("0.19.0"), Version.parse("0.20.0"), None)
    pulls = [None if one.pull is None else one.pull.url for one in row]
    base = "https://github.com/vllm-project/vllm"
    assert pulls == [f"{base}/pull/2", f"{base}/pull/3", None, f"{base}/pull/5"]
    assert row[0].url == f"{base}/commit/{sha('b')}"


def test_releases_are_in_the_order_of_their_numbers_without_candidates_and_others():
    published = ["0.9.2", "0.10.0", "0.10.1rc1", "0.19.1", "0.10.0.post2", "0.20.0"]
    row = releases_between(Version.parse("0.9.2"), Version.parse("0.20.0"), published)
    assert [str(one.version) for one in row] == ["0.9.2", "0.10.0", "0.10.0.post2", "0.19.1", "0.20.0"]


def test_a_version_that_is_named_twice_is_refused():
    one, two = Version.parse("0.19.0"), Version.parse("0.20.0")
    with pytest.raises(InputError, match=r"0\.20\.0 is named twice"):
        chosen_candidates(one, two, [two])
