"""Where two sides answer differently, in words: which prompts, from which token on. Not for measuring by how much."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from regress_gate.model.outputs import Answer

NOTABLE = 0.01
"""A prompt that scores lower than this below the baseline's own runs is named."""
NAMED = 3

Answers = Mapping[str, Answer]
"""One run's, by prompt."""


def common_tokens(left: Answer, right: Answer) -> int:
    """Tokens before the first that differs."""
    shorter = min(len(left.tokens), len(right.tokens))
    return next((at for at in range(shorter) if left.tokens[at] != right.tokens[at]), shorter)


def differences(baseline: Sequence[Answers], candidate: Sequence[Answers]) -> list[str]:
    """How many prompts the candidate answers as no baseline run did, and where that begins."""
    given = _given(baseline)
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
    unsteady = sum(len({each.tokens for each in known}) > 1 for known in given.values())
    if unsteady:
        notes.append(f"the baseline's own runs disagree on {unsteady} of {len(given)} prompts")
    return notes


def unanswered(baseline: Sequence[Answers], candidate: Sequence[Answers]) -> list[str]:
    """Prompts that one side did not answer, with the first cause."""
    notes = []
    given = _given(baseline)
    for side, runs in (("baseline", baseline), ("candidate", candidate)):
        # What no baseline run answers is no question to the candidate.
        asked = given if side == "candidate" else sorted({prompt for run in runs for prompt in run})
        failed = {prompt: found for run in runs for prompt in asked if (found := _failure(run.get(prompt))) is not None}
        if failed:
            prompt, why = next(iter(failed.items()))
            notes.append(f"{len(failed)} of {len(asked)} prompts were not answered on the {side}: {prompt}: {why}")
    return notes


def lowest(baseline: Sequence[Mapping[str, float]], candidate: Sequence[Mapping[str, float]]) -> list[str]:
    """The prompts on which the candidate scores lowest, where that is below the baseline's own runs."""
    ours, theirs = _means(baseline), _means(candidate)
    worse = [prompt for prompt in theirs if theirs[prompt] < ours.get(prompt, 1.0) - NOTABLE]
    if not worse:
        return []
    worse.sort(key=lambda prompt: theirs[prompt])
    named = ", ".join(f"{prompt} {theirs[prompt]:.0%}" for prompt in worse[:NAMED])
    return [f"{len(worse)} of {len(theirs)} prompts are below the baseline's own runs; the lowest: {named}"]


def _given(baseline: Iterable[Answers]) -> dict[str, list[Answer]]:
    """By prompt the answers that baseline runs gave."""
    given: dict[str, list[Answer]] = {}
    for run in baseline:
        for prompt, answer in run.items():
            if answer.tokens:
                given.setdefault(prompt, []).append(answer)
    return given


def _failure(answer: Answer | None) -> str | None:
    if answer is None:
        return "not asked"
    return None if answer.tokens else answer.error or "an empty answer"


def _means(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    prompts = dict.fromkeys(prompt for run in scores for prompt in run)
    return {prompt: fmean(run[prompt] for run in scores if prompt in run) for prompt in prompts}
