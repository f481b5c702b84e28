"""The files through which a step speaks to its job: the summary that people read, and outputs for later steps."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from regress_gate.errors import InputError
from regress_gate.files import append_output_file
from regress_gate.publish.publication import LEAST_BYTES, markdown
from regress_gate.report.document import View
from regress_gate.report.render.output_formats import JOB_SUMMARY_LIMIT

MAX_OUTPUTS = 1024 * 1024
"""GitHub's bound on all outputs of a job."""


def append_summary(path: Path, view: View, note: str) -> str:
    """Add the report to the step's summary; what was written, in words. GitHub drops a summary that is too large.

    `note` is Markdown of our own. Raises InputError if the file cannot be written.
    """
    used = path.stat().st_size if path.exists() else 0
    room = JOB_SUMMARY_LIMIT - used - len(note.encode()) - 16
    text = markdown(view, room) + note if room >= LEAST_BYTES else ""
    if not text or not append_output_file(path, text, JOB_SUMMARY_LIMIT):
        return "not written: earlier parts of this step have used it up"
    return f"{len(text.encode())} bytes"


def append_outputs(path: Path, outputs: Mapping[str, str]) -> None:
    """Outputs of the step. Values may have any content: none can end its own block. Raises InputError."""
    blocks = []
    for name, value in outputs.items():
        end = f"end_{secrets.token_hex(16)}"
        blocks.append(f"{name}<<{end}\n{value}\n{end}\n")
    if not append_output_file(path, "".join(blocks), MAX_OUTPUTS):
        raise InputError("is full", where="GITHUB_OUTPUT")
