"""How long `check` takes with 1,000 records of known issues, against `check` with none.

    python benchmarks/known_issues_speed.py [--records N] [--rounds N]

The records are copies of the shipped ones under other ids, beside a copy of the package, with the index that a wheel
carries and without. Whole processes, in turns.
"""

import argparse
import re
import shutil
import sys
import tempfile
from itertools import cycle, islice
from pathlib import Path

from measure import Row, in_turns, milliseconds, report

ROOT = Path(__file__).parents[1]
CHECK = "check v0.24.0 --from v0.19.1 --accelerator H100 --model meta-llama/Llama-3.1-8B-Instruct --format json"
MAX_RATIO = 2.0
DECISIONS = (0, 1, 3)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=11)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        named = {
            f"check with {arguments.records} records": (arguments.records, True),
            "the same without the index, as in a checkout": (arguments.records, False),
            "check with none": (0, True),
        }
        commands = {
            name: command(Path(directory) / str(place), records, indexed=indexed)
            for place, (name, (records, indexed)) in enumerate(named.items())
        }
        found = in_turns(commands, Path(directory), arguments.rounds, expected=DECISIONS)
    with_index, without_index, none = (found[name].seconds for name in named)
    shown = f"{milliseconds(none)} (check with none)"
    first, second, _ = named
    return report(
        [
            Row(first, milliseconds(with_index), shown, with_index / none, MAX_RATIO),
            Row(second, milliseconds(without_index), shown, without_index / none),
        ]
    )


def command(place: Path, records: int, *, indexed: bool) -> list[str]:
    """A call of the program that stands in `place` with so many records."""
    from regress_gate.known.records.loading import INDEX_NAME, index_of, record_files

    shutil.copytree(ROOT / "regress_gate", place / "regress_gate", ignore=shutil.ignore_patterns("_data"))
    (place / "baselines").symlink_to(ROOT / "baselines")
    directory = place / "known_issues"
    directory.mkdir(parents=True)
    shipped = record_files(ROOT / "known_issues")
    for number, path in enumerate(islice(cycle(shipped), records), 900_000):
        name = f"COPY-{number}"
        text = re.sub(r"^id: .*$", f"id: {name}", path.read_text(encoding="utf-8"), count=1, flags=re.MULTILINE)
        (directory / f"{name}.yaml").write_text(text, encoding="utf-8")
    if indexed:
        (directory / INDEX_NAME).write_text(index_of(directory), encoding="utf-8")
    start = f"import sys; sys.path.insert(0, {str(place)!r}); from regress_gate.cli.main import run; run()"
    return [sys.executable, "-c", start, *CHECK.split()]


if __name__ == "__main__":
    sys.exit(main())
