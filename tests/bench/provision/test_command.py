"""The user's own launch line: placeholders, splitting without a shell, and invalid lines."""

import re

import pytest

from regress_gate.bench.provision.command import CommandProvisioner
from regress_gate.bench.provision.interface import ServeRequest
from regress_gate.errors import InputError
from regress_gate.model.version import Version

VERSION = Version.parse("0.19.1")


def test_the_line_is_filled_in_word_by_word() -> None:
    provisioner = CommandProvisioner(
        "env docker run 'image:v{version}' --publish={port}:8000 {model} {engine_args} '{{}}'",
        environ={"PATH": "/usr/bin:/bin", "VLLM_MINE": "kept"},
    )
    launch = provisioner.provision(VERSION).launch(
        ServeRequest("my model; rm -rf /", "m", {"enforce_eager": False, "a": "b c"}, {"X": "1"}), 8123
    )
    assert launch.command == (
        *("env", "docker", "run", "image:v0.19.1", "--publish=8123:8000", "my model; rm -rf /"),
        *("--no-enforce-eager", "--a=b c", "{}"),
    )
    assert launch.env == {"PATH": "/usr/bin:/bin", "VLLM_MINE": "kept", "X": "1"}
    assert not launch.in_process_group


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "no command given"),
        ("run {port}", "{version} is missing; write it where the version goes"),
        ("run {version}", "{port} is missing"),
        ("run {version} {port} {modell}", "unknown {modell} (did you mean 'model'?)"),
        ("run {version} {port} x{engine_args}", "{engine_args} must be a word of its own"),
        ("run {version} {port} {", "cannot be read"),
        ("run {version} {port} {0}", "unknown {0}"),
        ("run '{version} {port}", "cannot be read"),
    ],
)
def test_an_invalid_line_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(InputError, match=re.escape(complaint)):
        CommandProvisioner(line)


def test_a_missing_program_is_an_error_before_the_start() -> None:
    with pytest.raises(InputError, match="'no-such-program' is not an executable program"):
        CommandProvisioner("no-such-program {version} {port}").provision(VERSION)
