"""The hosts of a store: how they scatter, how far apart they are, and which of them has stepped away."""

from collections.abc import Iterator

from regress_gate.app.settings import Settings
from regress_gate.app.store_queries import is_selected
from regress_gate.errors import NoDataError
from regress_gate.gate.host_effects import class_status
from regress_gate.model.metric import METRICS
from regress_gate.model.suite import ConditionLimits
from regress_gate.model.testbed import testbed_classes
from regress_gate.report.views.fleet_view import FleetClass
from regress_gate.store.combined import open_combined_store
from regress_gate.store.store_interface import Holding, HoldingOrigin
from regress_gate.suites import find_shipped_suite


def fleet_status(settings: Settings) -> Iterator[FleetClass]:
    """The classes of hosts, suite by suite, from the newest sessions of each. Raises NoDataError if nothing is stored.

    Shipped runs were made on hosts that are not the user's, and are left out.
    """
    with open_combined_store(str(settings.store_url.value)) as store:
        own = [each for each in store.inventory() if each.origin is HoldingOrigin.STORE and is_selected(each, settings)]
        if not own:
            raise NoDataError("no stored runs of that suite and these testbeds; see `regress-gate baseline list`")
        for suite in dict.fromkeys(holding.suite for holding in own):
            held: dict[str, list[Holding]] = {}
            for holding in own:
                if holding.suite == suite:
                    held.setdefault(holding.testbed, []).append(holding)
            recent = {
                name: store.recent_runs(testbed=name, suite=suite, paired=False, metrics=METRICS) for name in held
            }
            definition = find_shipped_suite(suite)
            limits = definition.conditions if definition else ConditionLimits()
            policy = settings.policy(definition.gate if definition else None)
            hosts = [runs[-1].testbed for runs in recent.values() if runs]
            for alike in testbed_classes(hosts):
                runs = {host.name: recent[host.name] for host in alike}
                yield FleetClass(
                    suite=str(suite),
                    machine=alike[0],
                    hosts=tuple(class_status(runs, limits, policy)),
                    runs={name: sum(holding.runs for holding in held[name]) for name in runs},
                    last={
                        name: max((each.last for each in held[name] if each.last is not None), default=None)
                        for name in runs
                    },
                    confidence=policy.confidence,
                )
