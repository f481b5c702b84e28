"""`python -m regress_gate.bench.inspect ENVIRONMENT > baselines/builds/VERSION.json`: makes a file to ship.

ENVIRONMENT is a virtual environment with vLLM in it, or an entry of the cache of environments.
"""

import sys
from pathlib import Path

from regress_gate.bench.inspect.installed_build import inspect_python
from regress_gate.errors import ExitCode, RegressGateError
from regress_gate.store.combined import dump_build_config


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m regress_gate.bench.inspect ENVIRONMENT > VERSION.json\n")
        return ExitCode.USAGE
    directory = Path(arguments[0])
    venv = directory / "venv" if (directory / "venv").is_dir() else directory
    try:
        config = inspect_python(venv.absolute() / "bin" / "python", progress=lambda line: print(line, file=sys.stderr))  # noqa: T201
    except RegressGateError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(dump_build_config(config))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
