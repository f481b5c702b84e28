"""The records of a directory as one JSON file beside them: to parse a thousand YAML files takes most of a second.

An index belongs to exactly the bytes of the files it was made from; any other is ignored. It only saves the parsing:
its data is held against the schema like any. It is made when a wheel is built (hatch_build.py), never by a command.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NAME = "index.json"


def digest(files: Mapping[str, bytes]) -> str:
    """Of names and contents, in the order of the names."""
    found = hashlib.sha256()
    for name, content in sorted(files.items()):
        for part in (name.encode("utf-8", "surrogateescape"), content):
            found.update(len(part).to_bytes(8, "big"))
            found.update(part)
    return found.hexdigest()


def read_index(directory: Path, files: Mapping[str, bytes]) -> list[Any] | None:
    """The records' data in the order of the files' names, or None where no index belongs to these files."""
    try:
        document = json.loads((directory / NAME).read_bytes())
        return list(document["records"]) if document["digest"] == digest(files) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def index_text(files: Mapping[str, bytes], records: list[Any]) -> str:
    """The text of an index. `records` are the files' data, in the order of their names."""
    return json.dumps({"digest": digest(files), "records": records}, ensure_ascii=False, separators=(",", ":")) + "\n"
