"""Progress of long work: the protocol that use cases report to. Not for how progress is shown."""

from typing import Protocol


class ProgressReporter(Protocol):
    def say(self, text: str) -> None:
        """The step that takes time now."""

    def requests(self, what: str, sent: int, total: int) -> None:
        """Requests sent in the measurement that runs now."""

    def note(self, text: str) -> None:
        """A remark that stays on screen."""

    def warn(self, text: str) -> None:
        """A remark that is shown under --quiet too."""

    def expect(self, seconds: float | None) -> None:
        """Seconds until everything is done; None: unknown."""


class NoProgress:
    """Reports nothing."""

    def say(self, text: str) -> None: ...

    def requests(self, what: str, sent: int, total: int) -> None: ...

    def note(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    def expect(self, seconds: float | None) -> None: ...
