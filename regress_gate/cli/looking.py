"""Looking at the data after every block of `compare --measure`: the decision that would be printed now, what it means
for the blocks that are left, and one line about it.

The decision itself is whatever `compare` prints: it is asked for, not made here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regress_gate.cli.duration import in_words
from regress_gate.cli.measured_blocks import are_looked_at_often, built_version, counted_runs, whole_blocks

if TYPE_CHECKING:
    from regress_gate.bench.experiment.plan import Plan
    from regress_gate.cli.live import Live
    from regress_gate.cli.measuring import Assignment
    from regress_gate.cli.settings import Settings
    from regress_gate.gate.stopping import Look
    from regress_gate.model.result import Result
    from regress_gate.model.version import Ref, Version
    from regress_gate.store.repository import Repository

Decide = Callable[["tuple[Ref, Ref]", "tuple[str | None, str | None]"], "Result"]
"""The decision that `compare` would print now, of two refs in a place: a suite, by name or path, and a testbed."""


@dataclass(frozen=True, slots=True)
class Looks:
    """How the data of two versions are looked at."""

    settings: "Settings"
    what: "Assignment"
    decide: Decide

    def standing(self, most: int) -> str | None:
        """What the stored blocks decide, where a plan like this one made them and went no further; None: nothing.

        Blocks that were to be looked at once have had that look.
        """
        counted = counted_runs(self.settings, self.what)
        made = whole_blocks(counted, self.what)
        found = self._look({}, made, most) if are_looked_at_often(counted, self.what) else None
        return f"{made} blocks are stored: {found.text}" if found is not None and found.stops else None

    def after_block(self, store: "Repository", plan: "Plan", live: "Live") -> Callable[[], str | None]:
        """To be called after every block: says what is known, and returns why no more blocks are wanted."""
        from regress_gate.bench.experiment.runner import held_runs

        def ask() -> str | None:
            held = [run for run in held_runs(plan, store) if run.place is not None]
            made = whole_blocks(counted_runs(self.settings, self.what), self.what)
            most = max(plan.most_blocks or 0, made)
            found = self._look({run.place.side: run.version for run in held if run.place}, made, most)
            if found is None:
                return None
            if found.stops:
                live.note(f"stopped after block {made} of at most {most}: {found.text}")
                return found.text
            took = sum(run.place.seconds or 0.0 for run in held if run.place)
            left = took / len({run.place.block for run in held if run.place}) * (most - made)
            live.note(f"after block {made} of at most {most}: {found.text}, going on (about {in_words(left)} at most)")
            return None

        return ask

    def _look(self, built: "dict[str, Version]", made: int, most: int) -> "Look | None":
        """None while there is too little to look at. `built` are the builds that were measured, by side."""
        from regress_gate.gate.stopping import look
        from regress_gate.model.version import Ref
        from regress_gate.stats.sequential import FIRST_LOOK

        if made < FIRST_LOOK:
            return None
        left, right = (
            Ref.parse(str(built.get(side) or built_version(self.settings, self.what, side)))
            for side in self.what.versions
        )
        suite = str(self.settings.suite.value or self.what.suite.name)
        return look(self.decide((left, right), (suite, self.what.testbed.name)), made=made, most=most)
