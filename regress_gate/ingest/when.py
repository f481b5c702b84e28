"""Times of day in other tools' results. Not for durations."""

from datetime import UTC, datetime


def moment(seconds: float | None) -> datetime | None:
    """Seconds since 1970 UTC as a time; None where they are none that a calendar has."""
    try:
        return None if seconds is None or seconds <= 0 else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def moment_of_text(text: object) -> datetime | None:
    """An ISO time; one without a zone is taken as UTC. None where it is none."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
