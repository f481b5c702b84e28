"""Starts the server of a run: once more where a start failed, and no other build than the one that was asked for.

Not for measuring, and not for stopping what serves.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from regress_gate.bench.provision.interface import Environment, Progress, ProvisionError, ServeRequest
from regress_gate.bench.server.failures import Failure, FailureKind, ServerError
from regress_gate.bench.server.server import Server, start_server
from regress_gate.model.version import Version

STARTS = 2
"""Times that a server is started before its failing is evidence: a machine has bad moments, and one would be enough to
speak against a version for ever."""


def start(
    environment: Environment,
    request: ServeRequest,
    log: Path,
    *,
    ready_within: float,
    starts: int,
    say: Progress,
    on_spawn: Callable[[Server], None],
) -> tuple[Server | None, tuple[Failure, ...]]:
    """The server, or None, and the starts that failed, the last one last.

    Raises ServerError at once for what says nothing of the version and would be the same the next time.
    """
    failures: list[Failure] = []
    for number in range(1, starts + 1):
        if failures:
            say(f"{failures[-1].text}: starting it once more")
        try:
            server = start_server(
                environment,
                request,
                log=log if number == 1 else log.with_stem(f"{log.stem}-start-{number}"),
                ready_within=ready_within,
                progress=say,
                on_spawn=on_spawn,
            )
        except ServerError as error:
            failures.append(error.failure)
            if not (error.failure.kind.may_be_the_version or error.failure.kind is FailureKind.ENVIRONMENT):
                raise
        else:
            return server, tuple(failures)
    if starts > 1:
        failures[-1] = replace(failures[-1], text=f"{failures[-1].text}; it was started {starts} times")
    return None, tuple(failures)


def check_version(server: Server, environment: Environment, wanted: Version) -> None:
    """A launch line can start anything: what serves is what counts. Raises ProvisionError for another build."""
    said = server.facts.version if server.facts else None
    if said is None:
        if environment.version is None:
            raise ProvisionError(f"the server started for {wanted} does not tell its version")
        return
    same = _is_same(said, environment.version or wanted)
    if same is None and environment.version is None:
        raise ProvisionError(f"the server started for {wanted} is vLLM {said}, which does not tell its commit")
    if same is False:
        raise ProvisionError(f"the server started for {wanted} is vLLM {said}; nothing was measured")


def _is_same(said: Version, wanted: Version) -> bool | None:
    """A server seldom tells its variant: what counts is the commit, else the number. None where they share neither."""
    if said.commit and wanted.commit:
        return said.commit.startswith(wanted.commit) or wanted.commit.startswith(said.commit)
    return None if said.number is None or wanted.number is None else said.number == wanted.number
