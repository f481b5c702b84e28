"""The product's change-point detector, as the evaluation harness calls detectors: one default, nothing tuned to it.

    python HARNESS/history.py --plugin benchmarks/eval/detectors.py --seed 11 --out benchmarks/results/history

The harness scores changes of the level; changes of the spread, which the product reports as such, are not passed on.
"""

from collections.abc import Callable

from regress_gate.model.samples import Floats
from regress_gate.stats.changepoints import detect


def levels(values: Floats) -> list[int]:
    """Indices at which the level changes, by a step or a ramp."""
    return [point.index for point in detect(values) if point.kind != "variance"]


DETECTORS: dict[str, Callable[[Floats], list[int]]] = {"regress-gate": levels}
