"""`compare` beside a history: which version between the two made the step that is seen."""

import pytest
from jsonschema import Draft202012Validator

from regress_gate.report.schema import schema

SLOWER = 1.34
OLDER = "this step came with 0.24.0, not with 0.32.0"
OWN = "this step came with 0.32.0: 0.24.0 is without it"


@pytest.fixture
def history(gate):
    """Stores the two ends, 0.19.1 and the slower 0.32.0, and between them a 0.24.0 of that speed."""

    def store(speed):
        for version, speed_ in (("v0.32.0", SLOWER), ("v0.24.0", speed), ("v0.19.1", 1.0)):
            assert gate.import_starts(version, speed=speed_).code == 0
        return gate

    return store


def compared(gate, *arguments):
    done = gate("compare", "v0.19.1", "v0.32.0", *arguments, "--format", "json")
    Draft202012Validator(schema()).validate(done.json)
    return done.json


def test_an_older_step_is_named_with_its_version_for_every_regression(history):
    found = compared(history(SLOWER))
    regressed = [one for one in found["series"] if one["verdict"] == "regression"]
    assert "ttft_median" in {one["metric"] for one in regressed}
    assert all(OLDER in one["notes"] for one in regressed)
    assert {point["series"] for point in found["change_points"]} == {f"chat/{one['metric']}" for one in regressed}
    assert {(point["version"], point["after"]) for point in found["change_points"]} == {("0.24.0", "0.19.1")}
    count = len(regressed)
    told = f"{count} of {count} regressions did not come with 0.32.0: already there in 0.24.0"
    assert found["warnings"].count(told) == 1


def test_the_decision_is_the_one_without_a_history(history, gate):
    """A loss is a loss, whoever made it."""
    beside = compared(history(SLOWER))
    assert gate("baseline", "prune", "v0.24.0", "--yes").code == 0
    alone = compared(gate)
    assert alone["change_points"] == []
    assert all(beside[key] == alone[key] for key in ("decision", "exit_code", "reasons", "advice"))
    assert beside["decision"] == "fail"


def test_a_step_of_the_candidates_own_is_said_to_be_its_own(history):
    found = compared(history(1.0))
    assert all(point["version"] == "0.32.0" and point["is_candidates"] for point in found["change_points"])
    notes = [one["notes"] for one in found["series"] if one["verdict"] == "regression"]
    assert notes
    assert all(OWN in each for each in notes)
    assert not any("did not come with" in warning for warning in found["warnings"])


@pytest.mark.parametrize("format_", ["table", "markdown"])
def test_a_reader_is_warned_once(history, format_):
    shown = history(SLOWER)("compare", "v0.19.1", "v0.32.0", "--format", format_)
    text = " ".join(shown.out.split())
    assert text.count(OLDER) == 1
    assert text.count("did not come with 0.32.0: already there in 0.24.0") == 1


def test_where_nothing_got_worse_the_history_is_not_reported(history):
    gate = history(SLOWER)
    found = gate("compare", "v0.24.0", "v0.32.0", "--format", "json").json
    assert found["change_points"] == []
    assert found["decision"] == "pass"


def test_a_single_run_is_placed_in_the_history_as_well(history):
    gate = history(SLOWER)
    text = gate("compare", "v0.19.1", "run:1", "--format", "json").json
    assert text["candidate"]["version"] == "0.32.0"
    assert {point["version"] for point in text["change_points"]} <= {"0.24.0"}


def test_another_testbeds_versions_are_no_part_of_the_history(gate):
    for version, speed in (("v0.32.0", SLOWER), ("v0.19.1", 1.0)):
        gate.import_starts(version, speed=speed)
    gate.import_starts("v0.24.0", speed=SLOWER, testbed="other")
    assert compared(gate, "--testbed", "lab")["change_points"] == []
