"""Asking GitHub: nothing twice, nothing too often, nothing endless, and no token anywhere it does not belong."""

import json
import logging
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import RootModel

from regress_gate.errors import InputError
from regress_gate.known.tracker import github_wire
from regress_gate.known.tracker.github import ATTEMPTS, Api, GoneError, UnavailableError
from regress_gate.known.tracker.github_cache import TrackerCache
from regress_gate.known.tracker.github_reply import NoReplyError, Reply
from regress_gate.known.tracker.github_shapes import IssueShape, TimelinePage
from regress_gate.known.tracker.github_wire import connect
from tests.known.asking import NOW, session
from tests.known.github_server import REPO, GitHub, Scripted, closed, serving

PATH = f"/repos/{REPO}/issues/1"
TOKEN = "ghp_secret0123456789"


class TestTheCache:
    def test_what_has_not_changed_is_not_sent_again(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        first, _ = session(github, tmp_path).get(PATH, IssueShape)
        again = session(github, tmp_path)
        assert again.get(PATH, IssueShape)[0] == first
        assert (again.counts.requests, again.counts.unchanged, again.counts.body_bytes) == (1, 1, 0)

    def test_what_has_changed_is(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        session(github, tmp_path).get(PATH, IssueShape)
        github.issue(1, state="closed")
        assert session(github, tmp_path).get(PATH, IssueShape)[0].state == "closed"

    def test_a_date_does_where_there_is_no_etag(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        day = "Sat, 21 Nov 2026 10:00:00 GMT"
        body = json.dumps(github.resources[PATH]).encode()
        github.script = [Scripted(200, {"Last-Modified": day}, body), Scripted(304, {}, b"")]
        session(github, tmp_path).get(PATH, IssueShape)
        session(github, tmp_path).get(PATH, IssueShape)
        assert github.asked[-1].headers["If-Modified-Since"] == day

    def test_offline_reads_the_cache_alone(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        offline = session(github, tmp_path, offline=True)
        with pytest.raises(UnavailableError, match="offline"):
            offline.get(PATH, IssueShape)
        session(github, tmp_path).get(PATH, IssueShape)
        assert offline.get(PATH, IssueShape)[0].number == 1
        assert len(github.asked) == 1

    @pytest.mark.parametrize(
        "damage", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"form":1}', b"null", b"x" * (5 * 1024 * 1024)]
    )
    def test_a_damaged_entry_is_fetched_again(self, github: GitHub, tmp_path: Path, damage: bytes) -> None:
        github.issue(1)
        session(github, tmp_path).get(PATH, IssueShape)
        (entry,) = (tmp_path / "cache").glob("*.json")
        entry.write_bytes(damage)
        assert session(github, tmp_path).get(PATH, IssueShape)[0].number == 1
        assert "If-None-Match" not in github.asked[-1].headers
        assert json.loads(entry.read_bytes())["body"]["number"] == 1

    def test_an_entry_whose_content_was_changed_is_fetched_again(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        session(github, tmp_path).get(PATH, IssueShape)
        (entry,) = (tmp_path / "cache").glob("*.json")
        entry.write_text(entry.read_text().replace('"open"', '"ajar"'))
        assert session(github, tmp_path).get(PATH, IssueShape)[0].state == "open"

    def test_no_text_of_a_post_is_kept(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        session(github, tmp_path).get(PATH, IssueShape)
        assert not any("nobody's business" in file.read_text() for file in (tmp_path / "cache").iterdir())

    def test_a_directory_that_cannot_be_written_costs_no_result(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        (tmp_path / "cache").write_text("a file")
        assert session(github, tmp_path).get(PATH, IssueShape)[0].number == 1

    def test_what_nobody_asked_for_in_half_a_year_goes(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        session(github, tmp_path).get(PATH, IssueShape)
        (entry,) = (tmp_path / "cache").glob("*.json")
        cache = TrackerCache(tmp_path / "cache")
        cache.prune(entry.stat().st_mtime + 100 * 86400)
        assert entry.exists()
        cache.prune(entry.stat().st_mtime + 200 * 86400)
        assert not entry.exists()


class TestPages:
    def test_all_pages_are_read_and_known_again(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1, *[closed("2026-01-01T00:00:00Z") for _ in range(250)])
        timeline = f"{PATH}/timeline?per_page=100"
        pages, complete = session(github, tmp_path).pages(timeline, TimelinePage)
        assert ([len(page.root) for page in pages], complete) == ([100, 100, 50], True)
        again = session(github, tmp_path)
        assert again.pages(timeline, TimelinePage) == (pages, True)
        assert (again.counts.requests, again.counts.bodies) == (3, 0)

    def test_pages_end_somewhere(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1, *[closed("2026-01-01T00:00:00Z") for _ in range(100)])
        pages, complete = session(github, tmp_path).pages(f"{PATH}/timeline?per_page=1", TimelinePage)
        assert (len(pages), complete) == (30, False)

    def test_a_next_page_on_another_server_is_not_asked_for(self, github: GitHub, tmp_path: Path) -> None:
        github.script = [Scripted(200, {"Link": '<https://evil.example/x?page=2>; rel="next"'}, b"[]")]
        assert session(github, tmp_path).pages(PATH, TimelinePage) == ([TimelinePage([])], True)
        assert len(github.asked) == 1


class TestLimits:
    @pytest.mark.parametrize("status", [403, 429])
    def test_a_short_retry_after_is_waited_for(self, github: GitHub, tmp_path: Path, status: int) -> None:
        github.issue(1)
        github.script = [Scripted(status, {"Retry-After": "7"})]
        waits: list[float] = []
        assert session(github, tmp_path, waits=waits).get(PATH, IssueShape)[0].number == 1
        assert waits[0] == 7.0

    @pytest.mark.parametrize("status", [403, 429])
    @pytest.mark.parametrize("token", [None, TOKEN])
    def test_a_used_up_quota_ends_the_asking_with_the_time_of_its_return(
        self, github: GitHub, tmp_path: Path, status: int, token: str | None
    ) -> None:
        github.date = NOW.timestamp()
        reset = int((NOW + timedelta(minutes=37)).timestamp())
        github.script = [Scripted(status, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(reset)})]
        waits: list[float] = []
        api = session(github, tmp_path, token=token, waits=waits)
        with pytest.raises(UnavailableError, match="used up until 2026-11-21 12:37 UTC") as caught:
            api.get(PATH, IssueShape)
        assert ("set GITHUB_TOKEN" in str(caught.value)) is (token is None)
        with pytest.raises(UnavailableError, match="used up"):
            api.get(f"/repos/{REPO}/issues/2", IssueShape)
        assert (len(github.asked), waits) == (1, [])

    def test_the_wait_is_by_the_servers_clock(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        github.date = (NOW + timedelta(days=400)).timestamp()
        reset = int(github.date) + 20
        github.script = [Scripted(403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(reset)})]
        waits: list[float] = []
        _, seen = session(github, tmp_path, waits=waits).get(PATH, IssueShape)
        assert waits[0] == pytest.approx(21)
        assert seen == NOW + timedelta(days=400)

    def test_a_reset_in_the_past_is_a_short_wait(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        github.script = [Scripted(403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "17"})]
        waits: list[float] = []
        session(github, tmp_path, waits=waits).get(PATH, IssueShape)
        assert waits[0] == 1.0

    @pytest.mark.parametrize("headers", [{"Retry-After": "9" * 12}, {"Retry-After": "99999"}])
    def test_an_absurd_wait_is_not_waited_for(self, github: GitHub, tmp_path: Path, headers: dict[str, str]) -> None:
        github.script = [Scripted(429, headers)]
        waits: list[float] = []
        with pytest.raises(UnavailableError, match="used up"):
            session(github, tmp_path, waits=waits).get(PATH, IssueShape)
        assert waits == []

    def test_a_limit_without_a_time_is_a_minute_and_only_so_often(self, github: GitHub, tmp_path: Path) -> None:
        github.script = [Scripted(429)] * 20
        waits: list[float] = []
        with pytest.raises(UnavailableError, match="used up"):
            session(github, tmp_path, waits=waits).get(PATH, IssueShape)
        assert len(github.asked) == ATTEMPTS
        assert waits.count(60.0) == ATTEMPTS - 1

    def test_a_plain_403_is_no_limit(self, github: GitHub, tmp_path: Path) -> None:
        github.script = [Scripted(403, {}, b'{"message": "Repository access blocked"}')]
        api = session(github, tmp_path)
        with pytest.raises(UnavailableError, match="refuses \\(403\\)"):
            api.get(PATH, IssueShape)
        assert api.stopped is None


class TestTrouble:
    def test_a_server_error_is_asked_again(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        github.script = [Scripted(502, {}, b"<html>"), Scripted(500)]
        waits: list[float] = []
        assert session(github, tmp_path, waits=waits).get(PATH, IssueShape)[0].number == 1
        assert waits == [1.0, 2.0]

    @pytest.mark.parametrize("status", [500, 503, 202])
    def test_but_not_for_ever(self, github: GitHub, tmp_path: Path, status: int) -> None:
        github.script = [Scripted(status)] * 50
        api = session(github, tmp_path)
        for number in range(5):
            with pytest.raises(UnavailableError):
                api.get(f"/repos/{REPO}/issues/{number}", IssueShape)
        assert len(github.asked) == 3 * ATTEMPTS
        assert api.stopped is not None
        assert "no usable answers" in api.stopped

    @pytest.mark.parametrize(
        "cut",
        [
            Scripted(200, {}, b'{"number": 1, "ht', promised=5000),
            Scripted(200, {}, b'{"number": 1, "ht'),
            Scripted(200, {}, b""),
            Scripted(200, {"Content-Encoding": "gzip"}, b"no gzip"),
        ],
        ids=["cut off", "cut off and said to be whole", "empty", "not what it says"],
    )
    def test_half_an_answer_is_asked_for_again(self, github: GitHub, tmp_path: Path, cut: Scripted) -> None:
        github.issue(1)
        github.script = [cut]
        assert session(github, tmp_path).get(PATH, IssueShape)[0].number == 1
        assert len(github.asked) == 2

    @pytest.mark.parametrize(
        "body", [b"[]", b"17", b'{"number": "x"}', b'{"number": 1, "state": "ajar"}', b'"' + b"x" * 99 + b'"']
    )
    def test_an_answer_of_another_kind_is_refused_and_not_kept(
        self, github: GitHub, tmp_path: Path, body: bytes
    ) -> None:
        github.script = [Scripted(200, {"ETag": '"x"'}, body)]
        with pytest.raises(UnavailableError, match="something else"):
            session(github, tmp_path).get(PATH, IssueShape)
        assert not (tmp_path / "cache").exists()

    def test_an_answer_without_end_is_left(
        self, github: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(github_wire, "MAX_BYTES", 1024 * 1024)
        github.script = [Scripted(200, {}, b'"' + b"x" * 2_000_000 + b'"')] * ATTEMPTS
        with pytest.raises(UnavailableError, match="larger than 1 MiB"):
            session(github, tmp_path).get(PATH, IssueShape)

    def test_an_answer_that_only_trickles_in_is_left(
        self, github: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(github_wire, "LONGEST", -1.0)
        github.issue(1)
        with pytest.raises(UnavailableError, match="the answer takes longer than"):
            session(github, tmp_path).get(PATH, IssueShape)
        assert len(github.asked) == ATTEMPTS

    @pytest.mark.parametrize("status", [404, 410, 451])
    def test_what_is_not_there_is_gone(self, github: GitHub, tmp_path: Path, status: int) -> None:
        github.gone[PATH] = status
        with pytest.raises(GoneError, match=str(status)):
            session(github, tmp_path).get(PATH, IssueShape)

    def test_without_a_network_the_cache_answers_and_the_rest_is_said_once(self, tmp_path: Path) -> None:
        with serving(GitHub()) as github:
            github.issue(1)
            session(github, tmp_path).get(PATH, IssueShape)
        api = session(github, tmp_path)
        with pytest.raises(UnavailableError, match="cannot be reached: no connection"):
            api.get(f"/repos/{REPO}/issues/2", IssueShape)
        assert api.get(PATH, IssueShape)[0].number == 1

    def test_ten_thousand_labels_are_a_hundred_and_the_one_that_tells(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1, labels=[{"name": f"label-{number}" * 50} for number in range(10_000)] + [{"name": "stale"}])
        labels = session(github, tmp_path).get(PATH, IssueShape)[0].labels
        assert len(labels) == 100
        assert "stale" in labels
        assert max(map(len, labels)) <= 100


class TestRedirects:
    def test_a_renamed_repository_is_followed_and_remembered(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1, repo="new/name")
        github.moved[PATH] = f"{github.url}/repos/new/name/issues/1"
        assert session(github, tmp_path).get(PATH, IssueShape)[0].html_url.endswith("/new/name/issues/1")
        again = session(github, tmp_path)
        again.get(PATH, IssueShape)
        assert (again.counts.requests, again.counts.bodies) == (1, 0)

    def test_another_server_gets_neither_a_request_nor_the_token(self, github: GitHub, tmp_path: Path) -> None:
        with serving(GitHub()) as other:
            other.issue(1)
            github.moved[PATH] = f"{other.url}{PATH}"
            with pytest.raises(UnavailableError, match="redirects"):
                session(github, tmp_path, token=TOKEN).get(PATH, IssueShape)
            assert other.asked == []

    def test_a_circle_ends(self, github: GitHub, tmp_path: Path) -> None:
        github.moved = {PATH: f"{github.url}/a", "/a": f"{github.url}{PATH}"}
        for _ in range(2):
            with pytest.raises(UnavailableError, match="too often"):
                session(github, tmp_path).get(PATH, IssueShape)
        assert len(github.asked) < 10

    def test_an_interface_below_a_prefix(self, tmp_path: Path) -> None:
        with serving(GitHub(prefix="/api/v3")) as enterprise:
            enterprise.issue(1, *[closed("2026-01-01T00:00:00Z") for _ in range(150)], repo="new/name")
            path = "/repos/new/name/issues/1/timeline?per_page=100"
            pages, _ = session(enterprise, tmp_path).pages(path, TimelinePage)
            assert len(pages) == 2
            enterprise.moved[PATH] = f"{enterprise.url.removesuffix('/api/v3')}/elsewhere"
            with pytest.raises(UnavailableError, match="redirects"):
                session(enterprise, tmp_path).get(PATH, IssueShape)


class TestTheToken:
    def test_it_goes_to_the_server_and_nowhere_else(
        self, github: GitHub, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        github.issue(1, title=f"a server that repeats {TOKEN}", labels=[{"name": TOKEN}])
        api = session(github, tmp_path, token=TOKEN)
        found, _ = api.get(PATH, IssueShape)
        assert TOKEN in github.asked[0].headers["Authorization"]
        assert TOKEN not in str(found) + repr(api) + caplog.text
        assert not any(TOKEN in file.read_text() for file in (tmp_path / "cache").iterdir())

    @pytest.mark.parametrize(
        "scripted",
        [
            Scripted(401, {}, f'{{"message": "Bad credentials {TOKEN}"}}'.encode()),
            Scripted(403, {"Retry-After": "9999"}, TOKEN.encode()),
            Scripted(404, {}, TOKEN.encode()),
            Scripted(301, {"Location": f"https://evil.example/{TOKEN}"}),
            Scripted(200, {}, TOKEN.encode()),
        ],
        ids=lambda scripted: scripted.status,
    )
    def test_no_error_repeats_it(self, github: GitHub, tmp_path: Path, scripted: Scripted) -> None:
        github.script = [scripted] * ATTEMPTS
        with pytest.raises(UnavailableError) as caught:
            session(github, tmp_path, token=TOKEN).get(PATH, IssueShape)
        assert TOKEN not in str(caught.value)

    def test_a_wrong_one_is_said_to_be(self, github: GitHub, tmp_path: Path) -> None:
        github.script = [Scripted(401, {}, b'{"message": "Bad credentials"}')]
        with pytest.raises(UnavailableError, match="does not accept GITHUB_TOKEN"):
            session(github, tmp_path, token=TOKEN).get(PATH, IssueShape)

    @pytest.mark.parametrize("token", ["two words", "line\nend", "café", "nul\x00"])
    def test_what_cannot_be_one_is_refused_without_being_shown(self, token: str) -> None:
        with pytest.raises(InputError) as caught:
            connect("https://api.github.com", token)
        assert token not in str(caught.value)

    def test_it_is_not_sent_in_clear(self) -> None:
        with pytest.raises(InputError, match="in clear"):
            connect("http://github.example.org/api/v3", TOKEN)

    @pytest.mark.parametrize(
        "base", ["", "api.github.com", "ftp://x", "https://", "https://u:p@host", "https://h:99999", "https://h/?a=b"]
    )
    def test_an_address_that_is_none(self, base: str) -> None:
        with pytest.raises(InputError, match="REGRESS_GATE_GITHUB_API") as caught:
            connect(base, None)
        assert "u:p" not in str(caught.value)


def test_a_program_that_uses_pygithub_too_is_left_alone(github: GitHub) -> None:
    from github.Requester import HTTPSRequestsConnectionClass, Requester

    connect(github.url, None)
    assert Requester._Requester__httpsConnectionClass is HTTPSRequestsConnectionClass  # type: ignore[attr-defined]


def test_a_wire_that_gives_nothing_is_told_apart_from_one_that_breaks_off(tmp_path: Path) -> None:
    def broken(*_: object) -> Reply:
        raise NoReplyError("the answer stopped half-way", reached=True)

    api = Api("https://api.github.com", TrackerCache(tmp_path), broken, wait=lambda _: None)
    with pytest.raises(UnavailableError, match="half-way"):
        api.get(PATH, RootModel[int])
    assert api.stopped is None
