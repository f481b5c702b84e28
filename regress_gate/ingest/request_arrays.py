"""Which arrays of a vLLM client's result hold its single requests. Apart from what reads them, which needs numpy."""

from collections.abc import Mapping
from typing import Any

ARRAYS = ("ttfts", "itls", "output_lens")
"""The arrays without which there are no samples."""


def has_arrays(data: Mapping[str, Any]) -> bool:
    return all(isinstance(data.get(key), list) for key in ARRAYS)
