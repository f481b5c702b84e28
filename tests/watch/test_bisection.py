"""Runs of the store as evidence of a search: blocks in time, answers, and what does not count."""

from datetime import timedelta

import pytest

from regress_gate.errors import InputError
from regress_gate.model.run import Answer, BlockPosition, Outputs
from regress_gate.model.version import Version
from regress_gate.stats.bisection import NOTHING_KNOWN, Conclusion
from regress_gate.suites import load_suite
from regress_gate.watch.bisection import SearchedSeries, assess, collect_runs, find_series, known_noise
from regress_gate.watch.candidates import Candidate
from tests.factories.runs import NOW, make_run, make_trial

ROW = [Candidate(Version.parse(f"0.20.{patch}")) for patch in range(4)]
TTFT = SearchedSeries("c8", "ttft_median", "server")


def run(number, position, minute, ttft=0.1, **more):
    place = BlockPosition(f"e{number}", 1, 1, "single", seconds=60.0, resident=more.pop("resident", False))
    trial = make_trial(ttft_median=ttft)
    started = NOW + timedelta(minutes=minute)
    return make_run(str(number), str(ROW[position].version), trial, place=place, started=started, **more)


def test_an_end_begins_a_block_unless_it_follows_the_other_end():
    runs = [run(n, position, 3 * n) for n, position in enumerate([0, 3, 3, 0, 0, 1, 2, 3])]
    assert [each.block for each in collect_runs(runs, ROW, TTFT)] == [1, 1, 2, 2, 3, 3, 3, 4]


def test_a_run_that_begins_long_after_the_one_before_is_in_another_block():
    runs = [run(1, 0, 0), run(2, 1, 3), run(3, 2, 3 + 62), run(4, 1, 3 + 65)]
    assert [each.block for each in collect_runs(runs, ROW, TTFT)] == [1, 1, 2, 2]


def test_servers_that_shared_the_machine_and_other_builds_do_not_count():
    stranger = make_run("9", "0.19.0", started=NOW)
    assert collect_runs([run(1, 0, 0, resident=True), stranger], ROW, TTFT) == []


def test_throughput_that_falls_and_latency_that_rises_are_both_a_loss():
    runs = [run(1, 0, 0, 0.1), run(2, 3, 3, 0.2)]
    latency = [each.loss for each in collect_runs(runs, ROW, TTFT)]
    assert latency[1] > latency[0]
    better = [each.loss for each in collect_runs(runs, ROW, SearchedSeries("c8", "ttft_median", "server", True))]
    assert better[1] < better[0]
    slower = [make_run("3", "0.20.0", make_trial(output_throughput=900.0), started=NOW), runs[1]]
    rate = [each.loss for each in collect_runs(slower, ROW, SearchedSeries("c8", "output_throughput", "server"))]
    assert rate[0] > rate[1]


def test_answers_are_judged_by_those_of_the_good_end_and_those_by_each_other():
    def answered(number, position, minute, word):
        return run(number, position, minute, outputs=Outputs("short@1", (Answer("p", (word,), (-0.1,)),)))

    series = SearchedSeries("outputs", "accuracy_token_match", "server")
    assert collect_runs([answered(1, 0, 0, "a")], ROW, series) == []  # one answer has nothing to be like
    runs = [answered(n, position, 3 * n, "ab"[position > 1]) for n, position in enumerate([0, 0, 3, 1, 2])]
    collected = collect_runs(runs, ROW, series)
    assert [(each.position, each.value) for each in collected] == [(0, 1.0), (0, 1.0), (3, 0.0), (1, 1.0), (2, 0.0)]
    assert collected[2].loss > collected[0].loss


def test_the_noise_is_that_within_sessions_of_one_version():
    sessions = [make_run(f"{n}-{at}", "0.19.0", make_trial(ttft_median=level * (1 + 0.01 * at)),
                         place=BlockPosition(f"s{n}", 1, at, "single"))
                for n, level in enumerate((0.1, 0.5)) for at in (1, 2, 3)]  # fmt: skip
    known = known_noise(sessions, TTFT)
    assert known.freedom == 4
    assert known.variance**0.5 == pytest.approx(0.01, rel=0.1)
    assert known_noise([], TTFT) == NOTHING_KNOWN


def test_a_value_that_has_no_logarithm_is_refused():
    with pytest.raises(InputError, match="needs positive values"):
        collect_runs([run(1, 0, 0, 0.0)], ROW, TTFT)


def test_neighbours_that_are_found_are_the_answer():
    runs = [run(n, position, 3 * n, 0.1 if position < 2 else 0.2 + 0.001 * n)
            for n, position in enumerate([0, 3, 3, 0, 1, 2, 1, 2])]  # fmt: skip
    state = assess(ROW, TTFT, collect_runs(runs, ROW, TTFT), {}, NOTHING_KNOWN, NOW)
    assert (state.choice, state.place[:2]) == (Conclusion.FOUND, (1, 2))


def test_what_a_server_does_once_belongs_to_the_server_of_the_scenario():
    suite = load_suite("cpu-tiny")
    assert find_series(suite, "c4", "peak_memory").scenario == "server"
    assert find_series(suite, "c4", "tpot_median").scenario == "c4"
    assert find_series(suite, "c4", "accuracy_token_match").scenario == "outputs"
    with pytest.raises(InputError, match="has 7 scenarios; give --scenario: c1, c4"):
        find_series(suite, None, "tpot_median")
