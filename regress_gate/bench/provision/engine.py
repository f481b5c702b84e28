"""Talking to docker or podman through their program: one question, one answer.

Not for what is run, not for why it failed (`engine_failures`), and not for the life of a server's container.
"""

import json
import shutil
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regress_gate.bench.provision.engine_failures import ImageNotThereError, failure, last_words
from regress_gate.bench.provision.interface import Progress, ProvisionError

PULL_TIMEOUT = 7200.0
"""Seconds; vLLM's images are about ten gigabytes."""
QUESTION_TIMEOUT = 120.0
_OF_THE_ENGINE = (125, 126, 127)
"""Exit statuses of `run` by which the engine says that it was itself; others are those of what it ran."""


@dataclass(frozen=True, slots=True)
class Engine:
    program: str
    environ: Mapping[str, str] = field(repr=False)
    is_podman: bool

    def ask(self, *arguments: str, what: str, timeout: float = QUESTION_TIMEOUT) -> str:
        """Standard output of one call. Raises ProvisionError, which says `what` could not be done and why."""
        try:
            asked = subprocess.run(  # noqa: S603 - the engine that the caller chose
                [self.program, *arguments],
                env=dict(self.environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            raise ProvisionError(f"{what}: {self} does not end within {timeout:.0f} s") from None
        except OSError as error:
            raise ProvisionError(f"{what}: {self} cannot be run ({error.strerror or error})") from None
        if asked.returncode:
            output = asked.stderr + "\n" + asked.stdout
            if arguments[0] == "run" and asked.returncode not in _OF_THE_ENGINE:
                raise ProvisionError(what, lines=last_words(output))
            raise failure(what, str(self), output)
        return asked.stdout

    def inspect(self, image: str) -> dict[str, Any] | None:
        """What the engine knows of an image that it has; None for one that it has not."""
        what = f"{image} cannot be looked at"
        try:
            told = json.loads(self.ask("image", "inspect", image, what=what))
        except ImageNotThereError:
            return None
        except ValueError:
            raise ProvisionError(f"{what}: {self} does not answer in JSON") from None
        if not isinstance(told, list) or not told or not isinstance(told[0], dict):
            raise ProvisionError(f"{what}: {self} answers with something else")
        return told[0]

    def pull(self, image: str, progress: Progress | None) -> None:
        """Raises ImageNotThereError, or ProvisionError for everything else."""
        what = f"{image} cannot be pulled"
        if progress:
            progress(f"pulling {image} with {self}")
        try:
            pulling = subprocess.Popen(  # noqa: S603 - as above
                [self.program, "pull", image],
                env=dict(self.environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise ProvisionError(f"{what}: {self} cannot be run ({error.strerror or error})") from None
        limit = threading.Timer(PULL_TIMEOUT, pulling.kill)
        limit.start()
        try:
            with pulling:
                output = _follow(pulling, progress)
        finally:
            limit.cancel()
            if pulling.poll() is None:
                pulling.kill()
        if pulling.returncode:
            raise failure(what, str(self), output)

    def __str__(self) -> str:
        return Path(self.program).name


def find_engine(environ: Mapping[str, str], named: str | None = None) -> Engine:
    """docker where it is installed, else podman; or the one that is named. Raises ProvisionError."""
    for name in [named] if named else ["docker", "podman"]:
        if found := shutil.which(name, path=environ.get("PATH")):
            engine = Engine(found, environ, is_podman=False)
            told = engine.ask("--version", what=f"{name} cannot be used")
            return Engine(found, environ, is_podman="podman" in told.lower())
    missing = f"{named} is not" if named else "neither docker nor podman is"
    raise ProvisionError(f"{missing} installed; install one of them, or provision with `venv` or `command`")


def _follow(pulling: subprocess.Popen[str], progress: Progress | None) -> str:
    """The whole output; layers are counted for who watches."""
    lines: list[str] = []
    layers = done = 0
    for line in pulling.stdout or ():
        lines.append(line)
        layers += line.rstrip().endswith((": Pulling fs layer", ": Already exists"))
        if line.rstrip().endswith((": Pull complete", ": Already exists")):
            done += 1
            if progress and done < layers:
                progress(f"{done} of {layers} layers")
    return "".join(lines)
