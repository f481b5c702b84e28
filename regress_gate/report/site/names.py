"""Names of the dashboard's files: the same for the same thing in every build, safe on file systems and in URLs.

A name has what a person recognises, and a digest of the exact texts: names that differ only in case, in a sign that no
file name may hold, or beyond its first characters stay apart.
"""

import hashlib
import re

from regress_gate.model.run import SuiteRef
from regress_gate.store.store_interface import StoredComparison

_NOT_IN_NAME = re.compile(r"[^a-z0-9]+")
_LONGEST_PART = 40
_DIGEST = 10


def place_name(testbed: str, suite: SuiteRef) -> str:
    """`cpu-2core--cpu-tiny-1-9f3c1a2b4d`."""
    return f"{_part(testbed)}--{_part(suite.name)}-{_part(suite.version)}-{_digest(testbed, suite.name, suite.version)}"


def series_name(scenario: str, metric: str) -> str:
    """`c4-ttft-median-9f3c1a2b4d`."""
    return f"{_part(scenario)}-{_part(metric)}-{_digest(scenario, metric)}"


def version_name(version: str) -> str:
    """`0-24-0-cpu-9f3c1a2b4d`: of a place in a page."""
    return f"{_part(version)}-{_digest(version)}"


def comparison_name(comparison: StoredComparison) -> str:
    """`20261123t120000z-9f3c1a2b4d`: when it was made, and what it says."""
    return f"{comparison.created:%Y%m%dt%H%M%Sz}-{comparison.digest[:_DIGEST]}"


def _part(text: str) -> str:
    return _NOT_IN_NAME.sub("-", text[: 4 * _LONGEST_PART].lower())[:_LONGEST_PART].strip("-") or "x"


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
