"""What eight programs that use one store at once wait for each other, and whether all that they store is there.

    python benchmarks/writers.py [--runs N] [--scenarios N] [--url postgresql://…]

Four processes store runs of a whole suite one by one, as measuring machines do, and four read the runs of a version, as
comparisons do, all with short pauses. Each call is timed. The longest stands against the promise of one second; the
median of each kind against the same calls of one process that has the store for itself, before. With `--url`, an empty
PostgreSQL database is the store; the default is a SQLite file. Wall time counts here: let the machine
be idle.
"""

import argparse
import hashlib
import multiprocessing
import random
import statistics
import tempfile
import time
from itertools import chain
from multiprocessing.synchronize import Barrier
from pathlib import Path

from growth import make_runs, version_name
from measure import Row, milliseconds, report

LONGEST = 1.0
"""Seconds."""
WRITERS = READERS = 4
PAUSE = 0.1
"""Seconds between two calls of a process, on average."""
Calls = tuple[str, list[float], int]
"""What was done, the seconds of each call, and how many runs were stored."""


def write(url: str, name: str, runs: int, scenarios: int) -> Calls:
    from dataclasses import replace

    from regress_gate.store.repository import open_store

    seconds, stored = [], 0
    nights = range(1, runs // 10 + 2)
    made = chain.from_iterable(make_runs(night, night + 1, scenarios) for night in nights)
    with open_store(url, create=False) as store:
        for number, run in zip(range(runs), made, strict=False):
            trials = tuple(
                replace(trial, source=replace(trial.source, sha256=digest(name, trial.source.sha256)))
                for trial in run.trials
            )
            one = replace(run, label=f"{name}/{run.label}", trials=trials, place=replace(run.place, experiment=name))
            begin = time.perf_counter()
            stored += len(store.add_runs([one]).new)
            seconds.append(time.perf_counter() - begin)
            pause(name, number)
    return "write", seconds, stored


def digest(name: str, sha256: str) -> str:
    """No two writers store the same result."""
    return hashlib.sha256(f"{name} {sha256}".encode()).hexdigest()


def read(url: str, name: str, calls: int) -> Calls:
    from regress_gate.model.version import Version
    from regress_gate.store.repository import open_store

    seconds = []
    with open_store(url, create=False) as store:
        for number in range(calls):
            begin = time.perf_counter()
            with store.one_state():
                for _ in store.runs(version=Version.parse(version_name(1))):
                    pass
            seconds.append(time.perf_counter() - begin)
            pause(name, number)
    return "read", seconds, 0


def pause(name: str, number: int) -> None:
    time.sleep(random.Random(f"{name} {number}").expovariate(1 / PAUSE))


def work(begin: Barrier, kind: str, *arguments: object) -> Calls:
    begin.wait()
    return {"write": write, "read": read}[kind](*arguments)  # type: ignore[operator]


def at_once(jobs: list[tuple[object, ...]]) -> list[Calls]:
    """Each job in a process of its own; all begin together."""
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, context.Pool(len(jobs)) as pool:
        begin = manager.Barrier(len(jobs))
        return pool.starmap(work, [(begin, *job) for job in jobs])


def main() -> int:
    from regress_gate.store.repository import open_store

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="that each writer stores")
    parser.add_argument("--scenarios", type=int, default=12)
    parser.add_argument("--url", help="an empty PostgreSQL database")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        url = given.url or f"sqlite:///{Path(temporary) / 'store.db'}"
        with open_store(url, create=True):
            pass
        alone = [
            *at_once([("write", url, "alone", given.runs, given.scenarios)]),
            *at_once([("read", url, "alone", given.runs)]),
        ]
        together = at_once(
            [
                *(("write", url, f"w{n}", given.runs, given.scenarios) for n in range(WRITERS)),
                *(("read", url, f"r{n}", given.runs) for n in range(READERS)),
            ]
        )
        with open_store(url, create=False) as store:
            held = store.info().runs
    said = sum(stored for _, _, stored in [*alone, *together])
    asked = given.runs * (1 + WRITERS)
    rows = [
        Row("runs that are not there", str(asked - held), f"{asked} stored", float(asked != said or held != said), 0.0)
    ]
    for kind in ("write", "read"):
        single = [seconds for what, calls, _ in alone if what == kind for seconds in calls]
        many = [seconds for what, calls, _ in together if what == kind for seconds in calls]
        usual, usual_alone = statistics.median(many), statistics.median(single)
        rows.append(Row(f"{kind}, median of {len(many)}", milliseconds(usual), f"alone {milliseconds(usual_alone)}",
                        usual / usual_alone))  # fmt: skip
        rows.append(Row(f"{kind}, longest", milliseconds(max(many)), f"alone {milliseconds(max(single))}; promised 1 s",
                        max(many) / LONGEST, 1.0))  # fmt: skip
    return report(rows)


if __name__ == "__main__":
    raise SystemExit(main())
