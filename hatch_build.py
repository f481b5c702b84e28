"""Puts indexes of the known issues and their coverage into a wheel, so that `check` parses no YAML."""

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
        from regress_gate.known.records import coverage, loading

        directory = Path(self.root) / "known_issues"
        self._made = [
            self._add(build_data, loading.INDEX_NAME, loading.index_of(directory)),
            self._add(build_data, coverage.INDEX_NAME, coverage.coverage_index(directory)),
        ]

    @staticmethod
    def _add(build_data: dict[str, Any], name: str, text: str) -> Path:
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False, encoding="utf-8") as file:
            file.write(text)
        build_data["force_include"][file.name] = f"regress_gate/_data/known_issues/{name}"
        return Path(file.name)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        for path in [] if version == "editable" else self._made:
            path.unlink()
