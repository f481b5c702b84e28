"""Archives and packed files: read as the folders and files they hold, and never able to do harm."""

import gzip
import io
import json
import stat
import tarfile
import tempfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regress_gate.ingest import archive, unpacking
from regress_gate.ingest.identity import IdentityFlags
from regress_gate.ingest.interface import FileOutcome
from tests.factories.serve_results import FLAGS, import_all, made_up, plain, write

Members = dict[str, bytes]


def result(seed: int, **more) -> bytes:
    return json.dumps(plain(made_up(seed), **more)).encode()


def zipped(members: Members) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in members.items():
            made.writestr(name, data)
    return held.getvalue()


def tarred(members: Members, mode: str = "w") -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode=mode) as made:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            made.addfile(info, io.BytesIO(data))
    return held.getvalue()


def tarred_and_packed(members: Members) -> bytes:
    return tarred(members, "w:gz")


KINDS = [("r.zip", zipped), ("r.tar", tarred), ("r.tar.gz", tarred_and_packed), ("r.TGZ", tarred_and_packed)]


def answers(*paths, flags=FLAGS):
    found = import_all(*paths, flags=flags).files
    top = str(paths[0].parent)
    return {report.path.removeprefix(f"{top}/"): (report.outcome, report.reason) for report in found}


@pytest.mark.parametrize(("name", "pack"), KINDS)
def test_an_archive_is_read_like_the_folder_that_it_holds(tmp_path, name, pack):
    members = {
        "./0.19.1/run1/chat-r1.json": result(1),
        "0.19.1/run1/chat-r2.json": result(2),
        "0.19.1/run1/conditions.json": b'{"startup_s": 12.5}',
        "0.19.1/run1/server.log": b"[INFO] started",
        "0.19.1/.cache/r.json": result(3),
        "__MACOSX/._r.json": b"\0",
    }
    path = write(tmp_path / name, pack(members))
    flags = IdentityFlags.parse(testbed="box", pattern="{version}/run{run}/{scenario}-r{trial}.json")
    intake = import_all(path, flags=flags)
    (run,) = intake.runs
    assert (str(run.version), run.label, run.metrics) == ("0.19.1", "1", {"startup_time": 12.5})
    assert [(trial.scenario, trial.ordinal) for trial in run.trials] == [("chat", 1), ("chat", 2)]
    assert {report.path.rpartition("!")[2]: report.outcome for report in intake.files} == {
        "0.19.1/run1/chat-r1.json": FileOutcome.STORED,
        "0.19.1/run1/chat-r2.json": FileOutcome.STORED,
        "0.19.1/run1/conditions.json": FileOutcome.SKIPPED,
        "0.19.1/run1/server.log": FileOutcome.SKIPPED,
    }


def test_the_name_of_the_archive_is_part_of_the_path(tmp_path):
    write(tmp_path / "results-0.19.1.zip", zipped({"chat.json": result(1)}))
    flags = IdentityFlags.parse(testbed="box", pattern="results-{version}.zip/{scenario}.json")
    (run,) = import_all(tmp_path, flags=flags).runs
    assert (str(run.version), run.trials[0].scenario) == ("0.19.1", "chat")


def test_a_packed_file_is_read_by_its_own_name(tmp_path):
    write(tmp_path / "chat.json.gz", gzip.compress(result(1)))
    write(tmp_path / "long.json.gz", result(2))  # unpacked on its way, the name kept
    flags = IdentityFlags.parse(version="1.0", testbed="box", pattern="{scenario}.json")
    (run,) = import_all(tmp_path, flags=flags).runs
    assert [trial.scenario for trial in run.trials] == ["chat", "long"]


def test_packed_results_come_through_a_pipe(monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(gzip.compress(result(1)))))
    assert import_all(Path("-")).complete


def test_a_file_and_its_packed_copy_are_one(tmp_path):
    write(tmp_path / "a.json", result(1))
    write(tmp_path / "b.json.gz", gzip.compress(result(1)))
    write(tmp_path / "c.zip", zipped({"x/d.json": result(1)}))
    assert len(import_all(tmp_path).runs[0].trials) == 1


def test_a_cut_off_packed_file_is_refused(tmp_path):
    path = write(tmp_path / "r.json.gz", gzip.compress(result(1))[:-20])
    assert answers(path)["r.json.gz"] == (FileOutcome.REFUSED, "not readable: the gzip data is cut off")


def test_a_file_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "GROWTH_FROM", 1000)
    path = write(tmp_path / "r.json.gz", gzip.compress(b" " * 2_000_000))
    assert "more than 200 times its size" in answers(path)["r.json.gz"][1]


@pytest.mark.parametrize(("name", "pack"), KINDS)
@pytest.mark.parametrize("path", ["../out.json", "/out.json", "a/../../out.json"])
def test_a_member_that_would_climb_out_is_refused_by_name(tmp_path, name, pack, path):
    found = answers(write(tmp_path / name, pack({path: result(1), "ok.json": result(2)})))
    assert found[f"{name}!{path}"] == (FileOutcome.REFUSED, "its path leads out of the archive")
    assert found[f"{name}!ok.json"][0] is FileOutcome.STORED


def test_a_zip_file_made_with_backslashes_has_folders(tmp_path):
    found = answers(write(tmp_path / "r.zip", zipped({"..\\out.json": result(1), "a\\r.json": result(2)})))
    assert found["r.zip!../out.json"] == (FileOutcome.REFUSED, "its path leads out of the archive")
    assert found["r.zip!a/r.json"][0] is FileOutcome.STORED


def test_links_and_devices_in_archives_are_refused_by_name(tmp_path):
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as made:
        for name, kind in (
            ("link", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE), ("pipe", tarfile.FIFOTYPE), ("dev", tarfile.CHRTYPE),
        ):  # fmt: skip
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            made.addfile(info)
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "r.zip", "w") as made_zip:
        made_zip.writestr(link, "/etc/passwd")
    write(tmp_path / "r.tar", held.getvalue())
    refused = (FileOutcome.REFUSED, "a link or device in an archive is not read")
    names = ("r.tar!link", "r.tar!hard", "r.tar!pipe", "r.tar!dev")
    assert answers(tmp_path / "r.tar") == dict.fromkeys(names, refused)
    assert answers(tmp_path / "r.zip") == {"r.zip!link": refused}


@pytest.mark.parametrize(("name", "pack"), KINDS)
def test_archives_in_archives_are_refused(tmp_path, name, pack):
    path = write(tmp_path / name, pack({"inner.tgz": tarred({"r.json": result(1)}), "r.json": result(2)}))
    found = answers(path)
    assert found[f"{name}!inner.tgz"] == (FileOutcome.REFUSED, "an archive in an archive; unpack the outer one first")
    assert found[f"{name}!r.json"][0] is FileOutcome.STORED


def test_an_encrypted_member_is_refused_by_name(tmp_path):
    data = bytearray(zipped({"r.json": result(1)}))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    found = answers(write(tmp_path / "r.zip", bytes(data)))
    assert found["r.zip!r.json"] == (FileOutcome.REFUSED, "encrypted; unpack the archive first")


@pytest.mark.parametrize("name", ["r.tar.zst", "r.tzst", "r.tar.xz", "r.7z", "r.rar"])
def test_other_archives_are_refused(tmp_path, name):
    (answer,) = answers(write(tmp_path / name, b"whatever")).values()
    assert answer == (FileOutcome.REFUSED, "archives of this kind are not read; unpack it first")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("r.zip", b"no zip at all"),
        ("r.zip", zipped({"r.json": result(1)})[:-30]),
        ("r.tar", b"no tar at all" * 100),
        ("r.tar", b""),
        ("r.tgz", gzip.compress(b"no tar at all" * 100, mtime=0)),
    ],
    ids=["not a zip", "cut zip", "not a tar", "empty tar", "not a packed tar"],
)
def test_what_is_no_archive_is_refused(tmp_path, name, data):
    ((outcome, reason),) = answers(write(tmp_path / name, data)).values()
    assert outcome is FileOutcome.REFUSED
    assert "no readable archive" in reason


@pytest.mark.parametrize(("name", "pack"), KINDS[1:])
def test_of_a_cut_off_tar_the_whole_files_are_read_and_the_archive_is_refused(tmp_path, name, pack):
    data = pack({f"r{seed}.json": result(seed) for seed in range(1, 9)})
    found = answers(write(tmp_path / name, data[: len(data) // 2]))
    assert found[f"{name}!r1.json"][0] is FileOutcome.STORED
    assert [reason for outcome, reason in found.values() if outcome is FileOutcome.REFUSED and "cut off" in reason]


def test_of_a_damaged_zip_the_whole_files_are_read(tmp_path):
    data = bytearray(zipped({"a.json": result(1), "b.json": result(2)}))
    at = data.index(b"a.json") + 60
    data[at : at + 20] = bytes(20)
    found = answers(write(tmp_path / "r.zip", bytes(data)))
    assert found["r.zip!a.json"][0] is FileOutcome.REFUSED
    assert "damaged in the archive" in found["r.zip!a.json"][1]
    assert found["r.zip!b.json"][0] is FileOutcome.STORED


@pytest.mark.parametrize(("name", "pack"), KINDS)
def test_too_many_files_are_refused(tmp_path, monkeypatch, name, pack):
    monkeypatch.setattr(archive, "MAX_MEMBERS", 3)
    ((outcome, reason), *_) = answers(write(tmp_path / name, pack({f"{n}.log": b"x" for n in range(5)}))).values()
    assert outcome is FileOutcome.REFUSED
    assert "more than 3 files" in reason


def test_what_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_IN_MEMORY", 10_000)
    monkeypatch.setattr(archive, "MAX_UNPACKED", 10_000)
    big = {"r.json": bytes(100_000)}
    for name, pack in (KINDS[0], KINDS[2]):
        ((outcome, reason), *_) = answers(write(tmp_path / name, pack(big))).values()
        assert outcome is FileOutcome.REFUSED
        assert "unpacks to more than" in reason
    monkeypatch.setattr(archive, "MAX_UNPACKED", 10_000_000)
    monkeypatch.setattr(unpacking, "GROWTH_FROM", 1000)
    assert "more than 200 times" in answers(tmp_path / "r.zip")["r.zip!r.json"][1]


def test_of_two_files_with_one_path_the_later_counts(tmp_path):
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as made:
        for seed in (1, 2):
            info = tarfile.TarInfo("r.json")
            info.size = len(result(seed))
            made.addfile(info, io.BytesIO(result(seed)))
    intake = import_all(write(tmp_path / "r.tar", held.getvalue()))
    assert intake.complete
    assert intake.runs[0].trials[0].metrics["request_throughput"] == pytest.approx(12 / made_up(2).duration)


def test_an_archive_without_results_is_an_error(tmp_path):
    path = write(tmp_path / "r.zip", zipped({"readme.md": b"nothing here"}))
    assert answers(path)["r.zip"] == (FileOutcome.REFUSED, "an archive without benchmark results")
    assert answers(write(tmp_path / "e.zip", zipped({})))["e.zip"] == (FileOutcome.REFUSED, "an archive without files")


def test_nothing_is_written_anywhere(tmp_path):
    write(tmp_path / "in" / "r.tgz", tarred_and_packed({"a/r.json": result(1), "../x.json": result(2)}))
    import_all(tmp_path / "in")
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "r.tgz"]


SOME = {"a.json": result(1), "b/c.json": result(2), "b/conditions.json": b"{}"}


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(KINDS), st.data())
def test_a_damaged_archive_is_answered_whatever_the_damage(kind, data):
    name, pack = kind
    packed = bytearray(pack(SOME))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    del packed[data.draw(st.integers(len(packed) // 2, len(packed))) :]
    with tempfile.TemporaryDirectory() as folder:
        flags = IdentityFlags.parse(version="0.19.1", testbed="box", scenario="chat")
        found = import_all(write(Path(folder) / name, bytes(packed)), flags=flags).files
    assert all(report.outcome is FileOutcome.STORED or report.reason for report in found)
