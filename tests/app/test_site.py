"""The dashboard of a store: what is on it, that every link leads somewhere, and hostile or empty stores."""

import json
import re
import shutil
import subprocess
import sys
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from sqlalchemy import create_engine, text
from syrupy.assertion import SnapshotAssertion

import regress_gate as rg
from regress_gate.app.settings import Settings
from regress_gate.app.site import BuiltSite, build_site
from regress_gate.errors import InputError, NoDataError
from regress_gate.model.run import SuiteRef
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.report.site.feed import ATOM
from regress_gate.store.repository import open_store
from regress_gate.store.store_interface import StoredComparison
from tests.factories.dashboards import LAB, check_dashboard, files_of, long_history, nightly, pages_of
from tests.factories.stored_runs import make_run, make_source, make_trial
from tests.report.html_page import HtmlPage
from tests.report.site.test_feed import check_feed
from tests.store.conftest import sqlite_url, url  # noqa: F401 - fixtures

NOW = datetime(2026, 11, 23, 4, tzinfo=UTC)
HOSTILE = [
    '<script>alert("x")</script>', "../../../etc/passwd", "a/b\\c", "CON", "..", "-rf", "x" * 400, "x" * 399 + "y",
    "Ünïcødé ☃ \u202etxt", "case", "CASE", "{{ 7*7 }}{% raw %}", "'\"><img src=x onerror=alert(1)>", "a\nb\x1b[31m",
    "</script><!--", "&amp;", "javascript:alert(1)",
]  # fmt: skip


def build(store: str, out: Path, **options: Any) -> BuiltSite:
    settings = {key: options.pop(key) for key in ("testbed_flag", "suite_flag") if key in options}
    return build_site(Settings(store_flag=store, environment={}, **settings), out, now=NOW, **options)


def shipped_result(baseline: str, candidate: str) -> dict[str, Any]:
    return dict(json.loads(rg.compare(baseline, candidate, store="sqlite:////no/such/store.db").to_json()))


def keep(store: str, document: dict[str, Any], created: datetime, **given: Any) -> None:
    sides = {
        side: Version(document[side]["version"], None, document[side]["variant"]) for side in ("baseline", "candidate")
    }
    one = {
        "created": created, "testbed": document["testbed"]["name"], "decision": document["decision"],
        "suite": SuiteRef(document["suite"]["name"], document["suite"]["version"]), **sides, **given,
    }  # fmt: skip
    with open_store(store, create=True) as repository:
        repository.add_comparison(StoredComparison(**one), document)


@pytest.fixture(scope="module")
def results() -> list[dict[str, Any]]:
    pairs = [("0.19.0", "0.19.1"), ("0.19.1", "0.24.0"), ("0.24.0", "0.32.0")]
    return [shipped_result(*pair) for pair in pairs]


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory, results: list[dict[str, Any]]) -> str:
    """A store that holds nothing but comparisons of the shipped baselines."""
    store = f"sqlite:///{tmp_path_factory.mktemp('shipped') / 'store.db'}"
    for number, document in enumerate(results):
        keep(store, document, datetime(2026, 11, 20 + number, 12, tzinfo=UTC))
    return store


@pytest.fixture(scope="module")
def long_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """120 nights of one scenario, slower from the 80th on."""
    store = f"sqlite:///{tmp_path_factory.mktemp('long') / 'store.db'}"
    with open_store(store, create=True) as repository:
        repository.add_runs(long_history(120, step_at=80))
    return store


@pytest.fixture(scope="module")
def shipped_site(shipped: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "shipped"
    build(shipped, folder, base_url="https://example.org/gate")
    return folder


class TestShippedBaselines:
    def test_every_link_leads_somewhere_and_nothing_is_loaded(self, shipped_site: Path) -> None:
        check_dashboard(shipped_site)

    def test_the_data_for_programs_is_as_it_was(self, shipped_site: Path, snapshot: SnapshotAssertion) -> None:
        index = json.loads((shipped_site / "index.json").read_text())
        for place in index["places"]:
            assert (shipped_site / place["data"]).is_file()
            assert (shipped_site / place["page"]).is_file()
        del index["tool_version"]
        [comparison] = [place.pop("last_comparison") for place in index["places"]]
        [newer] = [place.pop("unmeasured_releases") for place in index["places"]]  # grows with the releases of vLLM
        assert newer[-1] == "0.33.0"
        assert comparison["page"].startswith("places/cpu-2core--cpu-tiny-1-e73a293bbe/comparisons/20261122t120000z-")
        assert index == snapshot

    def test_the_feed_has_the_failed_comparison_and_the_changes_for_the_worse(
        self, shipped_site: Path, snapshot: SnapshotAssertion
    ) -> None:
        text = (shipped_site / "feed.xml").read_text()
        feed = ET.fromstring(text)
        check_feed(feed)
        titles = [each.findtext(f"{{{ATOM}}}title") or "" for each in feed.iter(f"{{{ATOM}}}entry")]
        assert "FAIL: 0.19.1+cpu → 0.24.0+cpu: cpu-tiny@1 on cpu-2core" in titles
        assert "server/peak_memory got worse with 0.24.0+cpu: cpu-tiny@1 on cpu-2core" in titles
        ids = [element.text for element in feed.iter(f"{{{ATOM}}}id")]
        assert [each for each, title in zip(ids[1:], titles, strict=True) if "FAIL" not in title] == snapshot

    def test_a_place_shows_its_comparisons_series_and_known_issues(self, shipped_site: Path) -> None:
        [place] = [page for name, page in pages_of(shipped_site).items() if name.count("/") == 2 and "index" in name]
        for words in (
            "✗ fail",
            "✓ pass",
            "c16",
            "ttft_median",
            "Known issues of 0.24.0 → 0.32.0",
            "All records, and why",
        ):
            assert words in place.text
        charts = [one for one in place.all("svg") if one.attributes.get("class") == "chart"]
        assert len(charts) == 36

    def test_a_comparison_has_its_whole_report_with_a_way_back(self, shipped_site: Path) -> None:
        reports = {name: page for name, page in pages_of(shipped_site).items() if "/comparisons/" in name}
        assert len(reports) == 3
        for page in reports.values():
            targets = [one.attributes["href"] for one in page.all("a")]
            assert targets[:2] == ["../../../index.html", "../../../places/cpu-2core--cpu-tiny-1-e73a293bbe/index.html"]

    def test_the_records_of_a_testbed_of_which_nothing_is_known_fit_on_a_page(self, tmp_path: Path) -> None:
        store = f"sqlite:///{tmp_path / 'store.db'}"
        with open_store(store, create=True) as repository:
            repository.add_runs(long_history(2, testbed=Testbed("bare")))
        build(store, tmp_path / "site", testbed_flag=("bare",))
        [page] = (tmp_path / "site").glob("places/*/known-issues.html")
        assert 200_000 < page.stat().st_size <= 300_000
        text = " ".join(HtmlPage(page.read_text()).text.split())
        left_out = re.search(r"Left out, too long for this place: (\d+) known issues that may apply", text)
        shown = re.search(r"More that may apply, of (\d+): (\d+)", text)
        assert left_out is not None
        assert shown is not None
        assert int(shown[1]) == int(shown[2]) + int(left_out[1])
        overview = HtmlPage((page.parent / "index.html").read_text()).text
        assert "may bring it" in overview
        assert "brings it" not in overview  # two nightlies, of which neither is known to have any

    def test_without_any_store_the_baselines_are_shown_and_the_next_step_named(self, tmp_path: Path) -> None:
        build(f"sqlite:///{tmp_path}/none.db", tmp_path / "site")
        check_dashboard(tmp_path / "site")
        text = " ".join(page.text for page in pages_of(tmp_path / "site").values())
        assert (
            "This makes one: regress-gate compare 0.24.0+cpu 0.32.0+cpu --testbed cpu-2core --suite cpu-tiny@1" in text
        )
        assert not (tmp_path / "none.db").exists()


class TestBuilds:
    def test_the_second_build_changes_only_what_says_when_it_was_built(self, long_store: str, tmp_path: Path) -> None:
        build(long_store, tmp_path / "site", testbed_flag="lab")
        before = files_of(tmp_path / "site")
        settings = Settings(store_flag=long_store, testbed_flag="lab", environment={})
        again = build_site(settings, tmp_path / "site", now=NOW + timedelta(minutes=1))
        after = files_of(tmp_path / "site")
        assert {name for name in after if after[name] != before[name]} == {"index.html", "index.json"}
        assert (again.changed, again.deleted) == (2, 0)

    def test_addresses_stay_when_other_things_are_stored(self, long_store: str, tmp_path: Path) -> None:
        store = tmp_path / "store.db"
        shutil.copy(long_store.removeprefix("sqlite:///"), store)
        build(f"sqlite:///{store}", tmp_path / "site", suite_flag="soak")
        before = set(files_of(tmp_path / "site"))
        with open_store(f"sqlite:///{store}", create=False) as repository:
            repository.add_runs(long_history(10, ("other", "chat"), testbed=Testbed("attic")))
            repository.add_runs(long_history(3, ("chat",), suite=SuiteRef("soak", "2")))
        build(f"sqlite:///{store}", tmp_path / "site", suite_flag="soak")
        assert before <= set(files_of(tmp_path / "site"))
        check_dashboard(tmp_path / "site")

    def test_what_is_pruned_is_gone_from_the_next_build(self, tmp_path: Path) -> None:
        store = f"sqlite:///{tmp_path / 'store.db'}"
        with open_store(store, create=True) as repository:
            repository.add_runs(long_history(3))
            repository.add_runs(long_history(3, testbed=Testbed("attic")))
        build(store, tmp_path / "site", suite_flag="soak")
        assert any("attic" in name for name in files_of(tmp_path / "site"))
        with open_store(store, create=False) as repository:
            repository.prune(testbed="attic")
        assert build(store, tmp_path / "site", suite_flag="soak").deleted > 3
        assert not any("attic" in name for name in files_of(tmp_path / "site"))
        check_dashboard(tmp_path / "site")

    def test_a_killed_build_leaves_a_dashboard_whose_links_lead_somewhere(self, tmp_path: Path) -> None:
        shipped = f"sqlite:///{tmp_path / 'store.db'}"
        with open_store(shipped, create=True) as repository:
            repository.add_runs(long_history(2))
        build(shipped, tmp_path / "site", suite_flag="soak")
        killed = (
            "import os, sys; from regress_gate.report.site import folder; from pathlib import Path\n"
            "from regress_gate.app.settings import Settings; from regress_gate.app.site import build_site\n"
            "whole, left = folder.replace_file, [int(sys.argv[3])]\n"
            "def replace_file(*a, **k):\n"
            "    left[0] -= 1\n"
            "    os._exit(9) if left[0] < 0 else whole(*a, **k)\n"
            "folder.replace_file = replace_file\n"
            "build_site(Settings(store_flag=sys.argv[1], suite_flag='soak', environment={}), Path(sys.argv[2]))\n"
        )
        with open_store(shipped, create=False) as repository:
            repository.add_runs(long_history(3, testbed=Testbed("new")))
        for files in (1, 6):
            command = [sys.executable, "-c", killed, shipped, str(tmp_path / "site"), str(files)]
            assert subprocess.run(command, check=False).returncode == 9
            check_dashboard(tmp_path / "site", is_whole=False)
        build(shipped, tmp_path / "site", suite_flag="soak")
        check_dashboard(tmp_path / "site")

    def test_only_what_is_asked_for_is_on_it(self, long_store: str, tmp_path: Path) -> None:
        build(long_store, tmp_path / "site", testbed_flag="lab")
        assert "cpu-tiny" not in pages_of(tmp_path / "site")["index.html"].text
        with pytest.raises(NoDataError, match="baseline list"):
            build(long_store, tmp_path / "nothing", testbed_flag="elsewhere")
        assert not (tmp_path / "nothing").exists()

    def test_the_address_of_the_dashboard_must_be_one(self, long_store: str, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="--base-url"):
            build(long_store, tmp_path / "site", base_url="example.org")


@pytest.fixture(scope="module")
def site(long_store: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "long"
    build(long_store, folder, testbed_flag="lab")
    return folder


class TestLongHistories:
    def test_a_change_is_named_on_the_page_of_its_series_and_in_the_feed(self, site: Path) -> None:
        page = next(page for name, page in pages_of(site).items() if "chat-ttft-median" in name)
        assert f"worse, at {nightly(80)}, between" in page.text
        feed = (site / "feed.xml").read_text()
        assert f"2 series got worse with {nightly(80)}: soak@1 on lab" in feed
        assert "chat/ttft_median: step of +" in feed

    def test_the_points_to_zoom_into_stand_in_the_page_beside_a_picture_and_a_table(self, site: Path) -> None:
        page = next(page for name, page in pages_of(site).items() if "chat-ttft-median" in name)
        [points] = [one for one in page.all("script") if one.attributes.get("type") == "application/json"]
        data = json.loads(points.content)
        assert data["versions"][0] == nightly(0)
        assert len(data["values"]) == 120
        assert data["unit"] == "ms"
        assert {80} <= {change["at"] for change in data["changes"]}
        assert page.all("figure")
        assert nightly(119) in page.all("table")[0].content

    def test_scripts_run_only_by_their_hashes(self, site: Path) -> None:
        for name, page in pages_of(site).items():
            [policy] = [one.attributes["content"] for one in page.all("meta") if "http-equiv" in one.attributes]
            assert "unsafe" not in policy
            assert "default-src 'none'" in policy
            running = [one for one in page.all("script") if one.attributes.get("type") != "application/json"]
            assert bool(running) == ("script-src" in policy), name
            assert policy.count("sha256-") >= len(running) + 1

    def test_of_many_points_those_that_show_the_shape_and_the_changes_are_drawn(
        self, long_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("regress_gate.report.site.series_pages._ZOOM_PARTS", 10)
        build(long_store, tmp_path / "site", testbed_flag="lab")
        page = next(page for name, page in pages_of(tmp_path / "site").items() if "chat-ttft-median" in name)
        [points] = [one for one in page.all("script") if one.attributes.get("type") == "application/json"]
        data = json.loads(points.content)
        assert len(data["places"]) < 60
        assert {0, 119} <= set(data["places"])
        assert 80 in {change["at"] for change in data["changes"]} <= set(data["places"])

    def test_many_series_stand_on_further_pages(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("regress_gate.report.site.pages.MOST_CELLS", 9)
        store = f"sqlite:///{tmp_path / 'store.db'}"
        with open_store(store, create=True) as repository:
            repository.add_runs(long_history(2, tuple(f"scenario{number}" for number in range(7))))
        build(store, tmp_path / "site", testbed_flag="lab")
        check_dashboard(tmp_path / "site")
        lists = [name for name in files_of(tmp_path / "site") if name.count("/") == 2 and "series-" in name]
        assert len(lists) == 2

    def test_many_comparisons_stand_on_pages_of_their_own(
        self, results: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("regress_gate.report.site.pages.MOST_COMPARISONS", 1)
        monkeypatch.setattr("regress_gate.report.site.pages.COMPARISONS_A_PAGE", 2)
        store = f"sqlite:///{tmp_path / 'store.db'}"
        for number in range(3):
            keep(store, {**results[0], "advice": str(number)}, NOW - timedelta(days=number))
        build(store, tmp_path / "site")
        check_dashboard(tmp_path / "site")
        pages = {name: page.text for name, page in pages_of(tmp_path / "site").items() if "/comparisons" in name}
        listed = [text.count("0.19.0+cpu → 0.19.1+cpu") for name, text in sorted(pages.items()) if name.count("/") == 2]
        assert listed == [1, 2]


class TestHostileStores:
    def test_any_names_become_pages_that_hold_only_text(self, tmp_path: Path) -> None:
        store = f"sqlite:///{tmp_path / 'store.db'}"
        with open_store(store, create=True) as repository:
            for number, name in enumerate(HOSTILE):
                runs = [
                    make_run(
                        f"{name}{version}{start}",
                        *(
                            make_trial("", scenario, source=make_source(f"{number}{version}{start}{scenario}"))
                            for scenario in (name, "case", "CASE")
                        ),
                        version=version,
                        testbed=Testbed(name, accelerator=name, cpu=name),
                        suite=SuiteRef(name, name),
                    )
                    for version in ("0.19.0", "0.19.1")
                    for start in (1, 2)
                ]
                repository.add_runs(runs)
        build(store, tmp_path / "site")
        check_dashboard(tmp_path / "site")
        for name, page in pages_of(tmp_path / "site").items():
            assert not page.all("img"), name
            assert all(one.attributes.get("type") == "application/json" for one in page.all("script")), name
            assert not [key for one in page.elements for key in one.attributes if key.startswith("on")], name
            assert not [one for one in page.all("a") if one.attributes["href"].startswith("javascript")], name
        names = [name.lower() for name in files_of(tmp_path / "site")]
        assert len(set(names)) == len(names)

    def test_secrets_in_names_are_masked(self, tmp_path: Path) -> None:
        token = "hf_" + "a1b2c3d4e5f6"
        store = f"sqlite:///{tmp_path / 'store.db'}"
        with open_store(store, create=True) as repository:
            repository.add_runs(long_history(70, (token,), testbed=Testbed(token, accelerator=token)))
        build(store, tmp_path / "site", testbed_flag=token)
        assert not [name for name, content in files_of(tmp_path / "site").items() if token.encode() in content]

    def test_a_result_that_cannot_be_read_is_listed_without_a_page(self, shipped: str, tmp_path: Path) -> None:
        shutil.copy(shipped.removeprefix("sqlite:///"), tmp_path / "store.db")
        shipped = f"sqlite:///{tmp_path / 'store.db'}"
        engine = create_engine(shipped)
        with engine.begin() as connection:
            for id_, data in ((1, b"damaged"), (2, zlib.compress(b'{"schema_version": "99"}'))):
                connection.execute(text("UPDATE comparison SET data = :data WHERE id = :id"), {"data": data, "id": id_})
        engine.dispose()
        assert build(shipped, tmp_path / "site").unreadable == 2
        check_dashboard(tmp_path / "site")
        listed = " ".join(page.text for page in pages_of(tmp_path / "site").values())
        assert listed.count("this result cannot be read") == 2

    def test_versions_without_runs_that_count_have_no_charts_and_no_error(self, tmp_path: Path) -> None:
        store = f"sqlite:///{tmp_path / 'store.db'}"
        with open_store(store, create=True) as repository:
            repository.add_runs([make_run("1", version="0.19.0", testbed=LAB, void="disturbed")])
        build(store, tmp_path / "site", testbed_flag="lab")
        check_dashboard(tmp_path / "site")


class TestServers:
    def test_a_store_on_a_server_gives_the_same_pages(self, url: str, tmp_path: Path) -> None:  # noqa: F811
        for store in (url, f"sqlite:///{tmp_path / 'other.db'}"):
            with open_store(store, create=True) as repository:
                repository.add_runs(long_history(70, step_at=40))
        for name, store in (("first", url), ("second", f"sqlite:///{tmp_path / 'other.db'}")):
            build(store, tmp_path / name, testbed_flag="lab", base_url="https://example.org/")
        assert files_of(tmp_path / "first") == files_of(tmp_path / "second")


@pytest.mark.slow
def test_the_benchmark_of_the_dashboard_runs_and_small_stores_are_within_its_bounds(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "site.py"
    small = ("--versions", "10", "--scenarios", "1", "--points", "100", "--comparisons", "1", "--keep", str(tmp_path))
    done = subprocess.run([sys.executable, script, *small], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "site, 10 versions × 8 series" in done.stdout
    assert "BROKEN" not in done.stdout
