"""The GitHub client: nothing twice, nothing too often, nothing endless, and no token anywhere it does not belong."""

import logging
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from github.Issue import Issue

from regress_gate import github as client_module
from regress_gate.errors import InputError
from regress_gate.github import ATTEMPTS, GoneError, UnavailableError, check_address
from regress_gate.github import GitHub as Client
from tests.fake_github.server import REPO, GitHub, Scripted, closed, serving
from tests.known.github_session import NOW, session

PATH = f"/repos/{REPO}/issues/1"
TOKEN = "ghp_secret0123456789"


def read(client: Client, number: int = 1, repo: str = REPO) -> Issue:
    """One issue, as PyGithub gives it."""
    with client.reading():
        return client.api.get_repo(repo).get_issue(number).complete()


def timeline(client: Client, number: int = 1, repo: str = REPO) -> list[str]:
    with client.reading():
        return [event.event for event in client.api.get_repo(repo).get_issue(number).get_timeline()]


def entries(directory: Path) -> list[Path]:
    """The files of the cache."""
    return [file for file in (directory / "cache").rglob("*") if file.is_file()]


class TestTheCache:
    def test_an_unchanged_answer_is_not_sent_again(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        first = read(session(github, tmp_path)).raw_data
        again = session(github, tmp_path)
        assert read(again).raw_data == first
        assert (again.counts.requests, again.counts.unchanged, again.counts.body_bytes) == (1, 1, 0)

    def test_not_modified_renews_the_time_of_confirmation_and_keeps_it(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        github.date = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
        first = session(github, tmp_path)
        assert first.answered_at(read(first)) == datetime(2026, 11, 1, tzinfo=UTC)
        github.date = datetime(2026, 11, 20, tzinfo=UTC).timestamp()
        second = session(github, tmp_path)
        assert second.answered_at(read(second)) == datetime(2026, 11, 20, tzinfo=UTC)
        assert second.counts.unchanged == 1
        offline = session(github, tmp_path, offline=True)
        assert offline.answered_at(read(offline)) == datetime(2026, 11, 20, tzinfo=UTC)

    def test_a_changed_answer_is_read_anew(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        read(session(github, tmp_path))
        github.issue(1, state="closed")
        assert read(session(github, tmp_path)).state == "closed"

    def test_an_answer_that_github_calls_fresh_is_not_asked_for_again(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        github.headers = {"Cache-Control": "private, max-age=60, s-maxage=60"}
        read(session(github, tmp_path))
        read(session(github, tmp_path))
        assert len(github.asked) == 1
        github.date = (datetime.now(UTC) - timedelta(seconds=61)).timestamp()
        github.issue(2)
        read(session(github, tmp_path), 2)
        read(session(github, tmp_path), 2)
        assert [asked.status for asked in github.asked] == [200, 200, 304]

    def test_offline_reads_the_cache_alone(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        with pytest.raises(UnavailableError, match="offline"):
            read(session(github, tmp_path, offline=True))
        read(session(github, tmp_path, token=TOKEN))
        assert read(session(github, tmp_path, offline=True)).number == 1
        assert len(github.asked) == 1

    @pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"x" * 5_000_000])
    def test_a_damaged_entry_is_fetched_again(self, github: GitHub, tmp_path: Path, damage: bytes) -> None:
        github.issue(1)
        read(session(github, tmp_path))
        (entry,) = entries(tmp_path)
        whole = entry.read_bytes()
        entry.write_bytes(damage)
        assert read(session(github, tmp_path)).number == 1
        assert "If-None-Match" not in github.asked[-1].headers
        assert len(entry.read_bytes()) == pytest.approx(len(whole), abs=20)

    def test_an_entry_with_a_flipped_bit_is_fetched_again(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        read(session(github, tmp_path))
        (entry,) = entries(tmp_path)
        whole = entry.read_bytes()
        for at in range(2, len(whole), 29):
            entry.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
            assert read(session(github, tmp_path)).state == "open"

    def test_a_directory_that_cannot_be_written_costs_no_result(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        (tmp_path / "cache").write_text("a file")
        assert read(session(github, tmp_path)).number == 1

    def test_what_was_not_confirmed_for_half_a_year_is_removed(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        read(session(github, tmp_path))
        (entry,) = entries(tmp_path)
        written = datetime.fromtimestamp(entry.stat().st_mtime, UTC)
        for days, is_kept in ((100, True), (200, False)):
            moment = written + timedelta(days=days)
            Client(github.url, tmp_path / "cache", now=lambda moment=moment: moment).prune()
            assert entry.exists() is is_kept


class TestPages:
    def test_all_pages_are_read_and_known_again(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1, *[closed("2026-01-01T00:00:00Z") for _ in range(250)])
        assert len(timeline(session(github, tmp_path))) == 250
        again = session(github, tmp_path)
        assert len(timeline(again)) == 250
        assert (again.counts.requests, again.counts.bodies) == (3, 0)

    def test_a_next_page_on_another_server_is_not_asked_for(self, github: GitHub, tmp_path: Path) -> None:
        with serving(GitHub()) as other:
            github.script = [Scripted(200, {"Link": f'<{other.url}/x?page=2>; rel="next"'}, b'[{"event": "closed"}]')]
            assert timeline(session(github, tmp_path, token=TOKEN)) == ["closed"]
            assert other.asked == []


class TestLimits:
    @pytest.mark.parametrize("status", [403, 429])
    def test_a_short_retry_after_is_waited_for(self, github: GitHub, tmp_path: Path, status: int) -> None:
        github.issue(1)
        github.script = [Scripted(status, {"Retry-After": "7"})]
        waits: list[float] = []
        assert read(session(github, tmp_path, waits=waits)).number == 1
        assert waits[0] == 7.0

    @pytest.mark.parametrize("status", [403, 429])
    @pytest.mark.parametrize("token", [None, TOKEN])
    def test_a_used_up_quota_stops_the_session_with_the_time_of_its_reset(
        self, github: GitHub, tmp_path: Path, status: int, token: str | None
    ) -> None:
        github.date = NOW.timestamp()
        reset = int((NOW + timedelta(minutes=37)).timestamp())
        github.script = [Scripted(status, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(reset)})]
        waits: list[float] = []
        api = session(github, tmp_path, token=token, waits=waits)
        with pytest.raises(UnavailableError, match="used up until 2026-11-21 12:37 UTC") as caught:
            read(api)
        assert ("set GITHUB_TOKEN" in str(caught.value)) is (token is None)
        with pytest.raises(UnavailableError, match="used up"):
            read(api, 2)
        assert (len(github.asked), waits) == (1, [])

    def test_the_wait_is_by_the_servers_clock(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        github.date = (NOW + timedelta(days=400)).timestamp()
        reset = int(github.date) + 20
        github.script = [Scripted(403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(reset)})]
        waits: list[float] = []
        client = session(github, tmp_path, waits=waits)
        seen = client.answered_at(read(client))
        assert waits[0] == pytest.approx(21)
        assert seen == NOW + timedelta(days=400)

    def test_a_reset_in_the_past_is_a_short_wait(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        github.script = [Scripted(403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "17"})]
        waits: list[float] = []
        read(session(github, tmp_path, waits=waits))
        assert waits[0] == 1.0

    @pytest.mark.parametrize("headers", [{"Retry-After": "9" * 12}, {"Retry-After": "99999"}])
    def test_an_absurd_wait_is_not_waited_for(self, github: GitHub, tmp_path: Path, headers: dict[str, str]) -> None:
        github.script = [Scripted(429, headers)]
        waits: list[float] = []
        with pytest.raises(UnavailableError, match="used up"):
            read(session(github, tmp_path, waits=waits))
        assert waits == []

    def test_a_limit_without_a_time_is_a_minute_and_only_so_often(self, github: GitHub, tmp_path: Path) -> None:
        github.script = [Scripted(429)] * 20
        waits: list[float] = []
        with pytest.raises(UnavailableError, match="used up"):
            read(session(github, tmp_path, waits=waits))
        assert len(github.asked) == ATTEMPTS
        assert waits.count(60.0) == ATTEMPTS - 1

    def test_a_plain_403_is_no_limit(self, github: GitHub, tmp_path: Path) -> None:
        github.script = [Scripted(403, {}, b'{"message": "Repository access blocked"}')]
        api = session(github, tmp_path)
        with pytest.raises(UnavailableError, match="refuses \\(403\\)"):
            read(api)
        assert api.stopped is None


class TestFailures:
    def test_a_server_error_is_asked_again(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        github.script = [Scripted(502, {}, b"<html>"), Scripted(500)]
        waits: list[float] = []
        assert read(session(github, tmp_path, waits=waits)).number == 1
        assert waits == [1.0, 2.0]

    @pytest.mark.parametrize("status", [500, 503, 202])
    def test_retries_end(self, github: GitHub, tmp_path: Path, status: int) -> None:
        github.script = [Scripted(status)] * 50
        api = session(github, tmp_path)
        for number in range(5):
            with pytest.raises(UnavailableError):
                read(api, number)
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
        assert read(session(github, tmp_path)).number == 1
        assert len(github.asked) == 2

    @pytest.mark.parametrize("body", [b"17", b'"' + b"x" * 99 + b'"', b"<html></html>"])
    def test_an_answer_without_json_is_retried_and_never_kept(
        self, github: GitHub, tmp_path: Path, body: bytes
    ) -> None:
        github.script = [Scripted(200, {"ETag": '"x"'}, body)] * ATTEMPTS
        with pytest.raises(UnavailableError, match="cut off"):
            read(session(github, tmp_path))
        assert entries(tmp_path) == []

    def test_an_endless_answer_is_abandoned(
        self, github: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(client_module, "MAX_BYTES", 1024 * 1024)
        github.script = [Scripted(200, {}, b'"' + b"x" * 2_000_000 + b'"')] * ATTEMPTS
        with pytest.raises(UnavailableError, match="larger than 1 MiB"):
            read(session(github, tmp_path))

    def test_a_trickling_answer_is_abandoned(
        self, github: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(client_module, "LONGEST_ANSWER", -1.0)
        github.issue(1)
        with pytest.raises(UnavailableError, match="the answer takes longer than"):
            read(session(github, tmp_path))
        assert len(github.asked) == ATTEMPTS

    @pytest.mark.parametrize("status", [404, 410, 451])
    def test_a_missing_thing_is_gone(self, github: GitHub, tmp_path: Path, status: int) -> None:
        github.gone[PATH] = status
        with pytest.raises(GoneError, match=str(status)):
            read(session(github, tmp_path))

    def test_without_a_network_the_cache_answers_alone(self, tmp_path: Path) -> None:
        with serving(GitHub()) as github:
            github.issue(1)
            read(session(github, tmp_path))
        api = session(github, tmp_path)
        with pytest.raises(UnavailableError, match="cannot be reached: no connection"):
            read(api, 2)
        assert read(api).number == 1


class TestRedirects:
    def test_a_renamed_repository_is_followed_and_remembered(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1, repo="new/name")
        github.moved[PATH] = f"{github.url}/repos/new/name/issues/1"
        assert read(session(github, tmp_path)).html_url.endswith("/new/name/issues/1")
        again = session(github, tmp_path)
        read(again)
        assert (again.counts.requests, again.counts.bodies) == (1, 0)

    def test_another_server_gets_neither_a_request_nor_the_token(self, github: GitHub, tmp_path: Path) -> None:
        with serving(GitHub()) as other:
            other.issue(1)
            github.moved[PATH] = f"{other.url}{PATH}"
            with pytest.raises(UnavailableError, match="redirects"):
                read(session(github, tmp_path, token=TOKEN))
            assert other.asked == []

    def test_a_redirect_loop_ends(self, github: GitHub, tmp_path: Path) -> None:
        github.moved = {PATH: f"{github.url}/a", "/a": f"{github.url}{PATH}"}
        for _ in range(2):
            with pytest.raises(UnavailableError, match="too often"):
                read(session(github, tmp_path))
        assert len(github.asked) < 10

    def test_an_interface_below_a_prefix(self, tmp_path: Path) -> None:
        with serving(GitHub(prefix="/api/v3")) as enterprise:
            enterprise.issue(1, *[closed("2026-01-01T00:00:00Z") for _ in range(150)], repo="new/name")
            assert len(timeline(session(enterprise, tmp_path), repo="new/name")) == 150
            enterprise.moved[PATH] = f"{enterprise.url.removesuffix('/api/v3')}/elsewhere"
            with pytest.raises(UnavailableError, match="redirects"):
                read(session(enterprise, tmp_path))


class TestWriting:
    def write(self, client: Client) -> str:
        with client.reading():
            return client.api.get_repo(REPO).get_issue(1).create_comment("text").body

    def test_a_write_is_sent_once_and_never_cached(self, github: GitHub, tmp_path: Path) -> None:
        assert self.write(session(github, tmp_path, token=TOKEN)) == "written"
        assert (len(github.asked), entries(tmp_path)) == (1, [])

    def test_a_write_that_may_have_arrived_is_not_repeated(self, github: GitHub, tmp_path: Path) -> None:
        github.script = [Scripted(502)]
        with pytest.raises(UnavailableError, match="502"):
            self.write(session(github, tmp_path, token=TOKEN))
        assert len(github.asked) == 1

    def test_a_write_that_a_limit_refused_is_repeated(self, github: GitHub, tmp_path: Path) -> None:
        github.script = [Scripted(403, {"Retry-After": "7"})]
        waits: list[float] = []
        assert self.write(session(github, tmp_path, token=TOKEN, waits=waits)) == "written"
        assert waits[0] == 7.0

    def test_nothing_is_written_offline(self, github: GitHub, tmp_path: Path) -> None:
        with pytest.raises(UnavailableError, match="offline"):
            self.write(session(github, tmp_path, offline=True))
        assert github.asked == []


class TestTheToken:
    def test_it_goes_to_the_server_and_nowhere_else(
        self, github: GitHub, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        github.issue(1, title=f"a server that repeats {TOKEN}", labels=[{"name": TOKEN}])
        api = session(github, tmp_path, token=TOKEN)
        found = read(api)
        assert TOKEN in github.asked[0].headers["Authorization"]
        assert TOKEN not in str(found.raw_data) + str(found.raw_headers) + repr(api) + caplog.text
        kept = [zlib.decompress(file.read_bytes()) for file in entries(tmp_path)]
        assert len(kept) == 1
        assert not any(TOKEN.encode() in content for content in kept)

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
            read(session(github, tmp_path, token=TOKEN))
        assert TOKEN not in str(caught.value)

    def test_a_rejected_token_is_reported(self, github: GitHub, tmp_path: Path) -> None:
        github.script = [Scripted(401, {}, b'{"message": "Bad credentials"}')]
        with pytest.raises(UnavailableError, match="does not accept GITHUB_TOKEN"):
            read(session(github, tmp_path, token=TOKEN))

    @pytest.mark.parametrize("token", ["two words", "line\nend", "café", "nul\x00"])
    def test_an_invalid_token_is_refused_without_being_shown(self, token: str) -> None:
        with pytest.raises(InputError) as caught:
            check_address("https://api.github.com", token)
        assert token not in str(caught.value)

    def test_it_is_not_sent_in_clear(self) -> None:
        with pytest.raises(InputError, match="in clear"):
            check_address("http://github.example.org/api/v3", TOKEN)

    @pytest.mark.parametrize(
        "base", ["", "api.github.com", "ftp://x", "https://", "https://u:p@host", "https://h:99999", "https://h/?a=b"]
    )
    def test_an_invalid_address_is_refused(self, base: str) -> None:
        with pytest.raises(InputError, match="REGRESS_GATE_GITHUB_API") as caught:
            check_address(base, None)
        assert "u:p" not in str(caught.value)


def test_a_program_that_uses_pygithub_too_is_left_alone(github: GitHub, tmp_path: Path) -> None:
    from github.Requester import HTTPSRequestsConnectionClass, Requester

    session(github, tmp_path)
    assert Requester._Requester__httpsConnectionClass is HTTPSRequestsConnectionClass  # type: ignore[attr-defined]
