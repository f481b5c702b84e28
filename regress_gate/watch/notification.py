"""One message about a look to a web hook: plain JSON, or the form of Slack, which Mattermost and others take too.

The address is a secret: it is never in an error, a log or anything that is written. A web hook that fails changes no
verdict; the caller says that it failed. A message may arrive twice, when an answer was lost or a look is repeated: its
header `Idempotency-Key` and its key `look` are the same then.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from regress_gate import __version__
from regress_gate.errors import InputError
from regress_gate.report.render.json import json_text
from regress_gate.text import clip, did_you_mean, one_line, plural
from regress_gate.watch.finding import FindingState, LookSummary
from regress_gate.watch.finding_view import build_text, finding_data, state_text
from regress_gate.watch.tracking_issue import IssueAction, checked_page

ADDRESS = "REGRESS_GATE_WEBHOOK"
FORM = "REGRESS_GATE_WEBHOOK_FORM"
RETRIES = 2
TIMEOUT = 10.0
"""Seconds without a byte."""
TOTAL_TIMEOUT = 60.0
"""Seconds for all attempts."""
_MOST_FINDINGS = 50
_MOST_SERIES = 20
_MOST_BLOCKS = 15
"""Findings and alarms in a message of Slack, which takes 50 blocks."""
_LONGEST_TEXT = 2_900
"""Characters of a block; Slack takes 3,000."""
_LOGGERS = ("urllib3.connectionpool", "urllib3.util.retry")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class WebhookForm(StrEnum):
    """What the receiver understands."""

    JSON = "json"
    SLACK = "slack"


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where messages go. Raises InputError, which does not quote the address, for one that cannot be used."""

    address: str = field(repr=False)
    form: WebhookForm = WebhookForm.JSON

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.address)
            is_usable = (
                bool(parts.hostname) and parts.port != 0 and self.address.isascii() and self.address.isprintable()
            )
        except ValueError:
            is_usable = False
        if not is_usable or " " in self.address or parts.scheme not in ("http", "https"):
            raise InputError("is not a web address", where=ADDRESS, todo="write https://HOST/PATH")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise InputError("would send the message in clear text", where=ADDRESS, todo="use https")


def read_webhook(environment: Mapping[str, str]) -> Webhook | None:
    """From the environment alone: a secret belongs into no file of a repository. Raises InputError."""
    address = environment.get(ADDRESS, "").strip()
    if not address:
        return None
    form = environment.get(FORM, "").strip() or WebhookForm.JSON
    if form not in list(WebhookForm):
        raise InputError(f"unknown form {form[:40]!r}" + did_you_mean(form, WebhookForm), where=FORM)
    return Webhook(address, WebhookForm(form))


def send_notification(
    webhook: Webhook, look: LookSummary, *, issues: Sequence[IssueAction] = (), dashboard: str | None = None
) -> str | None:
    """Tell of the look; why that failed, in one line, or None. `issues` are those of the findings, for their links."""
    make = slack_message if webhook.form is WebhookForm.SLACK else look_message
    body = json_text(make(look, issues, dashboard)).encode("utf-8", "replace")
    outcome: list[str | None] = []
    # A daemon: no time limit of the library ends a receiver that sends a byte now and then.
    sender = threading.Thread(target=lambda: outcome.append(_post(webhook.address, body, look.look)), daemon=True)
    sender.start()
    sender.join(TOTAL_TIMEOUT)
    return outcome[0] if outcome else f"the webhook did not answer within {TOTAL_TIMEOUT:.0f} s"


def _post(address: str, body: bytes, look: str) -> str | None:
    _hide_in_logs(address)
    retry = Retry(
        total=RETRIES,
        backoff_factor=1.0,
        status_forcelist=(429, 500, 502, 503, 504),
        allowed_methods=None,  # any: the receiver knows a repeated message by its key
        respect_retry_after_header=False,  # it may ask for hours
        raise_on_status=False,
    )
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": f"regress-gate/{__version__}",
        "Idempotency-Key": look,
    }
    try:
        with requests.Session() as session:
            session.mount("https://", HTTPAdapter(max_retries=retry))
            session.mount("http://", HTTPAdapter(max_retries=retry))
            answer = session.post(
                address, data=body, headers=headers, timeout=TIMEOUT, allow_redirects=False, stream=True
            )
            status = answer.status_code
            answer.close()
    except requests.exceptions.SSLError:
        return "the webhook's certificate is not accepted"
    except requests.exceptions.ProxyError:
        return "the proxy does not lead to the webhook"
    except (requests.exceptions.RequestException, OSError, ValueError):
        # Their texts quote the address.
        return "the webhook cannot be reached, or does not answer"
    if 300 <= status < 400:
        return f"the webhook redirects ({status}), which is not followed; give its final address"
    return None if 200 <= status < 300 else f"the webhook refuses ({status})"


class _HideAddress(logging.Filter):
    """Drops what a library logs of the address: others may have switched their logs on."""

    def __init__(self, address: str):
        super().__init__()
        parts = urlsplit(address)
        self._secrets = [text for text in (address, parts.path.strip("/"), parts.query) if text]

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        return not any(secret in text for secret in self._secrets)


_filter = cache(_HideAddress)
"""One for each address, however often it is told."""


def _hide_in_logs(address: str) -> None:
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_filter(address))


# Messages


def look_message(look: LookSummary, issues: Sequence[IssueAction] = (), dashboard: str | None = None) -> dict[str, Any]:
    """For programs. Texts are raw, changes are losses: positive is worse."""
    urls = {one.key: one.url for one in issues if one.url}
    findings = []
    for one in look.findings[:_MOST_FINDINGS]:
        data = finding_data(one)
        findings.append({**data, "series": data["series"][:_MOST_SERIES], "issue_url": urls.get(one.key)})
    return {
        "schema": "regress-gate-watch/1",
        "look": look.look,
        "day": look.day.isoformat(),
        "headline": look.headline,
        "candidate": None if look.candidate is None else str(look.candidate),
        "pinned": None if look.pinned is None else str(look.pinned),
        "decision": look.decision,
        "advice": None if look.result is None else look.result.advice,
        "alarms": list(look.alarms[:_MOST_FINDINGS]),
        "findings": findings,
        "findings_left_out": len(look.findings) - len(findings),
        "dashboard": None if dashboard is None else checked_page(dashboard),
    }


def slack_message(
    look: LookSummary, issues: Sequence[IssueAction] = (), dashboard: str | None = None
) -> dict[str, Any]:
    """Blocks of plain text, in which Slack sees neither markup nor mentions, and links of our own."""
    urls = {one.key: one.url for one in issues if one.url}
    newest = "no new build" if look.candidate is None else build_text(look.candidate)
    against = "" if look.pinned is None else f", compared with the pinned {look.pinned}"
    decided = "" if look.decision is None else f": {look.decision}"
    blocks = [
        {"type": "header", "text": _plain(look.headline or "The watch over vLLM", 150)},
        _section(f"{look.day}, {newest}{against}{decided}"),
        *(_section(f"ALARM: {alarm}") for alarm in look.alarms[:_MOST_BLOCKS]),
    ]
    for one in _loudest(look)[:_MOST_BLOCKS]:
        changes = "; ".join(f"{series.name} {series.change_text}" for series in one.series[:3])
        blocks.append(_section(" — ".join(filter(None, (one.title, state_text(one, look), changes)))))
        if url := urls.get(one.key, ""):
            blocks.append(_link(url, "tracking issue"))
    if rest := max(0, len(look.findings) - _MOST_BLOCKS) + max(0, len(look.alarms) - _MOST_BLOCKS):
        blocks.append(_section(f"and {plural(rest, 'more finding or alarm', 'more findings and alarms')}"))
    if dashboard is not None:
        blocks.append(_link(checked_page(dashboard), "dashboard"))
    return {"text": _escaped(clip(one_line(look.headline), 300)), "blocks": blocks}


def _loudest(look: LookSummary) -> list[Any]:
    order = (FindingState.SEEN, FindingState.GONE, FindingState.UNKNOWN)
    return sorted(look.findings, key=lambda one: order.index(one.state))


def _plain(text: str, longest: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": clip(one_line(text), longest) or "-", "emoji": False}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": _plain(text, _LONGEST_TEXT)}


def _link(url: str, name: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": f"<{_escaped(url)}|{name}>"}}


def _escaped(text: str) -> str:
    """https://docs.slack.dev/messaging/formatting-message-text: these three signs begin every mention and link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
