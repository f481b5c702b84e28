"""Result files of server starts whose speed is chosen, as `vllm bench serve` would have written them."""

import json
from pathlib import Path
from typing import Any
from zlib import crc32

from tests.factories.serve_results import Pass, Request, plain, scalars, write

RIPPLE = (0.0, 0.004, -0.004, 0.002, -0.002, 0.003)


def luck(start: int, name: str) -> float:
    """What one server start is luckier than another; never the same twice, for no two measurements ever are."""
    return 1 + RIPPLE[start % len(RIPPLE)] + start * 1e-6 + crc32(name.encode()) % 9973 * 1e-9


def steady(speed: float = 1.0, *, requests: int = 100, failed: int = 0, **more: Any) -> Pass:
    """A pass whose times are `speed` times those of a quiet machine; the first `failed` requests failed."""
    good = [
        Request(0.1 * speed * (1 + 0.01 * (number % 5 - 2)), [0.02 * speed] * 7) for number in range(requests - failed)
    ]
    return Pass([Request(0.0, [], error="connection refused")] * failed + good, **more)


def result(speed: float = 1.0, *, failed: int = 0, minute: int = 0, **more: Any) -> dict[str, Any]:
    """One result, made some minutes after midnight; `more` are keys as `--metadata KEY=VALUE` would add them."""
    date = f"20261120-{minute // 60:02}{minute % 60:02}00"
    return plain(steady(speed, failed=failed, date=date), **more)


def write_starts(folder: Path, *, starts: int = 6, speed: float = 1.0, minute: int = 0, **more: Any) -> Path:
    """A folder with one result file for each server start, one a minute."""
    for number in range(starts):
        content = result(speed * luck(number, folder.name), minute=minute + number, **more)
        write(folder / f"start{number + 1}.json", content)
    return folder


def write_demo_runs(folder: Path, version: str, *, loads: list[float | None], speed: float = 1.0) -> Path:
    """Runs of suite cpu-demo@1 with their conditions beside them; `loads` are CPU cores kept busy by others."""
    for number, load in enumerate(loads):
        run = folder / f"run{number + 1}"
        for scenario in ("c1", "c4", "c8"):
            factor = speed * luck(number, version + scenario)
            whole = scalars(steady(factor), ("e2el",))  # the suite gates it: --percentile-metrics ttft,tpot,itl,e2el
            write(run / f"{scenario}.json", result(factor, scenario=scenario, **whole))
        conditions = {
            "version": version,
            "run": number + 1,
            "testbed": "two-cores",
            "suite": "cpu-demo@1",
            "memory_mb_total": 2600 + number,
        }
        if load is not None:
            conditions["outside_cpu_cores_mean"] = load
        (run / "conditions.json").write_text(json.dumps(conditions))
    return folder
