"""Whatever the server does is a failure of single requests with a reason, and never of the tool."""

import subprocess

import pytest

from regress_gate.bench.load.load_client import LoadLimits
from regress_gate.bench.load.load_errors import LoadError, RequestFailureKind
from regress_gate.bench.load.responses import StreamedResponse
from regress_gate.errors import ExitCode

SHORT_LIMIT = LoadLimits(request=5.0)


@pytest.mark.parametrize(
    ("flags", "kind", "failed", "says"),
    [
        (("--error-burst", "3:4"), RequestFailureKind.STATUS, 4, "HTTP 503: EngineCore encountered an issue."),
        (("--garbage-every", "3"), RequestFailureKind.GARBAGE, 4, "no JSON"),
        (("--no-usage-every", "3"), RequestFailureKind.NO_USAGE, 4, "no token counts"),
        (("--cut-every", "4"), RequestFailureKind.CUT, 3, "within the answer"),
        (("--disorder-every", "4"), RequestFailureKind.DISORDER, 3, "after the end"),
        (("--short-every", "6"), RequestFailureKind.WRONG_LENGTH, 2, "4 tokens where 8 were asked for"),
        (("--hang-after", "10"), RequestFailureKind.TIMEOUT, 2, "0 chunks of 8 tokens"),
        (("--served-model-name", "other"), RequestFailureKind.STATUS, 12, "HTTP 404: The model `tiny` does not exist."),
    ],
)
def test_a_faulty_answer_fails_its_request_and_no_other(simulate, flags, kind, failed, says):
    result = simulate(*flags).measure(concurrency=2, limits=SHORT_LIMIT)
    assert [(found.kind, found.count) for found in result.failures] == [(kind, failed)]
    assert says in result.failures[0].text
    assert (result.trial.completed, result.trial.failed) == (12 - failed, failed)
    assert result.trial.metrics["failed_requests"] == failed / 12
    assert result.trial.samples is not None
    assert result.trial.samples.ok.sum() == 12 - failed
    assert ("ttft_median" in result.trial.metrics) == (failed < 12)


def test_a_connection_that_breaks_within_an_answer_fails_its_request(start):
    result = start("--cut-every", "4").measure(concurrency=2)
    assert [(found.kind, found.count) for found in result.failures] == [(RequestFailureKind.CUT, 3)]
    assert "within the answer" in result.failures[0].text


def test_a_server_that_dies_fails_the_rest_of_the_requests(start):
    result = start("--die-after", "6").measure(concurrency=1)
    # A dying process closes its sockets one by one, so a connection may still be made and then broken.
    assert {found.kind for found in result.failures} <= {RequestFailureKind.REFUSED, RequestFailureKind.RESET}
    assert sum(found.count for found in result.failures) == 6
    assert result.trial.completed == 6


def test_a_server_that_never_came_up_is_no_measurement(start):
    server = start("--die-at-start", healthy=False)
    assert server.process.wait(timeout=60) == 1
    with pytest.raises(LoadError, match="no server answers") as raised:
        server.measure()
    assert raised.value.exit_code is ExitCode.COULD_NOT_MEASURE
    assert server.process.stderr is not None
    assert "Engine core initialization failed" in server.process.stderr.read()


def test_a_server_that_is_still_starting_refuses_and_the_warm_up_is_enough_to_know(start):
    server = start("--never-ready", healthy=False)
    reported = []
    with pytest.raises(LoadError, match="no server answers"):
        server.measure(warmup_requests=1, progress=lambda *done: reported.append(done))
    assert not reported


def test_the_deadline_of_the_trial_ends_what_hangs_and_what_waits(simulate):
    result = simulate("--hang-after", "0").measure(num_requests=5, concurrency=1, limits=LoadLimits(trial=1.0))
    assert [(found.kind, found.count) for found in result.failures] == [
        (RequestFailureKind.UNSENT, 4),
        (RequestFailureKind.CUT_SHORT, 1),
    ]
    assert result.trial.duration == pytest.approx(1.0)


def test_the_deadline_ends_an_open_loop_too(simulate):
    result = simulate().measure(num_requests=50, request_rate=1.0, limits=LoadLimits(trial=1.0))
    assert [(found.kind, found.count) for found in result.failures] == [
        (RequestFailureKind.UNSENT, result.trial.failed)
    ]
    assert result.trial.failed >= 40


def test_what_the_deadline_of_the_trial_spoils_is_no_data(simulate):
    server = simulate("--ttft", "0.4")
    limited = server.measure(num_requests=10, concurrency=1, limits=LoadLimits(trial=2.0))
    assert limited.trial.completed == 4
    assert "longer than the tool allows" in limited.why_void
    assert server.measure(num_requests=1, limits=LoadLimits(trial=60.0)).too_long is False


def test_a_request_that_is_not_answered_in_its_own_time_is_data(simulate):
    result = simulate("--hang-after", "3").measure(num_requests=4, concurrency=1, limits=LoadLimits(request=0.5))
    assert [found.kind for found in result.failures] == [RequestFailureKind.TIMEOUT]
    assert not result.too_long


def test_a_long_warm_up_takes_no_time_from_what_is_measured(simulate):
    result = simulate("--ttft", "0.3").measure(
        num_requests=1, warmup_requests=6, concurrency=1, output_len=1, limits=LoadLimits(trial=1.5)
    )
    assert (result.trial.completed, result.too_long) == (1, False)


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        (b"", RequestFailureKind.CUT),
        (b'data: {"choices": [{"finish_reason": "length"}]}\n\n', RequestFailureKind.CUT),
        (b"data: [DONE]\n\n", RequestFailureKind.WRONG_LENGTH),
        (b"data: [DONE]\n\ndata: [DONE]\n\n", RequestFailureKind.DISORDER),
        (b'data: {"error": {"message": "out of\\nmemory", "code": 500}}\n\n', RequestFailureKind.SERVER_ERROR),
    ],
)
def test_a_stream_that_ends_cleanly_must_be_a_whole_answer(events, kind):
    answer = StreamedResponse(1)
    answer.receive(200, events, 0.0)
    failure = answer.failure(200)
    assert failure is not None
    assert failure.kind is kind


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"error": {"message": "EngineCore died", "code": 500}}', "HTTP 500: EngineCore died"),
        (b'{"object": "error", "message": "too long"}', "HTTP 500: too long"),
        (b'{"detail": "Not\\nFound"}', "HTTP 500: Not Found"),
        (b"<html>Bad gateway</html>", "HTTP 500"),
        (b'{"error": "' + b"x" * 5000 + b'"}', "HTTP 500: " + "x" * 160 + "…"),
        (b'{"error": "\\u001b[31mred"}', "HTTP 500: red"),
    ],
)
def test_an_error_is_kept_short_and_without_control_characters(body, says):
    answer = StreamedResponse(1)
    answer.receive(500, body, 0.0)
    failure = answer.failure(500)
    assert failure is not None
    assert failure.text == says


def test_failed_warm_ups_are_noted(simulate):
    result = simulate("--error-burst", "1:2").measure(warmup_requests=4)
    assert "2 of 4 warm-up requests failed" in result.notes
    assert result.trial.failed == 0


def test_a_leak_of_the_fake_server_is_real_memory(start):
    server = start("--leak-mb", "8")

    def resident() -> int:
        command = ["ps", "-o", "rss=", "-p", str(server.process.pid)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    before = resident()
    server.measure()
    assert resident() - before > 12 * 7 * 1024
