"""Options that several commands share, and the settings made from them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from regress_gate.cli.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])
PLATFORMS = ("cuda", "rocm", "cpu", "xpu", "tpu", "ascend")
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
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
        click.option("--quantization", metavar="NAME", help="Of the weights: fp8, awq, nvfp4, none…"),
        click.option("--model", metavar="NAME", help="Model that you serve, or its directory."),
        click.option("--accelerator", metavar="NAME", help="H200, MI300X, cpu…"),
    ):
        command = option(command)
    return command


def deployment_fact_options(command: F) -> F:
    """Facts that few records ask for, and files that tell many facts at once. Flags go before files."""
    for option in (
        click.option("--distribution", metavar="NAME", help="Image or fork: rocm/vllm:…, vllm-ascend, vllm."),
        click.option(
            "--dependency", "dependencies", multiple=True, metavar="NAME=VERSION", help="Library (repeatable)."
        ),
        click.option(
            "--backend",
            "backends",
            multiple=True,
            metavar="PART=NAME",
            help="As resolved, for attention, moe, sampler or linear (repeatable).",
        ),
        click.option(
            "--feature", "features", multiple=True, metavar="NAME[=BOOL]", help="lora, moe=false… (repeatable)."
        ),
        click.option("--moe-quantization", metavar="NAME", help="Of the experts, where it differs."),
        click.option("--architecture", metavar="NAME", help="As in the model's config.json."),
        click.option("--gpu-arch", metavar="LEVEL", help="sm_90, gfx942…"),
        click.option("--platform", type=click.Choice(PLATFORMS), help="Where it follows from no accelerator."),
        click.option("--server-log", type=_FILE, help="Start log of the server."),
        click.option("--collect-env", type=_FILE, help="Output of `vllm collect-env`."),
    ):
        command = option(command)
    return command


def launch_line_option(command: F) -> F:
    """--serve-command, for commands that start no server; for the others it is the line that starts one."""
    return click.option("--serve-command", "launch_line", metavar="LINE", help="The whole `vllm serve …` line.")(
        command
    )


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
        click.option("--offline", is_flag=True, help="Use no network; only --measure and --recommend do."),
    ):
        command = option(command)
    return command


def settings_from(options: dict[str, Any]) -> Settings:
    """The settings behind the shared options of a command, which are taken out of `options`."""
    names = ("accelerator", "model", "quantization", "platform", "gpu_arch", "architecture", "moe_quantization")
    pairs = ("engine_args", "env", "features", "backends", "dependencies")
    facts = {name: options.pop(name) for name in (*names, "distribution", *pairs) if name in options}
    deployment = None
    if any(fact not in (None, ()) for fact in facts.values()):
        from regress_gate.model.deployment import Deployment

        deployment = Deployment.from_flags(**{name: facts.pop(name, ()) for name in pairs}, **facts)
    return Settings(
        store_flag=options.pop("store", None),
        config_flag=options.pop("config", None),
        suite_flag=options.pop("suite", None),
        testbed_flag=options.pop("testbed", None),
        deployment_flag=deployment,
        launch_line=options.pop("launch_line", None),
        server_log=options.pop("server_log", None),
        collect_env=options.pop("collect_env", None),
    )
