"""What reading the server's /metrics costs the measured numbers: passes with and without it, in turns, on one server.

    python benchmarks/metrics_watch.py --pairs 40

The fake server's page has as many lines as a real one's and keeps its event loop busy as long as a real one's does
(`--lines`, `--busy`; vLLM answers in the loop that sends tokens). Printed is the ratio with/without of each metric, as
the geometric mean over pairs with a 90 % interval (Student's t of the logarithms of the pairs' ratios).
"""

import argparse
import math
import statistics
import subprocess
import sys

from scipy import stats

from regress_gate.bench.load.http_transport import Target
from regress_gate.bench.load.load_client import measure_load
from regress_gate.bench.load.load_workload import LoadWorkload
from regress_gate.bench.server.metrics_watch import MetricsSource, MetricsWatch

METRICS = ("ttft_median", "ttft_p99", "tpot_mean", "itl_mean", "itl_p99", "e2el_mean", "output_throughput")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--lines", type=int, default=1500, help="of the page")
    parser.add_argument("--busy", type=float, default=0.008, help="seconds of the server's event loop for a page")
    given = parser.parse_args()
    flags = [f"--metrics-lines={given.lines}", f"--metrics-busy={given.busy}", "--ttft=0.05", "--tpot=0.01"]
    command = [sys.executable, "-m", "tests.fake_vllm", "--port=0", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline().partition('=')[2])}"
        try:
            compare(url, given.pairs, given.requests)
        finally:
            server.terminate()


def compare(url: str, pairs: int, requests: int) -> None:
    workload = LoadWorkload(input_len=64, output_len=64, num_requests=requests, concurrency=8)
    ratios: dict[str, list[float]] = {name: [] for name in METRICS}
    samples = []
    for pair in range(pairs + 1):
        passes = {}
        for watched in (True, False) if pair % 2 else (False, True):
            passes[watched], numbers = measure(url, workload, 2 * pair + watched + 1, watched=watched)
            if watched:
                samples.append(numbers["samples"])
        if pair:  # the first warms both up
            for name in METRICS:
                ratios[name].append(math.log(passes[True][name] / passes[False][name]))
    print(f"{pairs} pairs of {requests} requests; {statistics.mean(samples):.1f} readings in a pass besides both ends")
    print(f"{'metric':20}{'ratio - 1':>11}  90 % interval")
    for name, logs in ratios.items():
        mean, error = statistics.mean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
        reach = float(stats.t.ppf(0.95, len(logs) - 1)) * error
        print(f"{name:20}{math.expm1(mean):11.2%}  {math.expm1(mean - reach):.2%} to {math.expm1(mean + reach):.2%}")


def measure(
    url: str, workload: LoadWorkload, ordinal: int, *, watched: bool
) -> tuple[dict[str, float], dict[str, float]]:
    source = MetricsSource(url)
    with MetricsWatch(source) as watch:
        begins = watch.begin if watched else None
        result = measure_load(Target(url, "tiny"), workload, scenario="c", ordinal=ordinal, begins=begins)
    if watched and source.failure is not None:
        raise SystemExit(source.failure)
    return dict(result.trial.metrics), dict(watch.numbers())


if __name__ == "__main__":
    main()
