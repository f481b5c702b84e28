"""The baselines that come with the program: exported files, read only. Imports no database code."""

from pathlib import Path

from regress_gate.errors import InputError
from regress_gate.model.run import Run, SuiteRef
from regress_gate.model.version import Version
from regress_gate.shipped import shipped_directory
from regress_gate.store import document
from regress_gate.store.holdings import Holding, holding_order, holdings_of, run_order


class ShippedBaselines:
    """The files of a directory, asked like a Repository. A file is read when its name may answer the question."""

    def __init__(self, directory: Path | None = None):
        """`directory` is for exports kept elsewhere; None: what this program ships."""
        self._directory = shipped_directory("baselines") if directory is None else directory

    def runs(
        self,
        *,
        version: Version | None = None,
        testbed: str | None = None,
        suite: SuiteRef | None = None,
        with_samples: bool = False,
    ) -> list[Run]:
        """See Repository.runs. Raises InputError for a file that cannot be read."""
        found = []
        for path in sorted(self._directory.glob("*.json")):
            if not document.may_hold(path.name, version=version, testbed=testbed, suite=suite):
                continue
            try:
                content = path.read_bytes()
            except OSError as error:
                raise InputError(f"cannot be read ({error.strerror})", where=path) from None
            found += [
                run
                for run in document.load(content, path, with_samples=with_samples)
                if (version is None or run.version.matches(version))
                and testbed in (None, run.testbed.name)
                and suite in (None, run.suite)
            ]
        return sorted(found, key=run_order)

    def inventory(self) -> list[Holding]:
        """What the files hold, per version, testbed and suite."""
        return sorted(holdings_of(self.runs()), key=holding_order)
