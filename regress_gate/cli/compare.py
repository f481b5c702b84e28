"""`regress-gate compare`: the gate."""

from typing import TYPE_CHECKING, Any

import click

from regress_gate.app.measurement_task import MeasurementAmount
from regress_gate.app.provisioning import provisioning_from
from regress_gate.cli.options import (
    CONTEXT,
    deployment_fact_options,
    deployment_options,
    measure_options,
    place_options,
    provision_options,
    report_options,
    settings_from,
    store_options,
)
from regress_gate.errors import ExitCode, InputError

if TYPE_CHECKING:
    from regress_gate.app.interim_analysis import DecideComparison
    from regress_gate.app.settings import Settings
    from regress_gate.cli.compare_measure import MeasuredComparison
    from regress_gate.gate.config_changes import ConfigChange
    from regress_gate.gate.sides import ComparisonSide
    from regress_gate.model.policy import PolicyOverrides
    from regress_gate.model.result import Result
    from regress_gate.model.run import Run
    from regress_gate.model.suite import ConditionLimits, Suite
    from regress_gate.model.version import Ref
    from regress_gate.store.combined import CombinedStore
    from regress_gate.store.holdings import Holding


@click.command(
    context_settings=CONTEXT,
    epilog="Example: regress-gate compare v0.19.0 v0.19.1 --measure --suite cpu-tiny --budget 45m",
)
@click.argument("baseline", metavar="BASE")
@click.argument("candidate", metavar="CAND")
@click.option("--allow-incomparable", is_flag=True, help="Compare all the same, and mark the report.")
@click.option("--measure", is_flag=True, help="Measure on this machine first, in blocks, until it can be decided.")
@click.option("--all-blocks", is_flag=True, help="With --measure: make every block, and look once, when all are made.")
@click.option("--url", "urls", multiple=True, help="With --measure: servers that run, BASE's and then CAND's.")
@click.option("--plan", "plan_only", is_flag=True, help="Say what --measure would do, how long, and what it can show.")
@measure_options
@provision_options
@deployment_options
@deployment_fact_options
@place_options
@store_options
@report_options
def compare(
    baseline: str,
    candidate: str,
    allow_incomparable: bool,
    measure: bool,
    all_blocks: bool,
    urls: tuple[str, ...],
    plan_only: bool,
    format_: str,
    outputs: tuple[str, ...],
    on_inconclusive: Any,
    report_only: bool,
    verbose: int,
    quiet: bool,
    offline: bool,
    **options: Any,
) -> int:
    """Decide whether to move from BASE to CAND, from stored runs or, with --measure, from new ones too.

    BASE and CAND are versions (v0.19.1, 0.20.0rc1, commit:SHA), pinned, latest, nightly or run:N. Exits 0 for pass, 1
    for fail, 3 for inconclusive.
    """
    from functools import partial

    from regress_gate.cli.output import deliver, parse_outputs
    from regress_gate.model.policy import PolicyOverrides
    from regress_gate.model.version import Ref

    amount = MeasurementAmount.taken_from(options)
    given = {key: options.pop(key) for key in ("provision", "serve_command", "variant", "image", "gpus")}
    settings = settings_from(options)
    files = parse_outputs(outputs)
    refs = Ref.parse(baseline), Ref.parse(candidate)
    place = settings.suite.value, settings.testbed.value
    flags = PolicyOverrides(on_inconclusive=on_inconclusive)
    decide: DecideComparison = partial(
        _decide, settings, flags, allow_incomparable=allow_incomparable, report_only=report_only
    )
    if measure or plan_only:
        if measure and offline:
            raise InputError("--measure gets versions from the network", todo="leave --offline or --measure out")
        from regress_gate.cli.compare_measure import measure_comparison, measure_running_comparison

        measured: MeasuredComparison | None
        if urls and not plan_only:
            if all_blocks:
                raise InputError("a server that runs already is one run", todo="leave --all-blocks out")
            measured = measure_running_comparison(settings, baseline, candidate, urls, amount, quiet=quiet)
        else:
            provisioning = provisioning_from(given, settings)
            measured = measure_comparison(
                settings,
                baseline,
                candidate,
                amount,
                provisioning,
                decide=None if all_blocks else decide,
                plan_only=plan_only,
                format_=format_,
                quiet=quiet,
            )
        if measured is None:
            return ExitCode.PASS
        refs, place = measured.refs, (measured.suite, measured.testbed)
    elif urls or all_blocks:
        raise InputError(f"{'--url' if urls else '--all-blocks'} is for measuring", todo="give --measure too")
    result = decide(refs, place)
    deliver(result, format_, files, verbose=verbose > 0, quiet=quiet)
    return result.exit_code


def _decide(
    settings: "Settings",
    flags: "PolicyOverrides",
    refs: "tuple[Ref, Ref]",
    place: "tuple[str | None, str | None]",
    *,
    allow_incomparable: bool,
    report_only: bool,
) -> "Result":
    """The decision on what is stored now: that which is printed, and, while blocks are measured, those which are not.

    `place` are a suite, by name or path, and a testbed; None: whatever the stored runs leave no choice of.
    """
    from datetime import UTC, datetime

    from regress_gate.app.known_issues import find_known_issues
    from regress_gate.gate.comparison_choice import select_comparison
    from regress_gate.gate.decide import GateInput, GateRules, decide_compare
    from regress_gate.gate.history import sides_by_version
    from regress_gate.gate.regression_origin import add_regression_origins
    from regress_gate.gate.sides import runs_that_count
    from regress_gate.gate.variance_reduction import needs_samples
    from regress_gate.model.metric import METRICS
    from regress_gate.model.suite import ConditionLimits
    from regress_gate.store.combined import open_combined_store
    from regress_gate.suites import find_shipped_suite, is_suite_path, load_suite

    asked, testbed = place
    own = load_suite(asked) if asked is not None and is_suite_path(asked) else None
    with open_combined_store(str(settings.store_url.value)) as library:
        choice = select_comparison(
            *refs,
            library.inventory(),
            library.pinned(),
            single_runs=_single_runs(library, refs),
            suite=asked if own is None else f"{own.name}@{own.version}",
            testbed=testbed,
        )
        suite = own or find_shipped_suite(choice.candidate.suite)
        limits = suite.conditions if suite else ConditionLimits()
        policy = settings.policy(suite.gate if suite else None, flags)
        with_samples = needs_samples([name for name in METRICS if policy.gates(name)])
        sides = [
            _side(library, ref, holding, limits, with_samples=with_samples)
            for ref, holding in zip(refs, (choice.baseline, choice.candidate), strict=True)
        ]
        runs = library.runs(testbed=choice.candidate.testbed, suite=choice.candidate.suite)
    before, after = sides
    given = GateInput(
        baseline=before,
        candidate=after,
        suite=choice.candidate.suite,
        definition=suite,
        findings=find_known_issues(settings.deployment, before.version, after.version, suite),
        config_changes=_config_changes(settings, sides, suite),
        earlier=runs_that_count(runs, limits),
    )
    rules = GateRules(
        policy=policy,
        now=datetime.now(UTC),
        waivers=settings.waivers,
        allow_incomparable=allow_incomparable,
        report_only=report_only,
    )
    result = decide_compare(given, rules)
    return add_regression_origins(result, before, after, sides_by_version(runs, limits), policy, limits)


def _config_changes(settings: "Settings", sides: "list[ComparisonSide]", suite: "Suite | None") -> "list[ConfigChange]":
    """What changed besides speed, as far as it is known of both builds without installing them."""
    from regress_gate.app.build_configs import held_build_config
    from regress_gate.gate.config_changes import compare_configs

    held = [held_build_config(side.version, settings) for side in sides]
    # A CPU build's parser says little of a CUDA build: what was read of another variant is not used.
    configs = [
        config if config is not None and config.version.variant == side.version.variant else None
        for config, side in zip(held, sides, strict=True)
    ]
    servers = [[run.server for run in side.counted if run.server] for side in sides]
    deployment = settings.deployment if suite is None else settings.deployment.over(suite.deployment())
    return compare_configs(configs[0], configs[1], servers[0], servers[1], deployment)


def _single_runs(library: "CombinedStore", refs: "tuple[Ref, Ref]") -> "dict[int | None, Holding]":
    """What the refs `run:N` stand for, each as a holding of one run."""
    from dataclasses import replace

    from regress_gate.store.holdings import HoldingOrigin, holdings_of

    numbers = [ref.run for ref in refs if ref.run is not None]
    runs = [run for number in numbers if (run := library.run(number)) is not None]
    return {run.id: replace(next(iter(holdings_of([run]))), origin=HoldingOrigin.STORE) for run in runs}


def _side(
    library: "CombinedStore", ref: "Ref", holding: "Holding", limits: "ConditionLimits", *, with_samples: bool
) -> "ComparisonSide":
    from regress_gate.gate.sides import make_side

    runs: list[Run]
    if ref.run is not None:
        run = library.run(ref.run)
        runs = [] if run is None else [run]
    else:
        found = library.runs(
            version=holding.version, testbed=holding.testbed, suite=holding.suite, with_samples=with_samples
        )
        runs = [run for run in found if run.version == holding.version]
    return make_side(holding.version, runs, limits, origin=holding.origin.value)
