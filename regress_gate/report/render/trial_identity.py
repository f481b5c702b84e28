"""Names of a stored run as an import takes them: `try/3` becomes `try-3`."""

from typing import Any

from regress_gate.model.metric import DEFINITIONS_KEY
from regress_gate.model.run import Run, Trial
from regress_gate.text import MAX_NAME, is_valid_name, slugify


def importable(name: str) -> str:
    return name if is_valid_name(name) else slugify(name)[:MAX_NAME].rstrip("-._+=") or "unnamed"


# MERGED regress_gate.report.runs.identity: What every export says of a trial besides its numbers, in words that an
# import takes back.


def identity(run: Run, trial: Trial) -> dict[str, Any]:
    """By the long table's names of the columns; None where nothing is known. Seconds, ISO 8601."""
    return {
        "version": str(run.version),
        "testbed": importable(run.testbed.name),
        "accelerator": run.testbed.accelerator and importable(run.testbed.accelerator),
        "suite": str(run.suite),
        "scenario": importable(trial.scenario),
        "run": importable(run.label),
        "trial": trial.ordinal,
        "started": None if trial.started is None else trial.started.isoformat(),
        "client": trial.source.client_version,
        "completed": trial.completed,
        "failed": trial.failed if states_failures(trial) else None,
        "duration": trial.duration,
        "definitions": trial.workload.get(DEFINITIONS_KEY),
    }


def states_failures(trial: Trial) -> bool:
    """Whether no failure means none, and not that nobody counted."""
    return trial.failed > 0 or "failed_requests" in trial.metrics
