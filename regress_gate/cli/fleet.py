"""`regress-gate fleet`: several hosts, how they are, and how to measure on them."""

from typing import Any

import click

from regress_gate.cli.options import CONTEXT, fleet_place_options, format_option, settings_from, store_options
from regress_gate.errors import InputError
from regress_gate.report import print_view
from regress_gate.text import did_you_mean

_MEASURING = ("compare", "run", "calibrate", "watch", "bisect")


@click.group(context_settings=CONTEXT, epilog="Example: regress-gate fleet manifests --help")
def fleet() -> None:
    """Several hosts: how they differ, and manifests of jobs that measure on them."""


@fleet.command(epilog="Example: regress-gate fleet status --testbed 'h100-*' --format json", context_settings=CONTEXT)
@format_option
@fleet_place_options
@store_options
def status(format_: str, **options: Any) -> None:
    """The hosts of the store by class: their noise, how far apart they are, and which has stepped away from the others.

    From the newest runs of each suite on each host. Nothing is measured, and nothing passes or fails.
    """
    from regress_gate.app.fleet_status import fleet_status  # with the statistics
    from regress_gate.report.views.fleet_view import status_list

    print_view(status_list(list(fleet_status(settings_from(options)))), format_)


@fleet.command(
    epilog="Example: regress-gate fleet manifests --image registry.example.org/gate:1 --store-secret gate-store -- "
    "compare v0.31.0 v0.32.0 --measure --suite h100-llama8b --budget 4h",
    context_settings=CONTEXT,
)
@click.argument("words", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--image", required=True, metavar="NAME", help="Container image, built with ci/Dockerfile.")
@click.option("--name", metavar="NAME", help="Of the Job; default: the command and its versions.")
@click.option("--namespace", metavar="NAME", help="Default: that of who applies it.")
@click.option("--gpus", type=click.IntRange(0, 64), help="GPUs of the container; default: what the suite needs.")
@click.option("--resource", metavar="NAME", help="The cluster's name of the GPUs; default: nvidia.com/gpu, by suite.")
@click.option("--node-label", "labels", multiple=True, metavar="KEY=VALUE", help="Only nodes with it (repeatable).")
@click.option("--store-secret", metavar="NAME", help="Secret whose key `url` is the URL of the store.")
@click.option("--volume-claim", metavar="NAME", help="Volume that keeps environments, models, and an SQLite store.")
@click.option(
    "--hosts",
    type=click.IntRange(1, 1000),
    default=2,
    show_default=True,
    help="Nodes that measure, if COMMAND has `--on ray`: a RayJob of KubeRay is printed.",
)
def manifests(
    words: tuple[str, ...],
    image: str,
    name: str | None,
    namespace: str | None,
    gpus: int | None,
    resource: str | None,
    labels: tuple[str, ...],
    store_secret: str | None,
    volume_claim: str | None,
    hosts: int,
) -> None:
    """Print a Kubernetes Job that runs COMMAND, a command of this tool that measures; with `--on ray`, a RayJob of
    KubeRay, whose nodes measure at the same time.

    Files that COMMAND names are carried along as a ConfigMap. Nothing is sent to a cluster: `kubectl apply -f -` does.
    """
    from regress_gate.app.manifests import Placement, job_manifests  # with the catalogue of suites
    from regress_gate.app.settings import DEFAULT_SUITE
    from regress_gate.suites import load_suite

    parameters = _parse(words)
    command = list(words)
    if parameters.get("resume_if_any") is False and not parameters.get("resume"):
        command.append("--resume-if-any")  # a pod that is started again goes on
    versions = [
        str(parameters[key]) for key in ("baseline", "candidate", "version", "good", "bad") if parameters.get(key)
    ]
    placement = Placement(
        image=image,
        name=name or _name([words[0], *versions]),
        namespace=namespace,
        gpus=gpus,
        resource=resource,
        node_labels=_labels(labels),
        store_secret=store_secret,
        volume_claim=volume_claim,
        hosts=hosts if parameters.get("on") == "ray" else None,
        measures_elsewhere=parameters.get("on") is not None,
    )
    text = job_manifests(command, load_suite(str(parameters.get("suite") or DEFAULT_SUITE)), placement)
    click.echo(text, nl=False)


def _parse(words: tuple[str, ...]) -> dict[str, Any]:
    """The options of the command, by click's names. What is wrong with it is said here, not by a pod."""
    root = click.get_current_context().find_root()
    if words[0] not in _MEASURING:
        raise InputError(
            f"`{words[0]}` is no command that measures" + did_you_mean(words[0], _MEASURING), where="COMMAND"
        )
    assert isinstance(root.command, click.Group)  # noqa: S101 # nosec B101 - for mypy
    command = root.command.get_command(root, words[0])
    assert command is not None  # noqa: S101 # nosec B101 - for mypy
    context = command.make_context(f"regress-gate {words[0]}", list(words[1:]))
    if str(context.params.get("on") or "").startswith("slurm"):
        raise InputError("a pod has no Slurm to submit to", where="COMMAND", todo="leave --on out, or name ray")
    if context.params.get("measure") is False:
        raise InputError("compare measures only with --measure", where="COMMAND", todo="add --measure")
    return context.params


def _name(words: list[str]) -> str:
    spelled = "-".join(words).lower()
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in spelled)[:52].strip("-")


def _labels(texts: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    if wrong := next((text for text, pair in zip(texts, pairs, strict=True) if not pair[1]), None):
        raise InputError(f"{wrong!r} has no value", where="--node-label", todo="write KEY=VALUE")
    return {key: value for key, _, value in pairs}
