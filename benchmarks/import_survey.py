"""Prints what an import would do with every file under a folder: file, verdict, reason. Stores nothing.

    python benchmarks/import_survey.py DIRECTORY [--pattern PATTERN] [--markdown PATH]

For trying the readers on a collection of real results. Version and scenario are made up where no file states them.
`--markdown` writes the counts by folder and verdict, and the reasons.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regress_gate.errors import InputError
from regress_gate.ingest.identity import IdentityFlags
from regress_gate.ingest.importer import read_paths
from regress_gate.ingest.interface import FileReport

VERDICTS = ("stored", "skipped", "refused")


@dataclass(frozen=True, slots=True)
class Verdict:
    file: str
    """Relative to the folder that was surveyed; and which result of it."""
    folder: str
    """The topmost in it."""
    verdict: str
    format: str
    detail: str


def survey(directory: Path, pattern: str | None) -> Iterator[Verdict]:
    """A verdict on every result, each file read on its own so that none is asked for what another lacks."""
    for file in sorted(path for path in directory.rglob("*") if path.is_file()):
        for report in _reports(file, pattern):
            where = report.where.replace(f"{directory}/", "")
            folder = where.split("/")[0] if "/" in where else "."
            detail = report.reason or "; ".join((f"{report.scenario}: {len(report.metrics)} metrics", *report.notes))
            yield Verdict(where, folder, str(report.outcome), report.format or "-", detail.replace(f"{directory}/", ""))


def _reports(file: Path, pattern: str | None) -> list[FileReport]:
    made_up: dict[str, str] = {"testbed": "survey"}
    for extra in ({}, {"version": "0.0.1"}, {"version": "0.0.1", "scenario": "survey"}, {"scenario": "survey"}):
        try:
            flags = IdentityFlags.parse(**made_up, **extra, pattern=pattern)  # type: ignore[arg-type]
            return list(read_paths([file], flags, with_samples=False).files)
        except InputError:
            continue
    return []


def markdown(verdicts: list[Verdict]) -> str:
    """Counts by folder and verdict, then the reasons for what was not stored."""
    lines = [
        "# What the readers make of a collection of real files",
        "",
        "Made by `python benchmarks/import_survey.py DIRECTORY --markdown PATH`: results, not files, by the folder",
        "that they lie in. Each file was named, so that bystanders such as logs count as refused.",
        "",
        "| folder | stored | skipped | refused | formats |",
        "| --- | --- | --- | --- | --- |",
    ]
    for folder in dict.fromkeys(verdict.folder for verdict in verdicts):
        here = [verdict for verdict in verdicts if verdict.folder == folder]
        counts = Counter(verdict.verdict for verdict in here)
        formats = Counter(verdict.format for verdict in here if verdict.verdict == "stored")
        summary = ", ".join(f"{name} {count}" for name, count in formats.most_common())
        lines.append(f"| {folder} | " + " | ".join(str(counts[verdict]) for verdict in VERDICTS) + f" | {summary} |")
    lines += ["", "| verdict | format | reason, numbers and names left out | results |", "| --- | --- | --- | --- |"]
    reasons = Counter(
        (verdict.verdict, verdict.format, _without_numbers(verdict.detail))
        for verdict in verdicts
        if verdict.verdict != "stored"
    )
    for (verdict, name, reason), count in reasons.most_common():
        lines.append(f"| {verdict} | {name} | {reason} | {count} |")
    return "\n".join(lines) + "\n"


def _without_numbers(reason: str) -> str:
    short = re.sub(r"'[^']*'|\b\S+/\S+", "…", reason)
    return re.sub(r"\d+(?:\.\d+)?(?:e-?\d+)?", "N", short).replace("|", "\\|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--pattern")
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    verdicts = []
    for verdict in survey(arguments.directory, arguments.pattern):
        verdicts.append(verdict)
        print(f"{verdict.file}\t{verdict.verdict}\t{verdict.format}\t{verdict.detail}")
    print(dict(Counter((verdict.verdict, verdict.format) for verdict in verdicts)), file=sys.stderr)
    if arguments.markdown is not None:
        arguments.markdown.write_text(markdown(verdicts), encoding="utf-8")


if __name__ == "__main__":
    main()
