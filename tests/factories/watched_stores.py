"""A store in which a watch has looked, with all that a look can end in."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from regress_gate.model.run import SuiteRef
from regress_gate.model.version import Version
from regress_gate.store.repository import open_store
from regress_gate.store.store_interface import StoredComparison, StoredLook
from regress_gate.watch.alarm import AlarmKind, WatchAlarm
from regress_gate.watch.following import Followed
from tests.factories.dashboards import LAB, SOAK, long_history
from tests.factories.results import a_result
from tests.factories.watching import a_finding

PINNED = Version.parse("0.30.0")


def watched_store(path: Path, now: datetime, text: str = "the newest nightly is 5 days old", **finding: Any) -> str:
    """URL of a store with five looks at SOAK on LAB, the last one eight days before `now`, and a comparison of one."""
    url, place = f"sqlite:///{path}", f"{LAB.name} {SOAK}"
    alarm = WatchAlarm(AlarmKind.STALE_BUILD, text, "see whether it is still built")
    followed = [
        Followed(a_finding(1, **finding), "chat", "output_throughput", is_confirmed=True),
        Followed(a_finding(2, **finding), "chat", "ttft", is_confirmed=False),
    ]

    def look(days: float, build: int | None, kind: str, **data: Any) -> StoredLook:
        begun = now - timedelta(days=days)
        candidate = None if build is None else Version.parse(f"0.30.1rc1.dev{build}")
        ended = None if data.pop("hangs", False) else begun + timedelta(hours=1)
        whole = {"kind": kind, "pinned": str(PINNED), "alarms": [], **data}
        return StoredLook(f"{begun:%Y%m%d}", place, begun, ended, candidate, whole)

    told = {"followed": [one.to_json() for one in followed]}
    looks = [
        look(36, 100, "measure", decision="pass", headline="0.30.0 → 0.30.1rc1.dev100: pass"),
        look(29, 107, "measure", decision=None, headline=f"0.30.1rc1.dev107 could not be measured: {text}"),
        look(
            22,
            114,
            "measure",
            decision="fail",
            headline="0.30.0 → 0.30.1rc1.dev114: fail, 1 regression is followed",
            **told,
        ),
        look(15, 121, "measure", hangs=True),
        look(11, None, "nothing new", headline="nothing new", alarms=[alarm.to_json()]),
    ]
    failed = StoredComparison(looks[2].begun, LAB.name, SuiteRef(SOAK.name, SOAK.version), PINNED,
                              Version.parse("0.30.1rc1.dev114+gabcdef012"), "fail")  # fmt: skip
    with open_store(url, create=True) as repository:
        repository.add_runs(long_history(3))
        repository.add_comparison(failed, a_result().model_dump(mode="json"))
        for one in looks:
            repository.put_look(one)
    return url
