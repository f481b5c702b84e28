"""How long a whole `audit` of a server's log takes, as a ratio to reading the same file line by line.

A log of 50 MB as a busy server writes it: its start, then lines of requests and of statistics; one of statistics alone,
one of lines that are neither, and one that a few hundred starts were appended to.

    python benchmarks/audit_log.py [MEGABYTES]
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from regress_gate.app.audit import audit_servers
from regress_gate.app.settings import Settings

START = (
    "(APIServer pid=7) INFO 11-21 02:11:13 [utils.py:299]        █     █     █▄   ▄█  version 0.32.0\n"
    "(APIServer pid=7) INFO 11-21 02:11:13 [utils.py:233] non-default args: {'model': 'm'}\n"
)
STATISTICS = (
    "(APIServer pid=7) INFO 11-21 02:15:13 [loggers.py:259] Engine 000: Avg prompt throughput: 812.4 tokens/s, Avg "
    "generation throughput: 903.1 tokens/s, Running: 64 reqs, Waiting: 3 reqs, Preemptions: 1, GPU KV cache usage: "
    "97.3%, Prefix cache hit rate: 41.0%\n"
)
REQUEST = '(APIServer pid=7) INFO:     10.0.0.1:51234 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
OTHER = "(EngineCore pid=9) DEBUG 11-21 02:15:13 [core.py:1] a step of the engine with something to say about itself\n"
ROUNDS = 5
MOST = {"requests and statistics": 30.0, "statistics only": 15.0, "other lines": 30.0, "restarts": 30.0}
"""Largest ratios: more than twice what was measured first."""


def fastest(read: Callable[[], object]) -> float:
    """Seconds of the processor, of some rounds."""
    taken = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        read()
        taken.append(time.process_time() - begun)
    return min(taken)


def read_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(len(line) for line in file)


def main() -> None:
    size = int(sys.argv[1]) * 10**6 if len(sys.argv) > 1 else 50 * 10**6
    broken = False
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "server.log")
        for name, block in (
            ("requests and statistics", REQUEST * 20 + STATISTICS),
            ("statistics only", STATISTICS),
            ("other lines", OTHER),
            ("restarts", OTHER * 2000 + START),
        ):
            path.write_text(START + block * (size // len(block)), encoding="utf-8")
            plain, audited = (
                fastest(lambda: read_lines(path)),
                fastest(lambda: audit_servers(Settings(server_log=path))),
            )
            broken |= audited > MOST[name] * plain
            print(f"{name}: {audited:.2f} s, {audited / plain:.1f} times as long as reading its lines ({plain:.2f} s)")
    sys.exit(broken)


if __name__ == "__main__":
    main()
