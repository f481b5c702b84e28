"""MLPerf loadgen: text in nanoseconds, and runs that it calls invalid have numbers too."""

from datetime import UTC, datetime

import pytest

from regress_gate.ingest.content import parse_content
from regress_gate.ingest.formats.mlperf import MlperfLoadgen
from regress_gate.ingest.interface import Context, Reading
from regress_gate.measurement.plausibility import RefusalError
from tests.ingest.formats.mlperf_results import DETAIL, OFFLINE, SERVER, log


def read(text, name="mlperf_log_summary.txt", **beside):
    files = {f"mlperf_log_{key}.txt": parse_content("x.txt", other.encode()) for key, other in beside.items()}
    content = parse_content(name, text.encode())
    assert MlperfLoadgen().recognises(content)
    (result,) = MlperfLoadgen().read(content, Context(beside=files.get))
    return result


def test_server_latencies_become_seconds():
    result = read(SERVER)
    assert result.metrics == pytest.approx(
        {
            "e2el_mean": 0.027,
            "e2el_median": 0.026,
            "e2el_p90": 0.034,
            "e2el_p99": 0.040,
            "ttft_mean": 0.0064,
            "ttft_median": 0.0058,
            "ttft_p99": 0.0135,
            "tpot_mean": 0.000525,
            "tpot_median": 0.000518,
            "tpot_p99": 0.000653,
            "request_throughput": 80.0,
            "output_throughput": 3200.0,
        }
    )
    assert result.workload == {"mlperf": "Server", "request_rate": 81.0, "mean_output_tokens": 40.0}
    assert (result.completed, result.duration, result.definitions) == (None, None, "mlperf-loadgen")


def test_offline_has_throughput_and_time_of_waiting():
    result = read(OFFLINE)
    assert result.metrics == pytest.approx(
        {"request_throughput": 1200.0, "output_throughput": 48000.0, "e2el_mean": 0.84, "e2el_p99": 1.65}
    )
    assert result.workload["request_rate"] is None


def test_version_and_time_come_from_the_detail_log_beside_it():
    result = read(SERVER, detail=DETAIL)
    assert result.metadata == {"client_version": "MLPerf loadgen 5.1.2 @ 06c742a84a"}
    assert result.started == datetime(2026, 11, 21, 1, 47, 53, tzinfo=UTC)


@pytest.mark.parametrize("detail", ["no log", ":::MLLOG {broken\n", log(test_datetime="yesterday"), log(other=[1])])
def test_a_detail_log_that_says_nothing_changes_nothing(detail):
    result = read(SERVER, detail=detail)
    assert (result.metadata, result.started) == ({}, None)


def test_the_detail_log_itself_is_no_result():
    skipped = read(DETAIL, "mlperf_log_detail.txt", summary=SERVER)
    assert (skipped.outcome, skipped.reason) == ("skipped", "the detail log of the mlperf_log_summary.txt beside it")
    assert read(DETAIL, "mlperf_log_detail.txt").outcome == "refused"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("Result is : VALID", "Result is : INVALID", "loadgen calls the run INVALID"),
        ("Min duration satisfied : Yes", "Min duration satisfied : NO", None),
        ("Result is : VALID\n", "", "loadgen calls the run nothing"),
        ("PerformanceOnly", "AccuracyOnly", "mode 'AccuracyOnly' is no performance run"),
        ("Scenario : Server", "Scenario : MultiStream", "Server and Offline are"),
        ("No errors encountered", "3 ERRORS encountered", "loadgen met 3 errors"),
        ("target_qps : 81\n", "", "target_qps is missing"),
        ("Completed samples per second    : 80.00\n", "", "Completed samples per second is missing"),
        ("Completed samples per second    : 80.00", "Completed samples per second    : many", "'many', not a number"),
        ("latency (ns)   : 40000000", "latency (ns)   : 4000000", "p90_e2el_ms is above p99_e2el_ms"),
        ("Mean latency (ns)               : 27000000", "Mean latency (ns) : -1", "mean_e2el_ms is negative"),
        ("Mean latency (ns)               : 27000000", "Mean latency (ns) : 0", "mean_e2el_ms is 0"),
        ("Test Parameters Used", "Test Param", "the file was cut off"),
    ],
)
def test_what_is_no_result_is_refused(old, new, reason):
    assert old in SERVER
    changed = SERVER.replace(old, new, 1)
    if reason is None:
        assert isinstance(read(changed), Reading)
        return
    with pytest.raises(RefusalError, match=r".") as caught:
        read(changed)
    assert reason in str(caught.value)


def test_an_invalid_run_says_which_rule_it_broke():
    broken = SERVER.replace("VALID", "INVALID").replace("duration satisfied : Yes", "duration satisfied : NO")
    with pytest.raises(RefusalError, match="Min duration satisfied: NO"):
        read(broken)


def test_warnings_are_noted():
    result = read(SERVER.replace("No warnings encountered", "2 WARNINGS encountered"))
    assert "loadgen met 2 warnings: see the detail log" in result.notes


def test_a_number_without_bounds_is_refused():
    text = SERVER.replace("per second    : 80.00", "per second    : 1e999")
    with pytest.raises(RefusalError, match="Completed samples per second is inf, not a number"):
        read(text)
