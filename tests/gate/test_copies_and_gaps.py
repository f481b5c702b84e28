"""Which runs a decision may not rest on, and which series gate: copies, repeats, survivors, stand-ins."""

import pytest

from regress_gate.gate.replicates import open_blocks
from regress_gate.model.policy import Policy
from regress_gate.model.run import BlockPosition
from tests.factories.runs import make_run, make_side_of, make_trial
from tests.gate.deciding import decide_sides

POLICY = Policy()


def exact(number: int, version: str) -> float:
    return 0.1 * (1 + 0.003 * (number * 7 % 5)) + 1e-9 * (number + (50 if version == "0.20.0" else 0)) + 1.23456e-7


def runs_of(version, numbers, **more):
    return [
        make_run(
            str(n), version, make_trial(ttft_median=exact(n, version), output_throughput=10 / exact(n, version), **more)
        )
        for n in numbers
    ]


def codes(result):
    return [reason.code for reason in result.reasons]


def test_runs_of_their_own_are_decided():
    result = decide_sides(
        make_side_of("0.19.0", *runs_of("0.19.0", range(6))),
        make_side_of("0.20.0", *runs_of("0.20.0", range(6))),
        policy=POLICY,
    )
    assert result.decision == "pass"


def test_the_baselines_runs_under_the_candidates_version_decide_nothing():
    base = runs_of("0.19.0", range(6))
    copies = [make_run(run.label, "0.20.0", *run.trials) for run in base]
    result = decide_sides(make_side_of("0.19.0", *base), make_side_of("0.20.0", *copies), policy=POLICY)
    assert result.decision == "inconclusive"
    assert codes(result) == ["copied_runs"]
    assert result.reasons[0].text.startswith("6 runs of 0.20.0 have the numbers of 0.19.0's to the last digit (0 = 0")
    assert "copies" in result.advice


def test_one_copy_among_real_runs_does_not_pass_either():
    base, cand = runs_of("0.19.0", range(6)), runs_of("0.20.0", range(6))
    copy = make_run("copy", "0.20.0", *base[0].trials)
    result = decide_sides(make_side_of("0.19.0", *base), make_side_of("0.20.0", *cand, copy), policy=POLICY)
    assert result.decision == "inconclusive"
    assert "copied_runs" in codes(result)
    assert (result.baseline.runs, result.candidate.runs) == (5, 6)


def test_honest_ties_are_no_copies():
    def coarse(version):
        return [make_run(str(n), version, make_trial(ttft_median=0.1, output_throughput=1000.0)) for n in range(6)]

    result = decide_sides(
        make_side_of("0.19.0", *coarse("0.19.0")), make_side_of("0.20.0", *coarse("0.20.0")), policy=POLICY
    )
    assert result.decision == "pass"


def test_runs_that_share_a_measurement_are_one_server_start():
    """As a store has them into which each state of a growing file was imported as a run of its own."""
    trials = [make_trial(ordinal=n + 1, ttft_median=exact(n, "0.19.0")) for n in range(5)]
    side = make_side_of(
        "0.19.0",
        *(make_run(str(n), "0.19.0", *trials[:n]) for n in range(1, 6)),
        make_run("other", "0.19.0", make_trial(ttft_median=0.11234567891)),
    )
    assert [run.label for run in side.counted] == ["5", "other"]
    assert {void.reason for void in side.void} == {"the same server start as 5, which has its results"}


@pytest.mark.parametrize(("given", "is_enough"), [(6, True), (5, True), (4, False), (2, False), (1, False)])
def test_what_most_candidate_runs_lack_decides_nothing(given, is_enough):
    def runs(version, having):
        return [
            make_run(
                str(n),
                version,
                make_trial("c1", ttft_median=exact(n, version)),
                *([make_trial("c256", ttft_median=2 * exact(n, version))] if n < having else []),
            )
            for n in range(6)
        ]

    result = decide_sides(
        make_side_of("0.19.0", *runs("0.19.0", 6)), make_side_of("0.20.0", *runs("0.20.0", given)), policy=POLICY
    )
    assert ("missing_series" in codes(result)) is not is_enough
    assert result.decision == ("pass" if is_enough else "inconclusive")


def test_several_series_that_most_runs_lack_are_counted_in_words_that_exist():
    def runs(version, having):
        return [
            make_run(
                str(n),
                version,
                make_trial("c1", ttft_median=exact(n, version)),
                *(
                    [make_trial("c256", ttft_median=exact(n, version), tpot_median=exact(n, version))]
                    if n < having
                    else []
                ),
            )
            for n in range(6)
        ]

    policy = Policy(metrics=("ttft_median", "tpot_median"))
    result = decide_sides(
        make_side_of("0.19.0", *runs("0.19.0", 6)), make_side_of("0.20.0", *runs("0.20.0", 2)), policy=policy
    )
    (text,) = [reason.text for reason in result.reasons if reason.code == "missing_series"]
    assert text.startswith("2 gated series of c256 (tpot_median, ttft_median) are in only 2 of 6 runs")


def test_survivors_that_are_worse_still_fail():
    def runs(version, having, speed):
        return [
            make_run(
                str(n),
                version,
                make_trial("c1", ttft_median=exact(n, version)),
                *([make_trial("c256", ttft_median=speed * exact(n, version))] if n < having else []),
            )
            for n in range(6)
        ]

    result = decide_sides(
        make_side_of("0.19.0", *runs("0.19.0", 6, 1)), make_side_of("0.20.0", *runs("0.20.0", 3, 2)), policy=POLICY
    )
    assert result.decision == "fail"


@pytest.mark.parametrize(
    ("measured", "gating"),
    [
        ({"ttft_mean", "ttft_median"}, {"ttft_median"}),
        ({"ttft_mean"}, {"ttft_mean"}),
        ({"ttft_p95", "ttft_mean"}, {"ttft_mean"}),
        ({"tpot_mean", "itl_median"}, {"tpot_mean"}),
        ({"tpot_median", "itl_median"}, {"tpot_median"}),
        ({"e2el_mean", "normalized_latency_median"}, {"normalized_latency_median"}),
        ({"request_throughput", "total_throughput"}, {"request_throughput"}),
        ({"request_throughput", "output_throughput"}, {"output_throughput"}),
        ({"batch_throughput", "request_throughput"}, {"batch_throughput"}),
        ({"unclear_tpot_mean"}, set()),
    ],
)
def test_what_gates_by_default_where_a_result_has_little(measured, gating):
    assert POLICY.gating_metrics(measured) == gating


def test_what_was_named_gates_and_nothing_stands_in():
    assert Policy(metrics=("ttft_median",)).gating_metrics({"ttft_mean", "request_throughput"}) == set()


def test_percentiles_of_too_few_requests_do_not_keep_a_mean_out():
    assert POLICY.gating_metrics({"ttft_p99", "ttft_mean"}, {"ttft_p99"}) == {"ttft_mean"}


def test_blocks_are_open_until_every_side_has_a_run():
    def run(block, side, experiment="e"):
        return make_run(f"{block}{side}", place=BlockPosition(experiment, block, 1, side))

    runs = [run(1, "baseline"), run(1, "candidate"), run(2, "baseline"), run(1, "baseline", "finished")]
    assert open_blocks(runs, {"e": ("baseline", "candidate")}) == {("e", 2, "server", "bench-1")}
    assert open_blocks([run(1, "single")], {"e": ("single",)}) == set()
