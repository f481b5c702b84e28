"""`suite import`: definitions of vLLM's CI become suites that lint has nothing against."""

import json

import pytest

from tests.suites.test_vllm_ci import client, conversations, serving

LATENCY = {"test_name": "latency_tiny", "parameters": {"model": "org/tiny"}}


@pytest.fixture
def definition(gate):
    def write(data, name="serving-tests.json"):
        file = gate.directory / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
        return file

    return write


def test_the_suite_goes_to_stdout_and_what_it_lacks_to_stderr(gate, definition):
    done = gate("suite", "import", definition([serving(), client(dataset_name="sonnet"), LATENCY]))
    assert done.code == 0
    assert "name: serving-tests\n" in done.out
    assert "sends the dataset 'sonnet'" in done.err
    assert "latency_tiny is not a serving test" in done.err
    assert "# Left out: latency_tiny" in done.out


def test_what_it_writes_has_no_error_for_lint_and_can_be_shown(gate, definition):
    assert gate("suite", "import", definition([serving()]), "-o", gate.directory / "suites").code == 0
    written = gate.directory / "suites" / "serving-tests.yaml"
    linted = gate("suite", "lint", written)
    assert (linted.code, linted.out) == (0, "")
    assert "serving_tiny_tp1_random_qps_inf_concurrency_200" in gate("suite", "show", written).out


def test_conversations_are_shown_with_their_file_and_lint_says_that_it_is_not_there(gate, definition):
    file = definition([conversations()])
    assert gate("suite", "import", file, "-o", gate.directory / "suites").code == 0
    written = gate.directory / "suites" / "serving-tests.yaml"
    shown = gate("suite", "show", written).out
    assert "recorded -> up to recorded" in shown
    assert "sharegpt prompts of ./ShareGPT.json" in shown
    linted = gate("suite", "lint", written)
    assert linted.code == 0
    assert "there is no file './ShareGPT.json'" in linted.out


def test_a_file_is_never_overwritten(gate, definition):
    file = definition([serving()])
    gate("suite", "import", file, "-o", gate.directory / "suites")
    again = gate("suite", "import", file, "-o", gate.directory / "suites")
    assert again.code == 2
    assert "is there already" in again.err


def test_files_of_one_name_get_their_folders_name(gate, definition):
    files = [definition([serving()], f"{folder}/serving-tests.json") for folder in ("cuda", "rocm")]
    assert gate("suite", "import", *files, "-o", gate.directory / "suites").code == 0
    written = sorted(file.name for file in (gate.directory / "suites").iterdir())
    assert written == ["cuda-serving-tests.yaml", "rocm-serving-tests.yaml"]


def test_several_suites_need_a_directory(gate, definition):
    files = [definition([serving()], f"{name}.json") for name in ("a", "b")]
    done = gate("suite", "import", *files)
    assert done.code == 2
    assert "2 suites are several files" in done.err
    assert done.out == ""


def test_a_definition_without_any_serving_test_is_no_suite(gate, definition):
    done = gate("suite", "import", definition([LATENCY], "latency-tests.json"))
    assert (done.code, done.out) == (2, "")
    assert "no suite, as no test of it can be said in one" in done.err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not valid JSON"),
        ("[1, 2]", "is no test definition of vLLM's CI"),
        ("[" * 100_000, "nested too deeply"),
        ("", "not valid JSON"),
    ],
)
def test_another_file_is_an_error_that_names_it(gate, definition, text, why):
    done = gate("suite", "import", definition(text))
    assert done.code == 2
    assert why in done.error
    assert "serving-tests.json" in done.error


def test_names_from_outside_cannot_write_anything_but_comments(gate, definition):
    odd = serving(test_name="serving_x\u2028name: evil\x1b[31m\nversion: 2")
    done = gate("suite", "import", definition([serving(), odd]), "-o", gate.directory / "suites")
    assert "\x1b" not in done.err
    assert gate("suite", "lint", gate.directory / "suites" / "serving-tests.yaml").code == 0
