from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.bench.load.load_workload import (
    FIRST_TOKEN,
    LAST_TOKEN,
    Arrival,
    LoadWorkload,
    RequestSlo,
    arrival_times,
    measured_prompts,
    shuffled_order,
    warmup_prompts,
)
from regress_gate.errors import InputError

GAMMA_TIMES = [0.0, 0.19657615036, 0.24471462575, 0.30516529135, 0.3921306577, 0.5466269532]
ON_OFF_TIMES = [0.0, 0.061265193, 0.087159246, 0.416744108, 0.453506582, 0.805994065]


def workload(**changes) -> LoadWorkload:
    return LoadWorkload(**{"input_len": 32, "output_len": 8, "num_requests": 6, **changes})


def test_the_order_of_recorded_prompts_is_this_for_ever():
    assert shuffled_order(workload(seed=7), "c4", 10) == [5, 3, 7, 6, 2, 0, 8, 1, 9, 4]


def test_the_tokens_of_a_seed_are_these_for_ever():
    assert measured_prompts(workload(input_len=4, num_requests=2), "chat", 1) == [
        [3037, 4853, 9387, 3327],
        [4201, 4371, 3069, 2099],
    ]


@given(st.integers(0, 2**31), st.integers(1, 200), st.integers(1, 20))
def test_prompts_have_the_asked_length_and_tokens_of_every_vocabulary(seed, input_len, num_requests):
    made = measured_prompts(workload(seed=seed, input_len=input_len, num_requests=num_requests), "chat", 1)
    assert [len(prompt) for prompt in made] == [input_len] * num_requests
    assert all(FIRST_TOKEN <= token <= LAST_TOKEN for prompt in made for token in prompt)


def test_same_seed_same_prompts():
    assert measured_prompts(workload(seed=3), "chat", 2) == measured_prompts(workload(seed=3), "chat", 2)


@pytest.mark.parametrize(
    ("seed", "scenario", "ordinal"), [(4, "chat", 1), (3, "code", 1), (3, "chat", 2)], ids=["seed", "scenario", "pass"]
)
def test_another_seed_scenario_or_pass_has_no_prompt_in_common(seed, scenario, ordinal):
    first, other = (
        measured_prompts(workload(seed=3), "chat", 1),
        measured_prompts(workload(seed=seed), scenario, ordinal),
    )
    assert not {tuple(prompt[:8]) for prompt in first} & {tuple(prompt[:8]) for prompt in other}


def test_more_requests_leave_the_first_ones_as_they_were():
    assert measured_prompts(workload(num_requests=9), "chat", 1)[:6] == measured_prompts(workload(), "chat", 1)


def test_prompts_share_the_prefix_and_nothing_more():
    made = workload(prefix_len=20, warmup_requests=3)
    every = measured_prompts(made, "chat", 1) + warmup_prompts(made, "chat", 1)
    assert len({tuple(prompt[:20]) for prompt in every}) == 1
    assert len({tuple(prompt[20:24]) for prompt in every}) == 9


def test_constant_arrivals_are_evenly_spaced():
    assert list(arrival_times(workload(request_rate=4.0, arrival=Arrival.CONSTANT), "chat", 1)) == [
        0.0,
        0.25,
        0.5,
        0.75,
        1.0,
        1.25,
    ]


def test_poisson_arrivals_have_the_asked_rate_and_the_spread_of_chance():
    times = arrival_times(workload(request_rate=50.0, num_requests=4001), "chat", 1)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    spread = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert mean == pytest.approx(1 / 50, rel=0.05)
    assert spread == pytest.approx(mean, rel=0.1)
    assert times == arrival_times(workload(request_rate=50.0, num_requests=4001), "chat", 1)


def gaps_of(**changes) -> np.ndarray:
    return np.diff(arrival_times(workload(request_rate=50.0, num_requests=4001, **changes), "chat", 1))


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_gamma_arrivals_have_the_asked_rate_and_scatter_as_their_burstiness_says(burstiness):
    gaps = gaps_of(arrival=Arrival.GAMMA, burstiness=burstiness)
    assert gaps.mean() == pytest.approx(1 / 50, rel=0.1)
    assert gaps.std() / gaps.mean() == pytest.approx(burstiness**-0.5, rel=0.1)
    assert gaps.min() >= 0


def test_a_burstiness_of_one_is_poisson():
    assert gaps_of(arrival=Arrival.GAMMA, burstiness=1.0) == pytest.approx(gaps_of(), rel=1e-6, abs=1e-9)


def test_the_bursts_of_a_seed_are_these_for_ever():
    times = arrival_times(workload(request_rate=4.0, arrival=Arrival.GAMMA, burstiness=0.5, seed=7), "chat", 1)
    assert times == pytest.approx(GAMMA_TIMES)
    times = arrival_times(workload(request_rate=4.0, arrival=Arrival.ON_OFF, phases=(0.1, 0.3), seed=7), "chat", 1)
    assert times == pytest.approx(ON_OFF_TIMES)


def test_on_off_arrivals_have_the_asked_rate_and_none_while_they_are_off():
    how = {"request_rate": 50.0, "num_requests": 4001, "arrival": Arrival.ON_OFF, "phases": (2.0, 8.0)}
    times = np.array(arrival_times(workload(**how), "chat", 1))
    assert (np.diff(times) >= 0).all()
    assert (times % 10.0).max() <= 2.0
    assert len(times) / times[-1] == pytest.approx(50.0, rel=0.15)
    cycles = np.bincount((times // 10).astype(int))[:-1]
    assert cycles.mean() == pytest.approx(500, rel=0.1)


@pytest.mark.parametrize(
    "changes",
    [
        {"input_len": 0},
        {"output_len": 0},
        {"num_requests": 0},
        {"concurrency": 0},
        {"request_rate": 0.0},
        {"request_rate": float("inf")},
        {"prefix_len": 32},
        {"prefix_len": -1},
        {"warmup_requests": -1},
    ],
)
def test_an_impossible_workload_is_refused(changes):
    with pytest.raises(InputError, match=next(iter(changes))):
        workload(**changes)


def test_an_impossible_slo_is_refused():
    with pytest.raises(InputError, match="ttft"):
        RequestSlo(ttft=0.0)
