"""A head that is slow to get ready is asked again, one that is not there is not. A lost task is not its fault."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from regress_gate.bench.fleet.executor import FleetError, TaskState
from regress_gate.bench.fleet.ray_executor import CONNECTIONS, RayExecutor, _RayTask

NOT_READY = "Initialization failure from server:\n"


class Head:
    """Ray's own client, of a head that answers so each time it is asked; an empty answer lets the client in."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked = 0

    def init(self, *_: object, **__: object) -> None:
        answer = self.answers[self.asked]
        self.asked += 1
        if answer:
            raise ConnectionError(answer)

    def shutdown(self) -> None:
        """As Ray's: what is left of a connection that failed is forgotten."""


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch):
    def made(head: Head) -> RayExecutor:
        ray, util, strategies = ModuleType("ray"), ModuleType("ray.util"), ModuleType("ray.util.scheduling_strategies")
        ray.init, ray.shutdown = head.init, head.shutdown  # type: ignore[attr-defined]
        strategies.NodeAffinitySchedulingStrategy = object  # type: ignore[attr-defined]
        for module in (ray, util, strategies):
            monkeypatch.setitem(sys.modules, module.__name__, module)
        return RayExecutor("head.example.org", None, "worker")

    return made


def test_a_head_that_gets_ready_in_the_end_is_taken(connect):
    head = Head(NOT_READY, NOT_READY, "")
    connect(head)
    assert head.asked == 3


def test_a_head_that_never_gets_ready_is_given_up(connect):
    head = Head(*[NOT_READY] * CONNECTIONS)
    with pytest.raises(FleetError, match="does not answer"):
        connect(head)
    assert head.asked == CONNECTIONS


def test_a_head_that_is_not_there_is_asked_once(connect):
    head = Head("ray client connection timeout")
    with pytest.raises(FleetError, match="does not answer"):
        connect(head)
    assert head.asked == 1


LOSSES = ("RayActorError", "ActorUnschedulableError", "ObjectLostError", "NodeDiedError", "WorkerCrashedError")
LOSSES = (*LOSSES, "RayTaskError")


class Answers:
    """Ray's answer to one look: an error, once the task has ended."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        names = dict.fromkeys(LOSSES)
        self.exceptions = SimpleNamespace(**{name: type(name, (Exception,), {}) for name in names})

    def wait(self, references: list[object], **_: object) -> tuple[list[object], list[object]]:
        return references, []

    def get(self, _: object) -> None:
        raise self._error


def look_with(connect, error_name: str):
    executor = connect(Head(""))
    answers = Answers(Exception())
    answers._error = getattr(answers.exceptions, error_name, ConnectionError)("the node died")
    executor._ray = answers
    actor = SimpleNamespace(look=SimpleNamespace(remote=object))
    return executor.look(_RayTask(actor))


@pytest.mark.parametrize("name", LOSSES)
def test_a_task_whose_node_is_gone_is_lost_and_the_cluster_is_not(connect, name):
    report = look_with(connect, name)
    assert (report.state, "the node died" in report.text) == (TaskState.LOST, True)


def test_a_cluster_that_does_not_answer_is_an_error(connect):
    with pytest.raises(FleetError, match="does not answer"):
        look_with(connect, "nothing of these")
