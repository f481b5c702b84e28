"""What a sync of 200 threads costs when nothing has changed: bytes of bodies, requests, time.

    python benchmarks/issues_sync.py [--threads N] [--rounds N]

Against a server on loopback (that of the tests), so the time is that of the program alone. The bound is on the bytes of
bodies in the second sync, against those of the first.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from measure import Row, milliseconds, report

sys.path.insert(0, str(Path(__file__).parents[1]))

from regress_gate.github import GitHub as Client
from regress_gate.github import TransferCounts
from regress_gate.known.tracker.snapshot import read_snapshot, write_snapshot
from regress_gate.known.tracker.sync import sync
from regress_gate.model.issue import KnownIssue
from tests.factories.records import REPO, affected, record
from tests.fake_github.server import GitHub, named_by, serving


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    issues = [_record(number) for number in range(1, arguments.threads + 1)]
    with serving(GitHub()) as github, tempfile.TemporaryDirectory() as directory:
        for number in range(1, arguments.threads + 1):
            fix = 100_000 + number
            github.issue(number, named_by(fix, merged="2026-06-02T10:00:00Z", body=f"Fixes #{number}" + " word" * 1000))
            github.pull(fix, merged="2026-06-02T10:00:00Z", commit=str(number))
        first, first_seconds = _synced(github, Path(directory), issues)
        later = [_synced(github, Path(directory), issues) for _ in range(arguments.rounds)]
    counts, seconds = later[0][0], statistics.median(seconds for _, seconds in later)
    return report(
        [
            Row(f"first sync of {arguments.threads} threads", milliseconds(first_seconds)),
            Row("its requests", str(first.requests)),
            Row("the same again", milliseconds(seconds), milliseconds(first_seconds), seconds / first_seconds),
            Row("its requests", str(counts.requests), str(first.requests), counts.requests / first.requests, 1.0),
            Row(
                "bytes of bodies in it",
                str(counts.body_bytes),
                f"{first.body_bytes}, the first sync",
                counts.body_bytes / first.body_bytes,
                0.0,
            ),
        ]
    )


def _record(number: int) -> KnownIssue:
    url = f"{REPO}/issues/{number}"
    return record(
        id=f"VLLM-{number}",
        references=[{"type": "REPORT", "url": url}],
        affected=[affected({"introduced": "0.20.0"})],
        tracker={"url": url, "state": "open", "checked": "2026-11-01"},
    )


def _synced(github: GitHub, directory: Path, issues: list[KnownIssue]) -> tuple[TransferCounts, float]:
    start = time.perf_counter()
    client = Client(github.url, directory)
    outcome = sync(client, issues, read_snapshot(directory))
    write_snapshot(directory, outcome.snapshot)
    if not outcome.complete:
        raise RuntimeError(f"the sync did not get through: {outcome.stopped or outcome.problems}")
    return client.counts, time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
