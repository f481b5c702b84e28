"""A server that is not ours is looked at and left alone."""

import pytest

from regress_gate.bench.provision.url import UrlProvisioner
from regress_gate.bench.server.attached import AttachedServer, attach
from regress_gate.bench.server.failures import FailureKind, ServerError
from regress_gate.errors import InputError
from regress_gate.model.version import Version
from tests.bench.server.conftest import ProgramEnvironment, Start
from tests.bench.server.test_server import break_it


def test_it_is_looked_at_and_left_running(start: Start) -> None:
    server = start("mute")
    attached = attach(UrlProvisioner(server.url).provision(Version.parse("0.19.1")))
    assert attached.facts.version == Version("0.19.1")
    assert attached.facts.kv_cache_tokens == 1600
    assert [process.pid for process in attached.processes()] == [server.pid]
    assert attached.stop().left == ()
    assert attached.failure(health=True) is None
    break_it(server.url)
    failure = attached.failure(health=True)
    assert failure is not None
    assert failure.kind is FailureKind.UNRESPONSIVE
    assert server.failure() is None


def test_one_elsewhere_has_no_processes_to_see(start: Start) -> None:
    attached = AttachedServer(start().url)
    attached.url = "http://example.invalid:80"
    assert attached.processes() == []


def test_one_that_is_not_healthy_is_not_measured() -> None:
    with pytest.raises(ServerError, match="not healthy"):
        AttachedServer("http://127.0.0.1:1")
    with pytest.raises(InputError, match="has to be started"):
        attach(ProgramEnvironment("well"))
