"""A private repository: the commit before the change is fetched with the token of the job, which is told to nobody."""

import base64
from collections.abc import Iterator

import pytest

from tests.fake_github.git_http import GitServer, serving_git
from tests.workflows.conftest import CHANGES, Team
from tests.workflows.runner import TOKEN

pytestmark = pytest.mark.workflows


@pytest.fixture
def server(team: Team) -> Iterator[GitServer]:
    with serving_git(GitServer(team.directory, TOKEN)) as server:
        team.variables |= {"GITHUB_SERVER_URL": server.url, "STUB_ORIGIN": f"{server.url}/{team.origin.name}"}
        yield server


@pytest.mark.parametrize("kept", [False, True], ids=["as the page says", "with the checkout's default"])
def test_the_change_is_found_whether_the_checkout_keeps_its_login_or_not(
    team: Team, server: GitServer, kept: bool
) -> None:
    if kept:
        team.edits["shown.yml"] = ("          persist-credentials: false\n", "          fetch-depth: 1\n")
    team.open_pull_request(*CHANGES["fail"])
    run = team.run("shown.yml", write=True)
    assert team.conclusions == {"regress-gate: upgrade": "failure"}, run.text
    assert set(server.statuses) == {200}
    (comment,) = team.comments
    login = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
    for secret in (TOKEN, login):
        assert secret not in run.log + run.summary + comment["body"]
