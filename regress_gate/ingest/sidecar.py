"""`conditions.json`: what a measuring script knew of a run that the result files beside it do not say.

The format is this project's own; docs/importing.md describes it. It is never itself a result.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import orjson

from regress_gate.errors import InputError

if TYPE_CHECKING:
    from regress_gate.ingest.sidecar_model import Sidecar

SIDECAR_NAME = "conditions.json"
MAX_SIDECAR_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SidecarFile:
    path: Path
    content: "Sidecar"


def read_sidecar(path: Path, opened: Callable[[], IO[bytes]]) -> SidecarFile:
    """Read and check a sidecar. Raises InputError naming the file."""
    from regress_gate.ingest.sidecar_model import Sidecar
    from regress_gate.model.documents import Document, validate

    try:
        with opened() as file:
            data = file.read(MAX_SIDECAR_BYTES + 1)
        if len(data) > MAX_SIDECAR_BYTES:
            raise InputError("larger than 1 MiB", where=path, todo=f"only run conditions belong in {SIDECAR_NAME}")
        document = Document(orjson.loads(data), path, {})
    except OSError as error:
        raise InputError(f"not readable: {error.strerror}", where=path) from None
    except orjson.JSONDecodeError as error:
        raise InputError(f"not valid JSON: {error.msg}", where=path, line=error.lineno) from None
    return SidecarFile(path, validate(Sidecar, document))
