"""Writing results: to standard output in one format, and to files in any."""

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from regress_gate.errors import InputError

if TYPE_CHECKING:
    from regress_gate.model.result import Result


def parse_outputs(outputs: tuple[str, ...]) -> list[tuple[str, Path]]:
    """Read `FORMAT:PATH` pairs before any work is done. Raises InputError for an unknown format or a missing path."""
    from regress_gate.model.nearest import did_you_mean
    from regress_gate.report import FORMATS

    parsed = []
    for output in outputs:
        name, colon, path = output.partition(":")
        if not colon or not path:
            raise InputError(f"{output!r} names no file", where="--output", todo="write FORMAT:PATH")
        if path == "-":
            raise InputError("- is no file", where="--output", todo="use --format for standard output")
        if name not in FORMATS:
            raise InputError(f"unknown format {name!r}" + did_you_mean(name, FORMATS), where="--output")
        parsed.append((name, Path(path)))
    return parsed


def deliver(
    result: "Result", format_: str, outputs: list[tuple[str, Path]], *, verbose: bool = False, quiet: bool = False
) -> None:
    """Write the files first, so that a closed terminal loses nothing, then print."""
    from regress_gate.report import Options, print_result, render

    for name, path in outputs:
        write_file(path, render(result, name, Options(verbose=verbose)))
    if quiet or sys.stdout is None:
        return
    try:
        print_result(result, format_, verbose=verbose)
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()  # the reader has what it wanted; the decision stands


def silence_stdout() -> None:
    """Nobody reads any more (`| head`): let what is still buffered go nowhere, without a complaint at exit."""
    with suppress(OSError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_file(path: Path, text: str) -> None:
    """Replace the file as a whole or not at all; a link stays a link, and a device or pipe is written to.

    Raises InputError with the reason.
    """
    try:
        if str(path).startswith(("/dev/", "/proc/")) or (path.exists() and not path.is_file()):
            with suppress(BrokenPipeError):  # the reader has what it wanted; the decision stands
                path.write_text(text, encoding="utf-8", newline="\n")
            return
        target = Path(os.path.realpath(path))
        mode = target.stat().st_mode & 0o777 if target.exists() else None
        handle, temporary = tempfile.mkstemp(prefix=".regress-gate-", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
            umask = os.umask(0)
            os.umask(umask)
            Path(temporary).chmod(0o666 & ~umask if mode is None else mode)
            Path(temporary).replace(target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", where=path) from None
