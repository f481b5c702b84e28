"""The newest nightly image of a repository of containers, by its commit and digest.

Docker Hub says in one answer when each tag was pushed. Other registries are asked by the OCI distribution
specification, which knows no times: there the tag `nightly` says which content is the newest. Only what anybody may
read is read. Not for pulling: engines do that.
"""

import hashlib
import json
import re
import urllib.error
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.watch.index_pages import IndexPages, Page

DOCKER_HUB = "https://hub.docker.com/"
_HUB_NAMES = ("docker.io", "index.docker.io")
_LOOPBACK = ("localhost", "127.0.0.1")
_MANIFESTS = ", ".join(
    f"application/vnd.{name}+json"
    for name in (
        "oci.image.index.v1",
        "docker.distribution.manifest.list.v2",
        "oci.image.manifest.v1",
        "docker.distribution.manifest.v2",
    )
)
_MOST_TAGS = 60
"""Tags with a commit whose content is asked for: vLLM's cleanup leaves fourteen."""
_MOST_PAGES = 20


@dataclass(frozen=True, slots=True)
class NightlyImage:
    repository: str
    tag: str
    commit: str
    """40 hexadecimal digits, of the tag."""
    digest: str
    """`sha256:…` of what the tag names now. A tag with a commit can be pushed again."""
    published: datetime | None
    """When the tag was pushed, or its content was made; None: not said."""

    def __str__(self) -> str:
        return f"{self.repository}:{self.tag}@{self.digest}"


def newest_nightly_image(image: str, tag: str, pages: IndexPages) -> NightlyImage:
    """The newest of the tags `TAG-<commit>` of a repository, such as `vllm/vllm-openai` with the tag `nightly`.

    Raises ProvisionError if the registry has none, or does not answer.
    """
    host, _, name = image.partition("/")
    if "." not in host and ":" not in host and host != "localhost":
        host, name = _HUB_NAMES[0], image
    wanted = re.compile(rf"{re.escape(tag)}-([0-9a-f]{{40}})")
    if host in _HUB_NAMES:
        return _on_docker_hub(image, name if "/" in name else f"library/{name}", wanted, pages)
    return _Registry(image, host, name, pages).newest(tag, wanted)


def _on_docker_hub(image: str, name: str, wanted: re.Pattern[str], pages: IndexPages) -> NightlyImage:
    query = urlencode({"name": "nightly", "ordering": "last_updated", "page_size": 100})
    url = urljoin(DOCKER_HUB, f"v2/repositories/{name}/tags?{query}")
    found = []
    for entry in _list(_json(_ask(pages, url).content, url).get("results")):
        match = wanted.fullmatch(str(entry.get("name")))
        pushed, digest = _time(entry.get("last_updated")), _digest(entry.get("digest"))
        if match is not None and pushed is not None and digest is not None:
            found.append(NightlyImage(image, match[0], match[1], digest, pushed))
    if not found:
        raise ProvisionError(f"{image} has no tag of a nightly build with its commit ({url})")
    return max(found, key=lambda one: (one.published, one.tag))


class _Registry:
    """A repository on a registry that speaks the OCI distribution specification."""

    def __init__(self, image: str, host: str, name: str, pages: IndexPages):
        scheme = "http" if host.partition(":")[0] in _LOOPBACK else "https"
        self._image, self._base, self._pages = image, f"{scheme}://{host}/v2/{name}/", pages
        self._headers: dict[str, str] = {}

    def newest(self, tag: str, wanted: re.Pattern[str]) -> NightlyImage:
        content, digest = self._manifest(tag)
        tags = sorted(filter(wanted.fullmatch, self._tags()))[:_MOST_TAGS]
        for one in tags:
            if self._manifest(one)[1] == digest:
                commit = one.rpartition("-")[2]
                return NightlyImage(self._image, one, commit, digest, self._made(content))
        raise ProvisionError(f"none of {len(tags)} tags of {self._image} with a commit is what {tag} is: {digest}")

    def _tags(self) -> Iterator[str]:
        url = urljoin(self._base, "tags/list?n=1000")
        for _ in range(_MOST_PAGES):
            page = self._get(url)
            names = _json(page.content, url).get("tags")
            yield from (str(name) for name in (names if isinstance(names, list) else []))
            following = re.match(r'<([^>]+)>;\s*rel="?next"?', page.headers.get("Link", ""))
            if following is None or not (url := urljoin(url, following[1])).startswith(self._base):
                return

    def _manifest(self, reference: str) -> tuple[bytes, str]:
        """The manifest of a tag or digest, with its digest."""
        content = self._get(urljoin(self._base, f"manifests/{reference}")).content
        return content, f"sha256:{hashlib.sha256(content).hexdigest()}"

    def _made(self, manifest: bytes) -> datetime | None:
        """When the image was built, by its configuration; that of an index is its first image's."""
        try:
            document = _json(manifest, self._base)
            if images := _list(document.get("manifests")):
                document = _json(self._manifest(_digest(images[0].get("digest")) or "")[0], self._base)
            config = document.get("config")
            digest = _digest(config.get("digest")) if isinstance(config, dict) else None
            if digest is None:
                return None
            return _time(_json(self._get(urljoin(self._base, f"blobs/{digest}")).content, self._base).get("created"))
        except ProvisionError:
            return None

    def _get(self, url: str) -> Page:
        try:
            return self._pages.ask(url, {"Accept": _MANIFESTS, **self._headers})
        except urllib.error.HTTPError as error:
            challenge = str(error.headers.get("WWW-Authenticate", ""))
            if error.code != 401 or self._headers or not challenge.lower().startswith("bearer "):
                raise _refused(url, error) from None
        except OSError as error:
            raise _silent(url, error) from None
        self._headers = {"Authorization": f"Bearer {self._token(url, challenge)}"}
        return self._get(url)

    def _token(self, url: str, challenge: str) -> str:
        """One that anybody gets, of the place that the registry names."""
        given = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
        realm = urlsplit(given.get("realm", ""))
        if realm.scheme != "https" and realm.hostname not in _LOOPBACK:
            raise ProvisionError(f"{url} names no place for a token that is safe")
        query = urlencode({key: given[key] for key in ("service", "scope") if key in given})
        document = _json(_ask(self._pages, f"{given['realm']}?{query}").content, given["realm"])
        token = document.get("token") or document.get("access_token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise ProvisionError(f"{given['realm']} gives no token to read {self._image}")
        return token


def _ask(pages: IndexPages, url: str) -> Page:
    try:
        return pages.ask(url)
    except urllib.error.HTTPError as error:
        raise _refused(url, error) from None
    except OSError as error:
        raise _silent(url, error) from None


def _refused(url: str, error: urllib.error.HTTPError) -> ProvisionError:
    return ProvisionError(f"{url} answers with status {error.code}")


def _silent(url: str, error: OSError) -> ProvisionError:
    return ProvisionError(f"{url} cannot be read: {error}")


def _json(content: bytes, url: str) -> Mapping[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ProvisionError(f"{url} does not answer as a registry does")
    return document


def _list(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _digest(value: object) -> str | None:
    return value if isinstance(value, str) and re.fullmatch(r"sha256:[0-9a-f]{64}", value) else None


def _time(value: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
