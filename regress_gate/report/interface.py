"""What a format is: a function from a result and the reader's options to text. Holds no format itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from regress_gate.model.result import Result

COMMENT_LIMIT = 65_536
"""What GitHub accepts as one comment. It counts characters; counting bytes is never less, and one rule fits both."""
JOB_SUMMARY_LIMIT = 1_048_576
"""What GitHub accepts as the summary of one step, in bytes."""


@dataclass(frozen=True, slots=True)
class Options:
    """What is known of the reader. A format uses what concerns it and ignores the rest; all of them are pure text."""

    verbose: bool = False
    """Show every series, also those that neither gate nor moved."""
    width: int = 80
    """Columns of the terminal; below 40 the table stops shrinking."""
    color: bool = False
    """Whether escape sequences for colour may be written."""
    encoding: str = "utf-8"
    """What the reader's terminal can show; signs outside it are replaced by their ASCII likeness."""
    max_bytes: int = COMMENT_LIMIT
    """The size that a document for GitHub must not exceed."""


class Renderer(Protocol):
    def __call__(self, result: Result, options: Options, /) -> str:
        """The whole report, ending in a newline."""
        ...
