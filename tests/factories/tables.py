"""Tables of benchmark results as a nightly job would write them, with a step at a known place."""

from datetime import date, timedelta
from pathlib import Path

import numpy as np

FIRST = date(2026, 5, 1)
STEP_AT = 40


def nightly_rows(*, step: float = 0.3, nights: int = 60) -> list[tuple[str, float]]:
    """(date, milliseconds) of each night; from the 41st on larger by `step`, with a scatter of 1 %."""
    luck = np.random.default_rng(11).normal(0, 0.01, nights)
    return [
        (
            str(FIRST + timedelta(days=night)),
            round(float(100 * (1 + step * (night >= STEP_AT)) * np.exp(luck[night])), 3),
        )
        for night in range(nights)
    ]


def write_nightly(path: Path, **how: float) -> Path:
    """A CSV file with the columns `date` and `ttft_ms`."""
    lines = ["date,ttft_ms", *(f"{day},{value}" for day, value in nightly_rows(**how))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
