"""Whether two versions give the same answers: drift, breakage and missing answers."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.gate.accuracy import (
    SCORES,
    OutputComparison,
    agreement,
    compare_outputs,
    logprob,
    prompt_match,
    token_match,
)
from regress_gate.model.policy import Policy
from regress_gate.model.result import Decision, ReasonCode, Verdict
from regress_gate.model.run import Answer, BlockPosition, Outputs
from tests.factories.runs import make_run, make_side_of
from tests.gate.deciding import decide_sides

TOKENS = ("a", "b", "c", "d")
GATED = ("accuracy_agreement", "accuracy_logprob")
POLICY = Policy(metrics=("failed_requests", *GATED), margins={"failed_requests": 0.02})


def answer(prompt="p1", tokens=TOKENS, *, logprobs=-0.5, prompt_logprobs=(-2.0, -3.0), tie=0.1, **changes):
    """An answer whose every token was `tie` nats likelier than the token "x"."""
    made = Answer(
        prompt=prompt,
        tokens=tuple(tokens),
        logprobs=(logprobs,) * len(tokens),
        prompt_logprobs=tuple(prompt_logprobs),
        prompt_tokens=("t",) * len(prompt_logprobs),
        alternatives=tuple({token: logprobs, "x": logprobs - tie, "y": logprobs - 2.0} for token in tokens),
    )
    return replace(made, **changes)


def failed(prompt="p1", why="HTTP 500"):
    return Answer(prompt, (), (), error=why)


def outputs(*answers, prompt_set="sanity@1"):
    return Outputs(prompt_set, answers)


def steady(count=16, **differing):
    """Answers to p1, p2, …; `differing` replaces some by prompt."""
    return outputs(*(differing.get(name, answer(name)) for name in (f"p{n}" for n in range(1, count + 1))))


def runs(version, *collected):
    return [make_run(str(n), version, outputs=each) for n, each in enumerate(collected, 1)]


def compared(baseline, candidate):
    found = compare_outputs(runs("0.19.0", *baseline), runs("0.19.1", *candidate))
    return found.get("outputs", OutputComparison())


def decide(baseline, candidate, policy=POLICY):
    return decide_sides(
        make_side_of("0.19.0", *runs("0.19.0", *baseline)),
        make_side_of("0.19.1", *runs("0.19.1", *candidate)),
        policy=policy,
    )


def series_of(result, name):
    return next(series for series in result.series if series.name == f"outputs/{name}")


class TestScores:
    def test_equal_answers_score_one_in_everything(self):
        assert {name: score(answer(), answer()) for name, score in SCORES.items()} == dict.fromkeys(SCORES, 1.0)

    @pytest.mark.parametrize(
        ("tokens", "same", "share"),
        [("axyz", 0.0, 0.25), ("xbcd", 0.0, 0.0), ("abc", 0.0, 0.75), ("abcde", 0.0, 0.8), ("abcd", 1.0, 1.0)],
    )
    def test_tokens_count_up_to_the_first_that_differs(self, tokens, same, share):
        assert prompt_match(answer(), answer(tokens=tokens)) == same
        assert token_match(answer(), answer(tokens=tokens)) == share

    def test_a_near_tie_that_is_broken_otherwise_costs_little(self):
        assert agreement(answer(), answer(tokens="abxx")) == pytest.approx(math.exp(-0.1))

    def test_the_reference_is_asked_and_not_the_answer(self):
        confident = answer(tokens="abxx", alternatives=tuple({token: 0.0} for token in "abxx"))
        assert agreement(answer(), confident) == pytest.approx(math.exp(-0.1))

    def test_a_choice_that_the_reference_finds_better_than_its_own_is_no_more_than_agreement(self):
        assert agreement(answer(tie=-0.2), answer(tokens="abxx")) == 1.0

    def test_a_token_that_was_not_among_the_likeliest_costs_everything(self):
        assert agreement(answer(), answer(tokens="abzz")) == 0.0

    @pytest.mark.parametrize("tokens", ["abc", "abcde"])
    def test_an_answer_of_another_length_is_no_tie(self, tokens):
        assert agreement(answer(), answer(tokens=tokens)) == 0.0

    def test_without_alternatives_even_an_equal_answer_says_nothing(self):
        assert agreement(answer(alternatives=()), answer()) is None

    def test_drift_is_the_mean_over_the_prompt_and_the_common_part(self):
        drifted = answer(tokens="abzz", logprobs=-0.6, prompt_logprobs=(-2.3, -3.0))
        assert logprob(answer(), drifted) == pytest.approx(math.exp(-(0.3 + 0.0 + 0.1 + 0.1) / 4))

    def test_no_number_on_one_side_is_the_largest_drift_and_on_both_sides_none(self):
        broken = answer(prompt_logprobs=(None, None))
        broken = replace(broken, logprobs=(None,) * len(TOKENS))
        assert logprob(answer(), broken) == pytest.approx(math.exp(-10))
        assert logprob(broken, broken) is None

    def test_an_impossible_token_drifts_no_further_than_any_other(self):
        assert logprob(answer(), answer(logprobs=-9999.0)) == pytest.approx(math.exp(-10 * 4 / 6))

    def test_another_tokenizer_is_not_the_same_prompt(self):
        assert logprob(answer(), answer(prompt_tokens=("t", "u"))) == 0.0
        assert logprob(answer(), answer(prompt_logprobs=(-2.0,))) == 0.0

    def test_an_answer_without_numbers_beside_one_with_them_agrees_in_nothing(self):
        assert logprob(answer(), Answer("p1", TOKENS, ())) == 0.0


class TestRunLevelValues:
    def test_a_baseline_run_is_held_against_the_others_and_not_itself(self):
        odd = steady(2, p1=answer(tokens="zzzz"))
        found = compared([steady(2), steady(2), odd], [steady(2)])
        assert found.baseline["accuracy_prompt_match"] == pytest.approx([0.75, 0.75, 0.5])
        assert found.candidate["accuracy_prompt_match"] == pytest.approx([(1 + 2 / 3) / 2])

    def test_a_candidate_run_is_worth_what_the_same_run_of_the_baseline_would_be(self):
        rng = random.Random(3)
        drawn = [steady(4, p1=answer(tokens=rng.choice(["abcd", "abxx"]))) for _ in range(8)]
        for at, run in enumerate(drawn):
            rest = [*drawn[:at], *drawn[at + 1 :]]
            as_baseline = compared(drawn, [steady(4)]).baseline
            as_candidate = compared(rest, [run]).candidate
            assert {name: values[at] for name, values in as_baseline.items()} == pytest.approx(
                {name: values[0] for name, values in as_candidate.items()}
            )

    def test_a_failed_answer_scores_zero_where_the_baseline_answered(self):
        found = compared([steady(4), steady(4)], [steady(4, p2=failed("p2"))])
        assert found.candidate == {name: [0.75] for name in SCORES}

    def test_a_prompt_that_was_not_asked_scores_zero(self):
        found = compared([steady(4), steady(4)], [steady(3)])
        assert found.candidate == {name: [0.75] for name in SCORES}

    def test_what_the_baseline_does_not_answer_is_no_question(self):
        broken = steady(4, p2=failed("p2"))
        found = compared([broken, broken], [steady(4), broken])
        assert found.candidate == {name: [1.0, 1.0] for name in SCORES}

    def test_a_server_without_logprobs_misses_those_metrics_and_does_not_fail_them(self):
        bare = outputs(*(Answer(f"p{n}", TOKENS, ()) for n in range(1, 5)))
        without = compared([bare, bare], [bare])
        assert set(without.candidate) == {"accuracy_prompt_match", "accuracy_token_match"}
        assert "the baseline has no log-probabilities" in without.notes["accuracy_prompt_match"][0]
        found = compared([steady(4), steady(4)], [bare])
        assert set(found.baseline) - set(found.candidate) == {"accuracy_logprob"}

    def test_answers_of_differently_configured_servers_are_compared_apart(self):
        def place(group):
            return BlockPosition("e", block=1, position=1, side="single", group=group)

        def side(version, **changes):
            collected = {"server-c1": steady(), "server-c8": steady(**changes)}
            return [
                make_run(f"{n}/{group}", version, outputs=each, place=place(group))
                for n in range(3)
                for group, each in collected.items()
            ]

        found = compare_outputs(side("0.19.0"), side("0.19.1", p1=answer("p1", "zzzz")))
        assert {scenario: each.candidate["accuracy_agreement"] for scenario, each in found.items()} == {
            "outputs-c1": [1.0] * 3,
            "outputs-c8": [15 / 16] * 3,
        }
        assert found["outputs-c8"].baseline["accuracy_agreement"] == [1.0] * 3

    def test_runs_without_answers_take_no_part(self):
        assert compared([None], [None]).baseline == {}
        assert len(compared([steady(), None, steady()], [steady()]).baseline["accuracy_logprob"]) == 2

    @given(st.data())
    def test_whatever_the_answers_are_every_value_is_from_zero_to_one(self, data):
        number = st.none() | st.floats(allow_nan=False, allow_infinity=False)
        short = st.lists(number, max_size=3).map(tuple)
        names = st.lists(st.sampled_from("abx"), max_size=3).map(tuple)
        likeliest = st.dictionaries(st.sampled_from("abx"), st.floats(allow_nan=False, allow_infinity=False))
        drawn = st.builds(
            Answer,
            st.sampled_from(["p1", "p2"]),
            names,
            short,
            short,
            names,
            st.lists(likeliest, max_size=3).map(tuple),
            st.none() | st.just("HTTP 500"),
        )
        side = st.lists(st.builds(Outputs, st.just("s@1"), st.lists(drawn, max_size=3).map(tuple)), max_size=3)
        found = compared(data.draw(side), data.draw(side))
        for values in (*found.baseline.values(), *found.candidate.values()):
            assert all(0.0 <= value <= 1.0 for value in values)


class TestDecision:
    def test_equal_and_deterministic_answers_pass(self):
        result = decide([steady()] * 3, [steady()] * 3)
        assert result.decision is Decision.PASS
        assert {series_of(result, name).verdict for name in GATED} == {Verdict.WITHIN_MARGIN}

    def test_one_run_a_side_shows_nothing(self):
        result = decide([steady()], [steady()])
        assert result.decision is Decision.INCONCLUSIVE
        assert {series_of(result, name).verdict for name in GATED} == {Verdict.UNDECIDED}

    def test_near_ties_that_another_kernel_breaks_otherwise_pass_and_are_reported(self):
        flipped = steady(**{f"p{n}": answer(f"p{n}", "abxx", logprobs=-0.51) for n in range(1, 7)})
        result = decide([steady()] * 3, [flipped] * 3)
        assert result.decision is Decision.PASS
        assert series_of(result, "accuracy_prompt_match").candidate.mean == pytest.approx(10 / 16)
        assert not series_of(result, "accuracy_prompt_match").gated
        (note,) = series_of(result, "accuracy_prompt_match").notes
        assert note == (
            "6 of 16 prompts get an answer that no baseline run gave; "
            "the earliest difference is at token 3 of prompt p1"
        )
        assert series_of(result, "accuracy_agreement").notes == [
            "6 of 16 prompts are below the baseline's own runs; the lowest: p1 90%, p2 90%, p3 90%"
        ]

    def test_garbage_for_a_single_prompt_fails(self):
        result = decide([steady()] * 3, [steady(p7=answer("p7", "zzzz"))] * 3)
        assert result.decision is Decision.FAIL
        assert [reason.series for reason in result.reasons if reason.code is ReasonCode.REGRESSION] == [
            "outputs/accuracy_agreement"
        ]
        assert "the lowest: p7 0%" in series_of(result, "accuracy_agreement").notes[0]

    def test_a_prompt_that_is_read_wrongly_fails_though_the_answers_are_the_same(self):
        drifted = {f"p{n}": answer(f"p{n}", prompt_logprobs=(-4.0, -5.0)) for n in (2, 3)}
        result = decide([steady()] * 3, [steady(**drifted)] * 3)
        assert [reason.series for reason in result.reasons] == ["outputs/accuracy_logprob"]
        assert result.decision is Decision.FAIL

    def test_prompts_that_the_candidate_no_longer_answers_fail_and_the_cause_is_reported(self):
        result = decide([steady()] * 3, [steady(p1=failed(why="HTTP 500: NaN"), p4=failed("p4"))] * 3)
        assert result.decision is Decision.FAIL
        for name in SCORES:
            assert (
                "2 of 16 prompts were not answered on the candidate: p1: HTTP 500: NaN" in series_of(result, name).notes
            )

    def test_a_baseline_that_does_not_repeat_itself_is_reported(self):
        other = steady(p5=answer("p5", "abcx"))
        result = decide([steady(), steady(), other], [steady()] * 3)
        notes = series_of(result, "accuracy_token_match").notes
        assert "the baseline's own runs disagree on 1 of 16 prompts" in notes
        assert not any("no baseline run gave" in note for note in notes)

    def test_an_unchanged_server_that_does_not_repeat_itself_seldom_fails(self):
        rng = random.Random(5)

        def drawn():
            flips = {f"p{n}": answer(f"p{n}", "abxx") for n in range(1, 17) if rng.random() < 0.2}
            drift = {f"p{n}": answer(f"p{n}", prompt_logprobs=(-2 + rng.gauss(0, 0.02), -3.0)) for n in range(1, 17)}
            return steady(**drift | flips)

        failures = sum(
            decide([drawn() for _ in range(count)], [drawn() for _ in range(count)]).decision is Decision.FAIL
            for count in (2, 3, 5)
            for _ in range(20)
        )
        assert failures <= 60 * 0.05 + 3 * math.sqrt(60 * 0.05 * 0.95)

    def test_answers_of_one_side_only_cannot_pass(self):
        for sides, name in ((([steady()] * 3, [None] * 3), "baseline"), (([None] * 3, [steady()] * 3), "candidate")):
            result = decide(*sides)
            assert result.decision is Decision.INCONCLUSIVE
            assert {reason.text for reason in result.reasons} == {
                f"outputs/{metric} gates but was collected on the {name} only" for metric in GATED
            }

    def test_answers_of_one_side_only_are_a_warning_where_they_do_not_gate(self):
        result = decide(
            [steady()] * 3, [None] * 3, Policy(metrics=("failed_requests",), margins={"failed_requests": 0.02})
        )
        assert result.decision is Decision.PASS
        assert "outputs: answers were collected on the baseline only, so they are not compared" in result.warnings

    def test_a_candidate_that_lost_its_logprobs_cannot_pass(self):
        bare = outputs(*(replace(answer(f"p{n}"), logprobs=(), prompt_logprobs=()) for n in range(1, 17)))
        result = decide([steady()] * 3, [bare] * 3)
        assert result.decision is Decision.INCONCLUSIVE
        assert [reason.series for reason in result.reasons] == ["outputs/accuracy_logprob"]

    def test_different_prompt_sets_are_not_compared(self):
        newer = replace(steady(), prompt_set="sanity@2")
        result = decide([steady()] * 3, [newer] * 3)
        assert result.decision is Decision.INCONCLUSIVE
        assert result.reasons[0].code is ReasonCode.INCOMPARABLE
        assert result.reasons[0].text == "scenario outputs: the prompt sets differ: sanity@1 → sanity@2"
        result = decide([steady()] * 3, [newer] * 3, POLICY.model_copy(update={"metrics": ("failed_requests",)}))
        assert any("the prompt sets differ: sanity@1 → sanity@2" in warning for warning in result.warnings)

    def test_where_the_sides_share_one_prompt_set_the_others_are_left_out(self):
        newer = replace(steady(), prompt_set="sanity@2")
        result = decide([steady()] * 2 + [newer] * 2, [newer] * 2)
        assert series_of(result, "accuracy_agreement").baseline.runs == 2
        assert (
            "2 runs with another prompt set than sanity@2 are left out" in series_of(result, "accuracy_agreement").notes
        )

    def test_a_baseline_that_answers_nothing_is_no_measure(self):
        silent = outputs(failed("p1"), failed("p2"))
        result = decide([silent] * 3, [steady()] * 3)
        assert result.decision is Decision.INCONCLUSIVE
        assert "no prompt was answered on the baseline" in result.reasons[0].text

    def test_the_default_policy_gates_what_separates_breakage_from_drift(self):
        policy = Policy()
        assert {name for name in SCORES if policy.gates(name)} == set(GATED)
        assert Policy(metrics=("accuracy_prompt_match",)).gates("accuracy_prompt_match")
        assert not Policy(metrics=("*",)).gates("accuracy_prompt_match")
        assert {policy.margin(name) for name in GATED} == {0.05}


def test_an_answer_that_goes_on_where_the_reference_ends_does_not_agree():
    shorter, longer = answer(tokens=TOKENS[:2]), answer()
    assert agreement(shorter, longer) == 0.0
    assert agreement(longer, shorter) == 0.0
    known = replace(shorter, alternatives=answer().alternatives)
    assert agreement(known, longer) == 0.0


@pytest.mark.parametrize("missing", ["baseline", "candidate"])
def test_answers_of_one_side_alone_are_named_and_not_compared(missing):
    sides = {"baseline": runs("0.19.0", steady()), "candidate": runs("0.19.1", steady())}
    there = {"baseline": "candidate", "candidate": "baseline"}[missing]
    (found,) = compare_outputs(**{**sides, missing: []}).values()
    assert found.only == there
