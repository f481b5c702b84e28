"""Which facts about a deployment would settle most of what cannot be told."""

from collections import Counter
from collections.abc import Collection, Iterable

from regress_gate.model.finding import Applies, Effect, IssueFinding

_SHOWN = 3


def most_wanted(findings: Iterable[IssueFinding], deciding: Collection[str] = ()) -> str:
    """One sentence with the flags that the most undecided issues wait for; empty where there are none.

    `deciding` are the ids of issues on which the decision waits: what they ask for is named first.
    """
    waiting = [
        finding
        for finding in findings
        if finding.applies is Applies.UNKNOWN and finding.effect is not Effect.RESOLVED and finding.missing
    ]
    if not waiting:
        return ""
    counts = Counter(flag for finding in waiting for flag in set(finding.missing))
    first = Counter(flag for finding in waiting if finding.issue.id in deciding for flag in set(finding.missing))
    ranked = sorted(counts.items(), key=lambda item: (-first[item[0]], -item[1], item[0]))[:_SHOWN]
    listed = ", ".join(f"{flag} ({count})" for flag, count in ranked)
    many = len(waiting) != 1
    return f"{len(waiting)} known issue{'s' * many} cannot be told without more facts; most wanted: {listed}."
