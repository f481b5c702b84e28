"""What can go wrong while writing: several processes at once, a kill, a full disk, a lock that is not given back.

In each case either everything of an import is stored or nothing, and the store is usable afterwards.
"""

import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from regress_gate.errors import InputError, StoreError
from regress_gate.model.testbed import Testbed
from regress_gate.store.database import Database
from regress_gate.store.repository import Repository, open_store
from regress_gate.store.store_interface import StoreLocation
from tests.factories.stored_runs import make_run, make_samples, make_source, make_trial

IMPORTER = textwrap.dedent(
    """
    import sys
    from regress_gate.store.repository import open_store
    from tests.factories.stored_runs import make_run, make_samples, make_trial
    url, name = sys.argv[1:]
    print("ready", flush=True)
    sys.stdin.readline()
    with open_store(url, create=True) as store:
        runs = [make_run("run1", make_trial("shared")), make_run("common", make_trial(f"{name} common"))]
        runs += [make_run(f"{name}{n}", make_trial(f"{name}{n}", samples=make_samples())) for n in range(300)]
        added = store.add_runs(runs)
    print(len(added.new), len(added.extended), added.trials, len(added.duplicates))
    """
)

KILLED = textwrap.dedent(
    """
    import sys, time
    from regress_gate.store.repository import open_store
    from tests.factories.stored_runs import make_run, make_samples, make_trial
    def runs():
        for number in range(1000):
            if number == 900:
                print("writing", flush=True)
                time.sleep(60)
            yield make_run(f"run{number}", make_trial(str(number), samples=make_samples([[0.01 * number] * 900] * 9)))
    with open_store(sys.argv[1], create=True) as store:
        store.add_runs(runs())
    """
)

FULL = textwrap.dedent(
    """
    import resource, signal, sys
    from regress_gate.errors import StoreError
    from regress_gate.store.repository import open_store
    from tests.factories.stored_runs import make_run, make_samples, make_trial
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    gaps = [[(n * m % 997) / 1e4 for n in range(1000)] for m in range(20)]
    with open_store(sys.argv[1], create=False) as store:
        try:
            store.add_runs([make_run(f"run{n}", make_trial(str(n), samples=make_samples(gaps))) for n in range(100)])
        except StoreError as error:
            print(error)
    """
)


def start(code: str, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_two_processes_that_make_and_fill_the_same_store_wait_for_each_other(url: str) -> None:
    processes = [start(IMPORTER, url, name) for name in ("left", "right")]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = sorted(process.communicate()[0] for process in processes)
    assert [process.returncode for process in processes] == [0, 0]
    assert said == ["300 1 301 1\n", "302 0 302 0\n"], "the second finds one file known and one run to extend"
    with open_store(url, create=False) as store:
        assert (store.info().runs, store.info().trials) == (602, 603)


def test_a_killed_import_leaves_nothing_and_blocks_no_other_process(url: str) -> None:
    with open_store(url, create=True) as store:
        store.add_runs([make_run("before", make_trial("before"))])
    process = start(KILLED, url)
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    with open_store(url, create=False) as store:
        assert [run.label for run in store.runs()] == ["before"], "nobody sees an import that is not finished"
    process.kill()
    process.communicate()
    with open_store(url, create=False) as store:
        assert [run.label for run in store.runs()] == ["before"]
        store.add_runs([make_run("after", make_trial("after"))])
        assert store.info().trials == 2
    if store.location.path is not None:
        with sqlite3.connect(store.location.path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()


def test_a_full_disk_is_reported_and_nothing_is_half_stored(sqlite_url: str) -> None:
    with open_store(sqlite_url, create=True) as store:
        store.add_runs([make_run("before", make_trial("before"))])
    process = start(FULL, sqlite_url)
    said, _ = process.communicate()
    assert process.returncode == 0
    assert "nothing was changed; check the disk, its space" in said
    with open_store(sqlite_url, create=False) as store:
        assert [run.label for run in store.runs()] == ["before"]
        store.add_runs([make_run("after", make_trial("after"))])


def test_a_store_that_may_not_grow_is_a_full_disk(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(sqlite_url, create=True) as store:
        store.add_runs([make_run("before", make_trial("before"))])
    connect = sqlite3.connect

    def connect_to_small_disk(*arguments: object, **options: object) -> sqlite3.Connection:
        connection = connect(*arguments, **options)  # type: ignore[call-overload]
        connection.execute("PRAGMA max_page_count = 40")
        return connection  # type: ignore[no-any-return]

    monkeypatch.setattr(sqlite3, "connect", connect_to_small_disk)
    samples = make_samples([[n * m % 997 / 1e4 for n in range(1000)] for m in range(20)])
    with open_store(sqlite_url, create=False) as store:
        with pytest.raises(StoreError, match="the disk is full, nothing was stored"):
            store.add_runs([make_run(f"run{n}", make_trial(str(n), samples=samples)) for n in range(20)])
        assert [run.label for run in store.runs()] == ["before"]


def test_a_writer_that_does_not_end_is_reported(tmp_path: Path, sqlite_url: str) -> None:
    with open_store(sqlite_url, create=True):
        pass
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with Repository(Database(StoreLocation.parse(sqlite_url), create=False, timeout=0.1)) as store:
        assert store.runs() == [], "readers do not wait"
        with pytest.raises(StoreError, match="another process has been writing to the store for too long"):
            store.add_runs([make_run("run1")])
    other.close()


HOSTILE = [
    "'; DROP TABLE run; --",
    '"quoted" `ticked` [bracketed]',
    "\x01\x1b[31mred\x7f\u0085\u2028",
    "🦄‍🏳️‍🌈",
    "\u202eرشاشة\u202c עברית",
    "%s %(name)s {0} $1 :label ?",
    "../../etc/passwd",
    "",
    " ",
    "a" * 500,
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_is_only_text(store: Repository, hostile: str) -> None:
    trial = make_trial(
        "a",
        scenario=hostile,
        metrics={hostile: 1.0},
        workload={hostile: hostile},
        source=make_source("a", path=hostile, format=hostile, tool=hostile, client_version=hostile, command=hostile),
    )
    testbed = Testbed(hostile, accelerator=hostile, cpu=hostile, os=hostile)
    run = make_run(hostile, trial, testbed=testbed, libraries={hostile: hostile}, metrics={hostile: 2.0})
    store.add_runs([run])
    [found] = store.runs(testbed=hostile, suite=run.suite)
    assert (found.key, found.testbed, found.libraries) == (run.key, testbed, {hostile: hostile})
    assert found.trials == (trial,)
    assert store.inventory()[0].testbed == hostile


@pytest.mark.parametrize("unkept", ["\ud800", "nul\0", "a" * 100_000])
def test_a_name_that_cannot_be_kept_is_refused_in_one_line(store: Repository, unkept: str) -> None:
    for run in (
        make_run(unkept),
        make_run("run1", testbed=Testbed(unkept)),
        make_run("run1", make_trial("a", scenario=unkept)),
        make_run("run1", make_trial("a", metrics={unkept: 1.0})),
        make_run("run1", libraries={"torch": unkept}),
    ):
        with pytest.raises(InputError) as failure:
            store.add_runs([run])
        assert "\n" not in str(failure.value)
        assert len(str(failure.value)) < 500
        str(failure.value).encode()
    assert store.info().runs == store.info().testbeds == 0


def test_a_path_that_cannot_be_kept_is_kept_readable(store: Repository) -> None:
    long = "d/" * 50_000
    trials = [
        make_trial("a", source=make_source("a", path="results/\udcff.json", command="x\0y")),
        make_trial("b", source=make_source("b", path=long)),
    ]
    store.add_runs([make_run("run1", *trials)])
    [first, second] = store.runs()[0].trials
    assert (first.source.path, first.source.command) == ("results/\\udcff.json", "x\\x00y")
    assert second.source.path == long


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"metrics": {"ttft_mean": float("nan")}}, "metric ttft_mean is nan"),
        ({"duration": float("inf")}, "duration is inf"),
        ({"completed": 2**63}, "completed 9223372036854775808 is out of range"),
        ({"failed": -1}, "failed -1 is out of range"),
        ({"workload": {"seed": 2**70}}, "workload seed .* is out of range"),
        ({"workload": {"when": object()}}, "workload when cannot be stored: object"),
        ({"workload": {"x": {1: 2}}}, "workload x cannot be stored: dict"),
        ({"samples": make_samples([[1e300]])}, "a request's time is out of range"),
    ],
)
def test_values_that_are_no_measurement_are_refused(store: Repository, given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        store.add_runs([make_run("fine", make_trial("b")), make_run("run1", make_trial("a", **given))])
    assert store.runs() == []
