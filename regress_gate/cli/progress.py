"""Progress on standard error: a bar at a terminal, lines in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from regress_gate.app.settings import NoProgress, ProgressReporter
from regress_gate.report.views.list_view import printable
from regress_gate.text import duration_text

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


BAR_AFTER = 1.0
"""Seconds before a bar appears."""


@contextmanager
def counter_on_stderr(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A callback (done, total) that draws a bar; None without a terminal and under --quiet."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # only a terminal has a bar
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(what, total=None)
    begun = time.monotonic()

    def advance(done: int, total: int) -> None:
        if not bar.live.is_started and time.monotonic() - begun > BAR_AFTER:
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield advance
    finally:
        bar.stop()


class _QuietProgress(NoProgress):
    """For --quiet: warnings only."""

    def warn(self, text: str) -> None:
        click.echo(printable(text), err=True)


class _LineProgress:
    """For logs: one line for each step, no count of requests."""

    def __init__(self) -> None:
        self._said = ""
        self._said_by: dict[str, str | None] = {}
        self._until: float | None = None

    def say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            left = "" if self._until is None else f" ({_time_left(self._until)})"
            click.echo(printable(text) + left, err=True)

    def requests(self, what: str, sent: int, total: int) -> None:  # noqa: ARG002 - the protocol's
        self.say(f"measuring {what}")

    def host(self, name: str, text: str | None) -> None:
        # Without the count of requests, which changes every second.
        step = None if text is None else text.rpartition(", ")[0] if text.endswith(" requests") else text
        if step != self._said_by.get(name):
            self._said_by[name] = step
            if step is not None:
                click.echo(printable(f"{name}: {step}"), err=True)

    def note(self, text: str) -> None:
        click.echo(printable(text), err=True)

    warn = note

    def expect(self, seconds: float | None) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds


class _BarProgress:
    def __init__(self, bar: "Progress") -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None)
        self._hosts: dict[str, TaskID] = {}
        self._until: float | None = None

    def say(self, text: str) -> None:
        self._bar.update(self._task, description=self._described(text), total=None, completed=0)

    def requests(self, what: str, sent: int, total: int) -> None:
        self._bar.update(self._task, description=self._described(what), total=total, completed=sent)

    def host(self, name: str, text: str | None) -> None:
        from rich.markup import escape  # as above

        task = self._hosts.pop(name, None) if text is None else self._hosts.get(name)
        if text is None and task is not None:
            self._bar.remove_task(task)
        elif text is not None:
            if task is None:
                task = self._hosts[name] = self._bar.add_task("", total=None)
            self._bar.update(task, description=escape(printable(f"{name}: {text}")))

    def note(self, text: str) -> None:
        self._bar.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    warn = note

    def expect(self, seconds: float | None) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds

    def _described(self, text: str) -> str:
        from rich.markup import escape  # as above

        left = "" if self._until is None else f" · {_time_left(self._until)}"
        return escape(printable(text)) + left


@contextmanager
def progress_on_stderr(*, quiet: bool) -> Iterator[ProgressReporter]:
    if quiet:
        yield _QuietProgress()
        return
    if not sys.stderr.isatty():
        yield _LineProgress()
        return
    from rich.console import Console  # only a terminal has a bar
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
        yield _BarProgress(bar)


def _time_left(until: float) -> str:
    seconds = until - time.monotonic()
    return f"about {duration_text(seconds)} left" if seconds > 0 else "nearly done"
