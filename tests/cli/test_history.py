"""`history`: stored versions in their order, and which of them changed something."""

import pytest

from tests.factories.server_starts import write_demo_runs

SLOWER = 1.34


@pytest.fixture
def stored(gate):
    """Four versions of which the third got slower, stored in another order than theirs."""
    for version, speed in (("v0.24.0", SLOWER), ("v0.9.2", 1.0), ("v0.32.0", SLOWER), ("v0.19.1", 1.0)):
        assert gate.import_starts(version, speed=speed).code == 0
    return gate


def test_versions_stand_in_their_order_with_runs_and_spread(stored):
    shown = stored("history", "--metric", "ttft_median")
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == "imported@1 on lab"
    assert "4 versions" in lines
    rows = [line.split() for line in lines if "n=6" in line]
    assert [row[0] for row in rows] == ["0.9.2", "0.19.1", "0.24.0", "0.32.0"]
    assert [float(row[1]) for row in rows] == pytest.approx([100, 100, 134, 134], rel=0.002)
    assert all(len(line) <= 80 for line in lines)


def test_the_version_that_made_a_step_is_named(stored):
    shown = " ".join(stored("history", "--metric", "ttft_median", "--detect").out.split())
    assert "chat/ttft_median step of +34.0% [" in shown
    assert "], worse, at 0.24.0, between 0.19.1 and 0.24.0" in shown
    assert "compared 1 series on 3 steps between neighbouring versions" in shown
    assert "not measured side by side, so conditions may differ" in shown


def test_the_document_names_it_too(stored):
    found = stored("history", "--detect", "--format", "json").json
    steps = {(change["metric"], change["version"]) for change in found["change_points"]}
    assert ("ttft_median", "0.24.0") in steps
    assert {version for _, version in steps} == {"0.24.0"}
    assert all(change["worse"] for change in found["change_points"])
    (line,) = found["lines"]
    assert [each["runs"] for each in line["versions"]] == [6, 6, 6, 6]
    assert line["looked_at"]["steps"] == 3


def test_the_gate_s_metrics_are_shown_and_any_may_be_asked_for(stored):
    shown = {series["metric"] for series in stored("history", "--format", "json").json["lines"][0]["series"]}
    assert "ttft_median" in shown
    assert "ttft_mean" not in shown
    asked = stored("history", "--metric", "ttft_*", "--format", "json").json["lines"][0]["series"]
    assert {"ttft_mean", "ttft_p99"} <= {series["metric"] for series in asked}


def test_improvements_are_reported_when_asked_for(gate):
    for version, speed in (("v0.19.0", SLOWER), ("v0.19.1", 1.0)):
        gate.import_starts(version, speed=speed)
    quiet = gate("history", "--metric", "ttft_median", "--detect").out
    assert "none found" in quiet
    assert "1 improvement is not shown; --improvements shows it" in quiet
    assert ", better, at 0.19.1" in gate("history", "--metric", "ttft_median", "--detect", "--improvements").out


def test_eight_versions_are_searched_for_change_points(gate):
    for number in range(12):
        gate.import_starts(f"v0.{number}.0", starts=2, speed=SLOWER if number >= 7 else 1.0)
    found = gate("history", "--metric", "ttft_median", "--detect", "--format", "json").json
    assert found["lines"][0]["looked_at"]["way"] == "change_points"
    (change,) = found["change_points"]
    assert change["version"] == "0.7.0"
    assert change["change"] == pytest.approx(0.34, abs=0.03)


def test_nightlies_stand_by_date_in_a_line_of_their_own(stored):
    for version in ("0.33.1rc1.dev12", "commit:4080263bb"):
        stored.import_starts(version, starts=2)
    lines = stored("history", "--format", "json").json["lines"]
    assert [line["order"] for line in lines] == ["version", "date"]
    assert [each["version"] for each in lines[1]["versions"]] == ["0.33.1rc1.dev12", "commit:4080263bb"]
    assert "2 builds by the day of the first run" in stored("history").out


def test_void_runs_are_said_and_not_counted(gate):
    folder = write_demo_runs(gate.directory / "demo", "v0.19.0", loads=[0.01, 0.02, 1.9])
    assert gate("import", folder, "--version", "v0.19.0").code == 0
    assert "0.19.0  2 runs" in gate("history", "--suite", "cpu-demo@1", "--testbed", "two-cores").out


def test_without_a_store_the_shipped_baselines_are_shown(gate):
    shown = gate("history")
    assert shown.code == 0
    assert shown.out.startswith("cpu-tiny@1 on ")
    assert gate.bytes_of_store() is None


def test_of_several_places_one_has_to_be_chosen(stored):
    stored.import_starts("v0.19.1", testbed="other")
    refused = stored("history")
    assert (refused.code, refused.out) == (2, "")
    assert "choose: --suite imported@1 --testbed lab (4 versions) | --suite imported@1 --testbed other" in refused.error
    assert stored("history", "--testbed", "other").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["--metric", "ttft_medain"],
            2,
            "--metric: no stored run has the metric 'ttft_medain' (did you mean 'ttft_median'?)",
        ),
        (["--scenario", "chatt"], 2, "did you mean 'chat'?"),
        (["--improvements"], 2, "--improvements: needs --detect; give --detect too"),
        (["--testbed", "nowhere"], 5, "no stored runs of that suite and testbed; see `regress-gate baseline list`"),
        (["--suite", "chat"], 5, "no stored runs of that suite"),
    ],
)
def test_what_is_not_stored_is_one_line_that_says_so(stored, arguments, code, said):
    refused = stored("history", *arguments)
    assert (refused.code, refused.out) == (code, "")
    assert said in refused.error


def test_markdown_can_be_asked_for(stored):
    shown = stored("history", "--metric", "ttft_median", "--detect", "--format", "markdown").out
    assert "| chat/ttft_median | ▁▁██ |" in shown
    assert "- chat/ttft_median: step of +34.0%" in shown
