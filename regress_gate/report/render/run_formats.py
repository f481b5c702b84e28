"""What the formats of stored runs share: one content or the files of a folder, and the identity of a trial.

The formats are listed in `output_formats`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from regress_gate.model.metric import DEFINITIONS_KEY
from regress_gate.model.run import Run, Trial
from regress_gate.text import MAX_NAME, is_valid_name, slugify

Content = str | bytes


@dataclass(frozen=True, slots=True)
class RunFormat:
    content: Callable[[Sequence[Run]], Content]
    """All runs, for standard output."""
    named_contents: Callable[[Sequence[Run]], Iterator[tuple[str, Content]]]
    """Names and contents of the files for a folder; names may occur twice."""
    is_binary: bool = False

    def files(self, runs: Sequence[Run]) -> Iterator[tuple[str, Content]]:
        """File names, all different, and their contents."""
        taken: dict[str, int] = {}
        for name, content in self.named_contents(runs):
            taken[name] = taken.get(name, 0) + 1
            stem, dot, ending = name.rpartition(".")
            yield name if taken[name] == 1 else f"{stem}-{taken[name]}{dot}{ending}", content


def table_format(ending: str, content: Callable[[Iterable[Run]], Content], *, is_binary: bool = False) -> RunFormat:
    """A format whose files hold all runs of one version, testbed and suite."""

    def tables(runs: Sequence[Run]) -> Iterator[tuple[str, Content]]:
        for place, members in groupby(sorted(runs, key=place_name), key=place_name):
            yield f"{place}.{ending}", content(members)

    return RunFormat(content, tables, is_binary)


def place_name(run: Run) -> str:
    """Version, testbed and suite as a part of a file name."""
    return "-".join(map(slugify, (str(run.version), run.testbed.name, str(run.suite))))


def importable(name: str) -> str:
    """A name as an import takes it: `try/3` becomes `try-3`."""
    return name if is_valid_name(name) else slugify(name)[:MAX_NAME].rstrip("-._+=") or "unnamed"


def identity(run: Run, trial: Trial) -> dict[str, Any]:
    """What every format writes about a trial besides its numbers, as an import reads it.

    Keys are columns of the long table; None if not known. Seconds, ISO 8601.
    """
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
    """Whether failures were counted, so that 0 means none."""
    return trial.failed > 0 or "failed_requests" in trial.metrics
