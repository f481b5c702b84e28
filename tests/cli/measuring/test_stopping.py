"""`compare --measure` looks after every block: it stops as soon as the answer stands, and says what it saw."""

import signal

import pytest

from regress_gate.store.repository import find_store
from tests.cli.measuring.test_interrupted import read_until

STEADY = ("--ttft=0.01", "--tpot=0.006", "--whole-at-once", "--run-spread=0.01")


@pytest.fixture(autouse=True)
def nothing_is_left_running(lab):
    yield
    assert lab.servers() == []


def measure(lab, *options, runs=6):
    outcome = lab("compare", "v0.19.0", "v0.19.1", "--measure", "--runs", runs, "--format", "json", *options)
    assert outcome.out, outcome
    return outcome


def blocks(lab):
    return sorted({run.place.block for run in lab.runs()})


def looks(outcome):
    """What was said of the blocks: all lines but those on single runs."""
    return [line for line in outcome.err.splitlines() if " block " in line and not line.startswith("run:")]


@pytest.fixture
def slow(lab):
    """A candidate that needs twice the time a token, at a run-to-run spread of one per cent."""
    lab.simulate_load()
    lab.write_suite(requests=24, warmup=0, tokens=12, margin=0.05)
    lab.behave({"0.19.1": ["--tpot=0.012"]}, usual=STEADY)


@pytest.fixture
def unsteady(lab):
    """Two versions alike, of which one run is twice as fast as another."""
    lab.simulate_load()
    lab.write_suite(requests=4, warmup=0, tokens=12, margin=0.02)
    lab.behave({}, usual=("--ttft=0.005", "--tpot=0.004", "--whole-at-once", "--run-spread=0.7"))


@pytest.mark.usefixtures("slow")
def test_a_plain_regression_ends_it_and_how_many_blocks_were_allowed_for_goes_with_the_runs(lab):
    outcome = measure(lab)
    assert (outcome.code, outcome.json["decision"]) == (1, "fail"), outcome
    made = len(blocks(lab))
    assert 2 <= made < 6
    assert outcome.json["baseline"]["runs"] == outcome.json["candidate"]["runs"] == made
    assert looks(outcome)[-1] == f"stopped after block {made} of at most 6: c4/tpot_median is worse"
    assert {run.place.most_blocks for run in lab.runs()} == {6}
    exported = lab.gate.directory / "exported"
    assert lab.gate("baseline", "export", "--to", exported).code == 0
    elsewhere = f"sqlite:///{lab.gate.directory / 'elsewhere.db'}"
    assert lab.gate("baseline", "import", *exported.iterdir(), "--store", elsewhere).code == 0
    with find_store(elsewhere) as store:
        assert {run.place.most_blocks for run in store.runs()} == {6}, "it does not go with the runs"


@pytest.mark.slow
def test_no_change_ends_it_as_soon_as_all_series_are_within_wide_margins(lab):
    lab.simulate_load()
    lab.write_suite(requests=24, warmup=0, tokens=12, margin=0.5)
    lab.behave({}, usual=STEADY)
    outcome = measure(lab)
    assert (outcome.code, outcome.json["decision"]) == (0, "pass"), outcome
    made = len(blocks(lab))
    assert 2 <= made < 6
    assert looks(outcome)[-1] == f"stopped after block {made} of at most 6: all 2 gated series are within their margins"

    again = measure(lab)
    assert (again.code, again.json["decision"]) == (0, "pass")
    assert f"{made} blocks are stored: all 2 gated series are within their margins; nothing was measured" in again.err
    assert blocks(lab) == list(range(1, made + 1))

    planned = lab("compare", "0.19.0", "0.19.1", "--plan", "--runs", 6)
    assert f"runs  {made} a side are stored: nothing is missing" in planned.out


@pytest.mark.usefixtures("unsteady")
def test_where_no_block_would_decide_it_says_so_and_stops(lab):
    outcome = measure(lab, runs=8)
    assert (outcome.code, outcome.json["decision"]) == (3, "inconclusive"), outcome
    made = len(blocks(lab))
    assert 2 <= made < 8
    *going_on, last = looks(outcome)
    # The other gated series is the failed requests: none on either side, which is within its margin.
    why = "c4/tpot_median cannot be shown within its margin with 8 blocks"
    assert last.startswith(f"stopped after block {made} of at most 8: {why}"), last
    for number, line in enumerate(going_on, 2):
        assert line.startswith(f"after block {number} of at most 8: 1 of 2 gated series undecided, going on (about ")


@pytest.mark.usefixtures("slow")
def test_all_blocks_are_made_on_request_and_analysed_once(lab):
    outcome = measure(lab, "--all-blocks", runs=3)
    assert outcome.json["decision"] == "fail"
    assert looks(outcome) == []
    assert [(run.place.block, run.place.most_blocks) for run in lab.runs()] == [
        (block, None) for block in (1, 1, 2, 2, 3, 3)
    ]


def test_an_experiment_that_goes_on_keeps_its_plan(lab):
    with lab.start("compare", "0.19.0", "0.19.1", "--measure", "--runs", 3) as process:
        read_until(process, "run:3 ")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    refused = lab("compare", "0.19.0", "0.19.1", "--measure", "--resume", "--runs", 4)
    assert (refused.code, "--runs differs from the experiment" in refused.err) == (2, True)
    lab("compare", "0.19.0", "0.19.1", "--measure", "--resume", "--all-blocks")
    assert {run.place.most_blocks for run in lab.runs()} == {3}
    assert blocks(lab) == [1, 2, 3]


def test_in_ci_an_experiment_begins_and_a_cancelled_one_goes_on_with_the_same_command(lab):
    command = ("compare", "0.19.0", "0.19.1", "--measure", "--resume-if-any", "--all-blocks")
    with lab.start(*command, "--runs", 2) as process:
        read_until(process, "run:3 ")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    begun = {run.place.experiment for run in lab.runs()}
    assert lab(*command).code in (0, 3)
    assert {run.place.experiment for run in lab.runs()} == begun
    assert blocks(lab) == [1, 2]


def test_all_blocks_is_nothing_to_ask_of_stored_runs_or_of_servers_that_run_already(lab):
    outcome = lab.gate("compare", "0.19.0", "0.19.1", "--all-blocks")
    assert (outcome.code, outcome.error) == (2, "--all-blocks is for measuring; give --measure too")
    servers = ("--url", "http://127.0.0.1:1", "--url", "http://127.0.0.1:2")
    outcome = lab.gate("compare", "0.19.0", "0.19.1", "--measure", *servers, "--all-blocks")
    assert (outcome.code, outcome.error) == (2, "a server that already runs is one run; leave --all-blocks out")
