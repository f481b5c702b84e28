"""How large a report is and how much processor time it takes, format by format; and HTML pages of 100 to 10,000 series.

    python benchmarks/report_pages.py [--rounds N]

The result is that of the shipped baselines of 0.24.0 and 0.32.0; for other sizes its series are repeated under other
scenario names. The first page of a process also loads the templates, and is the one that counts.
"""

import argparse
import statistics
import subprocess
import sys
import time
from itertools import cycle, islice
from typing import TYPE_CHECKING

from measure import Row, milliseconds, report

if TYPE_CHECKING:
    from regress_gate.model.result import Result

PROMISED_SIZE, PROMISED_TIME = 150_000, 0.5
"""Bytes and seconds for a page of 100 series."""
FORMATS = ("table", "json", "markdown", "html", "svg", "png", "junit", "sarif", "github")
SIZES = (100, 1_000, 10_000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", metavar="FORMAT:SERIES", help="render once in this process; print bytes and seconds")
    arguments = parser.parse_args()
    if arguments.only:
        print(*render_once(*arguments.only.split(":")))
        return 0
    rows = []
    for format_ in FORMATS:
        size, seconds = measured(format_, 0, arguments.rounds)
        rows.append(Row(f"{format_}, the shipped comparison", f"{size / 1000:.0f} kB, {milliseconds(seconds)}"))
    for count in SIZES:
        size, seconds = measured("html", count, arguments.rounds)
        promises = ((size, PROMISED_SIZE, f"{size / 1000:.0f} kB"), (seconds, PROMISED_TIME, milliseconds(seconds)))
        for value, promise, shown in promises:
            against = ("150 kB", "500 ms")[promise is PROMISED_TIME] if count == SIZES[0] else ""
            ratio, bound = (value / promise, 1.0) if against else (None, None)
            rows.append(Row(f"html, {count} series", shown, against, ratio, bound))
    return report(rows)


def measured(format_: str, count: int, rounds: int) -> tuple[int, float]:
    """Bytes, and the median of seconds over new processes."""
    found = []
    for _ in range(rounds):
        command = [sys.executable, __file__, "--only", f"{format_}:{count}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append(done.stdout.split())
    return int(found[0][0]), statistics.median(float(seconds) for _, seconds in found)


def render_once(format_: str, count: str) -> tuple[int, float]:
    from regress_gate.report import render_content
    from regress_gate.report.views.result_view import ResultView

    view = ResultView(result_with(int(count)))
    begun = time.process_time()
    content = render_content(view, format_)
    seconds = time.process_time() - begun
    return len(content.encode() if isinstance(content, str) else content), seconds


def result_with(count: int) -> "Result":
    """The shipped comparison with so many series; 0: with its own."""
    import regress_gate

    result: Result = regress_gate.compare("0.24.0", "0.32.0").result
    if not count:
        return result
    series = [
        one.model_copy(update={"scenario": f"{one.scenario}-{number // len(result.series)}"})
        for number, one in enumerate(islice(cycle(result.series), count))
    ]
    return result.model_copy(update={"series": series})


if __name__ == "__main__":
    sys.exit(main())
