"""vLLM's own index of wheels, by commit or release and then by variant: which wheel there is for this machine.

There is no listing of commits; whoever wants one names it, or takes the newest nightly build. Not for releases on the
package index.
"""

import json
import platform
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urljoin

from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.errors import InputError
from regress_gate.model.version import Version

WHEEL_INDEX = "https://wheels.vllm.ai/"

Fetch = Callable[[str], bytes]
"""Gets what stands at a URL. Raises OSError."""


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - the index is the caller's choice
        return bytes(answer.read(2**24))


def find_wheel(index: str, place: str, variant: str | None, version: Version, get: Fetch = fetch) -> str:
    """The URL of the wheel for this machine in `place`, a whole commit id or a release.

    Raises ProvisionError where there is none, or the index does not answer.
    """
    listing = _listing(index, place, variant)
    return urljoin(listing, str(_entry_for_this_machine(_entries(listing, version, get), version)["path"]))


def newest_nightly(index: str = WHEEL_INDEX, variant: str | None = None, get: Fetch = fetch) -> Version:
    """The last build of main, by its number and whole commit: `nightly` is another build tomorrow.

    Raises ProvisionError where the index does not tell.
    """
    listing = _listing(index, "nightly", variant)
    entry = _entry_for_this_machine(_entries(listing, "nightly", get), "nightly")
    url = urljoin(listing, unquote(str(entry["path"])))
    found = re.search(r"/([0-9a-f]{40})/", url)
    if found is None:
        raise ProvisionError(f"{listing} does not tell which commit the nightly build is of")
    try:
        said = Version.parse(str(entry.get("version")))
    except InputError:
        raise ProvisionError(f"{listing} does not tell a vLLM version") from None
    if said.commit is not None and not found[1].startswith(said.commit):
        raise ProvisionError(f"{listing} contradicts itself: {said} lies at commit {found[1]}")
    return Version(said.number, found[1], said.variant or variant)


def _listing(index: str, place: str, variant: str | None) -> str:
    base = urljoin(index if index.endswith("/") else f"{index}/", f"{place}/")
    return urljoin(base, f"{variant}/vllm/metadata.json" if variant else "vllm/metadata.json")


def _entries(listing: str, what: object, get: Fetch) -> list[dict[str, Any]]:
    try:
        entries = json.loads(get(listing))
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (403, 404):
            raise ProvisionError(f"no wheels are published for {what} ({listing} is not there)") from None
        raise ProvisionError(f"{listing} answers with status {error.code}") from None
    except (OSError, ValueError) as error:
        raise ProvisionError(f"{listing} cannot be read: {error}") from None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _entry_for_this_machine(entries: list[dict[str, Any]], what: object) -> dict[str, Any]:
    machine = platform.machine().lower().replace("arm64", "aarch64")
    for entry in entries:
        if machine in str(entry.get("platform_tag", "")) and isinstance(entry.get("path"), str):
            return entry
    platforms = ", ".join(sorted({str(entry.get("platform_tag")) for entry in entries})) or "none"
    raise ProvisionError(f"{what} has no wheel for {machine} in this variant (published: {platforms})")
