"""`suites.lint`: all that is wrong with a suite at once, each with its line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.app.authoring import lint_suites
from regress_gate.suites import load_suite, suite_template
from regress_gate.suites.lint import lint_suite

NO_ADAPTER = (
    ":15: warning: scenario a: the server has no lora_modules, so it serves no adapter: name them in its engine_args"
)
ASKED = b'{"time": 0, "input_tokens": 10, "output_tokens": 2}\n'
"""A request of a trace."""
KNOWN = ["VLLM-28882", "VLLM-41306"]
GOOD = """\
name: mine
version: 1
description: test
gate: {metrics: [ttft_median]}
scenarios:
  - name: a
    why: because
    server: {model: m, engine_args: {max-model-len: 512, max_num_seqs: 8}}
    workload:
      input_len: 128
      output_len: 32
      concurrency: 4
      num_requests: 20
"""


@pytest.fixture
def linted(tmp_path: Path):
    def run(text: str | bytes) -> list[str]:
        file = tmp_path / "suite.yaml"
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return [str(complaint).removeprefix(f"{file}") for complaint in lint_suite(file, KNOWN)]

    return run


def test_a_good_suite_has_no_complaint(linted):
    assert linted(GOOD) == []


def test_the_template_is_free_of_messages_and_loads(linted, tmp_path):
    assert linted(suite_template("chat")) == []
    assert load_suite(str(tmp_path / "suite.yaml")).name == "chat"


def test_all_errors_are_reported_with_their_lines(linted):
    bad = GOOD.replace("concurrency: 4", "concurency: 4").replace("output_len: 32", "output_len: '32'")
    assert linted(bad.replace("version: 1", "version: 1.5")) == [
        ":2: error: version: Input should be a valid string",
        ":11: error: scenarios.0.workload.output_len: Input should be a valid integer",
        ":12: error: unknown key 'concurency' in scenarios.0.workload (did you mean 'concurrency'?)",
    ]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (
            "input_len: 128",
            "input_len: 500",
            ":10: error: scenario a: 532 tokens of prompt and answer are more than max_model_len (512)",
        ),
        (
            "concurrency: 4",
            "concurrency: 16",
            ":12: warning: scenario a: concurrency 16 is above max_num_seqs (8): the other requests only wait",
        ),
        ("    why: because\n", "", ":6: warning: scenario a: why is missing: say what the scenario is for"),
        (
            "why: because",
            "sees: [VLLM-28882, VLLM-28883]\n    why: because",
            ":7: warning: scenario a: VLLM-28883 is not a known issue (did you mean 'VLLM-28882'?)",
        ),
        (
            "[ttft_median]",
            "[ttft_p99, itl_p90]",
            ":13: warning: scenario a: ttft_p99 cannot gate with 20 requests; send 100, or gate on medians",
        ),
        (
            "concurrency: 4\n      num_requests: 20",
            "request_rate: 4",
            ":9: warning: scenario a: cannot be measured, only imported: the workload lacks num_requests",
        ),
        (
            "num_requests: 20",
            "num_requests: 3",
            ":13: warning: scenario a: 3 requests never reach a concurrency of 4",
        ),
        (
            "input_len: 128",
            "dataset: sharegpt",
            ":10: warning: scenario a: cannot be measured, only imported: dataset 'sharegpt' names no file",
        ),
        (
            "input_len: 128",
            "dataset: {format: sharegpt, file: none.json}",
            ":10: warning: scenario a: cannot be measured from here: there is no file 'none.json'",
        ),
        (
            "input_len: 128\n      output_len: 32",
            "trace: {file: none.csv}",
            ":10: warning: scenario a: cannot be measured from here: there is no file 'none.csv'",
        ),
        (
            "input_len: 128",
            "dataset: {format: sharegpt, file: none.json}",
            ":10: warning: scenario a: conversations of up to 2048 tokens are sent, and max_model_len is 512",
        ),
        (
            "input_len: 128",
            f"dataset: {{format: sharegpt, file: {'n' * 300}}}",
            ":10: warning: scenario a: cannot be measured from here: there is no file '" + "n" * 300 + "'",
        ),
    ],
)
def test_warnings_have_their_lines(linted, old, new, complaint):
    assert complaint in linted(GOOD.replace(old, new))


@pytest.mark.parametrize(
    ("workload", "complaints"),
    [
        (
            "slo: {ttft: 500, tpot: 0.05}",
            [":14: warning: scenario a: ttft of 500 s is more than a minute: for 500 milliseconds write 500ms"],
        ),
        ('slo: {ttft: "500ms", tpot: "50 ms"}', []),
        ("slo: {ttft: 0.5}\n      lora_adapters: [sql]", [NO_ADAPTER]),
        (
            "slo: {ttft: fast}",
            [":14: error: scenarios.0.workload.slo.ttft: 'fast' is no limit for a time; write \"500ms\""],
        ),
        ("slo: {}", [":14: error: scenarios.0.workload.slo: it has no limit: name ttft, tpot or e2el"]),
    ],
)
def test_objectives_and_adapters_are_read_with_doubt(linted, workload, complaints):
    assert linted(f"{GOOD}      {workload}\n") == complaints


def test_a_capacity_needs_requests_beyond_its_promise_and_compares_no_latencies(linted):
    text = GOOD.replace("concurrency: 4", "slo: {ttft: 0.5}\n      capacity: 0.999").replace(
        "[ttft_median]", "[ttft_p99]"
    )
    assert linted(text) == [":14: warning: scenario a: 20 requests cannot show a promise of 99.9 %; send 5000"]
    assert linted(text.replace("num_requests: 20", "num_requests: 5000")) == []


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (ASKED[:30], "traffic.jsonl:1: "),
        (b'{"time": NaN, "input_tokens": 10, "output_tokens": 2}\n', "traffic.jsonl:1: "),
        (b"", "traffic.jsonl: "),
        (b"\x00\x01\xff\xfe", "traffic.jsonl"),
        (b'{"time": 9, "input_tokens": 10, "output_tokens": 2}\n' + ASKED, "traffic.jsonl:2: is earlier"),
        (ASKED, "traffic.jsonl"),
    ],
)
def test_a_broken_trace_is_an_error_of_the_suite(tmp_path, monkeypatch, content, complaint):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traffic.jsonl").write_bytes(content)
    workload = "trace: {file: traffic.jsonl}\n      num_requests: 2\n"
    suite = tmp_path / "suite.yaml"
    suite.write_text(GOOD[: GOOD.index("input_len")] + workload)
    report = lint_suites([suite])
    assert report.errors == 1
    assert report.messages[0].line == 10
    assert report.messages[0].what.startswith(f"scenario a: {complaint}")


def test_embeddings_are_judged_by_what_they_are_measured_by(linted):
    text = GOOD.replace("output_len: 32", "api: embeddings").replace("[ttft_median]", "[ttft_p99, e2el_p99]")
    assert linted(text) == [
        ":13: warning: scenario a: e2el_p99 cannot gate with 20 requests; send 100, or gate on medians"
    ]


def test_a_scenario_is_judged_although_another_is_broken(linted):
    text = GOOD + "  - name: b\n    server: {}\n    workload: {}\n"
    found = linted(text.replace("input_len: 128", "input_len: 500"))
    assert [line.split(": ")[1] for line in found] == ["error", "error"]
    assert "max_model_len" in found[0]
    assert "scenarios.1.server.model" in found[1]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "the file is empty"),
        ("- 1", "expected keys and values"),
        ("a: [", "not valid YAML"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        ("scenarios: 3", "error"),
    ],
)
def test_a_file_that_is_not_a_suite_is_reported_without_a_crash(linted, text, complaint):
    assert complaint in "\n".join(linted(text))


def test_a_file_that_is_not_there_is_a_complaint(tmp_path):
    (complaint,) = lint_suite(tmp_path / "none.yaml", KNOWN)
    assert "cannot be read" in str(complaint)


@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda raw: GOOD + raw.decode("latin-1")))
def test_no_text_is_too_strange(tmp_path_factory, text):
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    for complaint in lint_suite(file, KNOWN):
        assert complaint.what
