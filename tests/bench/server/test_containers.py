"""A container whose tool and command were both killed is found by the state file, and ended by its mark."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from regress_gate.bench.provision.docker import DockerProvisioner
from regress_gate.bench.provision.interface import ServeRequest
from regress_gate.bench.server.processes import ProcessIdentity
from regress_gate.bench.server.recovery import end_orphan, find_orphans, read_states, write_state
from regress_gate.bench.server.server import Server, start_server
from regress_gate.bench.server.server_failures import ServerError, ServerFailureKind
from regress_gate.model.version import Version
from tests.bench.provision.fake_docker import FakeDocker

IMAGE = "docker.io/vllm/vllm-openai:v0.19.1"


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDocker]:
    fake = FakeDocker(tmp_path / "docker")
    fake.publish(IMAGE)
    monkeypatch.setenv("FAKE_DOCKER", str(fake.folder))
    yield fake
    fake.end()


def start(docker: FakeDocker, states: Path) -> Server:
    provisioner = DockerProvisioner(directory=docker.folder / "facts", environ=docker.environ())
    environment = provisioner.provision(Version.parse("0.19.1"))
    request = ServeRequest(str(docker.folder), "m")
    return start_server(environment, request, log=docker.folder / "log", state_directory=states)


def forget(states: Path) -> None:
    """Let the state say that another process, which is gone, started the server."""
    from dataclasses import replace

    (state,) = read_states(states)
    write_state(states, replace(state, tool=ProcessIdentity(1, "another boot:0")))


def test_it_is_found_and_ended(docker: FakeDocker, tmp_path: Path) -> None:
    states = tmp_path / "states"
    server = start(docker, states)
    os.kill(server.pid, signal.SIGKILL)
    server._process.wait()
    server._watch.stop()
    forget(states)
    (orphan,) = find_orphans(states)
    assert "container regress-gate-" in str(orphan)
    docker.fail("ps", "Cannot connect to the Docker daemon")
    assert "may still exist" in (end_orphan(orphan, states, grace=1).trouble or "")
    docker.remember(failures={})
    (orphan,) = find_orphans(states)
    assert end_orphan(orphan, states, grace=1).trouble is None
    assert docker.running() == []
    assert find_orphans(states) == []


def test_an_engine_that_cannot_start_a_container_is_no_evidence_on_the_version(
    docker: FakeDocker, tmp_path: Path
) -> None:
    provisioner = DockerProvisioner(directory=docker.folder / "facts", environ=docker.environ())
    environment = provisioner.provision(Version.parse("0.19.1"))
    docker.fail("run", "docker: Error response from daemon: invalid mount config", 125)
    with pytest.raises(ServerError) as failed:
        start_server(environment, ServeRequest("m", "m"), log=tmp_path / "log", state_directory=tmp_path / "states")
    assert failed.value.failure.kind is ServerFailureKind.NOT_STARTED
