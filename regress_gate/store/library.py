"""Everything that can be compared: the user's store, where there is one, and the shipped baselines behind it.

What commands that only read ask. A run that is in both is the store's. While there is no store, no database code is
imported.
"""

from types import TracebackType
from typing import TYPE_CHECKING, Self

from regress_gate.model.run import Run, SuiteRef
from regress_gate.model.version import Version
from regress_gate.store.holdings import Holding, Pin, holding_order, holdings_of, run_order
from regress_gate.store.location import Location
from regress_gate.store.shipped import ShippedBaselines

if TYPE_CHECKING:
    from regress_gate.store.repository import Repository


def open_library(url: str, *, shipped: ShippedBaselines | None = None) -> "Library":
    """The store at `url`, if there is one, over the shipped baselines. Makes nothing; raises what `open_store` does."""
    store = None
    if Location.parse(url).may_exist:
        from regress_gate.store.repository import find_store

        store = find_store(url)
    return Library(store, ShippedBaselines() if shipped is None else shipped)


class Library:
    """Use it as a context manager, or close it: it owns the store it was given."""

    def __init__(self, store: "Repository | None", shipped: ShippedBaselines):
        self.store = store
        """None where there is no store."""
        self._shipped = shipped

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self.store is not None:
            self.store.close()

    def runs(
        self,
        *,
        version: Version | None = None,
        testbed: str | None = None,
        suite: SuiteRef | None = None,
        with_samples: bool = False,
    ) -> list[Run]:
        """See Repository.runs. Shipped runs have no id."""
        shipped = self._shipped.runs(version=version, testbed=testbed, suite=suite, with_samples=with_samples)
        if self.store is None:
            return shipped
        stored = self.store.runs(version=version, testbed=testbed, suite=suite, with_samples=with_samples)
        keys = {run.key for run in stored}
        return sorted([*stored, *(run for run in shipped if run.key not in keys)], key=run_order)

    def run(self, id_: int, *, with_samples: bool = False) -> Run | None:
        """The stored run that the ref `run:ID` names."""
        return None if self.store is None else self.store.run(id_, with_samples=with_samples)

    def inventory(self) -> list[Holding]:
        """What is held, per origin, version, testbed and suite. Shipped runs that the store has are the store's."""
        keys = set() if self.store is None else self.store.keys()
        pins = [pin.version for pin in self.pinned()]
        stored = [] if self.store is None else self.store.inventory()
        shipped = holdings_of([run for run in self._shipped.runs() if run.key not in keys], pins)
        return sorted([*stored, *shipped], key=lambda holding: (holding_order(holding), holding.origin))

    def pinned(self) -> list[Pin]:
        """All pins, the newest first."""
        return [] if self.store is None else self.store.pinned()
