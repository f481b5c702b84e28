"""Per-request measurements of one trial, as flat arrays.

A module of its own, because it imports numpy, which commands that only read records must not.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Measurements of n requests, in the order in which the client lists them; times in seconds.

    Request i's gaps between chunks are `itl[itl_start[i]:itl_start[i + 1]]`.
    """

    ttft: Floats
    """Shape (n,)."""
    itl: Floats
    """All gaps, request after request."""
    itl_start: Ints
    """Shape (n + 1,), from 0 to len(itl)."""
    input_tokens: Ints
    """Shape (n,)."""
    output_tokens: Ints
    """Shape (n,)."""
    ok: npt.NDArray[np.bool_]
    """Shape (n,): whether the request succeeded; measurements of a failed request are meaningless."""
    start: Floats | None = None
    """Shape (n,): send times, relative to the first; None if the source has none."""

    def __len__(self) -> int:
        return len(self.ttft)
