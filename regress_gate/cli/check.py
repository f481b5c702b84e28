"""`regress-gate check`: the known issues of a version or a move, for one deployment. Measures nothing."""

from typing import TYPE_CHECKING, Any

import click

from regress_gate.cli.options import (
    CONTEXT,
    deployment_fact_options,
    deployment_options,
    launch_line_option,
    report_options,
    settings_from,
    store_options,
)
from regress_gate.errors import ExitCode
from regress_gate.paths import release_cache_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from regress_gate.model.result import Result
    from regress_gate.model.version import Version


@click.command(
    context_settings=CONTEXT,
    epilog="Example: regress-gate check v0.20.0 --from v0.19.1 --accelerator H200 --model mistralai/Mixtral-8x7B-v0.1",
)
@click.argument("version", required=False)
@click.option(
    "--from", "base", metavar="BASE", help="Version you run now: tells new issues from those you already have."
)
@click.option("--recommend", is_flag=True, help="Name the newest release that no known issue blocks.")
@click.option(
    "--min-release-age", type=click.IntRange(0, 365), metavar="DAYS", help="Recommend none that is younger.  [7]"
)
@click.option(
    "--suggest-scenarios", is_flag=True, help="Print a suite in which the issues would show, and no report; exits 0."
)
@click.option("--suite", metavar="NAME|FILE", help="With --suggest-scenarios: what is measured already.")
@deployment_options
@deployment_fact_options
@launch_line_option
@store_options
@report_options
def check(
    version: str | None,
    base: str | None,
    recommend: bool,
    min_release_age: int | None,
    suggest_scenarios: bool,
    format_: str,
    outputs: tuple[str, ...],
    on_inconclusive: Any,
    report_only: bool,
    verbose: int,
    quiet: bool,
    offline: bool,
    **options: Any,
) -> int:
    """List the known issues that a move to VERSION would bring, carry or resolve for your deployment.

    Without VERSION, --recommend chooses it. Without --from, the version that --server-log or --collect-env tells is
    the one you run now. Exits 1 when an issue blocks, 3 when a fact about the deployment is missing that would decide
    it, else 0.
    """
    from datetime import UTC, datetime

    from regress_gate.app.known_issues import deployment_findings
    from regress_gate.cli.output import deliver, parse_outputs
    from regress_gate.gate.check import decide_check
    from regress_gate.known.matching.findings import missing_facts_text
    from regress_gate.known.records.releases import beyond_records_text
    from regress_gate.model.policy import PolicyOverrides
    from regress_gate.model.result import ReasonCode

    if version is None and not recommend:
        raise click.UsageError("name a VERSION, or let --recommend choose one")
    settings = settings_from(options)
    files = parse_outputs(outputs)
    told = settings.deployment_told
    baseline = told.version if base is None else _build(base, settings)
    notes = list(told.notes)
    if base is None and baseline is not None:
        notes.append(f"checked against {baseline}, which is what runs now by the file given")
    findings = deployment_findings(told.deployment)
    policy, waivers = settings.policy(flags=PolicyOverrides(on_inconclusive=on_inconclusive)), settings.waivers
    now = datetime.now(UTC)

    def checked(candidate: "Version") -> "Result":
        found = findings(baseline, candidate)
        return decide_check(
            baseline, candidate, policy=policy, waivers=waivers, findings=found, now=now, report_only=report_only
        )

    advice = ""
    if recommend:
        best, advice, note = _recommended(settings, checked, baseline, now, min_release_age, offline=offline)
        notes += [note] if note else []
    candidate = best if version is None else _build(version, settings)
    if suggest_scenarios:
        from regress_gate.app.known_issues import suggested_suite

        found = findings(baseline, candidate)
        click.echo(suggested_suite(settings, told.deployment, found, baseline, candidate), nl=False)
        return ExitCode.PASS
    result = checked(candidate)
    deciding = {reason.issue for reason in result.reasons if reason.code is ReasonCode.UNDECIDED and reason.issue}
    spoken = [] if version is None else [result.advice]
    spoken += [advice, beyond_records_text(candidate), missing_facts_text(findings(baseline, candidate), deciding)]
    if baseline is None:
        spoken.append("With --from, defaults and flags that changed since the version that you run now are told too.")
    result = result.model_copy(update={"advice": " ".join(filter(None, spoken))})
    _say(notes, quiet=quiet)
    deliver(result, format_, files, verbose=verbose > 0, quiet=quiet)
    return result.exit_code


def _recommended(
    settings: Any,
    checked: "Callable[[Version], Result]",
    baseline: "Version | None",
    now: "datetime",
    min_age_days: int | None,
    *,
    offline: bool,
) -> "tuple[Version, str, str | None]":
    """The best release, or else the newest one that is known; the advice; what is not known about releases."""
    from regress_gate.gate.check import recommend_release, recommendation_text
    from regress_gate.known.records.release_index import find_releases
    from regress_gate.model.version import Version

    rules = settings.config.check
    cache = release_cache_file()
    releases = find_releases(rules.release_index, cache, now=now, offline=offline)
    age = rules.min_release_age_days if min_age_days is None else min_age_days
    found = recommend_release(releases.days, checked, baseline=baseline, today=now.date(), min_age_days=age)
    return found.version or Version.parse(str(max(releases.days))), recommendation_text(found, baseline), releases.note


def _say(notes: "Sequence[str]", *, quiet: bool) -> None:
    from regress_gate.report.render.plain_text import plain

    for note in () if quiet else notes:
        click.echo(f"regress-gate: note: {plain(note)}", err=True)


def _build(text: str, settings: Any) -> Any:
    """The build that a ref means; only refs that are no version need the store."""
    from regress_gate.model.version import Ref

    ref = Ref.parse(text)
    if ref.version is not None:
        return ref.version
    from regress_gate.gate.comparison_choice import resolve_ref
    from regress_gate.store.combined import open_combined_store

    with open_combined_store(str(settings.store_url.value)) as library:
        if ref.run is not None and (run := library.run(ref.run)) is not None:
            return run.version
        held = library.inventory()
        return resolve_ref(ref, held, library.pinned(), everything=held)[0].version
