"""Pages of indexes and registries, asked for with the tag of the copy that is kept: one that did not change is not sent
again. Not for what stands in them."""

import urllib.error
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from pathlib import Path

import requests
from cachecontrol import CacheControl
from cachecontrol.caches import SeparateBodyFileCache

from regress_gate.bench.provision.recipe import FETCH_TIMEOUT, MAX_LISTING, fetch


@dataclass(frozen=True, slots=True)
class Page:
    content: bytes
    headers: Mapping[str, str]
    """Names in any case."""


class IndexPages:
    """A session; to be closed."""

    def __init__(self, directory: Path):
        self.changed: dict[str, datetime] = {}
        """URL to when the index says that its page was changed."""
        self._session = CacheControl(requests.Session(), cache=SeparateBodyFileCache(str(directory)))

    def get(self, url: str) -> bytes:
        """The content. Raises OSError, an HTTPError for a status that is no success."""
        return fetch(url) if url.startswith("file:") else self.ask(url).content

    def ask(self, url: str, headers: Mapping[str, str] | None = None) -> Page:
        """The content with its headers. Raises as `get` does; the HTTPError has the headers of the refusal."""
        # Always ask: a page that may be kept for an hour would hide the build of this hour.
        wanted = {"Cache-Control": "max-age=0", **(headers or {})}
        response = self._session.get(url, headers=wanted, timeout=FETCH_TIMEOUT)  # its errors are OSErrors
        if not response.ok:
            refusal = Message()
            for name, value in response.headers.items():
                refusal[name] = value
            raise urllib.error.HTTPError(url, response.status_code, response.reason, refusal, None)
        if len(response.content) > MAX_LISTING:
            raise OSError(f"larger than {MAX_LISTING >> 20} MiB")
        if (changed := _time_of(response.headers.get("Last-Modified"))) is not None:
            self.changed[url] = changed
        return Page(response.content, response.headers)

    def close(self) -> None:
        self._session.close()


def _time_of(header: str | None) -> datetime | None:
    try:
        return parsedate_to_datetime(header).astimezone(UTC) if header else None
    except ValueError:
        return None
