"""The `regress-gate` command: the table of commands, and the one place where errors become a line and an exit code.

A command's module is imported when it is called, so that `--help` costs no more than click.
"""

import errno
import gc
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from regress_gate import __version__
from regress_gate.cli.output import silence_stdout
from regress_gate.errors import ExitCode, RegressGateError
from regress_gate.text import clip, did_you_mean, sanitise

LONGEST_PATH = 1000
"""Characters of a path that an error quotes."""
COMMANDS: dict[str, tuple[str, str]] = {
    "compare": ("regress_gate.cli.compare:compare", "Decide whether to move from one version to another."),
    "check": ("regress_gate.cli.check:check", "List the known issues of a move; measures nothing."),
    "audit": ("regress_gate.cli.audit:audit", "Settings and load that cost a deployment its speed."),
    "run": ("regress_gate.cli.run:run", "Measure a suite on one version and store it."),
    "calibrate": ("regress_gate.cli.calibrate:calibrate", "Measure a version against itself: the noise floor."),
    "diff-config": ("regress_gate.cli.diff_config:diff_config", "What changed between two versions besides speed."),
    "suite": ("regress_gate.cli.suite:suite", "Suites: list, show, lint, new."),
    "env": ("regress_gate.cli.env:env", "Environments of provisioned versions: list, prune, add."),
    "import": ("regress_gate.cli.importing:import_", "Store benchmark results made by other tools."),
    "baseline": ("regress_gate.cli.baseline:baseline", "List, show, pin, export, import and prune stored versions."),
    "report": ("regress_gate.cli.report:report", "A stored result in any format; stored runs for other programs."),
    "history": ("regress_gate.cli.history:history", "Series over all stored versions, and which version changed them."),
    "site": ("regress_gate.cli.site:site", "A static dashboard of everything that is stored."),
    "watch": ("regress_gate.cli.watch:watch", "Look for new builds, measure them, follow what got worse."),
    "bisect": ("regress_gate.cli.bisect:bisect", "Find the build that brought a change, in few runs."),
    "fleet": ("regress_gate.cli.fleet:fleet", "Several hosts: their noise and levels, and manifests."),
    "detect": ("regress_gate.cli.detect:detect", "Change points in any CSV or JSON table; needs no store."),
    "issues": ("regress_gate.cli.issues:issues", "Known issues: list, show, lint, sync, verify, discover, new."),
    "waive": ("regress_gate.cli.waive:waive", "Dated, owned, capped permissions to pass."),
    "ci": ("regress_gate.cli.ci:ci", "In CI: which version a change moves, its check, publishing."),
    "init": ("regress_gate.cli.init:init", "Write a configuration, workflows and a first pin."),
    "doctor": ("regress_gate.cli.doctor:doctor", "What is missing or stale, and what to do."),
    "config": ("regress_gate.cli.config:config", "The effective configuration and where it comes from."),
    "db": ("regress_gate.cli.db:db", "Care for the store: info, migrate, backup."),
}
"""Name to (module:attribute, one line of help)."""


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"no command {args[0]!r}" + did_you_mean(args[0], COMMANDS))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: regress-gate compare v0.19.0 v0.19.1",
)
@click.version_option(__version__, prog_name="regress-gate", message="%(prog)s %(version)s")
def main() -> None:
    """May I move MY vLLM deployment from X to Y?

    Exit codes: 0 pass, 1 fail, 2 usage or input error, 3 inconclusive, 4 could not measure, 5 no stored data for a
    version, 130 interrupted.
    """


def run(arguments: list[str] | None = None) -> None:
    """The program: run a command, turn every error into one line on stderr, exit."""
    # Starting makes many objects and no garbage; to look for it at the usual pace costs a tenth of a short command.
    gc.set_threshold(100_000)
    given = sys.argv[1:] if arguments is None else arguments
    code = _finish(_outcome(given), given)
    # Python looks for garbage once more before it ends: for nothing, and after an import for a tenth of its time.
    gc.freeze()
    sys.exit(code)


def _outcome(given: list[str]) -> int:
    code: Any
    try:
        code = main.main(args=given, prog_name="regress-gate", standalone_mode=False)
    except RegressGateError as error:
        _complain(str(error), given)
        code = error.exit_code
    except click.exceptions.Abort:
        _complain("interrupted", given)
        code = ExitCode.INTERRUPTED
    except click.ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a group alone, where click asks for help to be shown
            error.show()
            return ExitCode.USAGE
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "regress-gate"
        _complain(f"{error.format_message()} (see `{where} --help`)", given)
        code = ExitCode.USAGE
    except KeyboardInterrupt:
        _complain("interrupted", given)
        code = ExitCode.INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # The reader has gone (`| head`), which click makes a SystemExit: nothing is wrong.
        silence_stdout()
        code = ExitCode.PASS
    except OSError as error:
        place = "the output cannot be written" if error.filename is None else clip(str(error.filename), LONGEST_PATH)
        _complain(f"{place}: {error.strerror or error}", given)
        if error.filename is None:
            silence_stdout()  # what is still buffered would be complained of again
        code = ExitCode.USAGE if error.errno == errno.ENAMETOOLONG else ExitCode.COULD_NOT_MEASURE
    except Exception as error:
        _complain(f"internal error, please report it: {type(error).__name__}: {error}", given)
        code = ExitCode.COULD_NOT_MEASURE
    return int(code) if isinstance(code, int) else ExitCode.PASS


def _finish(code: int, given: list[str]) -> int:
    """Write what is still buffered: a report that could not be written is no success."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
    except OSError as error:
        silence_stdout()
        _complain(f"standard output cannot be written ({error.strerror})", given)
        return ExitCode.COULD_NOT_MEASURE
    return code


def _complain(message: str, arguments: list[str]) -> None:
    """One line, whatever the message holds; with -vv the traceback too. Neither holds secrets."""
    if sys.stderr is None:
        return
    shown = _encodable(f"regress-gate: error: {sanitise(message)}")
    if "-vv" in arguments:
        lines = [_encodable(sanitise(line)) for line in traceback.format_exc().splitlines()]
        shown = "\n".join([*lines, shown])
    with suppress(OSError):  # stderr is closed: the exit code is enough
        print(shown, file=sys.stderr)  # noqa: T201 - the one place that prints errors


def _encodable(text: str) -> str:
    encoding = sys.stderr.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)
