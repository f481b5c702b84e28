"""Progress of a long measurement: what a use case reports while it runs. Not for how it is shown."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    pass


class ProgressReporter(Protocol):
    def say(self, text: str) -> None:
        """What takes time now."""

    def requests(self, what: str, sent: int, total: int) -> None:
        """How far the requests of what is measured now are."""

    def note(self, text: str) -> None:
        """A line that stays."""

    def expect(self, seconds: float | None) -> None:
        """How long everything will still take; None: not known yet."""
