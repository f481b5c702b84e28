"""Names of a stored run as an import takes them: `try/3` becomes `try-3`."""

from regress_gate.ingest.text import MAX_NAME, is_name, sanitised


def importable(name: str) -> str:
    return name if is_name(name) else sanitised(name)[:MAX_NAME].rstrip("-._+=") or "unnamed"
