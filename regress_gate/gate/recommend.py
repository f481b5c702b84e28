"""The newest release that a check of the known issues lets pass, and why newer ones are passed over."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from packaging.version import Version as Pep440

from regress_gate.model.result import Decision, Reason, Result
from regress_gate.model.version import Version

_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Recommendation:
    version: Version | None
    """None when no release passes."""
    released: date | None
    passed_over: Sequence[tuple[str, str]]
    """Newer releases, the newest first, each with the reason in a few words."""


def recommend(
    releases: Mapping[Pep440, date],
    check: Callable[[Version], Result],
    *,
    baseline: Version | None,
    today: date,
    min_age_days: int,
) -> Recommendation:
    """`check` is asked release by release from the newest on, down to the baseline, until one passes.

    A release younger than `min_age_days` is passed over unasked: what is wrong with it has had no time to be reported.
    """
    floor = None if baseline is None else baseline.order_key
    passed_over: list[tuple[str, str]] = []
    for release in sorted(releases, reverse=True):
        if floor is not None and release <= floor:
            break
        age = (today - releases[release]).days
        if age < min_age_days:
            passed_over.append((str(release), f"published {age} days ago"))
            continue
        version = Version.parse(str(release))
        result = check(version)
        if result.decision is Decision.PASS:
            return Recommendation(version, releases[release], passed_over)
        passed_over.append((str(release), _why(result.decision, result.reasons)))
    return Recommendation(None, None, passed_over)


def advise(found: Recommendation, baseline: Version | None) -> str:
    """One or two sentences for people."""
    over = _listed(found.passed_over)
    if found.version is None:
        stay = "No release can be recommended" if baseline is None else f"Stay on {baseline}: no newer release passes"
        return f"{stay}{f' ({over})' if over else ''}."
    newest = f"The best version to go to is {found.version}, published {found.released}"
    return f"{newest}: no known issue of this deployment blocks it{f'. Passed over: {over}' if over else ''}."


def _why(decision: Decision, reasons: Sequence[Reason]) -> str:
    """The issues that speak against it, by their names."""
    ids = [reason.issue for reason in reasons if reason.issue is not None]
    named = ", ".join(ids[:2]) + (f" and {len(ids) - 2} more" if len(ids) > 2 else "")
    return f"{named} {'block' if len(ids) > 1 else 'blocks'}" if decision is Decision.FAIL else f"{named} may apply"


def _listed(passed_over: Sequence[tuple[str, str]]) -> str:
    shown = "; ".join(f"{version}: {why}" for version, why in passed_over[:_SHOWN])
    rest = len(passed_over) - _SHOWN
    return shown + (f"; and {rest} older" if rest > 0 else "")
