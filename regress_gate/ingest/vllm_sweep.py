"""The `summary.json` of a `vllm bench sweep` cell: the list of its runs, for when it is all that was kept.

The single `run=N.json` files are ordinary results with `run_number`, read by vllm_serve; selection.py sees to it that
a summary beside them is not read as well.
"""

from collections.abc import Sequence
from typing import Any

from regress_gate.ingest.content import Content
from regress_gate.ingest.interface import NoReading, Reading
from regress_gate.ingest.vllm_serve import is_serve_result, read_object


class VllmSweepSummary:
    name = "vllm-sweep"
    tool = "vllm bench sweep"

    def recognises(self, content: Content) -> bool:
        runs = _runs(content)
        return bool(runs) and all(is_serve_result(run) and "run_number" in run for run in runs)

    def read(self, content: Content, *, with_samples: bool) -> Sequence[Reading | NoReading]:
        return [read_object(run, position, with_samples=with_samples) for position, run in enumerate(_runs(content))]


def _runs(content: Content) -> list[Any]:
    """The list that the file is, or nothing."""
    only = content.documents[0] if len(content.documents) == 1 else None
    return only if isinstance(only, list) else []
