"""Servers take turns, a trial that measured the client is sent again, and a failure ends the trials of one alone."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from regress_gate.bench.experiment.trials import RETRY_ORDINAL_STEP, TRIAL_ATTEMPTS, MeasuredServer, measure_trials
from regress_gate.bench.load.client_guards import Guards
from regress_gate.bench.load.dataset import Dataset, DatasetFormat
from regress_gate.bench.load.load_errors import LoadError, RequestFailureKind
from regress_gate.bench.load.load_workload import LoadWorkload
from regress_gate.bench.load.result import FailureCount, LoadResult
from regress_gate.bench.server.metrics_watch import MetricsSource
from regress_gate.bench.server.server_failures import ServerFailure, ServerFailureKind
from regress_gate.model.run import Conditions, Trial, TrialSource
from regress_gate.model.suite import Scenario

WORKLOAD = LoadWorkload(input_len=8, output_len=8, num_requests=4, concurrency=1)
RECORDED = replace(WORKLOAD, dataset=Dataset(DatasetFormat.CUSTOM, Path("mine.jsonl"), "0" * 64))
DEAD = ServerFailure(ServerFailureKind.DIED_UNDER_LOAD, "the server died under load", ("CUDA error",), 3.0, None)


def scenario(name: str) -> tuple[Scenario, LoadWorkload]:
    workload = {"input_len": 8, "output_len": 8, "num_requests": 4, "concurrency": 1}
    return Scenario.model_validate({"name": name, "server": {"model": "m"}, "workload": workload}), WORKLOAD


def result(
    scenario: str, ordinal: int, *, limited: str | None = None, failures: tuple[FailureCount, ...] = ()
) -> LoadResult:
    failed = sum(each.count for each in failures)
    source = TrialSource(f"{ordinal:064x}", 0, "http://127.0.0.1:1", "regress-gate", datetime(2026, 11, 21, tzinfo=UTC))
    trial = Trial(scenario, ordinal, WORKLOAD.num_requests - failed, failed, 1.5, {}, {}, source)
    return LoadResult(trial, Guards(0.0, 0.0, 0.1, 0.0, limited), failures, (), b"")


@dataclass
class FakeMeter:
    """Answers with what `answer` makes of a call, and keeps the calls: (server, scenario, ordinal)."""

    answer: Callable[..., LoadResult] = lambda _url, name, ordinal: result(name, ordinal)
    workload: LoadWorkload = WORKLOAD
    calls: list[tuple[str, str, int]] = field(default_factory=list)

    def __call__(
        self, url: str, model: str, workload: LoadWorkload, *, scenario: str, ordinal: int, progress: Any, begins: Any
    ) -> LoadResult:
        assert (model, workload) == ("m", self.workload)
        begins()
        self.calls.append((url, scenario, ordinal))
        for sent in range(1, workload.num_requests + 1):
            progress(sent, workload.num_requests)
        return self.answer(url, scenario, ordinal)


class FakeWatch:
    def between(self, begin: float, end: float) -> Conditions:
        assert begin <= end
        return Conditions(outside_cpu_cores=0.25)


def subject(name: str, failure: Callable[[], ServerFailure | None] = lambda: None, **given: Any) -> MeasuredServer:
    source = MetricsSource(f"http://{name}", failure="not asked")
    return MeasuredServer(name, name, lambda model: model, failure, source, **given)


def measure(
    subjects: list[MeasuredServer], meter: FakeMeter, *names: str, trials: int = 1, progress: Any = None
) -> list[tuple[str, str, int]]:
    measure_trials(
        subjects, [scenario(name) for name in names or ("c1",)], meter, FakeWatch(), trials=trials, progress=progress
    )
    return meter.calls


class TestTurns:
    def test_two_servers_take_turns_and_who_begins_alternates(self) -> None:
        calls = measure([subject("A"), subject("B")], FakeMeter(), trials=4)
        assert "".join(url for url, _, _ in calls) == "ABBAABBA"
        assert [ordinal for _, _, ordinal in calls] == [1, 1, 2, 2, 3, 3, 4, 4]

    def test_all_scenarios_are_sent_once_before_any_is_sent_again(self) -> None:
        calls = measure([subject("A")], FakeMeter(), "c1", "c4", trials=2)
        assert calls == [("A", "c1", 1), ("A", "c4", 1), ("A", "c1", 2), ("A", "c4", 2)]

    def test_trials_go_on_from_those_that_the_run_has(self) -> None:
        calls = measure([subject("A", done={"c1": 3})], FakeMeter(), "c1", "c4")
        assert calls == [("A", "c1", 4), ("A", "c4", 1)]

    def test_each_trial_keeps_the_conditions_of_its_own_time(self) -> None:
        measure([one := subject("A")], FakeMeter(), trials=2)
        assert [trial.conditions.outside_cpu_cores for trial in one.trials] == [0.25, 0.25]

    def test_progress_counts_all_requests_of_all_servers_up_to_the_end(self) -> None:
        told: list[tuple[str, int, int]] = []
        measure([subject("A"), subject("B")], FakeMeter(), trials=2, progress=lambda *progress: told.append(progress))
        assert [sent for _, sent, _ in told] == list(range(1, 17))
        assert {total for _, _, total in told} == {16}
        assert [told[index][0] for index in (0, 4, 8, 12)] == ["A, c1", "B, c1", "B, c1", "A, c1"]


class TestClientLimited:
    def test_recorded_prompts_are_not_sent_again_because_others_are_other_work(self) -> None:
        meter = FakeMeter(lambda _url, name, n: result(name, n, limited="the client was slow"), RECORDED)
        subjects = [subject("A")]
        measure_trials(subjects, [(scenario("c1")[0], RECORDED)], meter, FakeWatch(), trials=2)
        assert [ordinal for _, _, ordinal in meter.calls] == [1, 2]
        assert subjects[0].trials == []
        assert subjects[0].void == ["c1, trial 1: the client was slow", "c1, trial 2: the client was slow"]

    def test_a_trial_is_sent_again_with_other_prompts_under_its_own_ordinal(self) -> None:
        meter = FakeMeter(lambda _url, name, n: result(name, n, limited="the client was slow" if n < 1000 else None))
        calls = measure([one := subject("A")], meter, trials=2)
        assert [ordinal for _, _, ordinal in calls] == [1, 1 + RETRY_ORDINAL_STEP, 2, 2 + RETRY_ORDINAL_STEP]
        assert [trial.ordinal for trial in one.trials] == [1, 2]
        assert one.notes == [
            "c1, trial 1: sent 2 times, because the client was the bottleneck before",
            "c1, trial 2: sent 2 times, because the client was the bottleneck before",
        ]
        assert one.void == []

    def test_texts_that_were_sent_again_are_not_held_against_those_of_the_other_side(self) -> None:
        def answer(_url: str, name: str, n: int) -> LoadResult:
            again = n in (2, 2 + RETRY_ORDINAL_STEP)
            made = result(name, n, limited="the client was slow" if n == 2 else None)
            described = {"api": "chat", "prompts_sha256": "other" if again else "same"}
            return replace(made, trial=replace(made.trial, workload=described))

        measure([one := subject("A")], FakeMeter(answer), trials=2)
        assert [trial.workload for trial in one.trials] == [{"api": "chat", "prompts_sha256": "same"}, {"api": "chat"}]

    def test_after_the_last_try_it_is_no_data_and_the_reason_is_kept(self) -> None:
        meter = FakeMeter(lambda _url, name, n: result(name, n, limited="the client was slow"))
        calls = measure([one := subject("A")], meter)
        assert len(calls) == TRIAL_ATTEMPTS
        assert one.trials == []
        assert one.void == ["c1, trial 1: the client was slow"]
        assert one.failed is None


class TestMixes:
    """Scenarios that are sent at the same time are one call of the meter, and one trial of each."""

    def mix(self, meter: FakeMeter, one: MeasuredServer, *, trials: int = 1) -> None:
        pairs = [(scenario(name)[0].model_copy(update={"together": "mix"}), WORKLOAD) for name in ("chat", "batch")]
        meter.workload = replace(WORKLOAD, together=(("batch", WORKLOAD),))
        measure_trials([one], pairs, meter, FakeWatch(), trials=trials)

    def test_each_scenario_has_a_trial_under_the_same_number(self) -> None:
        meter = FakeMeter(lambda _url, name, n: replace(result(name, n), together=(result("batch", n),)))
        self.mix(meter, one := subject("A"), trials=2)
        assert meter.calls == [("A", "chat", 1), ("A", "chat", 2)]
        assert [(trial.scenario, trial.ordinal) for trial in one.trials] == [
            ("chat", 1),
            ("batch", 1),
            ("chat", 2),
            ("batch", 2),
        ]

    def test_where_the_client_was_the_bottleneck_for_one_all_are_sent_again_and_void_at_last(self) -> None:
        def answer(_url: str, name: str, n: int) -> LoadResult:
            return replace(result(name, n), together=(result("batch", n, limited="the client was slow"),))

        self.mix(meter := FakeMeter(answer), one := subject("A"))
        assert len(meter.calls) == TRIAL_ATTEMPTS
        assert one.trials == []
        assert one.void == ["chat, trial 1: the client was slow", "batch, trial 1: the client was slow"]

    def test_a_server_that_answers_only_one_of_them_does_not_hang(self) -> None:
        late = (FailureCount(RequestFailureKind.TIMEOUT, "late", 4),)
        meter = FakeMeter(lambda _url, name, n: replace(result(name, n), together=(result("batch", n, failures=late),)))
        self.mix(meter, one := subject("A"))
        assert one.failed is None
        assert [trial.failed for trial in one.trials] == [0, 4]


class TestTooLong:
    CUT = (
        FailureCount(RequestFailureKind.UNSENT, "not sent", 1),
        FailureCount(RequestFailureKind.CUT_SHORT, "no end", 1),
    )

    def test_a_trial_that_our_limit_ended_is_no_data_and_not_sent_again(self) -> None:
        meter = FakeMeter(lambda _url, name, n: result(name, n, failures=self.CUT))
        calls = measure([one := subject("A")], meter)
        assert len(calls) == 1
        assert (one.trials, one.failed) == ([], None)
        assert one.void == [
            "c1, trial 1: it takes longer than the tool allows for a trial: send fewer requests",
        ]

    def test_one_in_which_nothing_was_answered_is_a_hang_all_the_same(self) -> None:
        cut = (
            FailureCount(RequestFailureKind.UNSENT, "not sent", 3),
            FailureCount(RequestFailureKind.CUT_SHORT, "no end", 1),
        )
        measure([one := subject("A")], FakeMeter(lambda _url, name, n: result(name, n, failures=cut)))
        assert one.failed is not None
        assert one.failed.kind is ServerFailureKind.UNRESPONSIVE


class TestFailures:
    def test_a_server_that_dies_ends_its_trials_and_the_other_goes_on(self) -> None:
        dead: list[bool] = []

        def answer(url: str, name: str, ordinal: int) -> LoadResult:
            if url == "B" and ordinal == 2:
                dead.append(True)
            return result(name, ordinal)

        one, other = subject("A"), subject("B", lambda: DEAD if dead else None)
        calls = measure([one, other], FakeMeter(answer), trials=4)
        assert other.failed is DEAD
        assert [ordinal for url, _, ordinal in calls if url == "B"] == [1, 2]
        assert [trial.ordinal for trial in one.trials] == [1, 2, 3, 4]

    def test_the_time_in_which_its_health_is_asked_is_not_the_trials(self) -> None:
        windows: list[float] = []

        class Watch(FakeWatch):
            def between(self, begin: float, end: float) -> Conditions:
                windows.append(end)
                return super().between(begin, end)

        asked: list[float] = []
        one = subject("A", lambda: asked.append(time.monotonic()))
        measure_trials([one], [scenario("c1")], FakeMeter(), Watch(), trials=1)
        assert windows[0] <= asked[0]

    def test_a_dead_server_is_reported_as_dead_not_as_unreachable(self) -> None:
        def answer(*_: object) -> LoadResult:
            raise LoadError("no server answers")

        measure([one := subject("A", lambda: DEAD)], FakeMeter(answer))
        assert one.failed is DEAD

    def test_a_server_that_lives_and_cannot_be_reached_is_an_error_of_the_measurement(self) -> None:
        def answer(*_: object) -> LoadResult:
            raise LoadError("no server answers")

        with pytest.raises(LoadError, match="no server answers"):
            measure([subject("A")], FakeMeter(answer))

    def test_requests_that_fail_are_data_and_noted(self) -> None:
        failures = (FailureCount(RequestFailureKind.STATUS, "HTTP 503", 3),)
        measure([one := subject("A")], FakeMeter(lambda _url, name, n: result(name, n, failures=failures)))
        assert [trial.failed for trial in one.trials] == [3]
        assert one.notes == ["c1, trial 1: 3 requests failed: HTTP 503"]
        assert one.failed is None

    @pytest.mark.parametrize(
        "kinds", [[RequestFailureKind.TIMEOUT], [RequestFailureKind.TIMEOUT, RequestFailureKind.UNSENT]]
    )
    def test_no_answer_in_time_to_any_request_is_a_hang(self, kinds: list[RequestFailureKind]) -> None:
        failures = tuple(FailureCount(kind, "no end within 60 s", 4 // len(kinds)) for kind in kinds)
        measure([one := subject("A")], FakeMeter(lambda _url, name, n: result(name, n, failures=failures)), trials=3)
        assert one.failed is not None
        assert one.failed.kind is ServerFailureKind.UNRESPONSIVE
        assert one.failed.text == "no request of c1 was answered in time (no end within 60 s)"
        assert one.trials == []

    @pytest.mark.parametrize(
        "failures",
        [
            (FailureCount(RequestFailureKind.TIMEOUT, "no end within 60 s", 3),),
            (
                FailureCount(RequestFailureKind.TIMEOUT, "late", 3),
                FailureCount(RequestFailureKind.STATUS, "HTTP 503", 1),
            ),
            (FailureCount(RequestFailureKind.STATUS, "HTTP 503", 4),),
        ],
        ids=["one was answered", "one was refused", "all were refused"],
    )
    def test_a_server_that_answers_anything_does_not_hang(self, failures: tuple[FailureCount, ...]) -> None:
        measure([one := subject("A")], FakeMeter(lambda _url, name, n: result(name, n, failures=failures)))
        assert one.failed is None
        assert len(one.trials) == 1
