"""From two servers to a verdict on their answers."""

import pytest

from regress_gate.bench.fixed_prompts import collect_outputs
from regress_gate.model.policy import Policy
from regress_gate.model.result import Decision, ReasonCode
from tests.factories.runs import make_run, make_side_of
from tests.gate.deciding import decide_sides

POLICY = Policy(metrics=("accuracy_*",))


def side(version, url):
    """Three runs' worth of answers; the fake server has nothing that would change with its start."""
    runs = []
    for label in "123":
        got = collect_outputs(url, "tiny")
        assert got.outputs is not None
        runs.append(make_run(label, version, outputs=got.outputs))
    return make_side_of(version, *runs)


@pytest.fixture
def decide(fake_vllm):
    def decided(*flags):
        baseline = side("0.19.0", fake_vllm("--served-model-name", "tiny"))
        candidate = side("0.19.1", fake_vllm("--served-model-name", "tiny", *flags))
        return decide_sides(baseline, candidate, policy=POLICY)

    return decided


def test_the_same_answers_pass(decide):
    result = decide()
    assert result.decision is Decision.PASS
    assert [series.name for series in result.series if series.scenario == "outputs"] == [
        "outputs/accuracy_agreement",
        "outputs/accuracy_logprob",
        "outputs/accuracy_prompt_match",
        "outputs/accuracy_token_match",
    ]
    assert {series.candidate.mean for series in result.series if series.scenario == "outputs"} == {1.0}


def test_other_tokens_fail_and_their_place_is_named(decide):
    result = decide("--output-noise", "0.5")
    assert result.decision is Decision.FAIL
    assert "outputs/accuracy_agreement" in {
        reason.series for reason in result.reasons if reason.code is ReasonCode.REGRESSION
    }
    notes = next(series.notes for series in result.series if series.metric == "accuracy_prompt_match")
    assert "of 16 prompts get an answer that no baseline run gave" in notes[0]


def test_drifted_log_probabilities_fail_although_every_token_is_the_same(decide):
    result = decide("--logprob-drift", "0.5")
    assert result.decision is Decision.FAIL
    assert {reason.series for reason in result.reasons} == {"outputs/accuracy_logprob"}
