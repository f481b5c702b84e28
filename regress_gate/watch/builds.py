"""The newest published builds, by channel: releases and candidates on the package index, the nightly on vLLM's own.

Not for their order: a nightly has the number of the last tag on main, so neither numbers nor dates of releases say what
is in it. What one index does not answer is a problem to be named, not an empty answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from regress_gate.accelerators.registry import default_family, family_of_variant
from regress_gate.bench.inspect.published_wheels import CPU_DISTRIBUTION, DISTRIBUTION, published_versions
from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.bench.provision.recipe import newest_nightly
from regress_gate.model.version import Channel, Version
from regress_gate.text import plural
from regress_gate.watch.alarm import AlarmKind, WatchAlarm
from regress_gate.watch.image_registry import NightlyImage, newest_nightly_image
from regress_gate.watch.index_pages import IndexPages


@dataclass(frozen=True, slots=True)
class PublishedBuild:
    """The newest build of a channel."""

    version: Version
    channel: Channel
    published: datetime | None = None
    """When the index page that names it was last changed, or its image pushed; None: not said."""
    image: str | None = None
    """With tag and digest, where it was found in a registry of containers."""


@dataclass(frozen=True, slots=True)
class FoundBuilds:
    builds: tuple[PublishedBuild, ...]
    """Releases first, then candidates, then the nightly."""
    problems: tuple[str, ...]
    """Why nothing is known of a channel, a sentence each."""


def find_builds(
    channels: Sequence[Channel],
    *,
    variant: str | None,
    wheel_index: str,
    environ: Mapping[str, str],
    pages: IndexPages,
    image: str | None = None,
) -> FoundBuilds:
    """The newest build of each channel for this machine. `variant` is None for vLLM's default build.

    With `image`, a repository of containers, the nightly is its newest image, else the newest wheel.
    """
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
            if image is None:
                nightly = newest_nightly(wheel_index, variant, pages.get)
                builds.append(PublishedBuild(nightly, Channel.NIGHTLY, max(pages.changed.values(), default=None)))
            else:
                found = newest_nightly_image(image, _nightly_tag(variant), pages)
                builds.append(_build_of_image(found, variant, wheel_index, pages))
        except ProvisionError as error:
            problems.append(f"the nightly is not known: {error}")
    return FoundBuilds(tuple(builds), tuple(problems))


def _nightly_tag(variant: str | None) -> str:
    """`cu129-nightly` for a build that is not the default one of its kind."""
    family = default_family() if variant is None else family_of_variant(variant)
    names = () if family is None else family.images("nightly", variant, release=False)
    return names[0].rpartition(":")[2] if names else "nightly"


def _build_of_image(found: NightlyImage, variant: str | None, wheel_index: str, pages: IndexPages) -> PublishedBuild:
    try:
        # The wheel of the same commit says which number the build has.
        number = newest_nightly(wheel_index, variant, pages.get, place=found.commit).number
    except ProvisionError:
        number = None
    return PublishedBuild(Version(number, found.commit, variant), Channel.NIGHTLY, found.published, str(found))


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
