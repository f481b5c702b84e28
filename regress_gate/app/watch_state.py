"""How the watch stands: what its stored looks say of itself, so that a watch that sees nothing is told from good news.

Not for making looks, which is `watch`'s.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from regress_gate.app.settings import Settings
from regress_gate.gate.sides import run_start, sides_by_version
from regress_gate.model.config import WatchConfig
from regress_gate.model.run import Run
from regress_gate.model.suite import ConditionLimits
from regress_gate.model.testbed import Testbed, compare_testbeds
from regress_gate.model.version import Version
from regress_gate.store.repository import find_store
from regress_gate.store.store_interface import StoredLook
from regress_gate.text import plural
from regress_gate.watch.alarm import AlarmKind, WatchAlarm
from regress_gate.watch.following import Followed

_ENDS_WITHIN = timedelta(days=1)
"""A look that began earlier and has no end was interrupted, or hangs."""
_AGAIN = "run the watch again: it goes on where it was"


@dataclass(frozen=True, slots=True)
class WatchState:
    """How the watch stands at one testbed and suite, for `doctor` and the dashboard."""

    testbed: str
    suite: str
    """`NAME@VERSION`."""
    looks: tuple[StoredLook, ...]
    """The newest first; at least one."""
    alarms: tuple[WatchAlarm, ...]
    next_due: datetime
    followed: tuple[Followed, ...]
    """What the newest look that ended follows, with suspicions."""

    @property
    def last(self) -> StoredLook:
        return self.looks[0]

    @property
    def look_text(self) -> str:
        """`looked on 2026-11-23: 0.33.0 → 0.33.1: pass`."""
        if self.last.ended is None:
            return f"the look at {self.last.candidate} of {self.last.begun:%Y-%m-%d} has not ended"
        return f"looked on {self.last.begun:%Y-%m-%d}: {self.last.data.get('headline') or self.last.data['kind']}"


def watch_states(settings: Settings, now: datetime) -> list[WatchState]:
    """One for each place that was ever looked at. Empty where there is no store or no look."""
    store = find_store(str(settings.store_url.value))
    if store is None:
        return []
    with store:
        looks = store.looks()
    by_place: dict[str, list[StoredLook]] = {}
    for look in looks:
        by_place.setdefault(look.place, []).append(look)
    return [_state(place, group, settings.config.watch, now) for place, group in by_place.items()]


def _state(place: str, looks: Sequence[StoredLook], config: WatchConfig, now: datetime) -> WatchState:
    testbed, _, suite = place.rpartition(" ")
    ended = [look for look in looks if look.ended is not None]
    alarms = [*watch_alarms(looks, config, now), *(alarms_of(ended[-1].data) if ended else ())]
    return WatchState(
        testbed=testbed,
        suite=suite,
        looks=tuple(reversed(looks)),
        alarms=tuple(dict.fromkeys(alarms)),
        next_due=looks[-1].begun + timedelta(days=config.every_days),
        followed=tuple(followed_by(ended)),
    )


def followed_by(ended: Sequence[StoredLook]) -> list[Followed]:
    """What is followed after these looks, the oldest first."""
    for look in reversed(ended):
        if "followed" in look.data:
            return [Followed.from_json(one) for one in look.data["followed"]]
    return []


def alarms_of(data: Mapping[str, Any]) -> list[WatchAlarm]:
    """The alarms that a look kept."""
    return [WatchAlarm.from_json(one) for one in data.get("alarms", ())]


def watch_alarms(looks: Sequence[StoredLook], config: WatchConfig, now: datetime) -> list[WatchAlarm]:
    """What the looks at one place, the oldest first, lack. Empty without looks; the alarms that they kept are not
    repeated."""
    return [*_overdue(looks, config, now), *_unfinished(looks, now), *unmeasured_alarms(looks)]


def _overdue(looks: Sequence[StoredLook], config: WatchConfig, now: datetime) -> Iterable[WatchAlarm]:
    newest = max((look.begun for look in looks if look.ended is not None), default=None)
    if newest is not None and now - newest > timedelta(days=1.5 * config.every_days):
        age, due = plural((now - newest).days, "day"), plural(config.every_days, "day")
        text = f"the watch has not run for {age}; a look is due every {due}"
        todo = "run regress-gate watch --once, and see whether its schedule is still on"
        yield WatchAlarm(AlarmKind.OVERDUE, text, todo)


def _unfinished(looks: Sequence[StoredLook], now: datetime) -> Iterable[WatchAlarm]:
    for look in looks:
        if look.ended is None and now - look.begun > _ENDS_WITHIN:
            text = f"the look at {look.candidate} of {look.begun:%Y-%m-%d} did not end"
            yield WatchAlarm(AlarmKind.UNFINISHED, text, _AGAIN)


def unmeasured_alarms(looks: Sequence[StoredLook]) -> list[WatchAlarm]:
    """Why the newest look that was to measure did not, and since when none does."""
    without = list[StoredLook]()
    for look in reversed(looks):
        if look.ended is None or look.data.get("kind") != "measure":
            continue
        if look.data.get("decision") is not None and not made_nothing(look):
            break
        without.append(look)
    if not without:
        return []
    newest, count = without[0], len(without)
    runs = newest.data.get("runs", {})
    if made_nothing(newest) and runs["void"]:
        of = "the last look" if count == 1 else f"the last of {count} looks without a measurement"
        text = f"the machine was never quiet: of {plural(runs['void'], 'run')} in {of} none counts: {runs['why']}"
        todo = f"see regress-gate baseline show {newest.candidate}, and keep other work off the machine"
        return [WatchAlarm(AlarmKind.NEVER_QUIET, text, todo)]
    text = "" if count == 1 else f"nothing was measured since {without[-1].begun:%Y-%m-%d}: "
    text += str(newest.data["headline"])
    if made_nothing(newest):
        text += f"; {plural(runs['failed'], 'server start')} of both versions failed"
    todo = "run the watch again, which tries it again; see regress-gate doctor"
    return [WatchAlarm(AlarmKind.NOT_MEASURED, text, todo)]


def made_nothing(look: StoredLook) -> bool:
    """Whether the look made runs of which none counts, on either side: what was decided is not of this build."""
    runs = look.data.get("runs", {})
    return not runs.get("counted") and bool(runs.get("void", 0) + runs.get("failed", 0))


def look_runs(runs: Iterable[Run], limits: ConditionLimits, pinned: Version, begun: datetime) -> dict[str, Any]:
    """What a look keeps of its runs, as JSON values: how many count and how many are void, and why; the libraries of
    the pinned version. Of all given runs those count that began with the look or later."""
    made = [run for run in runs if (start := run_start(run)) is not None and start >= begun]
    sides = sides_by_version(made, limits)
    void = [each for side in sides for each in side.void]
    libraries = [dict(run.libraries) for run in made if run.version.matches(pinned) and run.libraries]
    counts = {
        "counted": sum(len(side.counted) for side in sides),
        "failed": sum(len(side.failed) for side in sides),
        "void": len(void),
        "why": void[-1].reason if void else "",
    }
    return {"runs": counts} | ({"libraries": libraries[-1]} if libraries else {})


def changed_testbed(looks: Sequence[StoredLook], here: Testbed) -> WatchAlarm | None:
    """What differs between this machine and the one of the newest look that says it, the oldest first; None: nothing
    that is known."""
    for look in reversed(looks):
        if (facts := look.data.get("testbed")) is not None and look.ended is not None:
            differences = compare_testbeds(Testbed(here.name, **facts), here).differences
            todo = "the next look compares both versions on it as it is now; measure stored baselines again"
            return _change(here.name, look, map(str, differences), todo)
    return None


def changed_libraries(
    looks: Sequence[StoredLook], testbed: str, pinned: Version, libraries: Mapping[str, str]
) -> WatchAlarm | None:
    """What changed in the environment of the pinned version since the newest look that measured it."""
    for look in reversed(looks):
        before = look.data.get("libraries")
        if before is not None and look.data.get("pinned") == str(pinned) and libraries:
            changes = [
                f"{name}: {before.get(name, 'absent')} → {libraries.get(name, 'absent')}"
                for name in sorted({*before, *libraries})
                if before.get(name) != libraries.get(name)
            ]
            todo = f"older runs of {pinned} were made with other libraries: measure it again, or pin the old ones"
            return _change(testbed, look, changes, todo)
    return None


def _change(testbed: str, look: StoredLook, changes: Iterable[str], todo: str) -> WatchAlarm | None:
    named = ", ".join(changes)
    text = f"{testbed} changed since the look of {look.begun:%Y-%m-%d}: {named}"
    return WatchAlarm(AlarmKind.TESTBED_CHANGED, text, todo) if named else None
