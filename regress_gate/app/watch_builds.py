"""What the watch is to look at: the newest builds for this machine, and alarms where an index is silent or old."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from regress_gate.app.provisioning import find_build
from regress_gate.app.settings import Settings
from regress_gate.bench.provision.recipe import WHEEL_INDEX
from regress_gate.model.config import ProvisionConfig, WatchConfig
from regress_gate.model.version import Channel, Version
from regress_gate.paths import wheel_index_cache_directory
from regress_gate.store.store_interface import StoredLook
from regress_gate.watch.alarm import AlarmKind, WatchAlarm
from regress_gate.watch.builds import FoundBuilds, PublishedBuild, find_builds, staleness
from regress_gate.watch.index_pages import IndexPages


def find_newest(
    settings: Settings,
    provisioning: ProvisionConfig,
    variant: str | None,
    named: Sequence[str],
    *,
    offline: bool,
) -> FoundBuilds:
    """The newest build of each channel of the configuration, or the builds that are named. `variant` is None for
    vLLM's default build. Raises InputError for a name of no build."""
    if named:
        versions = [find_build(text, settings, provisioning, accelerator=None) for text in named]
        return FoundBuilds(tuple(PublishedBuild(version, version.channel) for version in versions), ())
    if offline:
        return FoundBuilds((), ("the newest builds are not known: no index was asked (offline)",))
    pages = IndexPages(wheel_index_cache_directory())
    try:
        return find_builds(
            [Channel(channel) for channel in settings.config.watch.channels],
            variant=variant,
            wheel_index=provisioning.wheel_index or WHEEL_INDEX,
            environ=settings.environment,
            pages=pages,
            image=settings.config.watch.image,
        )
    finally:
        pages.close()


def named_as_before(found: FoundBuilds, earlier: Sequence[StoredLook]) -> FoundBuilds:
    """With the versions under which earlier looks have the same commits: whether an index knows the number of a build
    changes from day to day."""
    known: dict[tuple[str | None, str | None], Version] = {
        (look.candidate.commit, look.candidate.variant): look.candidate
        for look in earlier
        if look.candidate is not None and look.candidate.commit is not None
    }
    builds = (
        replace(build, version=known.get((build.version.commit, build.version.variant), build.version))
        for build in found.builds
    )
    return replace(found, builds=tuple(builds))


def build_alarms(
    found: FoundBuilds, earlier: Sequence[StoredLook], config: WatchConfig, now: datetime
) -> list[WatchAlarm]:
    """Of indexes that did not answer, and of a nightly that is too old. `earlier` are the looks at one place."""
    todo = "the next visit asks again; regress-gate doctor says what this machine reaches"
    alarms = [WatchAlarm(AlarmKind.NO_ANSWER, problem, todo) for problem in found.problems]
    for build in found.builds:
        first = min((look.begun for look in earlier if look.candidate == build.version), default=None)
        stale = staleness(build, first, now, timedelta(days=config.nightly_max_age_days))
        alarms += [] if stale is None else [stale]
    return alarms
