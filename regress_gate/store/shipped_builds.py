"""The configurations of builds that come with the program: one readable file per build, read only.

A line is one argument, so that a new version's file can be reviewed as a difference to the old one's.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regress_gate.errors import InputError, RegressGateError
from regress_gate.model.build_config import BuildConfig
from regress_gate.model.version import Version
from regress_gate.shipped import shipped_directory

MAX_BYTES = 1 << 20
"""Of a file; real ones have a tenth."""


def dump(config: BuildConfig) -> str:
    """The text of a file."""
    lines = []
    for key, value in config.as_document().items():
        if isinstance(value, Mapping):
            inner = ",\n".join(f"  {_json(name)}: {_json(item)}" for name, item in value.items())
            lines.append(f" {_json(key)}: {{\n{inner}\n }}" if value else f" {_json(key)}: {{}}")
        else:
            lines.append(f" {_json(key)}: {_json(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def load(content: bytes, where: Path) -> BuildConfig:
    """What a file holds. Raises InputError for anything that `dump` does not write."""
    if len(content) > MAX_BYTES:
        raise InputError("is too large for a build's configuration", where=where)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise InputError("is not JSON", where=where) from None
    return BuildConfig.from_document(document, where)


def file_name(version: Version) -> str:
    """`0.19.1+cpu.json`; a build that is known by its commit has a dash for the colon."""
    return re.sub(r"[^A-Za-z0-9.+_-]", "-", str(version)) + ".json"


class ShippedBuilds:
    """The files of a directory, asked like a Repository."""

    def __init__(self, directory: Path | None = None):
        """`directory` is for files kept elsewhere; None: what this program ships."""
        self._directory = directory

    def build_configs(self, version: Version) -> list[BuildConfig]:
        """Of all builds that `version` may mean. Raises InputError for a file that cannot be read."""
        found = []
        for path in sorted(self._files()):
            if version.number is not None and not path.name.startswith(version.number):
                continue
            try:
                config = load(path.read_bytes(), path)
            except OSError as error:
                raise InputError(f"cannot be read ({error.strerror})", where=path) from None
            if config.version.matches(version):
                found.append(config)
        return found

    def _files(self) -> list[Path]:
        try:
            directory = shipped_directory("baselines") / "builds" if self._directory is None else self._directory
        except RegressGateError:
            return []
        return list(directory.glob("*.json"))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
