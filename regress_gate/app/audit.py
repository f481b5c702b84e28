"""Audit a deployment: gather what is known of it, and put the rules to it. Measures nothing and changes nothing."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx

from regress_gate.app.deployment_facts import deployment_out, gather_deployment
from regress_gate.app.settings import Settings
from regress_gate.errors import InputError
from regress_gate.gate.audit.engine import Audit, audit
from regress_gate.gate.audit.observations import (
    MAX_METRICS_BYTES,
    MetricsWindow,
    ModelConfig,
    Observations,
    Scrape,
    Targets,
    parse_scrape,
)
from regress_gate.known.matching.models import from_model_config, read_model_config
from regress_gate.known.records.coverage import refuse_never_released
from regress_gate.known.records.releases import shipped_releases
from regress_gate.model.version import Ref
from regress_gate.vllm.log_signals import ServerLog, read_server_log

_SCRAPE_TIMEOUT = 20.0
"""Seconds. A busy server answers /metrics late."""


def audit_servers(
    settings: Settings,
    *,
    version: str | None = None,
    metrics: Sequence[str] = (),
    window: float = 15.0,
    model_config: Path | None = None,
    targets: Targets | None = None,
    report_only: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> list[Audit]:
    """The audit of each server of the deployment file; without one, of the deployment that the settings describe.

    `metrics` are at most two addresses or files; an address that is given twice is read twice, `window` seconds apart.
    Raises InputError for what cannot be read, and for a version that is none or was never released.
    """
    servers = settings.for_each_server()
    log = None if settings.server_log is None else _read_log(settings.server_log, say)
    scraped = read_metrics(metrics, window, say)
    if len(servers) > 1 and (log is not None or scraped is not None):
        raise InputError("holds several servers", where="--deployment", todo="name one: FILE#NAME")
    model = None if model_config is None else read_model_config(str(model_config))
    if model_config is not None and model is None:
        raise InputError("has no config.json", where=model_config)
    now = datetime.now(UTC)
    named = None if version is None else Ref.parse(version).version
    if version is not None and named is None:
        raise InputError(f"{version!r} is no version", todo="name the release that runs, such as v0.24.0")
    if named is not None:
        refuse_never_released(named, shipped_releases())
    audits = []
    for one in servers:
        seen = observe(one, log=log, metrics=scraped, model=model, targets=targets or Targets())
        if named is not None:
            seen = replace(seen, version=named)
        deployment = deployment_out(one.deployed_server)
        audits.append(
            audit(seen, settings.policy(), settings.waivers, now=now, deployment=deployment, report_only=report_only)
        )
    return audits


def observe(
    settings: Settings,
    *,
    log: ServerLog | None,
    metrics: MetricsWindow | None,
    model: dict[str, object] | None,
    targets: Targets,
) -> Observations:
    """All that the settings and the given sources say of one server."""
    # The log is not read again for its facts: where it has several starts, both are of the last.
    facts = gather_deployment(
        settings.deployment_flags,
        settings.config.deployment.facts,
        launch_line=settings.launch_line,
        server=settings.deployed_server,
        server_log=None if log is None else log.facts,
        collect_env=settings.collect_env,
    )
    deployment = facts.deployment
    if model is None and deployment.model is not None:
        model = read_model_config(deployment.model)
    if model is not None:
        deployment = deployment.over(from_model_config(model))
    config = None if model is None else ModelConfig.of(model)
    return Observations(deployment, facts.version, config, log, metrics, targets)


def _read_log(path: Path, say: Callable[[str], None]) -> ServerLog:
    """Raises InputError for a file that is no log of vLLM."""
    log = read_server_log(path)
    if log.has_start:
        return log
    facts = log.facts
    if not log.matches and log.statistics is None and facts.version is None and not facts.deployment.engine_args:
        todo = "give the log from its beginning"
        raise InputError("no vLLM server start found, nor a line that a rule reads", where=path, todo=todo)
    say(f"{path}: no start of a server found; what its lines do not say is not known")
    return log


def read_metrics(sources: Sequence[str], window: float, say: Callable[[str], None]) -> MetricsWindow | None:
    """Read one answer of /metrics, or two. Raises InputError for a file or an address that has none."""
    if not sources:
        return None
    if len(sources) > 2:
        raise InputError("is given more than twice", where="--metrics", todo="two scrapes make a window")
    begun = time.monotonic()
    first, measured = _scrape(sources[0]), None
    if len(sources) == 1:
        return MetricsWindow(first)
    if all(_is_address(source) for source in sources):
        say(f"waiting {window:.0f} s between two scrapes")
        time.sleep(window)
        measured = time.monotonic() - begun
    return MetricsWindow(_scrape(sources[1]), first, measured)


def _is_address(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def _scrape(source: str) -> Scrape:
    if not _is_address(source):
        try:
            with Path(source).open("rb") as file:
                return parse_scrape(file.read(MAX_METRICS_BYTES + 1).decode("utf-8", "replace"), source)
        except OSError as error:
            raise InputError(f"cannot be read ({error.strerror})", where=source) from None
    try:
        content = b""
        with httpx.stream("GET", source, timeout=_SCRAPE_TIMEOUT) as answer:
            answer.raise_for_status()
            for part in answer.iter_bytes():
                content += part
                if len(content) > MAX_METRICS_BYTES:
                    break
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        text = str(error) or type(error).__name__
        raise InputError(f"cannot be read ({text})", where=source, todo="is the server up?") from None
    return parse_scrape(content.decode("utf-8", "replace"), source)
