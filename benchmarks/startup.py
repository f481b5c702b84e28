"""How long a user waits for the commands that measure nothing, against the start of Python with click alone.

    python benchmarks/startup.py [--python PATH] [--script] [--rounds N]

Each is a whole process, `python -m regress_gate` unless `--script` asks for the console script beside the interpreter.
Meant for an installed program: a checkout parses all records from YAML, which a wheel has an index of.
Byte code is kept, as where the program is installed, and goes to a directory of its own.
Not for the analysis of many series: that is compare_speed.py.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from measure import Row, in_turns, milliseconds, report

REFERENCE = "python -c 'import click'"
BOUNDS = {
    "--help": 3.0,
    "check v0.19.1 --from v0.19.0": 9.0,
    "compare v0.19.0 v0.19.1": 32.0,
}
DECISIONS = (0, 1, 3)
"""Pass, fail, inconclusive: which one is not this benchmark's matter."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="interpreter that has regress-gate")
    parser.add_argument("--script", action="store_true", help="run the installed console script")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    python: Path = arguments.python.absolute()
    program = [str(python.with_name("regress-gate"))] if arguments.script else [str(python), "-m", "regress_gate"]
    commands = {REFERENCE: [str(python), "-c", "import click"]}
    commands |= {name: [*program, *name.split()] for name in BOUNDS}
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as byte_code:
        # Many machines for tests keep none, and would have the compiler timed instead of the program.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = byte_code
        found = in_turns(commands, Path(directory), arguments.rounds, expected=DECISIONS)
    reference = found[REFERENCE].seconds
    shown = f"{milliseconds(reference)} ({REFERENCE})"
    return report(
        [
            Row(
                f"regress-gate {name}", milliseconds(found[name].seconds), shown, found[name].seconds / reference, bound
            )
            for name, bound in BOUNDS.items()
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
