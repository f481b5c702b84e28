"""By whose definitions the numbers of an imported trial were made, where they are not vLLM's own.

A result's `definitions` is a key of `DEFINITIONS`. Two results of different definitions are not compared: the same
name stands for different quantities, or the same quantity is counted from different moments. Not for units: readers
turn those into the catalogue's.
"""

WORKLOAD_KEY = "definitions"
"""Under which a trial's workload holds it."""

DEFINITIONS: dict[str, str] = {}
"""Key to one clause that says what is particular, for the report: `guidellm-0.4` → `its time per output token…`."""


def told(key: str | None) -> str:
    """The key with what it means; None are vLLM's own definitions."""
    if key is None:
        return "vLLM's own"
    meaning = DEFINITIONS.get(key)
    return f"{key} ({meaning})" if meaning else key
