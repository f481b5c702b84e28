"""Puts an index of the known issues into a wheel, so that `check` parses no YAML (known/records/loading.py)."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class IndexOfRecords(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from regress_gate.known.records.loading import index_of

        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False, encoding="utf-8") as file:
            file.write(index_of(Path(self.root) / "known_issues"))
        self._made = Path(file.name)
        build_data["force_include"][file.name] = "regress_gate/_data/known_issues/index.json"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if version != "editable":
            self._made.unlink()
