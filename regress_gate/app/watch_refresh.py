"""What the tool knows, brought up to date for a look at a new build: arguments, the threads of records, and threads
that are new since the last search.

What fails is a note: a look goes on with what is known.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from regress_gate.app.check import check_version
from regress_gate.app.diff_config import refresh_build
from regress_gate.app.issue_tracking import discover_candidates, sync_records
from regress_gate.app.settings import Settings
from regress_gate.errors import RegressGateError
from regress_gate.known.tracker.sync import Candidate
from regress_gate.model.issue import Applies
from regress_gate.model.version import Version
from regress_gate.store.store_interface import StoredLook
from regress_gate.text import one_line, plural
from regress_gate.watch.candidates import REPO

_THREADS_SHOWN = 5
_FIRST_SEARCH = timedelta(days=7)
"""How far the first search for threads goes back."""


@dataclass(frozen=True, slots=True)
class Refreshed:
    done: tuple[str, ...]
    """What was brought up to date, a sentence each."""
    problems: tuple[str, ...]
    """What was not, and why."""


def refresh_knowledge(
    settings: Settings, pinned: Version, build: Version, wheel_index: str, say: Callable[[str], None]
) -> Refreshed:
    """Read the arguments of builds that are not known from their wheels, then look up the threads of the records that
    may concern the deployment in a move from `pinned` to `build`."""
    done, problems = list[str](), list[str]()
    for version in (pinned, build):
        say(f"reading what {version} takes")
        try:
            if refresh_build(version, wheel_index, say):
                done.append(f"the arguments of {version} were read from its wheel")
        except RegressGateError as error:
            problems.append(f"the arguments of {version} are not known: {one_line(str(error))}")
    say("looking up the threads of known issues")
    try:
        looked, problem = sync_records(None, None, only=set(_records_of_the_move(settings, pinned, build)))
    except RegressGateError as error:
        problems.append(f"threads of known issues were not looked up: {one_line(str(error))}")
    else:
        problems += [] if problem is None else [one_line(str(problem))]
        if looked.outcome.looked:
            changed = plural(len(looked.outcome.changes), "change")
            done.append(f"{plural(looked.outcome.looked, 'thread')} of known issues looked up, {changed}")
    return Refreshed(tuple(done), tuple(problems))


def _records_of_the_move(settings: Settings, pinned: Version, build: Version) -> Iterable[str]:
    checked = check_version(settings, str(build), baseline=str(pinned), offline=True)
    return (finding.issue.id for finding in checked.findings if finding.applies is not Applies.NO)


@dataclass(frozen=True, slots=True)
class NewThreads:
    """Threads of vLLM's tracker since the search before."""

    threads: tuple[Candidate, ...] = ()
    """Those that no record covers, as many as are shown."""
    notes: tuple[str, ...] = ()
    """What was not looked up, or is not shown."""
    until: datetime | None = None
    """When the search began; None: it did not give all threads, and the next one begins where this one did."""

    def kept(self) -> dict[str, Any]:
        """What a look keeps of it, as JSON values."""
        return {} if self.until is None else {"threads_until": self.until.isoformat()}


def find_new_threads(looks: Sequence[StoredLook], now: datetime, *, offline: bool) -> NewThreads:
    """Search from where the newest search of these looks ended, however long that is ago, or a week back. Not knowing
    the threads decides nothing, but is said."""
    if offline:
        return NewThreads(notes=("threads of the tracker were not looked up (offline)",))
    ends = [datetime.fromisoformat(look.data["threads_until"]) for look in looks if "threads_until" in look.data]
    since = max(ends, default=now - _FIRST_SEARCH).date()
    try:
        view, problem = discover_candidates(
            [REPO], since=since, limit=_THREADS_SHOWN, directory=None, drafts=None, offline=False, advance=None
        )
    except RegressGateError as error:
        return NewThreads(notes=(f"threads of the tracker are not known: {one_line(str(error))}",))
    notes = [] if problem is None else [one_line(str(problem))]
    if rest := view.total - len(view.candidates):
        command = f"regress-gate issues discover --since {since}"
        notes.append(f"{plural(rest, 'more thread')} that no record covers, not shown: {command}")
    return NewThreads(tuple(view.candidates), tuple(notes), now if problem is None else None)
