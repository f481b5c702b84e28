"""A file is read among others as it is read alone: nothing that an import remembers changes what comes of the next.

Files of every format, and many that only look like them, are imported one by one and all together, from folders, packed
files and archives. What files are meant to do to each other (copies, one scenario or run of several) is not asked here.
"""

import gzip
import json
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from regress_gate.errors import InputError
from regress_gate.ingest.content import parse_content
from regress_gate.ingest.identification import DuplicateIndex
from regress_gate.ingest.identity import IdentityFlags
from regress_gate.ingest.importer import read_paths
from regress_gate.ingest.interface import FileOutcome, FileReport, ImportResult
from regress_gate.ingest.registry import READERS
from regress_gate.store.repository import open_store
from regress_gate.text import excerpt
from tests.factories.serve_results import detailed, made_up, plain, write
from tests.factories.stored_runs import plain_samples
from tests.ingest.formats.samples import SAMPLES
from tests.ingest.test_archives import tarred_and_packed, zipped

Files = dict[str, bytes]
BANNER = "============ Serving Benchmark Result ============"
OTHER_KINDS: tuple[Any, ...] = (None, 7, 2.5, "x", [], [1.5], [{}], {}, {"latency": 1})
SAID: tuple[dict[str, Any], ...] = (
    {"run_per_file": True},
    {"version": "0.19.1", "pattern": "{run}/artefacts/*"},
    {"scenario": "chat", "pattern": "{run}.*/artefacts/*"},
    {"version": "0.19.1", "scenario": "chat", "client_version": "0.19.1", "run_per_file": True},
    {"version": "0.19.1", "pattern": "{scenario}/artefacts/*", "run_per_file": True},
)
"""By each a file is of a run of its own: what files of one run do to each other is not asked."""
IMPORTED = datetime(2026, 11, 21, tzinfo=UTC)


def as_folder(path: Path, files: Files) -> Path:
    for name, data in files.items():
        write(path / name, data)
    return path


def as_packed_folder(path: Path, files: Files) -> Path:
    return as_folder(path, {f"{name}.gz": gzip.compress(data, mtime=0) for name, data in files.items()})


def as_zip(path: Path, files: Files) -> Path:
    return write(path.with_suffix(".zip"), zipped(files))


def as_tar(path: Path, files: Files) -> Path:
    return write(path.with_suffix(".tgz"), tarred_and_packed(files))


def samples(luck: random.Random) -> Iterator[Files]:
    """Each with what lies beside it; then with conditions, which say something else of each."""
    for number, sample in enumerate(SAMPLES.values()):
        files = {sample.name: sample.make(), **sample.beside}
        said = {"startup_s": 20.0 + number, "libraries": {"torch": f"2.{number}"}}
        if luck.random() < 0.5:
            said["version"] = luck.choice(["0.19.1", "0.20.0", "0.20.0+cu129"])
        yield files
        yield {**files, "conditions.json": json.dumps(said).encode()}


def look_alikes(luck: random.Random, changes: int) -> Iterator[Files]:
    """Of every sample in JSON: a value of another kind, a key renamed, another order, other values of equal kinds."""
    for sample in SAMPLES.values():
        documents = parse_content(sample.name, sample.make()).documents
        if not documents or not isinstance(documents[0], dict):
            continue
        first, rest = documents[0], documents[1:]
        some = luck.sample(list(first), min(changes, len(first)))
        changed = [{**first, key: luck.choice(OTHER_KINDS)} for key in some]
        changed += [{key + "x" * (key == renamed): value for key, value in first.items()} for renamed in some]
        changed += [_jittered(first, luck), _quoting(first, luck), dict(luck.sample(list(first.items()), len(first)))]
        for document in changed:
            yield {sample.name: "\n".join(map(json.dumps, (document, *rest))).encode()}


def _jittered(value: Any, luck: random.Random) -> Any:
    """The same keys and kinds, other values."""
    if isinstance(value, dict):
        return {key: _jittered(inner, luck) for key, inner in value.items()}
    if isinstance(value, list):
        return [_jittered(inner, luck) for inner in value]
    return value * luck.uniform(0.999, 1.001) if isinstance(value, float) else value


def _quoting(document: dict[str, Any], luck: random.Random) -> dict[str, Any]:
    texts = [key for key, value in document.items() if isinstance(value, str)]
    return {**document, luck.choice(texts): BANNER} if texts else document


def pairs() -> Iterator[Files]:
    """Neighbours in the order in which they are read, that have the keys in common and not the meaning."""
    rows = ({"metric": "ttft_mean", "value": 1.5, "unit": "s"}, {"metric": 3, "value": 1.5, "unit": "s"})
    models: tuple[dict[str, list[Any]], ...] = ({"models": [1.5]}, {"models": [{"perf_configs": []}]}, {"models": []})
    record = {"name": "ttft", "benchmark_values": [1.5]}
    objects = ({"metric": {}}, {"metric": record}, {"version": 2, "run": 1, "results": {}}, {"models": [{}]})
    quoted = ({"log": "nothing"}, {"log": BANNER}, {"log": [BANNER]})
    offline = ({"avg_latency": 1.5, "latencies": [1.5, 1.5]}, {"avg_latency": 1.5, "latencies": "none"})
    served, asked = plain(made_up(40)), {"date": "20261121-101500"}
    rates = ({**served, **asked}, {**served, **asked, "request_throughput": {}}, {**served, **asked, "completed": 0})
    timed = ({**detailed(made_up(41)), "ttfts": []}, detailed(made_up(41)), {**detailed(made_up(41)), "itls": [1.5]})
    swept = [plain(made_up(42), run_number=0, depth=depth) for depth in (1, 1.0, True, "1")]
    for document in (*swept, *rows, *models, *objects, *quoted, *offline, *rates, *timed):
        yield {"r.json": json.dumps(document).encode()}


def make_units(folder: Path, order: int, changes: int) -> list[Path]:
    """Folders and archives of one result each, with what lies beside it, named in the order in which they are read."""
    luck = random.Random(20261121)
    ways = (as_folder, as_packed_folder, as_zip, as_tar)
    made = [*zip(samples(luck), luck.choices(ways, k=2 * len(SAMPLES)), strict=True)]
    made += [(files, as_folder) for files in (*pairs(), *look_alikes(luck, changes))]
    return [
        # No two of the same bytes: they would be one run.
        way(folder / f"u{number}", {f"artefacts/{name}": data + b"\n" * number for name, data in files.items()})
        for number, (files, way) in enumerate(made[::order])
    ]


def reports_on(unit: Path, intake: ImportResult) -> list[FileReport]:
    path = excerpt(str(unit))
    return [
        report for report in intake.files if report.path == path or report.path.startswith((f"{path}/", f"{path}!"))
    ]


def readings(intake: ImportResult) -> dict[str, dict[tuple[str, int], Any]]:
    """By folder or archive, then by file and position: all that would be stored, without the time of the import."""
    found: dict[str, dict[tuple[str, int], Any]] = {}
    for run in intake.runs:
        for trial in run.trials:
            source = replace(trial.source, imported_at=IMPORTED)
            unit = re.split(r"(?:/|!)artefacts/", source.path)[0]
            whole = replace(run, trials=(replace(trial, source=source, samples=None),))
            found.setdefault(unit, {})[source.path, source.position] = whole, plain_samples(trial.samples)
    return found


def memories() -> list[Any]:
    """What outlives an import."""
    modules = [module for name, module in sys.modules.items() if name.startswith("regress_gate.ingest")]
    return [value for module in modules for value in vars(module).values() if hasattr(value, "cache_clear")]


def stored_formats(units: list[Path], flags: IdentityFlags) -> set[str | None]:
    """Import the units alone and together, compare the results, and return the formats of stored results."""
    alone: dict[Path, ImportResult] = {}
    remembering = memories()
    for unit in units:
        for memory in remembering:
            memory.cache_clear()
        try:
            alone[unit] = read_paths([unit], flags)
        except InputError:
            continue  # version or scenario is missing: the import of all units would fail too
    together = read_paths(alone, flags)
    stored = readings(together)
    for unit, intake in alone.items():
        assert reports_on(unit, together) == list(intake.files)
        assert stored.get(str(unit)) == readings(intake).get(str(unit))
    return {report.format for report in together.files if report.outcome is FileOutcome.STORED}


@pytest.mark.parametrize(
    ("order", "changes"),
    [(1, 1), pytest.param(1, 5, marks=pytest.mark.slow), pytest.param(-1, 5, marks=pytest.mark.slow)],
)
def test_a_file_is_read_among_others_as_it_is_read_alone(
    order: int, changes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Many of the files hold the same numbers, and would be skipped as copies of each other.
    monkeypatch.setattr(DuplicateIndex, "of_numbers", lambda *_: None)
    units = make_units(tmp_path, order, changes)
    formats = [stored_formats(units, IdentityFlags.parse(testbed="box", **said)) for said in SAID]
    assert set().union(*formats) == {reader.name for reader in READERS}


@pytest.mark.parametrize("order", [1, -1])
def test_the_files_of_a_run_may_be_imported_one_by_one(order: int, tmp_path: Path) -> None:
    flags = IdentityFlags.parse(version="0.19.1", testbed="box", run="7")
    files = [
        write(tmp_path / f"r{number}.json", plain(made_up(number), date=f"20261121-1015{minute:02}"))
        for number, minute in enumerate((10, 30, 20))
    ]
    held = []
    for name, imports in (("together", [files]), ("apart", [[file] for file in files[::order]])):
        with open_store(f"sqlite:///{tmp_path}/{name}.db", create=True) as store:
            for paths in imports:
                store.add_runs(read_paths(paths, flags).runs)
            (run,) = store.runs()
        held.append((run.key, run.started, {(trial.source.path, trial.started) for trial in run.trials}))
    assert held[0] == held[1]
