"""How well the score of `issues discover` tells reports of regressions from other threads.

    python benchmarks/discover.py

`discovery_threads.json` holds three sets of public threads, each with its labels and with what its text says in a few
words of our own, where that is known:

- `cited`: the threads that the records were researched from, with titles in our own words. Reports, fixes, reverts and
  changed defaults, and 40 that are no regression, 30 of them a sample of issues labelled performance.
- `read` and `unseen`: threads as a search for such words finds them, with their own titles; whether each reports a loss
  between versions was judged by reading it.

The points were chosen with the first two sets in sight, which flatters these. `unseen` was gathered afterwards: with
the limit of that time, 3 points, the candidates were right in 5 of 6 cases and held 5 of 9 regressions; for that the
limit was lowered to 2.5, and version bumps and "no regression" in pull requests no longer count. Most bugs of a tracker
report no regression, and the share of candidates that are worth a record is smaller in it than the precision here.
"""

import json
import sys
from pathlib import Path

from regress_gate.known.threads import CANDIDATE_SCORE, regression_signs, score

THREADS = Path(__file__).with_name("discovery_threads.json")
LEAST = {"cited": (0.94, 0.75), "read": (0.75, 0.95), "unseen": (0.75, 0.75)}
"""Precision and recall at CANDIDATE_SCORE below which something has got worse."""


def points(thread: dict[str, object]) -> float:
    """The score of a thread of the file."""
    is_pull = "/pull/" in str(thread["thread"])
    labels = [str(label) for label in thread["labels"]]  # type: ignore[attr-defined]
    signs = regression_signs(str(thread["title"]), str(thread.get("text", "")), labels, is_pull=is_pull)
    return score([*signs, *(["unmerged"] if thread.get("merged") is False else [])])


def quality(threads: list[dict[str, object]], least: float) -> tuple[int, int, int]:
    """Regressions among the candidates, candidates, regressions."""
    chosen = [thread for thread in threads if points(thread) >= least]
    return sum(bool(one["regression"]) for one in chosen), len(chosen), sum(bool(one["regression"]) for one in threads)


def main() -> int:
    sets = json.loads(THREADS.read_text(encoding="utf-8"))
    print("| set | threads | regressions | at least | candidates | precision | recall |\n" + "| --- " * 7 + "|")
    is_worse = False
    for name, threads in sets.items():
        for least in (2.0, CANDIDATE_SCORE, 3.0, 4.0, 5.0):
            right, chosen, there = quality(threads, least)
            precision, recall = right / chosen, right / there
            print(f"| {name} | {len(threads)} | {there} | {least:g} | {chosen} | {precision:.0%} | {recall:.0%} |")
            if least == CANDIDATE_SCORE:
                is_worse = is_worse or precision < LEAST[name][0] or recall < LEAST[name][1]
    return int(is_worse)


if __name__ == "__main__":
    sys.exit(main())
