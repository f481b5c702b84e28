"""`issues sync` and `issues verify` against a server on loopback, and what `check` makes of what was seen."""

import zlib
from datetime import UTC, datetime

import pytest

from tests.factories.records import REPO as REPO_URL
from tests.factories.records import affected, record_data, write
from tests.fake_github.server import REPO, GitHub, Scripted, closed, named_by, serving

TOKEN = "ghp_secret0123456789"
IN_SCOPE = ("--accelerator", "H200", "--model", "org/Model-8B")


@pytest.fixture
def github(monkeypatch):
    with serving(GitHub()) as server:
        monkeypatch.setenv("REGRESS_GATE_GITHUB_API", server.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.delenv("GITHUB_TOKEN", raising=False)
        yield server


@pytest.fixture
def mine(gate):
    """A directory with one record, of thread 1, and what names it as an option."""
    (gate.directory / "mine").mkdir()
    url = f"{REPO_URL}/issues/1"
    data = record_data(
        references=[{"type": "REPORT", "url": url}],
        affected=[affected({"introduced": "0.20.0"})],
        tracker={"url": url, "state": "open", "checked": "2026-11-01"},
    )
    write(gate.directory / "mine", data)
    return ("--directory", "mine")


def fixed_in_023(github):
    fix = named_by(2, merged="2026-06-02T10:00:00Z", body="Fixes #1")
    github.issue(1, fix, closed("2026-06-02T10:00:00Z"), state="closed", state_reason="completed")
    github.pull(2, merged="2026-06-02T10:00:00Z", commit="fix")
    github.history(
        ("old", "Old (#1)"),
        ("fix", "The fix (#2)"),
        ("new", "New (#3)"),
        **{"v0.22.0": ("old", []), "v0.23.0": ("new", [])},
    )


def in_cache(gate):
    """The content of every file there, unpacked."""
    files = [file for file in (gate.directory.parent / "home").rglob("*") if file.is_file()]
    return {file: zlib.decompress(file.read_bytes()) if "http" in file.parts else file.read_bytes() for file in files}


class TestSync:
    def test_it_prints_what_has_changed_since_the_last_one(self, gate, github, mine):
        github.issue(1)
        first = gate("issues", "sync", *mine)
        assert (first.code, first.err) == (0, "")
        assert first.out.splitlines()[1:] == ["first sync: 1 open"]
        assert gate("issues", "sync", *mine).out.splitlines()[1:] == ["nothing has changed"]
        fixed_in_023(github)
        changed = gate("issues", "sync", *mine).out.splitlines()[2:]
        told = "closed (completed), fixed by vllm-project/vllm#2 (merged 2026-06-02)"
        assert changed == [f"closed  VLLM-1  {told}", f"fixed   VLLM-1  {told}"]

    def test_as_json(self, gate, github, mine):
        fixed_in_023(github)
        done = gate("issues", "sync", *mine, "--format", "json").json
        assert (done["schema_version"], done["complete"], done["threads"]) == ("1", True, {"seen": 1, "wanted": 1})
        (change,) = done["changes"]
        assert (change["id"], change["change"], change["url"]) == ("VLLM-1", "new", f"{REPO_URL}/issues/1")
        again = gate("issues", "sync", *mine, "--format", "json").json
        assert again["changes"] == []
        assert (again["transfer"]["bodies"], again["transfer"]["body_bytes"]) == (0, 0)

    def test_a_used_up_quota_is_exit_4_with_the_way_out(self, gate, github, mine):
        github.script = [Scripted(429, {"Retry-After": "1800"})]
        done = gate("issues", "sync", *mine)
        assert done.code == 4
        assert done.error.startswith("1 of 1 threads were not seen: the quota of 127.0.0.1 is used up until ")
        assert done.error.endswith("set GITHUB_TOKEN for a larger one")

    def test_no_network_is_exit_4(self, gate, mine, monkeypatch):
        with serving(GitHub()) as server:
            monkeypatch.setenv("REGRESS_GATE_GITHUB_API", server.url)
        done = gate("issues", "sync", *mine)
        assert done.code == 4
        assert "cannot be reached" in done.error

    def test_offline_shows_what_is_cached(self, gate, github, mine):
        assert "no thread was seen yet" in gate("issues", "sync", "--offline").out
        github.issue(1)
        gate("issues", "sync", *mine)
        github.asked.clear()
        today = datetime.now(UTC).date()
        assert gate("issues", "sync", "--offline").out.splitlines()[1].split() == [f"{REPO}#1", "open", str(today)]
        assert github.asked == []

    def test_the_token_is_sent_and_shown_and_kept_nowhere(self, gate, github, mine, monkeypatch):
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        github.issue(1, title=TOKEN, labels=[{"name": TOKEN}])
        done = [gate("issues", "sync", *mine), gate("issues", "verify", "v0.23.0", *mine, *IN_SCOPE)]
        github.script = [Scripted(401, {"X-Echo": TOKEN}, f'{{"message": "{TOKEN}"}}'.encode())]
        done.append(gate("issues", "sync", *mine))
        assert done[-1].code == 4
        assert all(TOKEN in asked.headers["Authorization"] for asked in github.asked)
        assert TOKEN not in "".join(one.out + one.err for one in done)
        kept = in_cache(gate)
        assert any("http" in file.parts for file in kept)
        assert not any(TOKEN.encode() in content for content in kept.values())

    def test_hostile_text_never_steers_the_terminal(self, gate, github, mine):
        github.issue(1)
        gate("issues", "sync", *mine)
        evil = "\x1b[31m\u202e"
        event = named_by(2, merged="2026-06-02T10:00:00Z", body="Fixes #1", title=evil)
        github.issue(1, event, title=evil, state="closed", state_reason=evil, labels=[{"name": evil}])
        github.pull(2, merged="2026-06-02T10:00:00Z", commit="fix", title=evil)
        github.history(("fix", f"{evil} (#2)"), **{"v0.23.0": ("fix", [("pick", f"{evil} (#2)")])})
        for arguments in (("issues", "sync", *mine), ("issues", "verify", "v0.23.0", *mine, *IN_SCOPE)):
            done = gate(*arguments)
            assert done.code == 0
            assert (done.out + done.err).replace("\n", "").isprintable()

    @pytest.mark.parametrize("base", ["nonsense", "ftp://x/", "https://me:hunter2@host"])
    def test_an_address_that_is_none_is_exit_2(self, gate, mine, monkeypatch, base):
        monkeypatch.setenv("REGRESS_GATE_GITHUB_API", base)
        done = gate("issues", "sync", *mine)
        assert done.code == 2
        assert done.error.startswith("REGRESS_GATE_GITHUB_API: ")
        assert "hunter2" not in done.error


class TestVerify:
    def test_the_fix_is_in_one_build_and_not_in_another(self, gate, github, mine):
        fixed_in_023(github)
        before = gate("issues", "verify", "v0.22.0", *mine, *IN_SCOPE)
        assert (before.code, before.err) == (0, "")
        assert before.out.startswith("fix_not_in_candidate  VLLM-1  Decode is slower")
        after = gate("issues", "verify", "v0.23.0", *mine, *IN_SCOPE, "--format", "json").json
        assert after["candidate"] == {"version": "0.23.0"}
        (found,) = after["issues"]
        assert (found["id"], found["applies"], found["status"]) == ("VLLM-1", "yes", "fix_in_candidate")
        assert found["status_why"].startswith("v0.23.0 has #2 (merged 2026-06-02) (seen ")

    def test_what_may_apply_is_counted_and_looked_up_on_demand(self, gate, github, mine):
        github.issue(1)
        github.history(("fix", "x"), **{"v0.23.0": ("fix", [])})
        done = gate("issues", "verify", "v0.23.0", *mine)
        assert done.out.splitlines() == [
            "no known issue of 0.23.0 is known to apply to this deployment",
            "1 more may apply: give more facts about the deployment, or add --all",
        ]
        assert github.asked == []
        assert gate("issues", "verify", "v0.23.0", *mine, "--all").out.startswith("open ")
        assert "VLLM-1" not in gate("issues", "verify", "v0.23.0", *mine, "--all", "--accelerator", "MI300X").out

    def test_after_a_look_it_works_offline(self, gate, github, mine):
        fixed_in_023(github)
        gate("issues", "verify", "v0.23.0", *mine, *IN_SCOPE)
        github.asked.clear()
        done = gate("issues", "verify", "v0.23.0", *mine, *IN_SCOPE, "--offline")
        assert (done.code, github.asked) == (0, [])
        assert done.out.startswith("fix_in_candidate ")

    def test_without_a_network_it_says_what_is_known_and_exits_4(self, gate, mine, monkeypatch):
        with serving(GitHub()) as server:
            monkeypatch.setenv("REGRESS_GATE_GITHUB_API", server.url)
        done = gate("issues", "verify", "v0.23.0", *mine, *IN_SCOPE)
        assert done.code == 4
        assert done.out.startswith("open ")
        assert "cannot be reached" in done.error

    @pytest.mark.parametrize("ref", ["nightly", "latest", "pinned", "run:3"])
    def test_a_version_must_be_named(self, gate, mine, ref):
        done = gate("issues", "verify", ref, *mine)
        assert done.code == 2
        assert "names no build" in done.error

    def test_a_file_that_is_no_result(self, gate, mine):
        (gate.directory / "other.json").write_text('{"a": 1}')
        done = gate("issues", "verify", "v0.23.0", *mine, "--result", "other.json")
        assert (done.code, done.error.partition(";")[0]) == (2, "other.json: is not a result")


@pytest.mark.usefixtures("gate", "tracker")
class TestDiscover:
    @pytest.fixture
    def tracker(self, github):
        github.history()
        github.issue(1, title="[Bug]: Performance regression from v0.19.1 to v0.20.0", labels=[{"name": "bug"}])
        github.issue(2, title="Slower after upgrading to 0.20.0")
        github.issue(3, title="How do I load a model?")
        return github

    def test_candidates_come_with_their_reasons_and_covered_ones_are_left_out(self, gate, mine):
        shown = gate("issues", "discover", "--since", "2026-11-01", *mine)
        assert (shown.code, shown.err) == (0, "")
        assert "1 candidate since 2026-11-01 that no record covers; 3 threads read" in shown.out
        assert "+3 the title says after upgrading" in shown.out
        assert f"{REPO_URL}/issues/2" in shown.out
        assert f"{REPO_URL}/issues/1" not in shown.out

    def test_offline_ranks_what_was_found_before(self, gate, tracker, mine):
        first = gate("issues", "discover", "--since", "2026-11-01", "--offline", *mine)
        assert (first.code, first.error) == (
            4,
            "not everything was searched: nothing was searched yet: run it without --offline",
        )
        online = gate("issues", "discover", "--since", "2026-11-01", *mine, "--format", "json").json
        tracker.asked.clear()
        offline = gate("issues", "discover", "--since", "2026-11-01", "--offline", *mine, "--format", "json").json
        assert tracker.asked == []
        assert offline["candidates"] == online["candidates"]
        assert (online["complete"], offline["complete"]) == (True, False)

    def test_drafts_are_written_once(self, gate, mine):
        arguments = ("issues", "discover", "--since", "2026-11-01", "--draft", "drafts", *mine)
        assert "drafts/VLLM-2.yaml" in gate(*arguments).out
        draft = gate.directory / "drafts" / "VLLM-2.yaml"
        draft.write_text(draft.read_text() + "# mine\n")
        assert "there already, and left as they are: drafts/VLLM-2.yaml" in " ".join(gate(*arguments).out.split())
        assert draft.read_text().endswith("# mine\n")

    def test_a_quota_that_is_used_up_is_exit_4_with_what_was_found(self, gate, tracker, mine):
        tracker.quota = 1
        done = gate("issues", "discover", "--since", "2026-11-01", *mine)
        assert done.code == 4
        assert "1 candidate" in done.out
        assert done.error.endswith("set GITHUB_TOKEN for a larger one")

    def test_hostile_titles_never_steer_the_terminal(self, gate, tracker, mine):
        tracker.issue(4, title="regression \x1b[31m\u202e ::error::x ##[error]y")
        shown = gate("issues", "discover", "--since", "2026-11-01", *mine)
        assert "\x1b" not in shown.out
        assert "\u202e" not in shown.out
        assert "##[" not in shown.out

    @pytest.mark.parametrize(
        ("options", "what"),
        [(["--since", "2999-01-01"], "yet to come"), (["--repository", "vllm"], "is no repository")],
    )
    def test_what_cannot_be_searched_is_refused(self, gate, options, what):
        done = gate("issues", "discover", *options)
        assert done.code == 2
        assert what in done.error
