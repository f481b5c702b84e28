"""Options that several commands share, and the settings made from them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from regress_gate.cli.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])
CONTEXT = {"help_option_names": ["-h", "--help"]}


def store_options(command: F) -> F:
    """--store and --config."""
    for option in (
        click.option("--config", "config", type=click.Path(path_type=Path), help="Configuration file."),
        click.option("--store", metavar="URL", help="SQLAlchemy URL or path of the store."),
    ):
        command = option(command)
    return command


def place_options(command: F) -> F:
    """--suite and --testbed."""
    for option in (
        click.option("--testbed", metavar="NAME", help="Testbed the runs were made on."),
        click.option("--suite", metavar="NAME[@VERSION]", help="Suite, or the YAML file of one."),
    ):
        command = option(command)
    return command


def deployment_options(command: F) -> F:
    """What known issues are matched against; over `[deployment]` of the configuration."""
    for option in (
        click.option("--env", "env", multiple=True, metavar="KEY=VALUE", help="Server's environment (repeatable)."),
        click.option(
            "--engine-arg", "engine_args", multiple=True, metavar="KEY=VALUE", help="Engine argument (repeatable)."
        ),
        click.option("--quantization", metavar="NAME", help="fp8, awq, nvfp4, none…"),
        click.option("--model", metavar="NAME", help="Model that you serve."),
        click.option("--accelerator", metavar="NAME", help="H200, MI300X, cpu…"),
    ):
        command = option(command)
    return command


def report_options(command: F) -> F:
    """How and where the report is written, and what the exit code may say."""
    for option in (
        click.option("-q", "--quiet", is_flag=True, help="Print no report; the exit code and --output say it all."),
        click.option("-v", "--verbose", count=True, help="Show every series and issue; -vv adds tracebacks."),
        click.option("--report-only", is_flag=True, help="Exit 0 whatever is decided."),
        click.option(
            "--on-inconclusive", type=click.Choice(["pass", "fail"]), help="Exit code of an inconclusive decision."
        ),
        click.option(
            "--output",
            "outputs",
            multiple=True,
            metavar="FORMAT:PATH",
            help="Write a report to a file too (repeatable).",
        ),
        click.option(
            "--format",
            "format_",
            type=click.Choice(["table", "json", "markdown"]),
            default="table",
            show_default=True,
            help="Format on standard output.",
        ),
        click.option("--offline", is_flag=True, help="Use no network; only --measure ever does."),
    ):
        command = option(command)
    return command


def settings_from(options: dict[str, Any]) -> Settings:
    """The settings behind the shared options of a command, which are taken out of `options`."""
    from regress_gate.model.deployment import Deployment

    flags = {key: options.pop(key, None) for key in ("accelerator", "model", "quantization")}
    pairs = {key: options.pop(key, ()) for key in ("engine_args", "env")}
    return Settings(
        store_flag=options.pop("store", None),
        config_flag=options.pop("config", None),
        suite_flag=options.pop("suite", None),
        testbed_flag=options.pop("testbed", None),
        deployment_flags=Deployment.from_flags(**flags, **pairs),
    )
