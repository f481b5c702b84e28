"""The same times give the same numbers to the last digit: measured by the client, read from a file, or by request."""

import json
from datetime import UTC, datetime

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.bench.load.client_guards import ClientLoad
from regress_gate.bench.load.load_errors import RequestFailure, RequestFailureKind
from regress_gate.bench.load.load_workload import LoadWorkload
from regress_gate.bench.load.result import LoadResult, WorkloadPass, make_result
from regress_gate.bench.load.sending import RequestRecord
from regress_gate.ingest.content import parse_content
from regress_gate.ingest.formats.vllm_serve import VllmServe
from regress_gate.ingest.interface import Context, Reading, reading_from_requests
from regress_gate.measurement.totals import MeasuredRequest
from regress_gate.model.samples import Samples

BEGUN = 4711.25
TIMES = st.floats(1e-4, 2.0)


@st.composite
def records(draw: st.DrawFn) -> list[RequestRecord]:
    """Requests of a streamed pass, at least one of which succeeds; chunks may hold several tokens."""
    made = []
    for number in range(draw(st.integers(1, 8))):
        sent = BEGUN + draw(st.floats(0, 10))
        chunks = (sent + np.cumsum(draw(st.lists(TIMES, min_size=1, max_size=6)))).tolist()
        fails = number > 0 and draw(st.booleans())
        failure = RequestFailure(RequestFailureKind.TIMEOUT, "no answer") if fails else None
        tokens = len(chunks) + draw(st.integers(0, 3))
        made.append(RequestRecord(sent, sent, sent, chunks[-1], chunks, draw(st.integers(1, 500)), tokens, failure))
    return made


def measure(sent: list[RequestRecord]) -> LoadResult:
    started, load = datetime(2026, 11, 22, tzinfo=UTC), ClientLoad((0.001,), 0.1, 5.0)
    workload = LoadWorkload(128, 32, len(sent))
    return make_result(WorkloadPass(workload, "chat", 1, "tiny", "http://127.0.0.1", started, BEGUN, sent, 0, load))


def read_file(result: LoadResult) -> Reading:
    """The arrays of the pass as a detailed file of `vllm bench serve`, read by its reader."""
    arrays = json.loads(result.content)
    ok = [not error for error in arrays["errors"]]
    totals = {
        name: sum(count for count, good in zip(arrays[f"{name}_lens"], ok, strict=True) if good)
        for name in ("input", "output")
    }
    duration = result.trial.duration
    document = {
        "model_id": "tiny",
        "num_prompts": len(ok),
        "completed": sum(ok),
        "duration": duration,
        "total_input_tokens": totals["input"],
        "total_output_tokens": totals["output"],
        "request_throughput": sum(ok) / duration,
        "output_throughput": totals["output"] / duration,
        "total_token_throughput": (totals["input"] + totals["output"]) / duration,
        **{
            key: arrays[key]
            for key in ("ttfts", "itls", "latencies", "input_lens", "output_lens", "errors", "start_times")
        },
    }
    (reading,) = VllmServe().read(parse_content("result.json", json.dumps(document).encode()), Context())
    assert isinstance(reading, Reading), reading.reason
    return reading


def values(samples: Samples | None) -> dict[str, list[float]]:
    assert samples is not None
    names = ("ttft", "itl", "itl_start", "input_tokens", "output_tokens", "ok")
    return {name: getattr(samples, name).tolist() for name in names}


@given(records())
def test_a_measured_pass_has_the_numbers_of_its_file(sent: list[RequestRecord]) -> None:
    result = measure(sent)
    reading = read_file(result)
    assert reading.metrics == result.trial.metrics
    assert (reading.completed, reading.failed) == (result.trial.completed, result.trial.failed)
    assert values(reading.samples) == values(result.trial.samples)


@given(records())
def test_single_requests_have_the_numbers_of_a_measured_pass(sent: list[RequestRecord]) -> None:
    ordered = sorted((record for record in sent if record.failure is None), key=lambda record: record.sent)
    result = measure(ordered)
    samples, duration = result.trial.samples, result.trial.duration
    assert samples is not None
    assert duration is not None
    gaps = np.split(samples.itl, samples.itl_start[1:-1])
    requests = [
        MeasuredRequest(
            record.sent, record.ttft, record.e2el, own.tolist(), record.input_tokens or 0, record.output_tokens or 0
        )
        for record, own in zip(ordered, gaps, strict=True)
    ]
    reading = reading_from_requests(requests, 0, duration, None)
    assert reading.metrics == result.trial.metrics
    assert values(reading.samples) == values(samples)
    assert reading.samples is not None
    assert reading.samples.start is not None
    assert samples.start is not None
    assert reading.samples.start.tolist() == samples.start.tolist()
