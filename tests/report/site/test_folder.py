"""The folder of a dashboard: what is written, what is deleted, and what is never touched."""

import json
from pathlib import Path

import pytest

from regress_gate.errors import InputError
from regress_gate.report.site.folder import MARKER, SiteFolder
from tests.factories.dashboards import files_of


def build(directory: Path, files: dict[str, str], **options: bool) -> SiteFolder:
    folder = SiteFolder(directory, **options)
    folder.announce(files)
    for name, content in files.items():
        folder.write(name, content)
    folder.finish()
    return folder


def names(directory: Path) -> set[str]:
    return set(files_of(directory)) - {MARKER}


def test_files_of_the_build_before_that_are_no_longer_made_are_deleted(tmp_path: Path) -> None:
    build(tmp_path / "site", {"index.html": "1", "a/b/old.html": "2", "a/kept.html": "3"})
    build(tmp_path / "site", {"index.html": "1", "a/kept.html": "3"})
    assert names(tmp_path / "site") == {"index.html", "a/kept.html"}
    assert not (tmp_path / "site" / "a" / "b").exists()


def test_a_file_that_says_the_same_is_left_as_it_is(tmp_path: Path) -> None:
    build(tmp_path, {"index.html": "1", "a.html": "2"})
    before = (tmp_path / "a.html").stat()
    assert build(tmp_path, {"index.html": "new", "a.html": "2"}).changed == 1
    after = (tmp_path / "a.html").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match=r"holds files that are no dashboard.*--force"):
        SiteFolder(tmp_path)
    assert names(tmp_path) == {"thesis.tex"}


def test_force_writes_among_other_files_and_deletes_none_of_them(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    build(tmp_path, {"index.html": "1", "old.html": "2"}, force=True)
    build(tmp_path, {"index.html": "1"})
    assert names(tmp_path) == {"thesis.tex", "index.html"}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"files": 1}', '{"files": [1]}', "\0" * 10])
def test_a_file_by_the_name_of_the_marker_that_no_build_wrote_marks_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / MARKER).write_text(content)
    (tmp_path / "mine").write_text("mine")
    if content == '{"files": [1]}':
        build(tmp_path, {"index.html": "1"})
    else:
        with pytest.raises(InputError):
            SiteFolder(tmp_path)
    assert (tmp_path / "mine").exists()


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "a/../../outside", "..", "", "a\\..\\outside"])
def test_a_marker_names_no_file_outside(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    site = tmp_path / "site"
    build(site, {"index.html": "1"})
    (site / MARKER).write_text(json.dumps({"files": ["index.html", name]}))
    build(site, {"index.html": "1"})
    assert outside.read_text() == "mine"


def test_a_killed_build_leaves_the_old_pages_and_nothing_that_the_next_one_does_not_know(tmp_path: Path) -> None:
    build(tmp_path, {"index.html": "old", "a.html": "old"})
    folder = SiteFolder(tmp_path)
    folder.announce(["a.html", "b.html"])
    folder.write("b.html", "new")
    folder.write("a.html", "new")
    assert (tmp_path / "index.html").read_text() == "old"
    build(tmp_path, {"index.html": "newer"})
    assert names(tmp_path) == {"index.html"}


def test_a_file_or_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file"):
        SiteFolder(tmp_path / "file")
    with pytest.raises(InputError):
        SiteFolder(tmp_path / "file" / "below")
    (tmp_path / "site").mkdir()
    folder = SiteFolder(tmp_path / "site")
    (tmp_path / "site" / "a").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        folder.write("a/b.html", "1")
