"""The records with their trackers as they were last seen: by the curator, or by a later `issues sync`."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regress_gate.model.issue import KnownIssue


def tracked_records(directory: Path | None = None) -> "list[KnownIssue]":
    """As `load_records`; where there never was a sync, exactly that."""
    import platformdirs

    from regress_gate.known.records import load_records
    from regress_gate.known.tracker_place import SNAPSHOT, api_base, api_directory

    records = load_records(directory)
    cache = api_directory(platformdirs.user_cache_path("regress-gate", appauthor=False), api_base(os.environ))
    if not (cache / SNAPSHOT).exists():
        return records
    from regress_gate.known.tracker_snapshot import as_last_seen, read_snapshot

    snapshot, today = read_snapshot(cache), datetime.now(UTC).date()
    return [as_last_seen(record, snapshot, today) for record in records]
