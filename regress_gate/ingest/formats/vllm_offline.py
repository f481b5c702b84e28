"""What the benchmarks of vLLM without a server have in common: an object a file, and commands of vLLM's CI beside it.

Not for knowing their keys.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from regress_gate.ingest.bench_arguments import read_commands, with_commands
from regress_gate.ingest.content import Content
from regress_gate.ingest.each import read_each
from regress_gate.ingest.interface import Certainty, Context, NoReading, Reading, RefusalError

OFFLINE = "vllm-offline"
"""Key of DEFINITIONS."""


class OfflineReader(ABC):
    tool: str
    bare_constants = False

    @abstractmethod
    def is_result(self, data: object) -> bool:
        """Whether a JSON value is an object of this format, usable or not."""

    @abstractmethod
    def normalise(self, data: Mapping[str, Any], position: int) -> Reading:
        """Raises RefusalError with the reason when the result must not be used."""

    def recognises(self, content: Content) -> Certainty:
        return Certainty.SURE if content.documents and self.is_result(content.documents[0]) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | NoReading]:
        commands = read_commands(content.name, context)
        return [with_commands(result, commands) for result in read_each(content.each(), self.read_value)]

    def read_value(self, data: object, position: int) -> Reading | NoReading:
        """One JSON value as a reading. Raises RefusalError."""
        if not isinstance(data, dict) or not self.is_result(data):
            raise RefusalError(f"not a {self.tool} result, unlike others in the same file")
        return self.normalise(data, position)
