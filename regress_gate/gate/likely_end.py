"""After which block a plan that looks after every one will probably end, by the spread that is expected.

A pass needs all series, so the one that takes longest tells when an unchanged version is shown to be one; a loss of
twice the margin may be in any series, so it is taken to be in the one where it is found last. Each is the first look at
which that happens with a probability of POWER. Limits: that all series are shown at once is less likely than that the
slowest is, and a series may be found at an earlier, lucky look; what the statistics gain from series that share their
luck is not foreseen. So it is a guide for whoever waits. Not for how much can be shown at all (`planning`).
"""

from bisect import bisect_left
from collections.abc import Callable, Collection
from dataclasses import dataclass

from regress_gate.stats.noise import Expected, detectable_change, shown_within
from regress_gate.stats.sequential import FIRST_LOOK, Looks, level


@dataclass(frozen=True, slots=True)
class LikelyEnd:
    """Blocks, counted with those that are stored; None: the last one will probably not show it."""

    unchanged: int | None
    """Where nothing changed."""
    lost: int | None
    """Where one series lost twice its margin."""


def likely_end(series: Collection[Expected], *, have: int, most: int, error: float, confidence: float) -> LikelyEnd:
    """`error` is one-sided and of one series, `confidence` of a two-sided interval, both over all looks together."""

    def shown(blocks: int) -> bool:
        within = 1 - 2 * level((1 - confidence) / 2, Looks(blocks, most))
        return all(shown_within(each, blocks, confidence=within) <= each.margin for each in series)

    def found(blocks: int) -> bool:
        looks = Looks(blocks, most)
        now, within = level(error, looks), 1 - 2 * level((1 - confidence) / 2, looks)
        return all(detectable_change(each, blocks, error=now, confidence=within) <= 2 * each.margin for each in series)

    looks = range(max(have + 1, FIRST_LOOK), most + 1)
    return LikelyEnd(_first(looks, shown), _first(looks, found))


def _first(looks: range, is_enough: Callable[[int], bool]) -> int | None:
    """What is enough stays enough with more blocks, so it can be bisected."""
    at = bisect_left(looks, True, key=is_enough)
    return looks[at] if at < len(looks) else None
