"""A record and a deployment that fit each other; each test changes the one thing it is about."""

from pathlib import Path
from typing import Any

import yaml

from regress_gate.model.deployment import Deployment
from regress_gate.model.issue import KnownIssue

REPO = "https://github.com/vllm-project/vllm"
ROOT = Path(__file__).parents[2]


def record_data(**changes: Any) -> dict[str, Any]:
    """The data of a record without a fault; a change to None leaves its key out."""
    data: dict[str, Any] = {
        "id": "VLLM-1",
        "summary": "Decode is slower on H200 for one model",
        "kind": "performance",
        "severity": "high",
        "references": [{"type": "REPORT", "url": f"{REPO}/issues/1"}, {"type": "FIX", "url": f"{REPO}/pull/2"}],
        "affected": [affected({"introduced": "0.20.0"}, {"fixed": "0.23.0"})],
        "scope": {"accelerator": ["H200"], "model": ["org/Model*"]},
        "signature": [{"metric": "tpot", "direction": "worse", "change": [0.1, 0.2]}],
        "workarounds": [{"text": "Choose the backend.", "engine_args": {"moe_backend": "triton"}}],
        "tracker": {"url": f"{REPO}/issues/1", "state": "open", "checked": "2026-11-01"},
        "confidence": "high",
        "evidence": "The report names both versions.",
        "reviewed": "2026-11-20",
    }
    data.update(changes)
    return {key: value for key, value in data.items() if value is not None}


def affected(*events: dict[str, str], commits: tuple[dict[str, str], ...] = ()) -> dict[str, Any]:
    ranges: list[dict[str, Any]] = [{"type": "ECOSYSTEM", "events": list(events)}] if events else []
    if commits:
        ranges.append({"type": "GIT", "repo": REPO, "events": list(commits)})
    return {"ranges": ranges}


def record(**changes: Any) -> KnownIssue:
    return KnownIssue.model_validate(record_data(**changes))


def write(directory: Path, data: dict[str, Any], name: str | None = None) -> Path:
    path = directory / (name or f"{data['id']}.yaml")
    path.write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


IN_SCOPE = Deployment(accelerator="H200", model="org/Model-8B")
