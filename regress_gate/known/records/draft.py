"""Writes a draft of a record for a thread. Nothing is looked up: a placeholder marks what the curator must write.

The linter refuses a draft until every placeholder is gone.
"""

import re
from datetime import date

from regress_gate.errors import InputError
from regress_gate.known.records.lint import PLACEHOLDER

_THREAD = re.compile(r"https://github\.com/(?P<repo>[\w.-]+/[\w.-]+)/(?P<kind>issues|pull)/(?P<number>[1-9]\d{0,8})")
_PREFIXES = {"vllm-project/vllm": "VLLM"}


def draft_id(url: str) -> str:
    """`VLLM-28882`; for threads of other repositories the prefix is the repository's name.

    Raises InputError for anything but the address of an issue or pull request on GitHub.
    """
    found = _match_thread(url)
    name = found["repo"].rpartition("/")[2]
    prefix = _PREFIXES.get(found["repo"].casefold()) or re.sub(r"[^A-Z0-9]+", "-", name.upper()).strip("-")
    if not re.match("[A-Z]", prefix):
        prefix = f"X-{prefix}".rstrip("-")
    return f"{prefix}-{found['number']}"


def draft_record(url: str, *, today: date) -> str:
    """The text of the file `ID.yaml`. Raises InputError as `draft_id` does."""
    thread = _match_thread(url)[0]
    return f"""\
id: {draft_id(url)}
summary: "{PLACEHOLDER}: what the user sees, with the model, the hardware and the size, in at most 160 signs"
kind: performance # performance accuracy crash hang memory startup default-change removed-flag not-a-bug
severity: medium # critical high medium low
references:
  - {{type: REPORT, url: {thread}}}
affected:
  - package: {{ecosystem: PyPI, name: vllm}}
    ranges:
      - type: ECOSYSTEM
        events: [{{introduced: "{PLACEHOLDER}"}}] # {{fixed: "…"}} needs a FIX reference that shows it
scope: # every key must hold, a list means any of; as narrow as the evidence
  accelerator: ["{PLACEHOLDER}"]
  model: ["{PLACEHOLDER}"]
signature: # the loss as a fraction, positive for worse; leave `change` out where the thread has no number
  - {{metric: ttft, direction: worse}}
workarounds: []
tracker:
  url: {thread}
  state: unknown # open closed merged; with state_reason where closed
  checked: {today.isoformat()}
confidence: low # high medium low
evidence: >-
  {PLACEHOLDER}: which statement in the thread supports which version and which part of the scope, and what is inferred.
reviewed: {today.isoformat()}
"""


def _match_thread(url: str) -> re.Match[str]:
    found = _THREAD.match(url.strip())
    if found is None:
        todo = "write https://github.com/OWNER/NAME/issues/NUMBER"
        raise InputError(f"{url[:200]!r} is not a thread on GitHub", where="URL", todo=todo)
    rest = url.strip()[found.end() :]
    if rest and not rest.startswith(("/", "#", "?")):
        raise InputError(
            f"{url[:200]!r} is not a thread on GitHub", where="URL", todo="end it with the thread's number"
        )
    return found
