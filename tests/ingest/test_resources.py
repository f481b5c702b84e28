"""An import of a hostile or broken file is refused with a reason, after reading no more than it needs to."""

import json
import os
import socket
import zipfile
from pathlib import Path

import pytest

from regress_gate.errors import InputError
from regress_gate.ingest import content, deferred, importer, interface, parsing, selection
from regress_gate.ingest.formats import long_table
from regress_gate.ingest.identity import IdentityFlags
from regress_gate.ingest.importer import read_paths
from regress_gate.ingest.interface import FileReport
from regress_gate.model import documents
from tests.factories.serve_results import made_up, plain
from tests.ingest.formats.samples import SAMPLES

MIB = 1024**2
FLAGS = IdentityFlags.parse(version="0.19.1", testbed="lab", scenario="chat")


def read(*paths: Path | str) -> list[FileReport]:
    return list(read_paths(paths, FLAGS).files)


def refusal(*paths: Path | str) -> str:
    (report,) = read(*paths)
    assert report.outcome == "refused"
    assert report.reason is not None
    return report.reason


class TestMemory:
    @pytest.mark.parametrize("value", ["{}", "[]", '""', "1", '{"a":1}', "[[]]"])
    def test_a_list_of_tiny_values_is_refused_before_it_is_parsed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
    ) -> None:
        monkeypatch.setattr(parsing, "_parse", pytest.fail)
        path = tmp_path / "result.json"
        path.write_text("[" + ",".join([value] * (24 * MIB // (len(value) + 1))) + "]")
        assert "values would need" in refusal(path)

    def test_members_of_an_archive_have_the_same_limit(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(3):
                archive.writestr(f"{number}.json", "[" + "{}," * 2_500_000 + "{}]")
        reasons = [report.reason or "" for report in read(tmp_path / "a.zip") if "!" in report.path]
        assert ["values would need" in reason or "unpacks to" in reason for reason in reasons] == [True] * 3

    def test_signs_within_strings_need_no_memory(self) -> None:
        prose = json.dumps(['he said: "[{a, b}, {c: d}]\\" and ' * 40] * 3000).encode()
        assert len(prose) > MIB
        outside = deferred.scan(prose).signs
        assert (outside[b"{"], outside[b"["], outside[b","], outside[b'"']) == (0, 1, 2999, 6000)
        assert parsing.parse_json(prose).documents == [json.loads(prose)]

    def test_lines_of_nothing_are_read_one_by_one_and_no_further_than_the_limit(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(interface, "MAX_RESULTS", 50)
        path = tmp_path / "results.jsonl"
        line = json.dumps(plain(made_up())) + "\n"
        path.write_text(line * 2 + "{}\n" * MIB)
        assert refusal(path) == "holds more than 50 results; split it"

    def test_failed_requests_that_are_only_stated_are_bounded(self, tmp_path: Path) -> None:
        """A file of 10 kB took 8 GB and 25 s for the zeros of a thousand million failed requests."""
        sample = SAMPLES["guidellm/0.3"]
        report = json.loads(sample.make())
        report["benchmarks"][0]["request_totals"]["errored"] = 10**9
        (tmp_path / sample.name).write_text(json.dumps(report))
        assert "1,000,000,000 failed requests are stated, more than 1,000,000" in refusal(tmp_path / sample.name)

    def test_documents_in_one_line_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(parsing, "MAX_DOCUMENTS", 1000)
        for text in (b"{}" * 1001, b"1\n" * 1001):
            with pytest.raises(parsing.NotJsonError, match="more than 1,000 JSON values"):
                parsing.parse_json(text)
        assert len(parsing.parse_json(b"{}" * 1000).documents) == 1000

    def test_a_large_report_in_yaml_is_read_as_json(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        sample = SAMPLES["guidellm/yaml"]
        (tmp_path / sample.name).write_bytes(sample.make())
        whole = list(read_paths([tmp_path], FLAGS).runs)
        monkeypatch.setattr(parsing, "COUNTED_FROM", 1000)
        monkeypatch.setattr(documents, "_build_document", pytest.fail)
        again = list(read_paths([tmp_path], FLAGS).runs)
        assert [trial.metrics for run in again for trial in run.trials] == [
            trial.metrics for run in whole for trial in run.trials
        ]

    def test_a_row_without_end_is_given_up(self, tmp_path: Path) -> None:
        path = tmp_path / "table.csv"
        path.write_text('metric,value\nttft_mean,"1\n' + "x\n" * 20_000)
        assert "has a row of more than 4,194,304 characters or 10,000 lines; a quote that is not closed?" in refusal(
            path
        )

    def test_a_large_text_with_emoji_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(content, "MAX_WIDE_TEXT", 100)
        for name, text in (("a.csv", "metric,value,model\nttft_mean,1,🙂\n"), ("b.csv", "metric,value\nttft_mean,ü\n")):
            (tmp_path / name).write_text(text * 10)
        assert "with emoji or the like" in refusal(tmp_path / "a.csv")
        assert "emoji" not in refusal(tmp_path / "b.csv")

    def test_cells_of_a_table_are_bounded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(long_table, "MAX_CELLS", 100)
        path = tmp_path / "table.csv"
        path.write_text("metric,value\n" + "ttft_mean,1\n" * 100)
        assert refusal(path) == "table.csv:51: has more than 100 cells; split it"


class TestTime:
    def test_a_sparse_file_is_given_up_at_its_first_hole(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        line = json.dumps(plain(made_up())).encode() + b"\n"
        asked: list[int] = []
        original = content._read
        monkeypatch.setattr(content, "_read", lambda file, size: asked.append(size) or original(file, size))
        half = b'{"a": "' + b"x" * 2 * MIB
        for name, begin in (("lines.jsonl", line * 700), ("empty.jsonl", b""), ("whole.json", half)):
            path = tmp_path / name
            path.write_bytes(begin)
            os.truncate(path, 20 * 1024**3)
            asked.clear()
            reason = refusal(path)
            assert "NUL bytes" in reason or "larger than" in reason or reason == "a binary file"
            assert sum(asked) < 16 * MIB

    def test_a_file_that_is_too_large_is_not_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(content, "MAX_BYTES", 3 * MIB)
        monkeypatch.setattr(content, "MAX_TEXT", 2 * MIB)
        for text in ('{"a": [' + "1.5, " * MIB + "0]}", "value\n" * MIB):
            (tmp_path / "large").write_text(text)
            assert "larger than" in refusal(tmp_path / "large")

    def test_a_table_asks_for_the_result_beside_it_without_reading_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A table of rows that all name one large file, or the table itself, took a minute."""
        asked: list[str] = []
        original = importer._content
        monkeypatch.setattr(importer, "_content", lambda one, *rest: asked.append(one.name) or original(one, *rest))
        rows = [{"Test name": "table"}, {"Test name": "big"}] * 200
        (tmp_path / "table.json").write_text(json.dumps(rows))
        (tmp_path / "big.json").write_text(json.dumps(plain(made_up())))
        reports = read(tmp_path / "table.json")
        assert [report.outcome for report in reports] == ["skipped"] * 400
        assert asked == ["table.json"]

    def test_a_table_by_column_is_turned_by_reading_each_cell_once(self, tmp_path: Path) -> None:
        """20,000 columns without cells times 20,000 rows took 25 s."""
        names = {str(number): f"test {number}" for number in range(20_000)}
        table = {"latency": {"Test name": names} | {f"column {number}": {} for number in range(20_000)}}
        (tmp_path / "table.json").write_text(json.dumps(table))
        assert len(read(tmp_path / "table.json")) == 20_000


class TestNames:
    def test_a_name_that_is_too_long_is_refused_in_short(self, tmp_path: Path) -> None:
        for name in ("x" * 100_000, f"{tmp_path}/" + "y/" * 50_000, "z" * 300 + "*"):
            (report,) = read(name)
            assert report.outcome == "refused"
            assert len(report.path) < 400
            assert report.reason in ("the name is too long for a file", "matches no file")

    def test_a_file_name_with_escapes_reaches_no_reason(self, tmp_path: Path) -> None:
        evil = "\x1b[2J\x1b]0;owned\x07"
        (tmp_path / f"{evil}.csv").write_text("metric,value\nttft_mean,1,2\n")
        (tmp_path / f"{evil}.yaml").write_text("benchmarks:\n  - requests: {\nmetadata: x\nargs: &a\n")
        (tmp_path / f"{evil}.json").write_text('{"metric": 1')
        reports = read(*(str(path) for path in tmp_path.iterdir()))
        assert len(reports) == 3
        for report in reports:
            assert report.path.isprintable()
            assert (report.reason or "").isprintable()

    @pytest.mark.skipif(not Path("/proc/kmsg").exists(), reason="needs Linux")
    def test_a_log_of_the_system_is_not_waited_for(self) -> None:
        assert refusal("/proc/kmsg").startswith("not readable: ")  # it gives no data, or may not be read

    def test_pipes_sockets_and_devices_are_refused(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        with socket.socket(socket.AF_UNIX) as unix:
            unix.bind(str(tmp_path / "socket"))
            for path in (tmp_path / "pipe", tmp_path / "socket", Path("/dev/zero"), Path("/dev/null")):
                assert refusal(path) == "a pipe or device, not a file; use - for standard input"


class TestPatterns:
    @pytest.fixture
    def tree(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        for name in ("r1.json", "x/r1.json", "x/y/r2.json", "x/y/.hidden/r3.json", "x/other.txt", ".z/r4.json"):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(plain(made_up(len(name)))))
        (tmp_path / "x" / "loop").symlink_to(tmp_path)
        monkeypatch.chdir(tmp_path)
        return tmp_path

    @pytest.mark.parametrize(
        ("pattern", "found"),
        [
            ("*.json", ["r1.json"]),
            ("*/*.json", ["x/r1.json"]),
            ("**/*.json", ["r1.json", "x/r1.json", "x/y/r2.json"]),
            ("**/**/r?.json", ["r1.json", "x/r1.json", "x/y/r2.json"]),
            ("x/**/y/*", ["x/y/r2.json"]),
            ("x/**", ["x"]),
            ("**", ["."]),
            (".z/*", [".z/r4.json"]),
            (".*/*", [".z/r4.json"]),
            ("[rx]*/r1.json", ["x/r1.json"]),
            ("./*.json", ["./r1.json"]),
            ("x/loop/*.json", ["x/loop/r1.json"]),
            ("none*", []),
            ("x/r1.json/*", []),
        ],
    )
    @pytest.mark.usefixtures("tree")
    def test_matches(self, pattern: str, found: list[str]) -> None:
        assert sorted(selection._matches(pattern)) == found

    def test_from_an_absolute_folder(self, tree: Path) -> None:
        assert sorted(selection._matches(f"{tree}/**/r2.json")) == [f"{tree}/x/y/r2.json"]

    def test_from_the_root_it_ends_and_names_the_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(selection, "MAX_EXAMINED", 2000)
        with pytest.raises(InputError, match="more than 2000 files and folders to look through; name a smaller folder"):
            read("/**/no-such-result.json")

    def test_a_folder_with_too_many_files_of_any_kind_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(selection, "MAX_FILES", 20)
        for number in range(30):
            os.mkfifo(tmp_path / str(number))
        with pytest.raises(InputError, match="more than 20 files"):
            read(tmp_path)
