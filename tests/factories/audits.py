"""Deployments for the rules of `audit`, as logs, scrapes and model configurations of given releases print them."""

from datetime import UTC, datetime
from typing import Any

from regress_gate.gate.audit.engine import RULES, Audit, answer, audit
from regress_gate.gate.audit.observations import MetricsWindow, ModelConfig, Observations, Targets, parse_scrape
from regress_gate.gate.audit.rule import Outcome, Rule
from regress_gate.model.deployment import Deployment
from regress_gate.model.policy import Policy, Waiver
from regress_gate.model.version import Version
from regress_gate.vllm.log_signals import ServerLog, scan_log

NOW = datetime(2026, 11, 23, tzinfo=UTC)
BY_ID = {rule.id: rule for rule in RULES}


def a_log(*lines: str, version: str = "0.32.0", arguments: str = "{'model': 'm'}", config: str = "") -> ServerLog:
    """The log of one start, each line as the engine prints it."""
    start = [
        f"(APIServer pid=7) INFO 11-21 02:11:13 [utils.py:299]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version {version}",
        f"(APIServer pid=7) INFO 11-21 02:11:13 [utils.py:233] non-default args: {arguments}",
        (
            "(EngineCore pid=9) INFO 11-21 02:11:44 [core.py:133] Initializing a V1 LLM engine "
            f"(v{version}) with config: model='m'{', ' if config else ''}{config}"
        ),
    ]
    printed = [f"(EngineCore pid=9) WARNING 11-21 02:11:45 [x.py:1] {line}" for line in lines]
    return scan_log([f"{line}\n".encode() for line in (*start, *printed)], "server.log")


def statistics_line(
    running: int = 8, waiting: int = 0, usage: float = 40.0, preemptions: int = 0, hits: float | None = 12.0
) -> str:
    """As 0.15 to 0.32 print it."""
    parts = ["Avg prompt throughput: 100.0 tokens/s", "Avg generation throughput: 90.0 tokens/s"]
    parts += [f"Running: {running} reqs", f"Waiting: {waiting} reqs"]
    parts += [f"Preemptions: {preemptions}"] if preemptions else []
    parts += [f"GPU KV cache usage: {usage:.1f}%"]
    parts += [] if hits is None else [f"Prefix cache hit rate: {hits:.1f}%"]
    return "Engine 000: " + ", ".join(parts)


def a_scrape(samples: dict[str, float]) -> str:
    """The text of /metrics; a key may have labels: `vllm:x_total{reason="y"}`."""
    lines = []
    for key, value in samples.items():
        name, brace, labels = key.partition("{")
        inner = labels.rstrip("}") + ("," if brace and labels != "}" else "")
        engine = "" if 'engine="' in inner else 'engine="0",'
        lines.append(f'{name}{{{inner}{engine}model_name="m"}} {value}')
    return "\n".join(lines) + "\n"


def a_window(last: dict[str, float], first: dict[str, float] | None = None, seconds: float = 60.0) -> MetricsWindow:
    """Of the counters that `first` lacks, the window begins at 0."""
    if first is None:
        return MetricsWindow(parse_scrape(a_scrape(last), "metrics.txt"))
    before = {**{key: 0.0 for key in last if key not in first}, **first}
    return MetricsWindow(parse_scrape(a_scrape(last), "2"), parse_scrape(a_scrape(before), "1"), seconds)


def a_deployment(**fields: Any) -> Deployment:
    """Whose whole launch line is known."""
    return Deployment(**{"complete": True, "complete_env": True, **fields})


def observed(
    version: str | None = "0.32.0",
    *,
    log: ServerLog | None = None,
    metrics: MetricsWindow | None = None,
    config: dict[str, Any] | None = None,
    targets: Targets | None = None,
    deployment: Deployment | None = None,
    **fields: Any,
) -> Observations:
    return Observations(
        deployment or a_deployment(**fields),
        None if version is None else Version.parse(version),
        None if config is None else ModelConfig.of(config),
        log,
        metrics,
        targets or Targets(),
    )


def ask(rule: str | Rule, seen: Observations) -> Outcome:
    """What the rule says."""
    return answer(BY_ID[rule] if isinstance(rule, str) else rule, seen)


def an_audit(seen: Observations, policy: Policy | None = None, waivers: list[Waiver] | None = None) -> Audit:
    return audit(seen, policy or Policy(), waivers or [], now=NOW)
