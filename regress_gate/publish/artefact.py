"""The result that an unprivileged run uploaded, read in the privileged run that `workflow_run` starts.

It may come from anybody. It is read within bounds before anything is unpacked, nothing of it is written to disk, and
the token does not go to the host that keeps it.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from dataclasses import dataclass

from regress_gate.errors import RegressGateError
from regress_gate.github import GitHub
from regress_gate.publish.writing import download, written

MAX_BYTES = 5 * 1024 * 1024
"""Of the artefact, as GitHub keeps it: packed. That of 5,000 series has a tenth."""
MAX_FILE_BYTES = 16 * 1024 * 1024
"""Of a file in it, unpacked."""
RESULT_NAME = "gate.json"
PINS_NAME = "versions.json"
_MAX_MEMBERS = 100


class UnusableArtefactError(RegressGateError):
    """There is none, or it is not what was to be uploaded. `str()` of it says why."""


@dataclass(frozen=True, slots=True)
class Artefact:
    """The files of an artefact; None: it has none of that name."""

    result: bytes | None
    pins: bytes | None


def fetch_artefact(client: GitHub, repository: str, run: int, name: str) -> Artefact:
    """Raises UnusableArtefactError, and NotWrittenError if GitHub cannot be asked."""
    packed = written(
        client, f"the artefact {name} of run {run}", "actions: read", lambda: _download(client, repository, run, name)
    )
    return read_artefact(packed, name)


def _download(client: GitHub, repository: str, run: int, name: str) -> bytes:
    base = f"/repos/{repository}/actions"
    _, listed = client.api.requester.requestJsonAndCheck(
        "GET", f"{base}/runs/{run}/artifacts", parameters={"name": name, "per_page": 100}
    )
    found = [one for one in listed["artifacts"] if one["name"] == name and not one["expired"]]
    if not found:
        raise UnusableArtefactError(f"the run uploaded no artefact {name!r}")
    newest = max(found, key=lambda one: int(one["id"]))
    if int(newest["size_in_bytes"]) > MAX_BYTES:
        raise UnusableArtefactError(f"the artefact {name!r} is larger than {MAX_BYTES >> 20} MiB")
    packed = download(client, f"{base}/artifacts/{int(newest['id'])}/zip", MAX_BYTES)
    if packed is None:
        raise UnusableArtefactError(f"the artefact {name!r} is larger than {MAX_BYTES >> 20} MiB")
    return packed


def read_artefact(packed: bytes, name: str) -> Artefact:
    """Raises UnusableArtefactError for what is no zip file, and for files that are too large or stand there twice."""
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            names = archive.namelist()
            if len(names) > _MAX_MEMBERS:
                raise UnusableArtefactError(f"the artefact {name!r} holds {len(names)} files")
            return Artefact(*(_member(archive, names, one) for one in (RESULT_NAME, PINS_NAME)))
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError, OSError) as error:
        raise UnusableArtefactError(
            f"the artefact {name!r} is not a usable zip file ({type(error).__name__})"
        ) from None


def _member(archive: zipfile.ZipFile, names: list[str], wanted: str) -> bytes | None:
    if names.count(wanted) > 1:
        raise UnusableArtefactError(f"{wanted} stands twice in the artefact")
    if wanted not in names:
        return None
    if archive.getinfo(wanted).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UnusableArtefactError(f"{wanted} is packed in another way than GitHub packs")
    # What the archive says of a size may be wrong: what is unpacked is counted.
    with archive.open(wanted) as member:
        content = member.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise UnusableArtefactError(f"{wanted} is larger than {MAX_FILE_BYTES >> 20} MiB")
    return content
