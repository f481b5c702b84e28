"""The `summary.json` of a `vllm bench sweep` cell: the list of its runs, for folders without the single runs.

The single `run=N.json` files are ordinary results with `run_number`, read by vllm_serve.py; selection.py then skips the
summary beside them.
"""

from collections.abc import Sequence
from typing import Any

from regress_gate.ingest.content import Content
from regress_gate.ingest.formats.vllm_client import add_client_definitions
from regress_gate.ingest.formats.vllm_serve import is_serve_result, read_object
from regress_gate.ingest.interface import Certainty, Context, Generation, Reading, UnusedResult


class VllmSweepSummary:
    name = "vllm-sweep"
    tool = "vllm bench sweep"

    bare_constants = False
    generations = (
        Generation(
            "0.11.1 and later",
            "`run_number`",
            "as vllm-serve; each `run=N.json` is a trial",
            "summaries, warm-ups and failed runs beside the runs are skipped; swept parameters name the scenario",
        ),
    )

    def recognises(self, content: Content) -> Certainty:
        runs = _runs(content)
        ours = bool(runs) and all(is_serve_result(run) and "run_number" in run for run in runs)
        return Certainty.SURE if ours else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:
        return [
            add_client_definitions(read_object(run, position, with_samples=context.with_samples), context)
            for position, run in enumerate(_runs(content))
        ]


def _runs(content: Content) -> list[Any]:
    """The list in the file; empty for any other content."""
    only = content.documents[0] if len(content.documents) == 1 else None
    return only if isinstance(only, list) else []
