"""The nightly watch on the dashboard: how it stands for each suite on a testbed, and its past looks.

Not for what a look found, which is on the page of its comparison.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from regress_gate.model.run import SuiteRef
from regress_gate.report.site.names import place_name
from regress_gate.report.site.templates import TITLE, render_page
from regress_gate.text import plural

WATCH_PAGE = "watch.html"
MOST_LOOKS = 200
"""Past looks of one place on the page: two builds a week for two years."""


@dataclass(frozen=True, slots=True)
class PastLook:
    begun: datetime
    build: str
    """Empty: nothing was new."""
    outcome: str
    """A decision, or why there is none: `not measured`, `nothing new`, `no answer`, `not ended`."""
    text: str
    """What else is to be known of it; may be empty."""
    alarms: int
    page: str | None = None
    """Of its comparison, from the dashboard's first page; None: it was not kept."""


@dataclass(frozen=True, slots=True)
class FollowedRegression:
    title: str
    state: str
    """`seen`, `gone` or `unknown`, at the newest look."""
    is_suspicion: bool
    """It was seen once, and waits for a second look."""
    looks: int
    bisect_command: str


@dataclass(frozen=True, slots=True)
class WatchedPlace:
    """A suite on a testbed, as the watch stands there when the dashboard is built."""

    testbed: str
    suite: SuiteRef
    looks: Sequence[PastLook]
    """The newest first; at least one."""
    next_due: datetime
    is_overdue: bool
    alarms: Sequence[tuple[str, str, str]]
    """Kind, text, and what to do."""
    followed: Sequence[FollowedRegression]

    @property
    def id(self) -> str:
        return place_name(self.testbed, self.suite)

    @property
    def title(self) -> str:
        return f"{self.suite} on {self.testbed}"


def watch_rows(places: Sequence[WatchedPlace]) -> list[dict[str, Any]]:
    """What the first page says of the watch."""
    return [
        {
            "page": f"{WATCH_PAGE}#{place.id}",
            "title": place.title,
            "last": place.looks[0],
            "next_due": place.next_due,
            "is_overdue": place.is_overdue,
            "alarms": [text for _, text, _ in place.alarms],
            "followed": _followed_text(place),
        }
        for place in places
    ]


def watch_page(places: Sequence[WatchedPlace]) -> str:
    return render_page(
        "watch.html",
        root="",
        trail=[("index.html", TITLE)],
        heading="Nightly watch",
        subtitle="New builds beside the pinned version",
        places=[
            {
                "id": place.id,
                "title": place.title,
                "last": place.looks[0],
                "next_due": place.next_due,
                "is_overdue": place.is_overdue,
                "alarms": place.alarms,
                "followed": place.followed,
                "looks": place.looks[:MOST_LOOKS],
                "more": plural(len(place.looks) - MOST_LOOKS, "older look") if len(place.looks) > MOST_LOOKS else "",
            }
            for place in places
        ],
    )


def watch_data(places: Sequence[WatchedPlace]) -> list[dict[str, Any]]:
    """For programs. Pages are relative to the dashboard's first page."""
    return [
        {
            "testbed": place.testbed,
            "suite": place.suite.name,
            "suite_version": place.suite.version,
            "page": f"{WATCH_PAGE}#{place.id}",
            "last_look": _look_data(place.looks[0]),
            "next_due": place.next_due.isoformat(),
            "overdue": place.is_overdue,
            "alarms": [{"kind": kind, "text": text, "todo": todo} for kind, text, todo in place.alarms],
            "followed": [
                {
                    "title": one.title,
                    "state": one.state,
                    "suspicion": one.is_suspicion,
                    "looks": one.looks,
                    "bisect_command": one.bisect_command,
                }
                for one in place.followed
            ],
            "looks": [_look_data(look) for look in place.looks[:MOST_LOOKS]],
        }
        for place in places
    ]


def _look_data(look: PastLook) -> dict[str, Any]:
    return {
        "begun": look.begun.isoformat(),
        "build": look.build or None,
        "outcome": look.outcome,
        "text": look.text,
        "alarms": look.alarms,
        "page": look.page,
    }


def _followed_text(place: WatchedPlace) -> str:
    open_ones = [one for one in place.followed if one.state != "gone"]
    suspicions = sum(one.is_suspicion for one in open_ones)
    confirmed = len(open_ones) - suspicions
    parts = [plural(confirmed, "regression")] * bool(confirmed) + [plural(suspicions, "suspicion")] * bool(suspicions)
    return ", ".join(parts)
