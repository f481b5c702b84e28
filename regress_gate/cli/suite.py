"""`regress-gate suite`: the suites that can be measured, and help with writing one."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regress_gate.cli.options import CONTEXT
from regress_gate.cli.suite_import import import_
from regress_gate.errors import ExitCode, InputError
from regress_gate.text import plural

if TYPE_CHECKING:
    from regress_gate.model.suite import ServerConfig, Suite, Workload

WIDTH = 80

_format = click.option("--format", "format_", type=click.Choice(["table", "json"]), default="table", show_default=True)


@click.group(context_settings=CONTEXT, epilog="Example: regress-gate suite show h100-llama8b")
def suite() -> None:
    """Suites: list, show, lint, new, import."""


suite.add_command(import_)


@suite.command("list", epilog="Example: regress-gate suite list", context_settings=CONTEXT)
@_format
def list_(format_: str) -> None:
    """The suites that come with the program, and what each is for."""
    from regress_gate.report.render.plain_text import columns, json_text
    from regress_gate.suites import shipped_suites

    suites = shipped_suites().values()
    if format_ == "json":
        data = [
            {
                "name": found.name,
                "version": found.version,
                "accelerator": found.accelerator,
                "scenarios": len(found.scenarios),
                "description": found.description,
            }
            for found in suites
        ]
        click.echo(json_text({"schema_version": "1", "suites": data}))
        return
    rows = [(found.name, found.version, found.accelerator, len(found.scenarios)) for found in suites]
    head, *lines = columns(("suite", "version", "accelerator", "scenarios"), rows).splitlines()
    click.echo(head)
    for line, found in zip(lines, suites, strict=True):
        click.echo(line)
        for text in _wrapped(found.description, "  "):
            click.echo(text)


@suite.command(epilog="Example: regress-gate suite show cpu-tiny", context_settings=CONTEXT)
@click.argument("name", metavar="NAME|FILE")
@_format
def show(name: str, format_: str) -> None:
    """One suite, whole: what is sent to which server, why, and what decides."""
    from regress_gate.report.render.plain_text import json_text
    from regress_gate.suites import load_suite

    found = load_suite(name)
    if format_ == "json":
        data = found.model_dump(mode="json", exclude_none=True)
        click.echo(json_text({"schema_version": "1", "suite": data}))
        return
    click.echo("\n".join(_described(found)))


@suite.command(epilog="Example: regress-gate suite lint chat.yaml", context_settings=CONTEXT)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
def lint(files: tuple[Path, ...]) -> None:
    """Check suite files. Shows every error and doubt; exits 2 when there is an error, 0 with warnings only."""
    from regress_gate.known.records.loading import load_records
    from regress_gate.report.render.plain_text import plain
    from regress_gate.suites.lint import lint_suite

    known = {name for record in load_records() for name in (record.id, *record.aliases)}
    complaints = [complaint for file in files for complaint in lint_suite(file, known)]
    for complaint in complaints:
        click.echo(plain(complaint))
    errors = sum(complaint.severity == "error" for complaint in complaints)
    warnings = len(complaints) - errors
    click.echo(f"{plural(len(files), 'suite')}, {plural(errors, 'error')}, {plural(warnings, 'warning')}", err=True)
    if errors:
        raise click.exceptions.Exit(ExitCode.USAGE)


@suite.command(epilog="Example: regress-gate suite new chat.yaml", context_settings=CONTEXT)
@click.argument("file", type=click.Path(path_type=Path))
def new(file: Path) -> None:
    """Write a commented suite to begin with. Never overwrites a file."""
    from regress_gate.report.render.plain_text import plain
    from regress_gate.suites import is_suite_path, suite_template

    if not is_suite_path(file.name):
        raise InputError("a suite is a YAML file", where=file, todo=f"call it {file.name}.yaml")
    name = re.sub(r"[^A-Za-z0-9._-]", "-", file.stem).lstrip("._-")[:80] or "my-suite"
    try:
        with file.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(suite_template(name))
    except FileExistsError:
        raise InputError("is there already and is left as it is", where=file, todo="name another file") from None
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", where=file) from None
    click.echo(f"wrote {plain(file)}; edit it, then: regress-gate suite lint {plain(file)}")


def _described(found: "Suite") -> list[str]:
    from regress_gate.report.render.plain_text import columns, plain

    lines = [f"{found.name}@{found.version}", *_wrapped(found.description)]
    if found.notice:
        lines += _wrapped(found.notice)
    lines.append("")
    if found.accelerator:
        lines.append(f"accelerator  {plain(found.accelerator)}")
    limits = found.conditions.model_dump(exclude_none=True)
    lines += [f"void when    {plain(key.removeprefix('max_'))} is above {value:g}" for key, value in limits.items()]
    lines.append(f"run          trials={found.trials}, request_timeout={found.request_timeout:g} s")
    policy = found.gate.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    for key, value in policy.items():
        lines += _wrapped(plain(value), f"{plain(key):<13}" if len(key) < 12 else f"{plain(key)} ")
    servers = list({_server_line(scenario.server): scenario.server for scenario in found.scenarios}.values())
    shared = len(servers) == 1
    if shared:
        lines += _server(servers[0])
    rows = [(scenario.name, *_row(scenario.workload)) for scenario in found.scenarios]
    lines += ["", *columns(("scenario", "sends", "load", "requests"), rows).splitlines(), ""]
    for scenario in found.scenarios:
        lines += _wrapped(scenario.why or "no why", f"{scenario.name}: ")
        lines += [f"  {text}" for text in _details(scenario.workload)]
        if scenario.sees:
            lines.append(f"  sees {plain(scenario.sees)}")
        if not shared:
            lines += [f"  {text}" for text in _server(scenario.server)]
    return lines


def _server(server: "ServerConfig") -> list[str]:
    from regress_gate.report.render.plain_text import plain

    lines = _wrapped(plain(server.model), "model        ")
    for title, values in (("engine args", server.engine_args), ("environment", server.env)):
        if values:
            lines += _wrapped(plain(values), f"{title:<13}")
    return lines


def _server_line(server: "ServerConfig") -> str:
    return server.model_dump_json()


def _row(workload: "Workload") -> tuple[str, str, object]:
    """What one request is, how many there are at once, how many in all."""
    if workload.api == "rerank":
        sends = f"{workload.documents} documents x {_or_any(workload.input_len)} words"
    elif workload.api == "embeddings":
        sends = f"{_or_any(workload.input_len)} tokens"
    else:
        unsaid = "?" if isinstance(workload.dataset, str) else "recorded"
        prompt, answer = (length or unsaid for length in (workload.input_len, workload.output_len))
        sends = f"{prompt} -> {'' if workload.ignore_eos else 'up to '}{answer}"
    loads = []
    if workload.request_rate is not None:
        loads.append(f"{workload.request_rate:g}/s {workload.arrival}")
    if workload.concurrency is not None:
        loads.append(f"{'at most ' if loads else 'concurrency '}{workload.concurrency}")
    requests = f"{_or_any(workload.num_requests)}"
    if workload.warmup_requests:
        requests += f" + {workload.warmup_requests}"
    return sends, ", ".join(loads) or "all at once", requests


def _details(workload: "Workload") -> Iterator[str]:
    """What the table has no column for."""
    from regress_gate.report.render.plain_text import plain

    if not isinstance(workload.dataset, str):
        yield f"{workload.dataset.format} prompts of {plain(workload.dataset.file)}"
    if workload.api != "completions":
        yield f"api {workload.api}"
    if workload.prefix_len:
        yield f"shared prefix {plural(workload.prefix_len, 'token')}"
    if workload.lora_adapters:
        yield f"LoRA adapters {plain(workload.lora_adapters)}"
    if workload.slo is not None:
        yield f"objective {plain({key: f'{value:g} s' for key, value in workload.slo if value is not None})}"
    if workload.extra_body:
        import json

        yield from _wrapped(plain(json.dumps(workload.extra_body)), "body ", WIDTH - 2)


def _or_any(value: int | None) -> str:
    return "?" if value is None else str(value)


def _wrapped(text: str, first: str = "", width: int = WIDTH) -> list[str]:
    """The text in lines that fit a terminal, those after the first indented as far."""
    import textwrap

    from regress_gate.report.render.plain_text import plain

    indent = " " * min(len(first), 13)
    return textwrap.wrap(plain(text), width, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False)
