"""Look up what is stored: builds, runs and build configurations. Not for changing them: see `baselines`."""

from collections.abc import Sequence

from regress_gate.app.settings import Settings
from regress_gate.errors import InputError, NoDataError
from regress_gate.gate.comparison_choice import resolve_ref
from regress_gate.model.run import Run
from regress_gate.model.testbed import is_wanted_testbed
from regress_gate.model.version import Ref, RefKind, Version
from regress_gate.store.combined import ShippedBuilds, open_combined_store
from regress_gate.store.store_interface import Holding
from regress_gate.vllm import release_tables
from regress_gate.vllm.build_config import BuildConfig


def find_stored_build(ref: Ref, settings: Settings) -> Version | None:
    """The build of `pinned`, `latest` or `run:N`; None for other refs. Raises NoDataError if it has no stored runs."""
    if ref.kind not in (RefKind.PINNED, RefKind.LATEST, RefKind.RUN):
        return None
    return resolve_stored_build(ref, settings)


def resolve_stored_build(ref: Ref, settings: Settings) -> Version:
    """The stored build that a ref means. Raises NoDataError if there is none."""
    with open_combined_store(str(settings.store_url.value)) as store:
        if ref.run is not None and (run := store.run(ref.run)) is not None:
            return run.version
        held = store.inventory()
        return resolve_ref(ref, held, store.pinned(), everything=held)[0].version


def is_selected(holding: Holding, settings: Settings) -> bool:
    """Whether the suite and testbed of the settings, where given, are those of the holding."""
    suite = settings.suite.value
    return suite in (None, holding.suite.name, str(holding.suite)) and is_wanted_testbed(
        holding.testbed, settings.testbeds.value
    )


def stored_versions(settings: Settings, *, everything: bool = False) -> list[Holding]:
    """What is stored and shipped, with the suite and testbed of the settings unless `everything` is wanted."""
    with open_combined_store(str(settings.store_url.value)) as store:
        return [holding for holding in store.inventory() if everything or is_selected(holding, settings)]


def stored_runs(version: Version, settings: Settings) -> list[Run]:
    """The runs of a version with the suite and testbed of the settings. Raises NoDataError if there is none."""
    with open_combined_store(str(settings.store_url.value)) as store:
        runs = [
            run
            for run in store.runs(version=version, testbed=settings.testbed.value)
            if settings.suite.value in (None, run.suite.name, str(run.suite))
        ]
    if not runs:
        raise NoDataError(f"no stored runs for {version}; see `regress-gate baseline list`")
    return runs


def find_build_configs(versions: Sequence[Version], settings: Settings) -> list[BuildConfig | None]:
    """What is known of builds without installing one, all from one source where that is possible, so that they can be
    compared. None for a build of which nothing is known.

    What an installed build said of itself counts for builds whose variant is named; releases are in the table of
    releases, which is the same for all variants. Raises InputError if a version may mean several stored builds.
    """
    tables = [release_tables.build_config(version) for version in versions]
    if all(version.variant is None and table is not None for version, table in zip(versions, tables, strict=True)):
        return tables
    asked = [_asked_build_config(version, settings) for version in versions]
    if all(asked) or not all(tables):
        return [own or table for own, table in zip(asked, tables, strict=True)]
    return tables


def _asked_build_config(version: Version, settings: Settings) -> BuildConfig | None:
    """What an installed build said of itself, stored or shipped."""
    with open_combined_store(str(settings.store_url.value)) as combined:
        if combined.store is not None and (stored := combined.store.build_config(version)) is not None:
            return stored
    shipped = ShippedBuilds().build_configs(version)
    if len(shipped) > 1:
        names = ", ".join(str(config.version) for config in shipped)
        raise InputError(f"{version} may be any of {names}", todo="write one of them, or give --variant")
    return shipped[0] if shipped else None
