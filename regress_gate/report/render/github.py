"""The findings of a result as workflow commands of GitHub Actions, which become annotations of the workflow run.

At most ten, the worst first, and the last is a notice with the answer: GitHub keeps ten errors, ten warnings and ten
notices of a step and drops the rest silently, in the order in which they were printed. Notes and what is waived have no
annotation; the notice counts what is left out. Not for the summary of a step, which is Markdown (`cli/output`).

How the runner reads a line: `::name key=value,…::text` at its start, and the older `##[name key=value;…]text` anywhere
in it (actions/runner, ActionCommand.cs). Escaped texts stand after the second `::` or in a property, so the runner
takes none of them for a command.
"""

from regress_gate.report.document import View
from regress_gate.report.findings import Finding, Findings, Level
from regress_gate.report.render.output_formats import RenderOptions, findings_of
from regress_gate.text import clip, one_line, plural

MOST_ANNOTATIONS = 10
_COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}
_MOST_TITLE = 200
_MOST_TEXT = 4000
"""GitHub cuts an annotation at 64 KiB; nobody reads a tenth of that."""


def render(view: View, options: RenderOptions) -> str:  # noqa: ARG001 - the same for every reader
    return write(findings_of(view, "github"))


def write(found: Findings) -> str:
    loud = [one for one in found.findings if one.level is not Level.NOTE and one.suppression is None]
    shown = loud[: MOST_ANNOTATIONS - 1]
    lines = [*map(_annotation, shown), _closing(found, len(found.findings) - len(shown))]
    return "".join(f"{line}\n" for line in lines)


def _annotation(finding: Finding) -> str:
    properties = {}
    if finding.location is not None:
        place = finding.location.in_repository()
        properties["file"] = place.file
        if place.line is not None:
            properties["line"] = str(place.line)
    properties["title"] = clip(one_line(finding.title), _MOST_TITLE)
    return command(_COMMANDS[finding.level], "\n".join((finding.text, *finding.details)), **properties)


def _closing(found: Findings, left_out: int) -> str:
    rest = f" {plural(left_out, 'more finding')} in the summary and the other formats." if left_out else ""
    return command("notice", f"{found.advice}{rest}", title=f"regress-gate: {found.headline}")


def command(name: str, text: str, **properties: str) -> str:
    """One workflow command. The texts are raw; the lines of `text` are kept."""
    pairs = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    lines = [line for line in map(one_line, text.split("\n")) if line]
    return f"::{name} {pairs}::{_data(clip(chr(10).join(lines), _MOST_TEXT))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(one_line(text)).replace(":", "%3A").replace(",", "%2C")
