"""One pass of regress-gate's load client in a process of its own, written down chunk by chunk for client_vllm.py.

    python benchmarks/client_pass.py --url URL --model NAME --concurrency 8 --requests 200 --result FILE

Not a benchmark by itself: the same parts as the load client, but with the moments kept as the machine's
monotonic clock, which the fake server's record has too.
"""

import argparse
import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from regress_gate.bench.load.client_guards import ClientWatch
from regress_gate.bench.load.http_transport import HttpTransport, Target, resolve_target
from regress_gate.bench.load.load_workload import LoadWorkload
from regress_gate.bench.load.pass_requests import measured_requests, warmup_requests
from regress_gate.bench.load.result import WorkloadPass, make_result
from regress_gate.bench.load.sending import RequestSender, closed_loop


async def measured(url: str, model: str, workload: LoadWorkload, ordinal: int) -> dict[str, Any]:
    transport = HttpTransport(resolve_target(Target(url, model), allow_remote=False))
    warmup = warmup_requests(workload, "client", ordinal, model)
    requests = measured_requests(workload, "client", ordinal, model)
    sender = RequestSender(transport, 300.0, time.monotonic() + 600.0, lambda: None)
    await closed_loop(sender, warmup, workload.concurrency)
    started = datetime.now(UTC)
    with ClientWatch() as watch:
        records = await closed_loop(sender, requests, workload.concurrency)
        load = watch.load()
    await transport.close()
    begun = min(record.scheduled for record in records)
    result = make_result(WorkloadPass(workload, "client", ordinal, model, url, started, begun, records, 0, load))
    return {
        "metrics": dict(result.trial.metrics),
        "failed": result.trial.failed,
        "lag_p99": float(np.percentile(load.lags, 99)) if load.lags else 0.0,
        "starts": [record.sent for record in records if record.failure is None],
        "chunks": [list(record.chunks) for record in records if record.failure is None],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--input-len", type=int, default=128)
    parser.add_argument("--output-len", type=int, default=32)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    parser.add_argument("--warmup", type=int, default=0)
    parser.add_argument("--ordinal", type=int, default=1)
    parser.add_argument("--result", type=Path, required=True)
    told = parser.parse_args()
    workload = LoadWorkload(
        told.input_len,
        told.output_len,
        told.requests,
        concurrency=told.concurrency,
        warmup_requests=told.warmup,
    )
    told.result.write_bytes(orjson.dumps(asyncio.run(measured(told.url, told.model, workload, told.ordinal))))


if __name__ == "__main__":
    main()
