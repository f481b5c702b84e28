"""The table of docs/importing.md: every format and generation that is read, from the generations that the readers list.

`python -m regress_gate.ingest.catalogue` prints it.
"""

from collections.abc import Iterable

from regress_gate.ingest.interface import Reader
from regress_gate.ingest.registry import READERS
from regress_gate.model.metric import DEFINITIONS

BEGIN = "<!-- begin: python -m regress_gate.ingest.catalogue -->"
END = "<!-- end -->"


def catalogue() -> str:
    """Markdown: the readers with their generations, then definitions that are not vLLM's."""
    return "\n".join([BEGIN, "", *_formats(READERS), "", *_definitions(), "", END, ""])


def _formats(readers: Iterable[Reader]) -> list[str]:
    lines = ["| format (tool) | generation | recognised by | what is read | traps |", "| --- | --- | --- | --- | --- |"]
    for reader in readers:
        first = f"`{reader.name}` ({reader.tool})"
        for generation in reader.generations:
            cells = (first, generation.which, generation.recognised_by, generation.read, generation.traps)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
            first = ""
    return lines


def _definitions() -> list[str]:
    lines = ["| definitions | what is particular |", "| --- | --- |"]
    return lines + [f"| `{key}` | {meaning.replace('|', chr(92) + '|')} |" for key, meaning in DEFINITIONS.items()]


if __name__ == "__main__":
    print(catalogue(), end="")  # noqa: T201 - what it is for
