"""How long GitHub wants not to be asked: Retry-After, else the time of the reset when nothing remains, else a minute.

As docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api asks.
"""

import re
from datetime import datetime
from email.utils import parsedate_to_datetime

from regress_gate.known.tracker.github_reply import Reply

LONGEST_WAIT = 60.0
"""Seconds. What takes longer is for the user to wait for."""


def wait_wanted(reply: Reply, now: datetime) -> float | None:
    """Seconds until the server wants to be asked again; None where its answer is about something else."""
    if reply.status not in (403, 429):
        return None
    if (after := _whole(reply.headers.get("retry-after"))) is not None:
        return max(1.0, float(after))
    if reply.headers.get("x-ratelimit-remaining") == "0":
        reset = _whole(reply.headers.get("x-ratelimit-reset"))
        # Against the server's own clock: this machine's may be wrong.
        return LONGEST_WAIT if reset is None else max(1.0, reset - answer_time(reply, now).timestamp() + 1.0)
    return LONGEST_WAIT if reply.status == 429 or "rate limit" in reply.text[:2000].lower() else None


def answer_time(reply: Reply, now: datetime) -> datetime:
    """When the server answered, by its own clock where it tells."""
    try:
        moment = parsedate_to_datetime(reply.headers.get("date", ""))
    except (ValueError, OverflowError):
        return now
    return moment if moment.tzinfo is not None else now


def _whole(value: str | None) -> int | None:
    return int(value) if value is not None and re.fullmatch(r"[0-9]{1,12}", value) else None
