"""Which runs count: one made under conditions beyond the limits is void, kept, and never averaged in; and what work is
the same on both sides.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.gate.sides import ComparisonSide, compare_sides, make_side, workload_difference
from regress_gate.model.run import BlockPosition, Conditions, Run
from regress_gate.model.suite import ConditionLimits
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from tests.factories.runs import make_run, make_trial

SMALL = Testbed("small", accelerator="cpu", cpu="x86-64", cpu_count=2, memory_bytes=2**34)


def void_reason(run: Run, limits: ConditionLimits | None = None) -> str | None:
    side = make_side(Version.parse("0.19.0"), [run], limits or ConditionLimits())
    assert [void.run for void in side.void] + list(side.counted) == [run] == list(side.runs)
    return side.void[0].reason if side.void else None


def under(testbed: Testbed = SMALL, **conditions: float) -> Run:
    return make_run(conditions=Conditions(**conditions), testbed=testbed)


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ({"gpu_throttled": 0.2}, "a GPU was throttled in 20.0% of the samples (limit 5.0%)"),
        ({"gpu_throttled": 0.05}, None),
        ({"gpu_other_processes": 1.0}, "1 other process on the GPUs (limit 0)"),
        ({"gpu_other_processes": 3.0}, "3 other processes on the GPUs (limit 0)"),
        ({"gpu_other_processes": 0.0}, None),
        ({"steal_cpu_cores": 0.3}, "0.30 CPU cores were taken away by the machine's host (limit 0.1)"),
        ({"steal_cpu_cores": 0.1}, None),
        ({"outside_cpu_cores": 1.5}, None),
        ({"gpu_clock_mhz": 300.0, "gpu_power_watts": 900.0, "gpu_temperature_celsius": 99.0}, None),
        ({}, None),
    ],
)
def test_what_a_suite_limits_without_saying_so(conditions: dict[str, float], reason: str | None) -> None:
    assert void_reason(under(**conditions)) == reason


def test_what_the_host_may_take_grows_with_the_machine() -> None:
    assert void_reason(under(replace(SMALL, cpu_count=16), steal_cpu_cores=0.3)) is None
    reason = void_reason(under(replace(SMALL, cpu_count=None), steal_cpu_cores=0.3))
    assert reason is not None  # an unknown machine counts as the smallest


def test_a_suites_own_limits_go_before() -> None:
    limits = ConditionLimits(max_steal_cpu_cores=1.0, max_gpu_throttled=None, max_gpu_other_processes=2)
    assert void_reason(under(steal_cpu_cores=0.9, gpu_throttled=1.0, gpu_other_processes=2.0), limits) is None
    assert void_reason(under(steal_cpu_cores=1.1), limits) is not None
    assert void_reason(under(gpu_other_processes=3.0), limits) is not None


def test_all_reasons_are_reported() -> None:
    limits = ConditionLimits(max_outside_cpu_cores=0.1)
    run = under(outside_cpu_cores=0.5, steal_cpu_cores=0.5, gpu_throttled=0.5, gpu_other_processes=2.0)
    reason = void_reason(run, limits)
    assert reason is not None
    assert reason.split("; ") == [
        "0.50 CPU cores were kept busy by other processes (limit 0.1)",
        "0.50 CPU cores were taken away by the machine's host (limit 0.1)",
        "a GPU was throttled in 50.0% of the samples (limit 5.0%)",
        "2 other processes on the GPUs (limit 0)",
    ]


def test_a_run_is_judged_by_its_worst_trial_whatever_its_average_says() -> None:
    trials = [replace(make_trial(ordinal=n), conditions=Conditions(gpu_throttled=0.1 * n)) for n in (1, 2)]
    assert void_reason(make_run("1", "0.19.0", *trials)) == "a GPU was throttled in 20.0% of the samples (limit 5.0%)"
    told = void_reason(make_run("1", "0.19.0", *trials, conditions=Conditions(gpu_throttled=0.01)))
    assert told == "a GPU was throttled in 20.0% of the samples (limit 5.0%)"


def test_a_run_that_does_not_say_counts_beside_one_that_does() -> None:
    runs = [under(gpu_throttled=0.0, gpu_other_processes=0.0, steal_cpu_cores=0.0), make_run("imported")]
    assert len(make_side(Version.parse("0.19.0"), runs, ConditionLimits()).counted) == 2


VALUES = st.none() | st.floats(0, 2)


@given(
    st.lists(st.builds(Conditions, VALUES, VALUES, VALUES, gpu_other_processes=VALUES), max_size=5),
    st.builds(ConditionLimits, max_outside_cpu_cores=VALUES, max_steal_cpu_cores=VALUES),
)
def test_every_run_either_counts_or_is_void_with_a_reason(
    conditions: list[Conditions], limits: ConditionLimits
) -> None:
    runs = [make_run(str(n), conditions=each) for n, each in enumerate(conditions)]
    side = make_side(Version.parse("0.19.0"), runs, limits)
    assert sorted([*side.counted, *(void.run for void in side.void)], key=lambda run: run.label) == runs
    assert all(void.reason for void in side.void)


@pytest.mark.parametrize(
    ("baseline", "candidate", "difference"),
    [
        ({}, {}, None),
        ({"definitions": "guidellm"}, {"definitions": "guidellm"}, None),
        ({}, {"definitions": "guidellm"}, "its numbers are defined differently: vLLM's own → guidellm (its time per"),
        ({"definitions": "aiperf"}, {"definitions": "guidellm"}, "its numbers are defined differently: aiperf"),
        ({}, {"definitions": "vllm-bench-0.20"}, None),  # which release the first was, nobody said
        ({"definitions": "vllm-bench-0.15"}, {"definitions": "vllm-bench-0.20"}, "its numbers are defined differently"),
        ({"batch_size": 8}, {"batch_size": 16}, "batch_size differs: 8 → 16"),
        ({"dataset_sha256": "a1"}, {"dataset_sha256": "b2"}, "the file of recorded prompts differs: SHA-256 a1 → b2"),
        ({"dataset_sha256": "a1"}, {}, None),  # which file the imported side sent, nobody said
    ],
)
def test_results_of_different_definitions_or_workloads_are_not_the_same_work(
    baseline: dict[str, object], candidate: dict[str, object], difference: str | None
) -> None:
    found = workload_difference([make_trial(workload=baseline)], [make_trial(workload=candidate)])
    assert (found or "").startswith(difference or "")
    assert (found is None) == (difference is None)


@pytest.mark.parametrize(("ordinal", "says"), [(1, "trial 1 did not send the same prompts"), (2, "")])
def test_the_same_trial_sends_the_same_recorded_prompts_on_both_sides(ordinal: int, says: str) -> None:
    """Other trials send others."""
    baseline = make_trial(workload={"prompts_sha256": "a1"})
    candidate = replace(make_trial(workload={"prompts_sha256": "b2"}), ordinal=ordinal)
    assert (workload_difference([baseline], [candidate]) or "").startswith(says)
    assert bool(workload_difference([baseline], [candidate])) == bool(says)


def test_two_files_of_recorded_prompts_on_each_side_are_no_common_work() -> None:
    """As after an experiment that was resumed with another file: either side may have more runs of the one."""
    sides = [make_trial(workload={"dataset_sha256": sha}) for sha in ("a1", "b2")]
    assert workload_difference(sides, sides) == "the file of recorded prompts differs: SHA-256 a1, b2 → a1, b2"


@pytest.mark.parametrize(
    ("baseline", "candidate", "difference"),
    [
        (None, None, None),
        (1410, 1410, None),
        (None, 1410, "clocks of the GPUs: not locked → locked to 1410 MHz"),
        (1980, 1410, "clocks of the GPUs: locked to 1980 MHz → locked to 1410 MHz"),
    ],
)
def test_runs_with_other_clocks_are_not_compared(
    baseline: int | None, candidate: int | None, difference: str | None
) -> None:
    def side(version: str, mhz: int | None) -> ComparisonSide:
        place = BlockPosition("e1", 1, 1, "single", locked_clock_mhz=mhz)
        run = replace(under(), version=Version.parse(version), place=place)
        return make_side(run.version, [run], ConditionLimits())

    found = compare_sides(side("0.19.0", baseline), side("0.19.1", candidate), ConditionLimits())
    assert found.comparable == (difference is None)
    assert [str(one) for one in found.differences] == ([] if difference is None else [difference])
