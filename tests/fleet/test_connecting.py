"""A head that is slow to get ready is asked again; one that is not there is not."""

import sys
from types import ModuleType

import pytest

from regress_gate.bench.fleet.executor import FleetError
from regress_gate.bench.fleet.ray_executor import CONNECTIONS, RayExecutor

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
