"""`issues list --format osv` and `issues new`: records out to other tools, and drafts in from threads."""

from tests.factories.records import record_data, write
from tests.report.test_osv import SCHEMA

URL = "https://github.com/vllm-project/vllm/issues/99999"


def test_the_list_as_osv_is_valid_and_every_record_is_in_it(gate):
    listed = gate("issues", "list", "--format", "osv")
    assert (listed.code, listed.err) == (0, "")
    for document in listed.json:
        SCHEMA.validate(document)
    ours = gate("issues", "list", "--format", "json").json["issues"]
    assert [document["id"] for document in listed.json] == [record["id"] for record in ours]


def test_a_draft_is_printed_or_written_and_never_over_a_record(gate):
    printed = gate("issues", "new", URL, "--offline")
    assert printed.out.startswith("id: VLLM-99999\n")
    written = gate("issues", "new", URL, "--offline", "--output", gate.directory)
    path = gate.directory / "VLLM-99999.yaml"
    assert written.out == f"{path}\n"
    assert path.read_text() == printed.out
    again = gate("issues", "new", URL, "--offline", "--output", gate.directory)
    refusal = f"{path}: is there already and is left as it is; it is the record of this thread: edit it"
    assert (again.code, again.error) == (2, refusal)


def test_a_draft_does_not_pass_the_lint(gate):
    gate("issues", "new", URL, "--offline", "--output", gate.directory)
    assert gate("issues", "lint", gate.directory).code == 2


def test_a_thread_that_is_none_is_an_error(gate):
    done = gate("issues", "new", "28882")
    assert (done.code, done.out) == (2, "")
    assert "'28882' is not a thread on GitHub; write https://github.com/OWNER/NAME/issues/NUMBER" in done.error


def test_a_directory_that_is_not_there_is_an_error(gate):
    done = gate("issues", "new", URL, "--offline", "--output", gate.directory / "nowhere")
    assert done.code == 2
    assert "cannot be written" in done.error


def test_a_record_shows_what_brought_it_and_what_took_it_away(gate):
    data = record_data(
        changes={
            "introduced_by": [{"pull": 5, "commit": "1234567", "merged": "2026-04-20"}],
            "fixed_by": [
                {"pull": 6, "reverted_by": {"pull": 7}},
                {"repo": "https://github.com/flashinfer-ai/flashinfer", "pull": 8},
            ],
        }
    )
    write(gate.directory, data)
    lines = gate("issues", "show", "1", "--directory", gate.directory).out.splitlines()
    assert [line.split("  ")[1:] for line in lines if "#" in line] == [
        ["brought by", "#5, commit 1234567, merged 2026-04-20"],
        ["fixed by", "", "#6; reverted by #7"],
        ["", "", "", "", "", "", "#8, of https://github.com/flashinfer-ai/flashinfer"],
    ]


def test_a_record_shows_which_builds_have_the_fault_by_their_code(gate):
    code = [
        {"file": "vllm/platforms/rocm.py", "present": "slow_path", "within": "class RocmPlatform"},
        {"file": "vllm/envs.py", "absent": ["FAST_ONE", "FAST_TWO"]},
        {"argument": "moe_backend", "default": None},
    ]
    write(gate.directory, record_data(code=code))
    shown = gate("issues", "show", "1", "--directory", gate.directory).out
    assert "class RocmPlatform in vllm/platforms/rocm.py has 'slow_path'" in shown
    assert "vllm/envs.py lacks 'FAST_ONE' and 'FAST_TWO'" in shown
    assert "the default of moe_backend is None" in shown
