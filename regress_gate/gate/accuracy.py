"""How far the candidate's answers to the fixed prompts are from the baseline's, run by run.

Each run is compared with every baseline run except itself, prompt by prompt, and its value is the mean: a candidate run
is one more run of the same thing unless the version changed it. So the baseline's own values are its noise floor (below
1 where it does not repeat itself), and no run is taken as the truth. Notes name the prompts that differ, and from which
token on. Not for judging whether answers are good.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from regress_gate.model.run import Answer, Outputs, Run
from regress_gate.text import plural

NOTABLE_LOSS = 0.01
"""A prompt whose score is lower than that of the baseline's own runs by more than this is named."""
MAX_NAMED_PROMPTS = 3

RunAnswers = Mapping[str, Answer]
"""One run's, by prompt."""


def common_tokens(left: Answer, right: Answer) -> int:
    """Tokens before the first that differs."""
    shorter = min(len(left.tokens), len(right.tokens))
    return next((at for at in range(shorter) if left.tokens[at] != right.tokens[at]), shorter)


def difference_notes(baseline: Sequence[RunAnswers], candidate: Sequence[RunAnswers]) -> list[str]:
    """How many prompts the candidate answers as no baseline run did, and where that begins."""
    given = _baseline_answers(baseline)
    firsts: dict[str, int] = {}
    for run in candidate:
        for prompt, known in given.items():
            answer = run.get(prompt)
            if answer is None or not answer.tokens or any(each.tokens == answer.tokens for each in known):
                continue
            at = max(common_tokens(each, answer) for each in known) + 1
            firsts[prompt] = min(at, firsts.get(prompt, at))
    notes = []
    if firsts:
        prompt = min(firsts, key=lambda name: firsts[name])
        notes.append(
            f"{len(firsts)} of {len(given)} prompts get an answer that no baseline run gave; "
            f"the earliest difference is at token {firsts[prompt]} of prompt {prompt}"
        )
    unstable = sum(len({each.tokens for each in known}) > 1 for known in given.values())
    if unstable:
        notes.append(f"the baseline's own runs disagree on {unstable} of {len(given)} prompts")
    return notes


def unanswered_notes(baseline: Sequence[RunAnswers], candidate: Sequence[RunAnswers]) -> list[str]:
    """Prompts that one side did not answer, with the first cause."""
    notes = []
    given = _baseline_answers(baseline)
    for side, runs in (("baseline", baseline), ("candidate", candidate)):
        # Prompts that no baseline run answers are not asked of the candidate.
        prompts = given if side == "candidate" else sorted({prompt for run in runs for prompt in run})
        failed = {
            prompt: failure
            for run in runs
            for prompt in prompts
            if (failure := _failure_text(run.get(prompt))) is not None
        }
        if failed:
            prompt, why = next(iter(failed.items()))
            notes.append(f"{len(failed)} of {len(prompts)} prompts were not answered on the {side}: {prompt}: {why}")
    return notes


def lowest_score_notes(baseline: Sequence[Mapping[str, float]], candidate: Sequence[Mapping[str, float]]) -> list[str]:
    """The prompts on which the candidate scores lowest, where that is below the baseline's own runs."""
    ours, theirs = _mean_scores(baseline), _mean_scores(candidate)
    worse = [prompt for prompt in theirs if theirs[prompt] < ours.get(prompt, 1.0) - NOTABLE_LOSS]
    if not worse:
        return []
    worse.sort(key=lambda prompt: theirs[prompt])
    named = ", ".join(f"{prompt} {theirs[prompt]:.0%}" for prompt in worse[:MAX_NAMED_PROMPTS])
    return [f"{len(worse)} of {len(theirs)} prompts are below the baseline's own runs; the lowest: {named}"]


def _baseline_answers(baseline: Iterable[RunAnswers]) -> dict[str, list[Answer]]:
    """By prompt the answers that baseline runs gave."""
    given: dict[str, list[Answer]] = {}
    for run in baseline:
        for prompt, answer in run.items():
            if answer.tokens:
                given.setdefault(prompt, []).append(answer)
    return given


def _failure_text(answer: Answer | None) -> str | None:
    if answer is None:
        return "not asked"
    return None if answer.tokens else answer.error or "an empty answer"


def _mean_scores(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    prompts = dict.fromkeys(prompt for run in scores for prompt in run)
    return {prompt: fmean(run[prompt] for run in scores if prompt in run) for prompt in prompts}


OUTPUTS_SCENARIO = "outputs"
"""Scenario name under which the answers are reported; where a suite has several servers, with the scenario's."""
_SERVER_PREFIX = "server"
"""Prefix of the names of all servers of a suite; the whole name if there is one server."""
MAX_DRIFT = 10.0
"""Largest drift of a token, in nats of log-probability; also used where one side has no number."""

Score = Callable[[Answer, Answer], float | None]
"""How well an answer agrees with a reference, from 0 to 1; None where they cannot be compared."""


@dataclass(frozen=True, slots=True)
class OutputComparison:
    baseline: dict[str, list[float]] = field(default_factory=dict)
    """By metric the run-level values."""
    candidate: dict[str, list[float]] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    """By metric: where and by how much the sides differ."""
    incomparable: str | None = None
    """Why the answers of the sides are not compared, though both have some."""
    only: str | None = None
    """Which side alone has answers."""


def outputs_scenario(server: str) -> str:
    """The scenario name of the answers of a server of the suite."""
    return OUTPUTS_SCENARIO + server.removeprefix(_SERVER_PREFIX)


def compare_outputs(baseline: Sequence[Run], candidate: Sequence[Run]) -> dict[str, OutputComparison]:
    """By scenario name the run-level values of both sides; empty where no run has answers.

    Answers of differently configured servers are never compared.
    """
    ours, theirs = _by_server(baseline), _by_server(candidate)
    return {
        outputs_scenario(server): _compare_server(ours.get(server, []), theirs.get(server, []))
        for server in sorted(ours | theirs)
    }


def _by_server(runs: Sequence[Run]) -> dict[str, list[Outputs]]:
    outputs: dict[str, list[Outputs]] = defaultdict(list)
    for run in runs:
        if run.outputs is not None:
            outputs[_SERVER_PREFIX if run.place is None else run.place.group].append(run.outputs)
    return outputs


def _compare_server(ours: Sequence[Outputs], theirs: Sequence[Outputs]) -> OutputComparison:
    if not ours or not theirs:
        return OutputComparison(only="baseline" if ours else "candidate")
    prompt_set = _common_set(ours, theirs)
    if prompt_set is None:
        sets = [", ".join(sorted({outputs.prompt_set for outputs in side})) for side in (ours, theirs)]
        return OutputComparison(incomparable=f"the prompt sets differ: {sets[0]} → {sets[1]}")
    left, right = (
        [{answer.prompt: answer for answer in each.answers} for each in side if each.prompt_set == prompt_set]
        for side in (ours, theirs)
    )
    if not any(answer.tokens for run in left for answer in run.values()):
        return OutputComparison(incomparable="no prompt was answered on the baseline")
    dropped = len(ours) + len(theirs) - len(left) - len(right)
    remarks = (
        [
            plural(dropped, "run")
            + f" with another prompt set than {prompt_set} {'is' if dropped == 1 else 'are'} left out"
        ]
        if dropped
        else []
    )
    if all(_lacks_logprobs(run) for run in left):
        remarks.append(
            "the baseline has no log-probabilities: drift cannot be distinguished from breakage, so none gates"
        )
    comparison = OutputComparison({}, {}, {})
    for name, score in SCORES.items():
        # A single baseline run is compared with itself: one value, which shows nothing.
        own = [_scores(run, [*left[:at], *left[at + 1 :]] or left, score) for at, run in enumerate(left)]
        other = [_scores(run, left, score) for run in right]
        for values, scores in ((comparison.baseline, own), (comparison.candidate, other)):
            if means := [fmean(each.values()) for each in scores if each]:
                values[name] = means
        notes = [*remarks, *unanswered_notes(left, right)]
        notes += lowest_score_notes(own, other) if name in GRADUAL else difference_notes(left, right)
        comparison.notes[name] = notes
    return comparison


def prompt_match(reference: Answer, answer: Answer) -> float:
    return float(answer.tokens == reference.tokens)


def token_match(reference: Answer, answer: Answer) -> float:
    return common_tokens(reference, answer) / max(len(reference.tokens), len(answer.tokens))


def agreement(reference: Answer, answer: Answer) -> float | None:
    """How good the reference finds the first token in which the answer differs, relative to its own; 1 without one.

    Up to there both have the same text. Two versions may resolve a near tie differently and then continue differently;
    a token that was not among the reference's alternatives is a real difference.
    """
    if (
        not reference.alternatives
    ):  # without alternatives no difference can be excused, and an equal answer alone shows too little
        return None
    at = common_tokens(reference, answer)
    if at == max(len(reference.tokens), len(answer.tokens)):
        return 1.0
    if at >= min(len(reference.tokens), len(answer.tokens), len(reference.alternatives)):
        return 0.0
    theirs, own = (reference.alternatives[at].get(each.tokens[at]) for each in (answer, reference))
    if theirs is None or own is None:
        return 0.0
    return math.exp(min(0.0, theirs - own))


def logprob(reference: Answer, answer: Answer) -> float | None:
    """exp(−drift), drift being the mean |Δ log-probability| over the prompt and what both answers have in common."""
    if _has_numbers(reference) and not _has_numbers(answer):
        return 0.0
    if reference.prompt_logprobs and answer.prompt_logprobs and reference.prompt_tokens != answer.prompt_tokens:
        return 0.0  # the two models were given different tokens
    pairs = list(zip(reference.prompt_logprobs, answer.prompt_logprobs, strict=False))
    common = common_tokens(reference, answer)
    pairs += zip(reference.logprobs[:common], answer.logprobs[:common], strict=False)
    # Without a function for each pair: a comparison of two versions has a hundred thousand of them.
    drifts = [
        MAX_DRIFT if left is None or right is None else min(MAX_DRIFT, abs(left - right))
        for left, right in pairs
        if left is not None or right is not None
    ]
    return math.exp(-sum(drifts) / len(drifts)) if drifts else None


SCORES: dict[str, Score] = {
    "accuracy_prompt_match": prompt_match,
    "accuracy_token_match": token_match,
    "accuracy_agreement": agreement,
    "accuracy_logprob": logprob,
}
GRADUAL = ("accuracy_agreement", "accuracy_logprob")
"""Those that say how far apart two answers are, beyond whether they differ."""


def _common_set(ours: Sequence[Outputs], theirs: Sequence[Outputs]) -> str | None:
    """The prompt set of most runs, among those that both sides have; of several the last by name."""
    left, right = (Counter(outputs.prompt_set for outputs in side) for side in (ours, theirs))
    return max(set(left) & set(right), key=lambda name: (left[name] + right[name], name), default=None)


def _scores(run: RunAnswers, references: Sequence[RunAnswers], score: Score) -> dict[str, float]:
    """By prompt the mean over the references; prompts that a reference did not answer are left out.

    A missing answer scores 0 where a reference has one.
    """
    if score is logprob and _lacks_logprobs(run):
        return {}
    scores: dict[str, list[float]] = defaultdict(list)
    for reference in references:
        for prompt, expected in reference.items():
            if expected.tokens and (value := _score(expected, run.get(prompt), score)) is not None:
                scores[prompt].append(value)
    return {prompt: fmean(values) for prompt, values in scores.items()}


def _score(expected: Answer, answer: Answer | None, score: Score) -> float | None:
    return score(expected, answer) if answer is not None and answer.tokens else 0.0


def _has_numbers(answer: Answer) -> bool:
    return bool(answer.logprobs or answer.prompt_logprobs)


def _lacks_logprobs(run: RunAnswers) -> bool:
    """Whether the server answers, but gives no log-probabilities at all: they are missing then, not wrong."""
    answered = [answer for answer in run.values() if answer.tokens]
    return bool(answered) and not any(_has_numbers(answer) for answer in answered)
