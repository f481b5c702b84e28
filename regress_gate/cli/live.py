"""Live progress of a long measurement on standard error: a bar and the time left at a terminal, lines in a log."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click

from regress_gate.cli.duration import in_words
from regress_gate.cli.text import plain

if TYPE_CHECKING:
    from rich.progress import Progress


class Live(Protocol):
    def say(self, text: str) -> None:
        """What takes time now."""

    def requests(self, what: str, sent: int, total: int) -> None:
        """How far the requests of what is measured now are."""

    def note(self, text: str) -> None:
        """A line that stays."""

    def expect(self, seconds: float | None) -> None:
        """How long everything will still take; None: not known yet."""


class _Quiet:
    def say(self, text: str) -> None:
        """Nobody listens."""

    def requests(self, what: str, sent: int, total: int) -> None:
        """Nobody listens."""

    def note(self, text: str) -> None:
        """Nobody listens."""

    def expect(self, seconds: float | None) -> None:
        """Nobody listens."""


class _Lines:
    """For logs: what begins is said once, requests are not counted."""

    def __init__(self) -> None:
        self._said = ""
        self._until: float | None = None

    def say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            left = "" if self._until is None else f" ({_left(self._until)})"
            click.echo(plain(text) + left, err=True)

    def requests(self, what: str, sent: int, total: int) -> None:  # noqa: ARG002 - the protocol's
        self.say(f"measuring {what}")

    def note(self, text: str) -> None:
        click.echo(plain(text), err=True)

    def expect(self, seconds: float | None) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds


class _Bar:
    def __init__(self, bar: "Progress") -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None)
        self._until: float | None = None

    def say(self, text: str) -> None:
        self._bar.update(self._task, description=self._described(text), total=None, completed=0)

    def requests(self, what: str, sent: int, total: int) -> None:
        self._bar.update(self._task, description=self._described(what), total=total, completed=sent)

    def note(self, text: str) -> None:
        self._bar.console.print(plain(text), markup=False, highlight=False, soft_wrap=True)

    def expect(self, seconds: float | None) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds

    def _described(self, text: str) -> str:
        from rich.markup import escape

        left = "" if self._until is None else f" · {_left(self._until)}"
        return escape(plain(text)) + left


@contextmanager
def live_on_stderr(*, quiet: bool) -> Iterator[Live]:
    if quiet:
        yield _Quiet()
        return
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        yield _Bar(bar)


def _left(until: float) -> str:
    seconds = until - time.monotonic()
    return f"about {in_words(seconds)} left" if seconds > 0 else "nearly done"
