"""What blocks of two versions are stored and count. Not for making more of them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regress_gate.cli.measuring import Assignment
    from regress_gate.cli.settings import Settings
    from regress_gate.gate.pairing import Pairing
    from regress_gate.model.run import Run
    from regress_gate.model.version import Version


def counted_runs(settings: "Settings", what: "Assignment") -> "list[Run]":
    """Runs of any version that count, of the suite on this testbed: stored ones and shipped ones."""
    from regress_gate.gate.sides import make_side
    from regress_gate.model.run import SuiteRef
    from regress_gate.store.library import open_library

    with open_library(str(settings.store_url.value)) as library:
        runs = library.runs(testbed=what.testbed.name, suite=SuiteRef(what.suite.name, what.suite.version))
    by_version: dict[Version, list[Run]] = {}
    for run in runs:
        by_version.setdefault(run.version, []).append(run)
    return [
        run for version, same in by_version.items() for run in make_side(version, same, what.suite.conditions).counted
    ]


def whole_blocks(counted: "Sequence[Run]", what: "Assignment") -> int:
    """Blocks in which both versions count: what a comparison takes. Where the suite wants several servers, the one
    that has the fewest decides."""
    return min(pairing.blocks for pairing in _pairings(counted, what))


def are_looked_at_often(counted: "Sequence[Run]", what: "Assignment") -> bool:
    """Whether any of these blocks was made by a plan that asked for the decision after each of its blocks."""
    return any(
        run.place is not None and run.place.most_blocks is not None
        for pairing in _pairings(counted, what)
        if pairing.is_side_by_side
        for run in (*pairing.baseline, *pairing.candidate)
    )


def _pairings(counted: "Sequence[Run]", what: "Assignment") -> "list[Pairing]":
    """One for each server of the suite."""
    from regress_gate.bench.experiment.plan import server_groups
    from regress_gate.gate.pairing import side_by_side

    baseline, candidate = (
        [run for run in counted if run.place is not None and run.version.matches(version)]
        for version in what.versions.values()
    )
    return [
        side_by_side(
            [run for run in baseline if run.place and run.place.group == group.name],
            [run for run in candidate if run.place and run.place.group == group.name],
        )
        for group in server_groups(what.suite)
    ]


def built_version(settings: "Settings", what: "Assignment", side: str) -> "Version":
    """The build that is stored for a side, where what was asked for left something open."""
    from regress_gate.model.run import SuiteRef
    from regress_gate.store.library import open_library

    wanted = what.versions[side]
    with open_library(str(settings.store_url.value)) as library:
        runs = library.runs(
            version=wanted, testbed=what.testbed.name, suite=SuiteRef(what.suite.name, what.suite.version)
        )
    return runs[-1].version if runs else wanted
