"""Which release of `vllm bench serve` sent the load, as far as that changes what the numbers mean.

Its result files do not say it; `--client-version` or the file's metadata do. Releases between which the workload or a
definition changed have different definitions, so that their results are not compared. Not for the server's version.
"""

import re
from dataclasses import replace

from packaging.version import Version

from regress_gate.ingest.identity import CLIENT_KEYS, VERSION_KEYS
from regress_gate.ingest.interface import Context, NoReading, Reading
from regress_gate.ingest.reports import Outcome
from regress_gate.ingest.text import shown

_SINCE = (
    ((0, 20), "vllm-bench-0.20"),
    ((0, 15), "vllm-bench-0.15"),
    ((0, 7), "vllm-bench-0.7"),
    ((0, 0), "vllm-bench-0.6"),
)
"""First release of each meaning, newest first. Keys of DEFINITIONS."""

_VERSION = re.compile(
    r"(?<![\w.])v?(\d{1,4}\.\d{1,4}(?:\.\d{1,4}){0,2}(?:(?:a|b|rc)\d{1,4})?(\.?dev\d{1,6})?)(?!\w|\.\w)"
)
_UNKNOWN = (
    "the client's version is not stated: since 0.15 the client leaves the temperature to the server, since 0.20 it "
    "counts input tokens as the server does; --client-version keeps such results apart"
)


def client_release(text: str) -> Version | None:
    """The release in `0.19.1` or `vllm 0.19.1 bench serve`; None without one, and for a development build.

    Development builds count from the last tag, so their number does not say which changes they have.
    """
    found = _VERSION.findall(text[:200])
    return Version(found[0][0]) if len(found) == 1 and not found[0][1] else None


def definitions_of(release: Version) -> str:
    """The key of DEFINITIONS for a release of the client."""
    return next(key for since, key in _SINCE if release.release[:2] >= since)


def with_client(result: Reading | NoReading, context: Context) -> Reading | NoReading:
    """The reading with the definitions of its client's release, where it is stated; a note where it had better be."""
    if isinstance(result, NoReading):
        return result
    if context.client_version is None and not result.metadata:
        return result
    in_file = next((result.metadata[key] for key in CLIENT_KEYS if key in result.metadata), None)
    told = in_file if context.client_version is None else context.client_version
    if told is None:
        versioned = any(key in result.metadata for key in VERSION_KEYS if key != "version")
        return replace(result, notes=(*result.notes, _UNKNOWN)) if versioned else result
    release = client_release(told)
    other = None if in_file is None else client_release(in_file)
    if release is not None and other is not None and release != other:
        return NoReading(
            result.position,
            Outcome.REFUSED,
            f"the client is {shown(told)} by --client-version and {shown(in_file)} by metadata; correct one of them",
        )
    if release is None:
        note = f"the client is {shown(told)}, which is no release of vLLM: what it sends and counts is taken as unknown"
        return replace(result, notes=(*result.notes, note))
    return replace(result, definitions=definitions_of(release), metadata={"client_version": told, **result.metadata})
