"""The watch on the dashboard: how it stands at each place, its alarms, what it follows and its past looks."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from regress_gate.app.settings import Settings
from regress_gate.app.site import build_site
from regress_gate.report.site import watch_page
from tests.factories.dashboards import check_dashboard, files_of, pages_of
from tests.factories.watched_stores import watched_store
from tests.report.html_page import HtmlPage

NOW = datetime(2026, 11, 23, 4, tzinfo=UTC)


def built(store: str, folder: Path, **given: Any) -> dict[str, HtmlPage]:
    build_site(Settings(store_flag=store, environment={}, **given), folder, now=NOW)
    check_dashboard(folder)
    return pages_of(folder)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("watched")
    built(watched_store(folder / "store.db", NOW), folder / "site")
    return folder / "site"


def words(page: HtmlPage) -> str:
    return " ".join(page.text.split())


def test_the_first_page_says_when_it_looked_when_the_next_is_due_and_what_is_wrong(site):
    first = words(pages_of(site)["index.html"])
    assert "looks at soak@1 on lab nothing new 2026-11-12 2026-11-19, overdue" in first
    for alarm in (
        "the watch has not run for 11 days; a look is due every 7 days",
        "the look at 0.30.1rc1.dev121 of 2026-11-08 did not end",
        "the newest nightly is 5 days old",
    ):
        assert alarm in first
    assert "1 regression, 1 suspicion" in first


def test_the_page_of_the_watch_has_every_alarm_with_what_to_do_and_what_is_followed(site):
    text = words(pages_of(site)["watch.html"])
    assert "the newest nightly is 5 days old → see whether it is still built" in text
    assert "output_throughput of chat-c8 is 9 % lower" in text
    assert "seen once, a second look decides whether it is reported" in text
    assert "regress-gate bisect 0.23.1rc1.dev1301 0.23.1rc1.dev1403" in text


def test_past_looks_are_listed_the_newest_first_and_lead_to_their_reports(site):
    page = pages_of(site)["watch.html"]
    text = words(page)
    assert "beside 0.30.0" in text
    ends = ["nothing new", "not ended", "✗ fail", "not measured", "✓ pass"]
    table = text[text.index("what it found") :]
    assert [table.index(end) for end in ends] == sorted(table.index(end) for end in ends)
    (report,) = [one.attributes["href"] for one in page.all("a") if "/comparisons/" in one.attributes["href"]]
    assert (site / report).is_file()


def test_programs_find_the_same_in_the_index(site):
    (watch,) = json.loads((site / "index.json").read_text())["watch"]
    assert (watch["testbed"], watch["suite"], watch["suite_version"]) == ("lab", "soak", "1")
    assert (watch["last_look"]["outcome"], watch["next_due"], watch["overdue"]) == (
        "nothing new", "2026-11-19T04:00:00+00:00", True,
    )  # fmt: skip
    assert {alarm["kind"] for alarm in watch["alarms"]} == {"overdue", "unfinished", "stale_build"}
    assert [one["suspicion"] for one in watch["followed"]] == [False, True]
    assert [look["outcome"] for look in watch["looks"]][-2:] == ["not measured", "pass"]
    assert (site / watch["looks"][2]["page"]).is_file()


def test_a_store_without_a_watch_has_neither_page_nor_section(tmp_path):
    pages = built(f"sqlite:///{tmp_path / 'none.db'}", tmp_path / "site")
    assert "watch.html" not in pages
    assert "Nightly watch" not in pages["index.html"].text
    assert json.loads((tmp_path / "site" / "index.json").read_text())["watch"] == []


def test_only_the_places_that_were_asked_for_are_shown(tmp_path):
    store = watched_store(tmp_path / "store.db", NOW)
    assert "watch.html" not in built(store, tmp_path / "other", testbed_flag="cpu-2core")
    assert "watch.html" in built(store, tmp_path / "own", suite_flag="soak")


def test_texts_of_others_are_texts_on_the_page(tmp_path):
    hostile = "<script>alert(1)</script>{{ 7*7 }}"
    store = watched_store(tmp_path / "store.db", NOW, hostile, title=hostile, bisect_command=hostile)
    built(store, tmp_path / "site", suite_flag="soak")
    for name in ("index.html", "watch.html"):
        content = files_of(tmp_path / "site")[name].decode()
        assert "<script>alert" not in content
        assert "{{ 7*7 }}" in content


def test_a_long_history_of_looks_is_cut_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(watch_page, "MOST_LOOKS", 2)
    pages = built(watched_store(tmp_path / "store.db", NOW), tmp_path / "site", suite_flag="soak")
    assert "and 3 older looks" in words(pages["watch.html"])
