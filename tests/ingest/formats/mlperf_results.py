"""What MLPerf loadgen writes, made up: a Server and an Offline summary, and the head of a detail log."""

import json

SERVER = """\
================================================
MLPerf Results Summary
================================================
SUT name : MySUT
Scenario : Server
Mode     : PerformanceOnly
Completed samples per second    : 80.00
Completed tokens per second: 3200.00
Result is : VALID
  Performance constraints satisfied : Yes
  Min duration satisfied : Yes

================================================
Additional Stats
================================================
Scheduled samples per second : 81.00
Mean latency (ns)               : 27000000
50.00 percentile latency (ns)   : 26000000
90.00 percentile latency (ns)   : 34000000
97.00 percentile latency (ns)   : 37000000
99.00 percentile latency (ns)   : 40000000

Completed tokens per second                 : 3200.00
Mean First Token latency (ns)               : 6400000
50.00 percentile first token latency (ns)   : 5800000
99.00 percentile first token latency (ns)   : 13500000

Mean Time per Output Token (ns)               : 525000
50.00 percentile time to output token (ns)   : 518000
99.00 percentile time to output token (ns)   : 653000

================================================
Test Parameters Used
================================================
samples_per_query : 1
target_qps : 81
ttft_latency (ns): 500000000

No warnings encountered during test.

No errors encountered during test.
"""

OFFLINE = """\
================================================
MLPerf Results Summary
================================================
SUT name : MySUT
Scenario : Offline
Mode     : PerformanceOnly
Samples per second: 1200.00
Tokens per second: 48000
Result is : VALID
  Min duration satisfied : Yes

================================================
Additional Stats
================================================
Mean latency (ns)               : 840000000
99.00 percentile latency (ns)   : 1650000000

================================================
Test Parameters Used
================================================
target_qps : 300

No warnings encountered during test.

No errors encountered during test.
"""


def log(**values: object) -> str:
    return "".join(
        f":::MLLOG {json.dumps({'key': key, 'value': value, 'time_ms': 0.1})}\n" for key, value in values.items()
    )


DETAIL = log(loadgen_version="5.1.2 @ 06c742a84a", test_datetime="2026-11-21T01:47:53Z", sut_name="MySUT")
