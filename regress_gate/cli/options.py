"""Options that several commands share, and the settings made from them."""

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regress_gate.app.settings import DEFAULT_BLOCKS, DEFAULT_RUNS, MeasurementAmount, Settings
from regress_gate.errors import InputError
from regress_gate.model.testbed import Testbed
from regress_gate.report import (
    COMPARISON_FIGURES,
    HISTORY_FIGURES,
    NOISE_FIGURES,
    OF_A_REPORT,
    OF_A_VERDICT,
    Source,
    check_standard_output,
    format_names,
)
from regress_gate.text import did_you_mean

if TYPE_CHECKING:
    from regress_gate.model.config import ProvisionConfig


PLATFORMS = ("cuda", "rocm", "cpu", "xpu", "tpu", "ascend", "gaudi", "other")
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
CONTEXT = {"help_option_names": ["-h", "--help"]}
MEASURING = "Measuring"
TIME = "How long, and going on"
PROVISIONING = "How vLLM is installed and started"
REPORT = "Report"
DECISION = "Decision"


class SectionedCommand(click.Command):
    """A command with many options: its help shows them in sections, those of the command itself first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(parameter, "section", "Options"), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def section(title: str, *options: Decorator) -> Decorator:
    """A decorator that adds these options, under this title of the help, in the order in which they stand here."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
            command.__click_params__[-1].section = title  # type: ignore[attr-defined]  # click keeps them there
        return command

    return add


store_options = section(
    "Store and configuration",
    click.option("--store", metavar="URL", help="SQLAlchemy URL or path of the store."),
    click.option("--config", "config", type=click.Path(path_type=Path), help="Configuration file."),
)
"""--store and --config."""


place_options = section(
    "Which runs",
    click.option("--suite", metavar="NAME[@VERSION]", help="Suite, or the YAML file of one."),
    click.option("--testbed", metavar="NAME", help="Testbed the runs were made on."),
)
"""--suite and --testbed."""


fleet_place_options = section(
    "Which runs",
    click.option("--suite", metavar="NAME[@VERSION]", help="Suite, or the YAML file of one."),
    click.option(
        "--testbed",
        multiple=True,
        metavar="NAME",
        help="Testbed the runs were made on; several, or 'h100-*', for hosts of one class (repeatable).",
    ),
)
"""The same for commands that take runs of several testbeds."""


deployment_options = section(
    "Your deployment",
    click.option(
        "--deployment",
        "deployment_target",
        metavar="FILE[#NAME]",
        help="docker run line, Compose, Kubernetes, Helm values, Dockerfile, systemd unit; - for stdin.",
    ),
    click.option("--accelerator", metavar="NAME", help="H200, MI300X, cpu…"),
    click.option("--model", metavar="NAME", help="Model that you serve, or its directory."),
    click.option("--quantization", metavar="NAME", help="Of the weights: fp8, awq, nvfp4, none…"),
    click.option(
        "--engine-arg", "engine_args", multiple=True, metavar="KEY=VALUE", help="Engine argument (repeatable)."
    ),
    click.option("--env", "env", multiple=True, metavar="KEY=VALUE", help="Server's environment (repeatable)."),
)
"""What known issues are matched against; over `[deployment]` of the configuration."""


deployment_fact_options = section(
    "Further facts about your deployment",
    click.option("--collect-env", type=_FILE, help="Output of `vllm collect-env`."),
    click.option("--server-log", type=_FILE, help="Start log of the server."),
    click.option("--platform", type=click.Choice(PLATFORMS), help="Where it follows from no accelerator."),
    click.option("--gpu-arch", metavar="LEVEL", help="sm_90, gfx942…"),
    click.option("--architecture", metavar="NAME", help="As in the model's config.json."),
    click.option("--moe-quantization", metavar="NAME", help="Of the experts, where it differs."),
    click.option("--feature", "features", multiple=True, metavar="NAME[=BOOL]", help="lora, moe=false… (repeatable)."),
    click.option(
        "--backend",
        "backends",
        multiple=True,
        metavar="PART=NAME",
        help="As resolved, for attention, moe, sampler or linear (repeatable).",
    ),
    click.option("--dependency", "dependencies", multiple=True, metavar="NAME=VERSION", help="Library (repeatable)."),
    click.option("--distribution", metavar="NAME", help="Image or fork: rocm/vllm:…, vllm-ascend, vllm."),
)
"""Facts that few records need, and files that hold many facts. Flags override files."""


launch_line_option = section(
    "Your deployment",
    click.option("--serve-command", "launch_line", metavar="LINE", help="The whole `vllm serve …` line."),
)
"""For commands that start no server; for the others --serve-command is the line that starts one."""


format_option = section(
    REPORT, click.option("--format", "format_", type=click.Choice(format_names()), default="table", show_default=True)
)
"""--format, for commands that print one report, of lists or of what was done: nothing in it passes or fails."""


decision_options = section(
    DECISION,
    click.option(
        "--on-inconclusive", type=click.Choice(["pass", "fail"]), help="Exit code of an inconclusive decision."
    ),
    click.option("--report-only", is_flag=True, help="Exit 0 whatever is decided."),
)
"""What the exit code may say."""


output_option = click.option(
    "--output", "outputs", multiple=True, metavar="FORMAT:PATH", help="Write a report to a file too (repeatable)."
)


def figure_option(*names: str) -> Decorator:
    """--figure, with the pictures that such a report can have."""
    return click.option(
        "--figure", metavar="NAME", type=click.Choice(names), help=f"Picture in svg and png: {', '.join(names)}."
    )


def _format_options(*sources: Source, figures: Iterable[str] = ()) -> list[Decorator]:
    def can_be_printed(_: click.Context, __: click.Parameter, name: str) -> str:
        if sys.stdout is not None:
            check_standard_output(name, sys.stdout, *sources)
        return name

    options: list[Decorator] = [
        click.option(
            "--format",
            "format_",
            type=click.Choice(format_names(*sources)),
            default="table",
            show_default=True,
            callback=can_be_printed,
            help="Format on standard output.",
        ),
        output_option,
    ]
    return [*options, figure_option(*figures)] if figures else options


def _decision_report_options(*options: Decorator) -> Decorator:
    return section(
        REPORT,
        *options,
        click.option("-v", "--verbose", count=True, help="Show every series and issue; -vv adds tracebacks."),
        click.option("-q", "--quiet", is_flag=True, help="Print no report; the exit code and --output say it all."),
        click.option("--offline", is_flag=True, help="Use no network; only --measure and --recommend do."),
    )


verdict_options = section(REPORT, *_format_options(*OF_A_VERDICT))
"""--format and --output, for commands in whose report something passes or fails."""

history_options = section(REPORT, *_format_options(*OF_A_REPORT, figures=HISTORY_FIGURES))
"""`verdict_options` of a report with series over versions or times as its picture."""

search_options = section(REPORT, *_format_options(Source.VIEW, Source.FIGURES, figures=HISTORY_FIGURES))
"""Of a report with a picture in which nothing passes or fails."""

noise_options = section(REPORT, *_format_options(*OF_A_REPORT, figures=NOISE_FIGURES))
"""`verdict_options` of a report with the noise of series as its picture."""

report_options = _decision_report_options(*_format_options(*OF_A_VERDICT))
"""How and where the report of a decision is written."""

comparison_options = _decision_report_options(*_format_options(*OF_A_REPORT, figures=COMPARISON_FIGURES))
"""`report_options` of a report with the pictures of a comparison."""


def settings_from(options: dict[str, Any]) -> Settings:
    """The settings behind the shared options of a command, which are taken out of `options`."""
    names = ("accelerator", "model", "quantization", "platform", "gpu_arch", "architecture", "moe_quantization")
    pairs = ("engine_args", "env", "features", "backends", "dependencies")
    facts = {name: options.pop(name) for name in (*names, "distribution", *pairs) if name in options}
    deployment = None
    if any(fact not in (None, ()) for fact in facts.values()):
        from regress_gate.model.deployment import Deployment  # with pydantic: only where a deployment is given

        deployment = Deployment.from_flags(**{name: facts.pop(name, ()) for name in pairs}, **facts)
    return Settings(
        store_flag=options.pop("store", None),
        config_flag=options.pop("config", None),
        suite_flag=options.pop("suite", None),
        testbed_flag=options.pop("testbed", None),
        deployment_flag=deployment,
        launch_line=options.pop("launch_line", None),
        deployment_target=options.pop("deployment_target", None),
        server_log=options.pop("server_log", None),
        collect_env=options.pop("collect_env", None),
        gate_flags=options.pop("gate", ()),
    )


_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
_UNIT_SECONDS = (86400.0, 3600.0, 60.0, 1.0)


class Duration(click.ParamType[float]):
    """Seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, context: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = _DURATION.fullmatch(str(value).strip().lower())
        if not match or not any(match.groups()):
            self.fail(f"{str(value)[:40]!r} is no duration; write 45m, 1h30m or 90s", param, context)
        seconds = sum(float(part) * unit for part, unit in zip(match.groups(), _UNIT_SECONDS, strict=True) if part)
        if not 0 < seconds < 1e8:
            self.fail(f"{str(value)[:40]!r} must be longer than nothing and shorter than three years", param, context)
        return seconds


_TRIALS = click.option(
    "--trials", type=click.IntRange(1, 100), help="Passes of each scenario in a run; default: the suite's."
)
_BUDGET = click.option("--budget", type=Duration(), help="Begin no block, after the first, that would end later (45m).")
_READY = click.option(
    "--ready-within", type=Duration(), default="30m", help="Longest start of a server.", show_default=True
)
_WAIT = click.option("--wait-for-machine", type=Duration(), help="Wait so long for another run to end (30m).")
_CLOCKS = click.option(
    "--lock-clocks",
    type=click.IntRange(100, 10_000),
    metavar="MHZ",
    help="Hold the clocks of NVIDIA GPUs there meanwhile; takes root.",
)
_DRIVER = click.option(
    "--driver", metavar="NAME", help="Measure with vllm-bench, guidellm or aiperf, not our own client."
)

_RESUME = (
    click.option("--resume", is_flag=True, help="Go on with what an interrupted experiment lacks."),
    click.option("--resume-if-any", is_flag=True, help="The same, or begin if none was interrupted: for CI."),
)


def measure_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """How much is measured, how, and how long."""
    how = section(
        MEASURING,
        click.option(
            "-n",
            "--runs",
            type=click.IntRange(1, 1000),
            help=f"Server starts a side [default: {DEFAULT_RUNS}; for compare, at most {DEFAULT_BLOCKS}].",
        ),
        _TRIALS,
        click.option(
            "--resident/--one-at-a-time",
            default=None,
            help="Keep both servers up and take turns, or start one after the other (default).",
        ),
        _DRIVER,
        _CLOCKS,
    )
    return how(section(TIME, _BUDGET, *_RESUME, _READY, _WAIT)(command))


def search_amount_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a search, which chooses the number of runs itself."""
    budget = click.option(
        "--budget", type=Duration(), help="Begin no run that would end later (3h); refuse what takes more."
    )
    return section(MEASURING, _TRIALS, _DRIVER, _CLOCKS)(section(TIME, budget, _READY, _WAIT)(command))


fleet_option = section(
    MEASURING,
    click.option(
        "--on", metavar="ENGINE", help="Measure on the hosts of ray, ray://HEAD, slurm or slurm://PARTITION, not here."
    ),
)
"""--on."""


spool_option = section(
    MEASURING,
    click.option(
        "--spool",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Keep the runs in files of DIR, not in the store: `import DIR` stores them later, elsewhere.",
    ),
)
"""--spool."""


def measuring_settings(settings: Settings, spool: Path | None) -> Settings:
    """The settings to measure with. Of a spool, if one is given: its files are written when the command ends."""
    if spool is None:
        return settings
    from regress_gate.app.baselines import spooled  # with the database

    return click.get_current_context().with_resource(spooled(settings, spool))


provision_options = section(
    PROVISIONING,
    click.option(
        "--provision",
        type=click.Choice(["venv", "docker", "command"]),
        help="How versions are installed; default: venv.",
    ),
    click.option("--serve-command", metavar="LINE", help="Own launch line; {version}, {port}, {model}… are put in."),
    click.option("--variant", metavar="NAME", help="Build of vLLM: cpu, cu129, rocm…; default: by the accelerator."),
    click.option("--image", metavar="NAME", help="Own container image; {version} is put in."),
    click.option("--gpus", metavar="LIST", help="GPUs of a container: all, none, or 0,1."),
)
"""--provision, --serve-command, --variant, --image and --gpus."""


PROVISION_PARAMETERS = {
    "provision": "way",
    "serve_command": "command",
    "variant": "variant",
    "image": "image",
    "gpus": "gpus",
}
"""Parameter of a command to key of `[provision]`."""


def provisioning_from(options: dict[str, Any], settings: Settings) -> "ProvisionConfig":
    """The provisioning in force; takes the parameters of `provision_options` out of `options`."""
    from regress_gate.app.provisioning import choose_provisioning  # with the provisioners: only commands that measure

    given = {key: value for flag, key in PROVISION_PARAMETERS.items() if (value := options.pop(flag, None)) is not None}
    return choose_provisioning(given, settings)


def amount_from(options: dict[str, Any]) -> MeasurementAmount:
    """How much to measure; takes the parameters of `measure_options` out of `options`."""
    return MeasurementAmount(**{field.name: options.pop(field.name) for field in fields(MeasurementAmount)})


def parse_testbed_facts(pairs: tuple[str, ...]) -> dict[str, Any] | None:
    """Read KEY=VALUE pairs as fields of a testbed. Raises InputError for an unknown key."""
    known = {field.name for field in fields(Testbed)} - {"name"}
    facts: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not value:
            raise InputError(f"{pair!r} is no fact", where="--testbed-fact", todo="write KEY=VALUE")
        if key not in known:
            raise InputError(f"unknown fact {key!r}" + did_you_mean(key, sorted(known)), where="--testbed-fact")
        if key in ("accelerator_count", "cpu_count", "memory_bytes"):
            if not value.isascii() or not value.isdigit():
                raise InputError(f"{key} is a whole number, not {value!r}", where="--testbed-fact")
            facts[key] = int(value)
        else:
            facts[key] = value
    return facts or None


def is_confirmed() -> bool:
    """Whether the user says yes. Raises InputError if nobody can be asked."""
    try:
        return click.confirm("delete these?", err=True)
    except click.Abort:
        if sys.stdin is not None and sys.stdin.isatty():
            raise
        raise InputError("stdin is not a terminal", todo="give --yes or --dry-run") from None
