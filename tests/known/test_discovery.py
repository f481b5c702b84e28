"""Signs of a regression in the words of threads, the search for such threads, and their rank."""

import runpy
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from regress_gate.known.threads import SIGNS, named_versions, regression_signs, score
from regress_gate.known.tracker.snapshot import FOUND_NAME, FoundThreads, read_found, write_found
from regress_gate.known.tracker.sync import Discovery, covered_threads, discover, rank_candidates
from regress_gate.model.issue import KnownIssue
from tests.factories.records import REPO as REPO_URL
from tests.factories.records import record
from tests.fake_github.server import REPO, SEARCH_RESULTS, GitHub, Scripted
from tests.known.github_session import session

ROOT = Path(__file__).parents[2]
SINCE = date(2026, 11, 1)


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("slower from v0.19.1 to 0.20.0", ["0.19.1", "0.20.0"]),
        ("0.26 versus 0.27", ["0.26", "0.27"]),
        ("vllm0.7.3 -> vllm 0.8.2", ["0.7.3", "0.8.2"]),
        ("fails on 0.6.4.post1, v0.9 and 0.20.0rc1", ["0.6.4.post1", "0.9", "0.20.0rc1"]),
        ("--gpu-memory-utilization 0.95 and 0.9", []),
        ("torchvision 0.20.1 comes with flashinfer 0.6.8 and triton 0.5.0", ["0.20.1"]),
        ("at 10.0.19.1 and 0.5.0.2.3", []),
    ],
)
def test_versions_are_told_from_other_numbers(text: str, versions: list[str]) -> None:
    assert named_versions(text) == versions


@pytest.mark.parametrize(
    ("title", "text", "sign"),
    [
        ("[Bug]: Performance regression on H100", "", "regression-in-title"),
        ("TPOT 21 % worse after upgrading", "", "upgrade-in-title"),
        ("x", "Downgrading to v0.9.2 solves it.", "upgrade-in-text"),
        ("OOM on 0.6.4, 0.6.3 is working", "", "worked-in-title"),
        ("Decode slower by 18 %", "", "size-in-title"),
        ("x", "Caused by https://github.com/vllm-project/vllm/pull/12405", "culprit-in-text"),
        ("[RFC]: a new scheduler", "", "prefix-other"),
        ("After upgrading the NVIDIA driver to 536", "", "driver"),
    ],
)
def test_a_sign_is_seen(title: str, text: str, sign: str) -> None:
    assert sign in regression_signs(title, text, [], is_pull=False)


@pytest.mark.parametrize(
    "text",
    [
        "### Report of performance regression\n\n_No response_",
        "<!-- a regression since v0.19.1 -->",
        "<details>\nvLLM 0.19.1\nregression\n</details>",
        "```\nregression slower 0.19.1 0.20.0\n```",
        "> slower since v0.20.0",
        "<!-- a regression, without an end",
        "No accuracy regression was seen. The regression tests pass.",
    ],
)
def test_forms_comments_logs_and_quotes_do_not_count(text: str) -> None:
    assert regression_signs("x", text, [], is_pull=False) == []


@pytest.mark.parametrize("mark", ["<!--", "<details", "```", "since ", "0.1", "slower ", "v0.1.1 works on "])
def test_a_long_text_of_marks_is_read_at_once(mark: str) -> None:
    regression_signs(mark * 100, mark * 20_000, [], is_pull=True)


def test_the_score_still_tells_reports_from_other_threads(capsys: pytest.CaptureFixture[str]) -> None:
    assert runpy.run_path(str(ROOT / "benchmarks" / "discover.py"))["main"]() == 0
    assert capsys.readouterr().out.count("\n") == 2 + 3 * 5


def test_the_page_has_every_sign_with_its_points() -> None:
    page = (ROOT / "docs" / "tracking.md").read_text(encoding="utf-8")
    for sign in SIGNS.values():
        assert f"| {sign.points:+g} | {sign.text} |" in page


def look(github: GitHub, tmp_path: Path, since: date = SINCE, **how: Any) -> Discovery:
    return discover(session(github, tmp_path, **how), [REPO], FoundThreads(), since=since)


def ranked(outcome: Discovery, *records: KnownIssue, since: date = SINCE) -> list[str]:
    found = rank_candidates(outcome.found, covered_threads(records), since=since, repositories=[REPO])
    return [one.thread.url.removeprefix(f"{REPO_URL}/") for one in found]


@pytest.fixture
def tracker(github: GitHub) -> GitHub:
    """Six threads, four of which look like regressions."""
    github.history()
    github.issue(1, title="[Bug]: Performance regression from v0.19.1 to v0.20.0", labels=[{"name": "bug"}])
    github.issue(2, title="Slower after upgrading to 0.20.0")
    github.issue(3, title="[Feature]: faster loading", labels=[{"name": "feature request"}])
    merged = {"merged_at": "2026-11-09T00:00:00Z"}
    github.issue(4, title='Revert "Use a new kernel (#77)"', pull_request=merged, state="closed")
    github.issue(5, title="Fix a slowdown", body="Fixes #2", pull_request=merged, state="closed")
    github.issue(6, title="Throughput regression", created_at="2026-09-01T00:00:00Z")
    return github


class TestSearch:
    def test_threads_are_ranked_and_a_fix_is_shown_with_its_issue(self, tracker: GitHub, tmp_path: Path) -> None:
        outcome = look(tracker, tmp_path)
        assert (outcome.stopped, outcome.incomplete) == (None, False)
        assert ranked(outcome) == ["issues/2", "issues/1", "pull/4"]
        found = rank_candidates(outcome.found, set(), since=SINCE, repositories=[REPO])
        assert (found[0].fixed_by, "fixed" in found[0].signs) == ((f"{REPO}#5",), True)
        assert found[0].score == score(found[0].signs)

    def test_what_a_record_names_is_left_out_with_its_fixes(self, tracker: GitHub, tmp_path: Path) -> None:
        url = f"{REPO_URL}/issues/2"
        report = [{"type": "REPORT", "url": url}]
        covered = record(references=report, tracker={"url": url, "state": "open", "checked": "2026-11-01"})
        assert ranked(look(tracker, tmp_path), covered) == ["issues/1", "pull/4"]
        fixes = {"introduced_by": [{"pull": 4}], "fixed_by": [{"pull": 3, "reverted_by": {"pull": 1}}]}
        named = record(references=report, tracker=covered.tracker.model_dump(mode="json"), changes=fixes)
        assert ranked(look(tracker, tmp_path), named) == []

    def test_an_older_day_finds_more_and_a_later_one_less(self, tracker: GitHub, tmp_path: Path) -> None:
        earlier = look(tracker, tmp_path, date(2026, 8, 1))
        assert "issues/6" in ranked(earlier, since=date(2026, 8, 1))
        assert "issues/6" not in ranked(earlier)

    def test_more_results_than_github_gives_are_asked_for_by_days(self, github: GitHub, tmp_path: Path) -> None:
        github.history()
        for number in range(1, SEARCH_RESULTS + 101):
            made = f"2026-11-{1 + number % 20:02}T00:00:00Z"
            github.issue(number, title="A regression", created_at=made)
        outcome = look(github, tmp_path, token="ghp_abc123")
        assert (outcome.stopped, outcome.incomplete) == (None, False)
        assert len(outcome.found.threads) == SEARCH_RESULTS + 100

    def test_a_day_with_too_many_is_said_to_be_incomplete(self, github: GitHub, tmp_path: Path) -> None:
        github.history()
        for number in range(1, SEARCH_RESULTS + 2):
            github.issue(number, title="A regression", created_at="2026-11-05T00:00:00Z")
        assert look(github, tmp_path, token="ghp_abc123").incomplete

    def test_a_search_out_of_time_is_incomplete(self, tracker: GitHub, tmp_path: Path) -> None:
        tracker.incomplete = True
        assert look(tracker, tmp_path).incomplete

    def test_the_limit_of_searches_is_waited_for(self, tracker: GitHub, tmp_path: Path) -> None:
        clock = [1_800_000_000.0]
        tracker.clock, tracker.date = (lambda: clock[0]), clock[0]
        tracker.searched = [clock[0]] * 10
        waits: list[float] = []

        def wait(seconds: float) -> None:
            waits.append(seconds)
            clock[0] += seconds
            tracker.date = clock[0]

        client = session(tracker, tmp_path)
        client.wait = wait
        outcome = discover(client, [REPO], FoundThreads(), since=SINCE)
        assert (outcome.stopped, waits) == (None, [61.0, 1.0])
        assert ranked(outcome) == ["issues/2", "issues/1", "pull/4"]

    def test_a_refused_search_keeps_what_the_others_found(self, tracker: GitHub, tmp_path: Path) -> None:
        tracker.script = [Scripted(422, {}, b'{"message": "Validation Failed"}')]
        outcome = look(tracker, tmp_path)
        assert outcome.stopped == "127.0.0.1 refuses (422)"
        assert ranked(outcome) == ["pull/4", "pull/5"]

    @pytest.mark.parametrize(
        "item",
        [
            b'{"html_url": "https://evil.example/x"}',
            b'{"html_url": "https://github.com/a/b/issues/1", "title": "x", "state": "open", "created_at": "soon"}',
            b"5",
        ],
    )
    def test_an_answer_of_another_form_is_refused(self, tracker: GitHub, tmp_path: Path, item: bytes) -> None:
        body = b'{"total_count": 1, "items": [' + item + b"]}"
        tracker.script = [Scripted(200, {}, body)]
        assert "unexpected form" in str(look(tracker, tmp_path).stopped)

    def test_what_was_found_is_kept_and_a_damaged_file_is_nothing(self, tracker: GitHub, tmp_path: Path) -> None:
        outcome = look(tracker, tmp_path)
        assert write_found(tmp_path, outcome.found)
        assert read_found(tmp_path).threads.keys() == outcome.found.threads.keys()
        (tmp_path / FOUND_NAME).write_text("{")
        assert read_found(tmp_path) == FoundThreads()
