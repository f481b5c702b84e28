"""Prints what an import would do with every file under a folder: file, verdict, reason. Stores nothing.

    python benchmarks/import_survey.py DIRECTORY [--pattern PATTERN]

For trying the readers on a collection of real results. Version and testbed are made up where no file states them.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

from regress_gate.errors import InputError
from regress_gate.ingest.identity import IdentityFlags
from regress_gate.ingest.intake import read_paths
from regress_gate.ingest.reports import FileReport


def survey(directory: Path, pattern: str | None) -> list[FileReport]:
    """A report on every file, each read on its own so that none is asked for what another lacks."""
    reports: list[FileReport] = []
    for file in sorted(path for path in directory.rglob("*") if path.is_file()):
        reports += _reports(file, pattern)
    return reports


def _reports(file: Path, pattern: str | None) -> list[FileReport]:
    made_up: dict[str, str] = {"testbed": "survey"}
    for extra in ({}, {"version": "0.0.1"}, {"version": "0.0.1", "scenario": "survey"}, {"scenario": "survey"}):
        try:
            flags = IdentityFlags.parse(**made_up, **extra, pattern=pattern)  # type: ignore[arg-type]
            return list(read_paths([file], flags, with_samples=False).files)
        except InputError:
            continue
    return []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--pattern")
    arguments = parser.parse_args()
    reports = survey(arguments.directory, arguments.pattern)
    for report in reports:
        told = report.reason or "; ".join((f"{report.scenario}: {len(report.metrics)} metrics", *report.notes))
        print(f"{report.where}\t{report.outcome}\t{report.format or '-'}\t{told}")
    print(dict(Counter((str(report.outcome), report.format) for report in reports)), file=sys.stderr)


if __name__ == "__main__":
    main()
