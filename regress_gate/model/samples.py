"""Per-request measurements of one trial, as flat arrays.

Apart from run.py because it needs numpy, which commands that only look at records must not pay for.
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
    """Shape (n,): the request succeeded; the measurements of a failed one mean nothing."""
    start: Floats | None = None
    """Shape (n,): when each was sent, relative to the first; None where the source does not say."""

    def __len__(self) -> int:
        return len(self.ttft)
