"""What `site` takes: a store of 500 versions × 200 series, one history of 10,000 points, and many comparisons.

    python benchmarks/site.py [--versions N] [--scenarios N] [--points N] [--comparisons N] [--keep DIRECTORY]

The first store is that of `growth.py`: ten runs a version, eight series a scenario that gate. Building its dashboard
stands against its bounds (seconds of processor time, bytes of the largest page) and against `history --detect` on the
same store, which reads and searches the same numbers. The second is one series of a single run a version. The third is
what a comparison adds: the report that `compare` made of the shipped baselines, kept many times. Seconds are the
processor's, with one thread for linear algebra. `--keep` leaves the dashboards to be looked at.
"""

import argparse
import os
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from growth import in_a_process, testbed_name
from measure import MIB, Row, mebibytes, report, run_command

MAX_SECONDS, MAX_PAGE, MAX_PEAK = 30.0, 300_000, 600 * MIB
SEED = 20261123


def make_long_store(url: str, points: int) -> None:
    """One series with a step of 10 % in its last quarter, as an import of a long table makes it."""
    import numpy as np

    from regress_gate.model.run import Run, SuiteRef, Trial, TrialSource
    from regress_gate.model.testbed import Testbed
    from regress_gate.model.version import Version
    from regress_gate.store.repository import open_store

    generator = np.random.default_rng(SEED)
    testbed, suite, begin = Testbed("bench"), SuiteRef("long", "1"), datetime(1998, 1, 1, tzinfo=UTC)
    values = 0.1 * np.exp(generator.normal(0, 0.02, points)) * np.where(np.arange(points) < points * 3 // 4, 1.0, 1.1)
    runs = []
    for number, value in enumerate(values):
        when = begin + timedelta(days=number)
        source = TrialSource(f"{number:064x}", 0, "table.csv", "long-table", when)
        trial = Trial("chat", 1, 200, 0, 60.0, {"ttft_median": float(value)}, {}, source, started=when)
        version = Version.parse(f"0.20.1rc1.dev{number}")
        runs.append(Run(version, testbed, suite, f"night{number}", (trial,), started=when))
    with open_store(url, create=True) as store:
        store.add_runs(runs)


def make_compared_store(url: str, comparisons: int) -> None:
    import json

    import regress_gate as rg
    from regress_gate.model.run import SuiteRef
    from regress_gate.model.version import Version
    from regress_gate.store.repository import open_store
    from regress_gate.store.store_interface import StoredComparison

    document = json.loads(rg.compare("0.19.1", "0.24.0", store="sqlite:////no/such/store.db").to_json())
    sides = Version("0.19.1", None, "cpu"), Version("0.24.0", None, "cpu")
    with open_store(url, create=True) as store:
        for number in range(comparisons):
            created = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number)
            made = StoredComparison(created, "cpu-2core", SuiteRef("cpu-tiny", "1"), *sides, document["decision"])
            store.add_comparison(made, {**document, "advice": f"comparison {number}"})


def largest_page(folder: Path, *, but: str = "") -> int:
    sizes = [path.stat().st_size for path in folder.rglob("*.html") if not but or but not in path.parts]
    return max(sizes)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--versions", type=int, default=500)
    parser.add_argument("--scenarios", type=int, default=25)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--comparisons", type=int, default=100)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.keep or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        wide_testbed = testbed_name(0)
        stores = {name: f"sqlite:///{directory / name}.db" for name in ("wide", "long", "compared")}

        def command(store: str, *words: str) -> list[str]:
            return [sys.executable, "-m", "regress_gate", *words, "--store", stores[store]]

        in_a_process(stores["wide"], 1, arguments.versions, arguments.scenarios, 1)
        make_in_a_process("long", stores, arguments.points)
        make_in_a_process("compared", stores, arguments.comparisons)
        search = run_command(command("wide", "history", "--detect", "--testbed", wide_testbed), directory)
        built = {
            name: run_command(command(name, "site", "--out", str(directory / f"site-{name}"), *place), directory)
            for name, place in (
                ("wide", ("--testbed", wide_testbed)),
                ("long", ("--testbed", "bench")),
                ("compared", ()),
            )
        }
        again = run_command(
            command("wide", "site", "--out", str(directory / "site-wide"), "--testbed", wide_testbed), directory
        )
        pages = {name: largest_page(directory / f"site-{name}", but="comparisons") for name in built}
        size = sum(path.stat().st_size for path in (directory / "site-wide").rglob("*") if path.is_file())
        reports = largest_page(directory / "site-compared")
    wide, series = built["wide"], 8 * arguments.scenarios
    rows = [
        Row(f"site, {arguments.versions} versions × {series} series", _seconds(wide.processor), "30 s",
            wide.processor / MAX_SECONDS, 1.0),
        Row("the same", _seconds(wide.processor), f"{_seconds(search.processor)} (history --detect)",
            wide.processor / search.processor),
        Row("built again, nothing new", _seconds(again.processor), f"{_seconds(search.processor)} (the same)",
            again.processor / search.processor),
        Row("its peak memory", mebibytes(wide.peak), "600 MiB", wide.peak / MAX_PEAK, 1.0),
        Row("its largest page", f"{pages['wide'] / 1000:.0f} kB", "300 kB", pages["wide"] / MAX_PAGE, 1.0),
        Row("all its files", mebibytes(size)),
        Row(f"site, one history of {arguments.points:,} points", _seconds(built["long"].processor), "30 s",
            built["long"].processor / MAX_SECONDS, 1.0),
        Row("its peak memory", mebibytes(built["long"].peak), "600 MiB", built["long"].peak / MAX_PEAK, 1.0),
        Row("its largest page", f"{pages['long'] / 1000:.0f} kB", "300 kB", pages["long"] / MAX_PAGE, 1.0),
        Row(f"site, {arguments.comparisons} comparisons of 38 series", _seconds(built["compared"].processor)),
        Row("a page of one", f"{reports / 1000:.0f} kB", "300 kB", reports / MAX_PAGE, 1.0),
    ]  # fmt: skip
    return report(rows)


def make_in_a_process(name: str, stores: dict[str, str], number: int) -> None:
    """See `growth.in_a_process`."""
    import multiprocessing

    target = {"long": make_long_store, "compared": make_compared_store}[name]
    making = multiprocessing.get_context("spawn").Process(target=target, args=(stores[name], number))
    making.start()
    making.join()
    if making.exitcode:
        raise RuntimeError(f"the store {name!r} could not be made")


def _seconds(processor: float) -> str:
    return f"{processor:.2f} s"


if __name__ == "__main__":
    sys.exit(main())
