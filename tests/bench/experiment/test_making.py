"""Runs are made on real servers: what a start gives, what a failure leaves, and that no server outlives its run."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regress_gate.bench.experiment import run_maker
from regress_gate.bench.experiment.experiment_plan import BASELINE, CANDIDATE, Slot, server_groups
from regress_gate.bench.experiment.run_maker import ExperimentSetup, ExperimentSide, MadeRun, make_runs
from regress_gate.bench.load.http_transport import Target
from regress_gate.bench.load.load_client import LoadLimits, measure_load
from regress_gate.bench.load.load_workload import LoadWorkload
from regress_gate.bench.load.pass_requests import load_workloads
from regress_gate.bench.machine.conditions import ConditionsWatch
from regress_gate.bench.provision.interface import Launch, ProvisionError, ServeRequest
from regress_gate.bench.server import server as server_module
from regress_gate.bench.server.server_failures import ServerError, ServerFailureKind
from regress_gate.model.run import Conditions, Run, SuiteRef
from regress_gate.model.suite import Suite
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.paths import servers_directory
from tests.bench.server.conftest import carriers
from tests.fake_vllm.environment import FakeEnvironment, write_behaviour
from tests.fake_vllm.idle_machine import pretend_idle

QUICK = ("--ttft=0.005", "--tpot=0.002", "--whole-at-once")
SUITE = Suite.model_validate(
    {
        "name": "small",
        "version": "1",
        "description": "…",
        "scenarios": [
            {
                "name": "c2",
                "server": {"model": "fake"},
                "workload": {"input_len": 8, "output_len": 4, "num_requests": 4, "concurrency": 2},
            }
        ],
    }
)
BASE, CAND = (Version.parse(text) for text in ("0.19.0", "0.19.1"))
BOTH = [Slot(1, 1, BASELINE, "server"), Slot(1, 2, CANDIDATE, "server")]


def send(
    url: str,
    model: str,
    workload: LoadWorkload,
    *,
    scenario: str,
    ordinal: int,
    progress: Callable[[int, int], None],
    begins: Callable[[], None],
    request: float = 60.0,
) -> Any:
    limits = LoadLimits(request=request)
    return measure_load(
        Target(url, model),
        workload,
        scenario=scenario,
        ordinal=ordinal,
        limits=limits,
        progress=progress,
        begins=begins,
    )


class Bay:
    """Where servers are started; `made` makes runs of the two versions, which behave as told."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._states = servers_directory()
        self.bench = ExperimentSetup(
            suite=SuiteRef("small", "1"),
            testbed=Testbed("lab"),
            trials=1,
            meter=send,
            gpus=(),
            ready_within=60.0,
            logs=directory / "logs",
            say=lambda _text: None,
        )
        self.environments: dict[str, FakeEnvironment] = {}

    def environment(self, version: Version, *flags: str, tells: str | None = None) -> FakeEnvironment:
        directory = self.directory / f"of-{version}"
        directory.mkdir(exist_ok=True)
        says = [f"--vllm-version={tells}"] if tells else []
        return FakeEnvironment(version, write_behaviour(directory, {str(version): [*QUICK, *flags, *says]}))

    def made(self, slots: list[Slot], environments: Mapping[str, FakeEnvironment], **more: Any) -> list[MadeRun]:
        sides = {
            side: ExperimentSide(side, environment.version, environment, {"libc": "glibc-2.36"})
            for side, environment in environments.items()
        }
        (group,) = server_groups(SUITE)
        facts = {"experiment": "e1", "attempt": 1, **more}
        return make_runs(slots, group, load_workloads(SUITE), sides, self.bench, **facts)

    def believed(self) -> list[str]:
        """Tokens of servers that are believed to be up."""
        return [path.stem for path in self._states.glob("*.json")]


@pytest.fixture
def bay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bay]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    pretend_idle(monkeypatch.setattr)
    monkeypatch.setattr(server_module, "UNRESPONSIVE_AFTER", 0.5)
    bay = Bay(tmp_path)
    yield bay
    assert bay.believed() == []


class TestOneServer:
    @pytest.fixture
    def run(self, bay: Bay) -> Run:
        (made,) = bay.made([Slot(3, 1, CANDIDATE, "server")], {CANDIDATE: bay.environment(CAND)})
        return made.run

    def test_a_run_knows_its_place_and_what_it_was_made_of(self, run: Run) -> None:
        assert (str(run.version), run.suite, run.testbed.name) == ("0.19.1", SuiteRef("small", "1"), "lab")
        assert run.label == "e1/03-candidate"
        assert run.place is not None
        assert (run.place.experiment, run.place.block, run.place.position, run.place.side) == ("e1", 3, 1, CANDIDATE)
        assert (run.place.resident, run.place.cold, run.place.group) == (False, False, "server")
        assert run.libraries == {"torch": "2.10.0", "libc": "glibc-2.36"}

    def test_what_is_measured_once_a_start_is_there(self, run: Run) -> None:
        assert run.metrics["kv_cache_tokens"] == 174720
        assert run.metrics["startup_time"] > 0
        assert run.metrics["peak_memory"] > 2**20

    def test_trials_conditions_answers_and_server_facts_are_kept(self, run: Run) -> None:
        (trial,) = run.trials
        assert trial.server_metrics["requests"] == trial.server_metrics["prefill_time_count"] == 4
        assert (trial.scenario, trial.ordinal, trial.completed, trial.failed) == ("c2", 1, 4, 0)
        assert run.conditions.outside_cpu_cores is not None
        assert trial.conditions.outside_cpu_cores is not None
        assert run.outputs is not None
        assert all(answer.error is None for answer in run.outputs.answers)
        assert run.server["version"] == "0.19.1"
        assert run.failure is None


class _Cold(FakeEnvironment):
    """Caches are empty until something was served."""

    served: tuple[ServeRequest, ...] = ()

    def has_served(self, request: ServeRequest) -> bool:
        return request in self.served

    def note_served(self, request: ServeRequest) -> None:
        self.served += (request,)


def test_the_time_of_a_first_start_is_kept_apart_because_caches_were_empty(bay: Bay, tmp_path: Path) -> None:
    environment = _Cold(CAND, write_behaviour(tmp_path, {"0.19.1": QUICK}))
    slots = [Slot(1, 1, CANDIDATE, "server")]
    (first,), (second,) = (bay.made(slots, {CANDIDATE: environment}, attempt=n) for n in (1, 2))
    assert [each.run.place.cold for each in (first, second) if each.run.place] == [True, False]
    assert "startup_time" not in first.run.metrics
    assert first.run.server["cold_startup_time"] > 0
    assert "startup_time" in second.run.metrics
    assert second.run.label == "e1/01-candidate/try-2"


def test_resident_servers_are_up_at_once_and_each_has_its_own_run(bay: Bay) -> None:
    bay.bench = replace(bay.bench, trials=2)
    made = bay.made(BOTH, {BASELINE: bay.environment(BASE), CANDIDATE: bay.environment(CAND)})
    assert [str(each.run.version) for each in made] == ["0.19.0", "0.19.1"]
    trials = sorted((trial for each in made for trial in each.run.trials), key=lambda trial: trial.source.imported_at)
    urls = [trial.source.path for trial in trials]
    assert urls == [urls[0], urls[1], urls[1], urls[0]]
    assert urls[0] == made[0].run.trials[0].source.path
    assert all(each.run.place is not None and each.run.place.resident for each in made)


class TestFailing:
    @pytest.mark.parametrize(
        ("flags", "kind", "cause"),
        [
            (["--die-at-start"], "died_at_start", "torch.OutOfMemoryError"),
            (["--die-at-start=silent"], "died_at_start", None),
            (["--die-after=2"], "died_under_load", "CUDA error: an illegal memory access"),
            (["--unhealthy-after=2"], "unresponsive", None),
        ],
    )
    def test_a_server_that_fails_is_a_run_without_numbers(
        self, bay: Bay, flags: list[str], kind: str, cause: str | None
    ) -> None:
        (made,) = bay.made(BOTH[1:], {CANDIDATE: bay.environment(CAND, *flags)})
        run = made.run
        assert run.failure is not None
        assert run.failure.kind == kind
        assert (cause or "") in "\n".join(run.failure.lines)
        assert (run.trials, run.metrics, run.outputs) == ((), {}, None)

    def test_it_says_under_what_conditions_it_failed_also_when_that_was_at_its_start(self, bay: Bay) -> None:
        (made,) = bay.made(BOTH[1:], {CANDIDATE: bay.environment(CAND, "--die-at-start", "--startup-delay=1")})
        assert made.run.conditions.outside_cpu_cores is not None

    def test_a_start_that_fails_is_repeated_before_it_is_evidence(self, bay: Bay) -> None:
        said: list[str] = []
        bay.bench = replace(bay.bench, say=said.append)
        (made,) = bay.made(BOTH[1:], {CANDIDATE: bay.environment(CAND, "--die-at-start")})
        assert any(text.endswith("(exit status 1): starting it once more") for text in said)
        assert made.run.failure is not None
        assert made.run.failure.text.endswith("it was started 2 times")
        (before,) = made.run.server["failed_starts"]
        assert before["lines"][0].startswith("torch.OutOfMemoryError")
        assert (bay.directory / f"of-{CAND}" / "starts").read_text() == ".."

    def test_a_start_that_fails_once_is_noted_and_no_evidence(self, bay: Bay) -> None:
        (made,) = bay.made(BOTH[1:], {CANDIDATE: bay.environment(CAND, "--die-at-start", "--faulty-start=1")})
        assert made.run.failure is None
        assert len(made.run.trials) == 1
        (before,) = made.run.server["failed_starts"]
        assert before["kind"] == "died_at_start"
        assert made.notes[0].startswith("a start failed before one served: the server ended ")
        assert len(list((bay.directory / "logs").iterdir())) == 2

    def test_an_environment_fault_is_no_run(self, bay: Bay) -> None:
        class Offline(FakeEnvironment):
            def launch(self, request: ServeRequest, port: int) -> Launch:
                says = (
                    "raise SystemExit('OSError: We couldn\\'t connect to \\'https://hub.invalid\\' to load the files')"
                )
                return replace(super().launch(request, port), command=(sys.executable, "-c", says))

        with pytest.raises(
            ServerError, match=r"the model cannot be downloaded from its hub: .* it was started 2 times"
        ) as caught:
            bay.made(BOTH[1:], {CANDIDATE: Offline(CAND, {})})
        assert caught.value.failure.kind is ServerFailureKind.ENVIRONMENT

    def test_a_failure_beside_another_program_on_the_gpus_is_no_run(
        self, bay: Bay, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Crowded(ConditionsWatch):
            def between(self, begin: float, end: float) -> Conditions:
                return replace(super().between(begin, end), gpu_other_processes=2.0)

        monkeypatch.setattr(run_maker, "ConditionsWatch", Crowded)
        with pytest.raises(ServerError, match="2 other processes were on the GPUs: the server ended"):
            bay.made(BOTH[1:], {CANDIDATE: bay.environment(CAND, "--die-after=2")})


class TestResident:
    """Where one of two servers fails, the other may be why."""

    @pytest.mark.parametrize("flag", ["--die-at-start", "--die-after=2"])
    def test_one_that_fails_alone_too_is_a_failed_run_and_none_of_the_block_is_resident(
        self, bay: Bay, flag: str
    ) -> None:
        failed, good = bay.made(BOTH, {BASELINE: bay.environment(BASE, flag), CANDIDATE: bay.environment(CAND)})
        assert failed.run.failure is not None
        assert good.run.failure is None
        assert len(good.run.trials) == 1
        assert [each.run.place.resident for each in (failed, good) if each.run.place] == [False, False]

    @pytest.mark.parametrize("fault", ["--die-at-start", "--die-after=2"])
    def test_one_that_serves_alone_says_that_two_do_not_fit(self, bay: Bay, fault: str) -> None:
        tokens: list[str] = []

        class NeedsAll(FakeEnvironment):
            def launch(self, request: ServeRequest, port: int) -> Launch:
                launch = super().launch(request, port)
                tokens.extend(bay.believed())
                return replace(launch, command=(*launch.command, fault)) if bay.believed() else launch

        variables = write_behaviour(bay.directory, {str(CAND): QUICK})
        with pytest.raises(ServerError, match="candidate failed beside the other server and serves alone") as caught:
            bay.made(BOTH, {BASELINE: bay.environment(BASE), CANDIDATE: NeedsAll(CAND, variables)})
        assert "--one-at-a-time" in str(caught.value)
        assert not caught.value.failure.kind.may_be_the_version
        assert [carriers(token) for token in tokens] == [[]]


def test_a_server_that_answers_no_request_hangs_though_it_is_healthy(bay: Bay) -> None:
    bay.bench = replace(bay.bench, meter=lambda *given, **more: send(*given, **more, request=0.5))
    (made,) = bay.made(BOTH[1:], {CANDIDATE: bay.environment(CAND, "--hang-after=0")})
    assert made.run.failure is not None
    assert made.run.failure.kind == "unresponsive"
    assert made.run.failure.text.startswith("no request of c2 was answered in time")


def test_a_server_that_is_never_ready_is_a_failed_run(bay: Bay) -> None:
    bay.bench = replace(bay.bench, ready_within=0.5)
    (made,) = bay.made(BOTH[1:], {CANDIDATE: bay.environment(CAND, "--never-ready")})
    assert made.run.failure is not None
    assert made.run.failure.kind == "never_ready"


def test_another_version_than_the_one_that_was_asked_for_is_an_error_and_no_run(bay: Bay) -> None:
    with pytest.raises(ProvisionError, match=r"started for 0\.19\.1 is vLLM 0\.20\.0; nothing was measured"):
        bay.made(BOTH, {BASELINE: bay.environment(BASE), CANDIDATE: bay.environment(CAND, tells="0.20.0")})


@pytest.mark.parametrize("tells", ["0.23.1rc1.dev3+g4080263bb", "0.19.1"])
def test_a_launch_line_for_a_commit_must_serve_that_commit(bay: Bay, tells: str) -> None:
    class Line(FakeEnvironment):
        """What serves is known only once it serves."""

        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.version = None  # type: ignore[assignment]

        def launch(self, request: ServeRequest, port: int) -> Launch:
            launch = super().launch(request, port)
            return replace(launch, command=(*launch.command[:-1], f"--vllm-version={tells}", *QUICK))

    variables = write_behaviour(bay.directory, {})

    def made(commit: str) -> list[MadeRun]:
        sides = {CANDIDATE: ExperimentSide(CANDIDATE, Version.parse(f"commit:{commit}"), Line(CAND, variables))}
        (group,) = server_groups(SUITE)
        return make_runs(BOTH[1:], group, load_workloads(SUITE), sides, bay.bench, experiment="e1", attempt=1)

    says = "is vLLM 0.23.1rc1.dev3" if "+g" in tells else "which does not report its commit"
    with pytest.raises(ProvisionError, match=re.escape(says)):
        made("d" * 40)
    if "+g" in tells:
        (run,) = [each.run for each in made("4080263bb" + "0" * 31)]
        assert run.failure is None


class _Absent(FakeEnvironment):
    def launch(self, request: ServeRequest, port: int) -> Launch:
        return replace(super().launch(request, port), command=("/nowhere/vllm",))


def test_a_command_that_cannot_run_is_no_evidence_on_the_version_and_ends_the_other_server(bay: Bay) -> None:
    tokens: list[str] = []

    class Watched(_Absent):
        def launch(self, request: ServeRequest, port: int) -> Launch:
            tokens.extend(bay.believed())
            return super().launch(request, port)

    with pytest.raises(ServerError) as caught:
        bay.made(BOTH, {BASELINE: bay.environment(BASE), CANDIDATE: Watched(CAND, {})})
    assert caught.value.failure.kind is ServerFailureKind.NOT_STARTED
    (token,) = tokens  # of the baseline's server, which was up by then
    assert carriers(token) == []
