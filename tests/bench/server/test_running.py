"""A server that is not ours is looked at and left alone."""

import os

import psutil
import pytest

from regress_gate.bench.external_servers import find_listener_processes, inspect_server
from regress_gate.bench.load.load_errors import LoadError
from tests.bench.server.conftest import Start


def test_its_processes_are_found_by_the_port_it_listens_on(start: Start) -> None:
    server = start("mute")
    assert [process.pid for process in find_listener_processes(server.url)] == [server.pid]
    assert psutil.pid_exists(server.pid)


def test_a_server_elsewhere_has_no_visible_processes() -> None:
    assert find_listener_processes("http://example.invalid:80") == []
    assert os.getpid() not in [process.pid for process in find_listener_processes("http://127.0.0.1:1")]


def test_a_server_that_is_not_there_is_reported_as_missing() -> None:
    with pytest.raises(LoadError, match="does not answer"):
        inspect_server("http://127.0.0.1:1")
