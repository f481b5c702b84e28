"""How much `run`, `calibrate` and `compare --measure` measure. The options need it for --help."""

from dataclasses import dataclass

DEFAULT_SUITE = "cpu-tiny"
DEFAULT_RUNS = 5
DEFAULT_BLOCKS = 6
"""At most, for `compare --measure`, which mostly stops earlier."""


@dataclass(frozen=True, slots=True)
class MeasurementAmount:
    """What the measuring options ask for; None: the default."""

    runs: int | None = None
    """Server starts of each version."""
    trials: int | None = None
    """Passes of each scenario in a run."""
    budget: float | None = None
    """Seconds."""
    resume: bool = False
    """Go on with an interrupted experiment."""
    resident: bool | None = None
    """Keep both servers up and take turns."""
    ready_within: float = 1800.0
    """Seconds that a server may take to start."""
    wait_for_machine: float | None = None
    """Seconds to wait for another measurement on this machine."""
    driver: str | None = None
    """Another load client than our own."""
