"""YAML text to values, for readers. Not for knowing what the values mean."""

from typing import Any

from regress_gate.errors import InputError
from regress_gate.ingest.interface import RefusalError


def parse(text: str, name: str) -> Any:
    """The value of one document. Raises RefusalError."""
    from regress_gate.model.documents import parse_yaml  # needs pydantic, which hardly any import does

    try:
        return parse_yaml(text, name).data
    except InputError as error:
        raise RefusalError(str(error)) from None
