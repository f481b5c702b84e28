"""Progress on standard error: nothing when quiet, one line for each thing in a log, a bar at a terminal."""

import io
import os
import pty
import re
from contextlib import contextmanager, redirect_stderr
from types import SimpleNamespace

import pytest

from regress_gate.cli import progress as module
from regress_gate.cli.progress import progress_on_stderr

HOSTILE = "\x1b]0;owned\x07[red]measured[/red]\x1b[2J"


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


class TestLog:
    def test_what_takes_time_is_said_once_and_again_only_after_something_else(self, capsys):
        with progress_on_stderr(quiet=False) as live:
            for text in ("starting", "starting", "measuring", "starting"):
                live.say(text)
        assert capsys.readouterr().err.splitlines() == ["starting", "measuring", "starting"]

    def test_requests_are_not_counted_line_by_line(self, capsys):
        with progress_on_stderr(quiet=False) as live:
            for sent in range(100):
                live.requests("0.19.1, c4", sent, 100)
        assert capsys.readouterr().err.splitlines() == ["measuring 0.19.1, c4"]

    def test_notes_stay_however_often_they_come(self, capsys):
        with progress_on_stderr(quiet=False) as live:
            live.note("run:1 done")
            live.note("run:1 done")
        assert capsys.readouterr().err.splitlines() == ["run:1 done"] * 2

    def test_how_long_it_will_take_counts_down(self, capsys, clock):
        with progress_on_stderr(quiet=False) as live:
            live.expect(600)
            live.say("starting")
            clock[0] += 540
            live.say("measuring")
            clock[0] += 120
            live.say("starting")
            live.expect(None)
            live.say("measuring")
        assert capsys.readouterr().err.splitlines() == [
            "starting (about 10 min left)",
            "measuring (about 60 s left)",
            "starting (nearly done)",
            "measuring",
        ]

    def test_text_from_outside_cannot_steer_the_terminal(self, capsys):
        with progress_on_stderr(quiet=False) as live:
            live.say(HOSTILE)
            live.note(HOSTILE)
            live.requests(HOSTILE, 1, 2)
        err = capsys.readouterr().err
        assert "\x1b" not in err
        assert "\x07" not in err
        assert "[red]measured[/red]" in err  # brackets are only text


def test_quiet_says_nothing(capsys):
    with progress_on_stderr(quiet=True) as live:
        live.say("starting")
        live.requests("c4", 1, 2)
        live.note("note")
        live.expect(10)
    assert capsys.readouterr().err == ""


class TestTerminal:
    @pytest.fixture
    def screen(self, monkeypatch):
        """Everything that a terminal of 100 columns was sent, and what writes to it."""
        monkeypatch.setenv("COLUMNS", "100")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        ours, theirs = pty.openpty()
        os.set_blocking(ours, False)
        shown = []

        @contextmanager
        def live():
            with io.TextIOWrapper(os.fdopen(theirs, "wb", buffering=0), encoding="utf-8", write_through=True) as stream:
                with redirect_stderr(stream), progress_on_stderr(quiet=False) as live:
                    yield live
                while True:
                    try:
                        shown.append(os.read(ours, 65536).decode())
                    except OSError:
                        return

        yield live, shown
        os.close(ours)

    def test_a_bar_shows_what_is_measured_how_far_and_how_long_still(self, screen):
        on_screen, parts = screen
        with on_screen() as live:
            live.expect(300)
            live.requests("0.19.1, c4", 30, 40)
        shown = "".join(parts)
        assert "0.19.1, c4 · about 5 min left" in shown
        assert "30/40" in shown

    def test_notes_stay_above_it_and_it_goes_away(self, screen):
        on_screen, parts = screen
        with on_screen() as live:
            live.say("starting")
            live.note("run:1 done")
        shown = "".join(parts)
        assert re.search(r"run:1 done\r?\n", shown)
        assert shown.rindex("\x1b[2K") > shown.rindex("starting")  # its line is cleared at the end

    def test_text_from_outside_is_only_text(self, screen):
        on_screen, parts = screen
        with on_screen() as live:
            live.say(HOSTILE)
            live.note(HOSTILE)
        shown = "".join(parts)
        assert "\x1b]0;" not in shown
        assert "\x1b[2J" not in shown
        assert shown.count("[red]measured[/red]") >= 2
