"""The chart library in the package is the one that its authors publish."""

import hashlib
from pathlib import Path

import regress_gate.report.site

HERE = Path(regress_gate.report.site.__file__).parent / "uplot"
PUBLISHED = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
"""SHA-256 of the files of uPlot 1.6.32 in the npm registry."""


def test_its_files_are_those_of_the_registry_and_its_licence_is_beside_them() -> None:
    assert {name: hashlib.sha256((HERE / name).read_bytes()).hexdigest() for name in PUBLISHED} == PUBLISHED
    assert "Permission is hereby granted" in (HERE / "LICENSE").read_text()
    assert "1.6.32" in (HERE / "README.md").read_text()


def test_it_can_stand_in_a_page_as_it_is() -> None:
    library = (HERE / "uPlot.iife.min.js").read_text()
    assert "</script" not in library.lower()
    assert "<!--" not in library
