"""The newest published builds, by channel: releases and candidates on the package index, the nightly on vLLM's own.

Not for their order: a nightly has the number of the last tag on main, so neither numbers nor dates of releases say what
is in it. What one index does not answer is a problem to be named, not an empty answer.
"""

import urllib.error
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import parsedate_to_datetime
from pathlib import Path

import requests
from cachecontrol import CacheControl
from cachecontrol.caches import SeparateBodyFileCache

from regress_gate.bench.inspect.published_wheels import CPU_DISTRIBUTION, DISTRIBUTION, published_versions
from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.bench.provision.recipe import FETCH_TIMEOUT, MAX_LISTING, fetch, newest_nightly
from regress_gate.model.version import Channel, Version
from regress_gate.text import plural
from regress_gate.watch.alarm import AlarmKind, WatchAlarm


@dataclass(frozen=True, slots=True)
class PublishedBuild:
    """The newest build of a channel."""

    version: Version
    channel: Channel
    published: datetime | None = None
    """When the index page that names it was last changed; None: it does not say."""


@dataclass(frozen=True, slots=True)
class FoundBuilds:
    builds: tuple[PublishedBuild, ...]
    """Releases first, then candidates, then the nightly."""
    problems: tuple[str, ...]
    """Why nothing is known of a channel, a sentence each."""


class IndexPages:
    """Pages of an index of wheels, asked for with the tag of the copy that is kept: one that did not change is not sent
    again."""

    def __init__(self, directory: Path):
        self.changed: dict[str, datetime] = {}
        """URL to when the index says that its page was changed."""
        self._session = CacheControl(requests.Session(), cache=SeparateBodyFileCache(str(directory)))

    def get(self, url: str) -> bytes:
        """The content. Raises OSError, an HTTPError for a status that is no success."""
        if url.startswith("file:"):
            return fetch(url)
        # Always ask: a page that may be kept for an hour would hide the build of this hour.
        headers = {"Cache-Control": "max-age=0"}
        response = self._session.get(url, headers=headers, timeout=FETCH_TIMEOUT)  # its errors are OSErrors
        if not response.ok:
            raise urllib.error.HTTPError(url, response.status_code, response.reason, Message(), None)
        if len(response.content) > MAX_LISTING:
            raise OSError(f"larger than {MAX_LISTING >> 20} MiB")
        if (changed := _time_of(response.headers.get("Last-Modified"))) is not None:
            self.changed[url] = changed
        return response.content

    def close(self) -> None:
        self._session.close()


def _time_of(header: str | None) -> datetime | None:
    try:
        return parsedate_to_datetime(header).astimezone(UTC) if header else None
    except ValueError:
        return None


def find_builds(
    channels: Sequence[Channel], *, variant: str | None, wheel_index: str, environ: Mapping[str, str], pages: IndexPages
) -> FoundBuilds:
    """The newest build of each channel for this machine. `variant` is None for vLLM's default build."""
    builds, problems = list[PublishedBuild](), list[str]()
    tagged = [channel for channel in (Channel.RELEASE, Channel.CANDIDATE) if channel in channels]
    if tagged:
        distribution = CPU_DISTRIBUTION if variant == "cpu" else DISTRIBUTION
        try:
            numbers = published_versions(distribution, environ, candidates=Channel.CANDIDATE in tagged)
            versions = [Version.parse(number) for number in numbers]
            newest = {version.channel: version for version in versions}
            # A candidate of what is released by now is old news.
            known = [newest[channel] for channel in tagged if channel in newest]
            builds += [
                PublishedBuild(one, one.channel) for one in known if one in (versions[-1], newest.get(tagged[0]))
            ]
        except ProvisionError as error:
            problems.append(f"releases are not known: {error}")
    if Channel.NIGHTLY in channels:
        try:
            nightly = newest_nightly(wheel_index, variant, pages.get)
            builds.append(PublishedBuild(nightly, Channel.NIGHTLY, max(pages.changed.values(), default=None)))
        except ProvisionError as error:
            problems.append(f"the nightly is not known: {error}")
    return FoundBuilds(tuple(builds), tuple(problems))


def staleness(build: PublishedBuild, first_seen: datetime | None, now: datetime, most: timedelta) -> WatchAlarm | None:
    """That a nightly is too old to be one; None: it is not. `first_seen` is when a look first found it."""
    if build.channel is not Channel.NIGHTLY:
        return None
    known = [time for time in (build.published, first_seen) if time is not None]
    age = now - min(known, default=now)
    if age <= most:
        return None
    text = (
        f"the newest nightly, {build.version}, is {plural(age.days, 'day')} old: newer builds do not reach this machine"
    )
    todo = "see whether nightlies of this variant are still built; variant and wheel_index choose others"
    return WatchAlarm(AlarmKind.STALE_BUILD, text, todo)
