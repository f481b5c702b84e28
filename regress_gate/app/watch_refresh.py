"""What the tool knows, brought up to date for a look at a new build: arguments, and the threads of records.

What fails is a note: a look goes on with what is known.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from regress_gate.app.check import check_version
from regress_gate.app.diff_config import refresh_build
from regress_gate.app.issue_tracking import sync_records
from regress_gate.app.settings import Settings
from regress_gate.errors import RegressGateError
from regress_gate.model.issue import Applies
from regress_gate.model.version import Version
from regress_gate.text import one_line, plural


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
