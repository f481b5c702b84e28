"""Which runs of two versions belong together: those that were made side by side, where there are such.

Days differ, and neighbours, and the weather of a machine: two versions measured months apart differ by more than the
version. Not for the statistics of blocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from regress_gate.model.run import Place, Run

Block = tuple[str, int, str]
"""Experiment, block and server group."""


@dataclass(frozen=True, slots=True)
class Pairing:
    baseline: tuple[Run, ...]
    candidate: tuple[Run, ...]
    blocks: int
    """Whole blocks in which both sides count; with several server groups, of the group that has the fewest."""
    left_out: int
    """Runs that count, but were not made beside the other version."""

    @property
    def is_side_by_side(self) -> bool:
        return self.blocks > 0


def side_by_side(baseline: Sequence[Run], candidate: Sequence[Run]) -> Pairing:
    """The runs of whole blocks, where both versions share any; else all, with no block. Takes runs that count."""
    blocks = _blocks(baseline) & _blocks(candidate)
    if not blocks:
        return Pairing(tuple(baseline), tuple(candidate), 0, 0)
    kept = [tuple(run for run in side if _block(run.place) in blocks) for side in (baseline, candidate)]
    groups = {group for _, _, group in blocks}
    fewest = min(sum(group == block[2] for block in blocks) for group in groups)
    left_out = len(baseline) + len(candidate) - len(kept[0]) - len(kept[1])
    return Pairing(kept[0], kept[1], fewest, left_out)


def _blocks(runs: Sequence[Run]) -> set[Block]:
    return {block for run in runs if (block := _block(run.place)) is not None}


def _block(place: Place | None) -> Block | None:
    return None if place is None else (place.experiment, place.block, place.group)
