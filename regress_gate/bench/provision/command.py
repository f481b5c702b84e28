"""Provisioning by the user's own launch line: a script, a container, or anything else that serves a given version.

The line runs with the user's whole environment. The version it really serves is verified from the running server.
"""

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from string import Formatter

from regress_gate.bench.provision.interface import (
    Environment,
    Launch,
    Progress,
    Provisioner,
    ServeRequest,
    serve_arguments,
)
from regress_gate.errors import InputError
from regress_gate.model.version import Version
from regress_gate.text import did_you_mean

LAUNCH_LINE_FIELDS = ("version", "port", "model", "served_model_name", "engine_args")
"""Placeholders of a launch line; `{engine_args}` alone becomes several arguments."""


class CommandEnvironment(Environment):
    """A launch line for one version. Its build and libraries are unknown before the server runs."""

    def __init__(self, words: tuple[str, ...], wanted: Version, environ: Mapping[str, str]) -> None:
        self.version = None
        self.libraries = {}
        self._words = words
        self._wanted = wanted
        self._environ = environ

    def launch(self, request: ServeRequest, port: int) -> Launch:
        values = {
            "version": str(self._wanted),
            "port": str(port),
            "model": request.model,
            "served_model_name": request.served_model_name,
        }
        command: list[str] = []
        for word in self._words:
            if word == "{engine_args}":
                command += serve_arguments(request, port)[4:]
            else:
                command.append(word.format_map(values))
        return Launch(tuple(command), dict(self._environ) | dict(request.env), Path.cwd(), in_process_group=False)


class CommandProvisioner(Provisioner):
    """`line` is split as a shell splits it, and runs without a shell. Raises InputError."""

    def __init__(self, line: str, *, environ: Mapping[str, str] | None = None) -> None:
        self._words = _parse_line(line)
        self._environ = dict(os.environ if environ is None else environ)

    def provision(self, version: Version, *, progress: Progress | None = None) -> CommandEnvironment:
        del progress  # nothing takes time before the start
        program = self._words[0]
        if "{" not in program and shutil.which(program, path=self._environ.get("PATH")) is None:
            raise InputError(f"{program!r} is not an executable program", where="the launch command")
        return CommandEnvironment(self._words, version, self._environ)


def _parse_line(line: str) -> tuple[str, ...]:
    where = "the launch command"
    try:
        words = tuple(shlex.split(line))
        fields = [(word, name) for word in words for _, name, _, _ in Formatter().parse(word) if name is not None]
    except ValueError as error:
        raise InputError(f"{line!r} cannot be read: {error}", where=where, todo="write {{ for a brace") from None
    if not words:
        raise InputError("no command given", where=where)
    for word, name in fields:
        if name not in LAUNCH_LINE_FIELDS:
            raise InputError(f"unknown {{{name}}}{did_you_mean(name, LAUNCH_LINE_FIELDS)}", where=where)
        if name == "engine_args" and word != "{engine_args}":
            raise InputError(f"{{engine_args}} must be a word of its own, not part of {word!r}", where=where)
    for name in ("port", "version"):
        if name not in [field for _, field in fields]:
            raise InputError(f"{{{name}}} is missing", where=where, todo=f"write it where the {name} goes")
    return words
