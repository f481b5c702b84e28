"""The text block that people paste into issues."""

import pytest

from regress_gate.errors import InputError
from regress_gate.ingest.identity import IdentityFlags
from regress_gate.ingest.interface import FileOutcome
from tests.factories.serve_results import console, expected_metrics, import_all, made_up, write

FLAGS = IdentityFlags.parse(version="0.19.1", testbed="bench-box", scenario="chat")
NAMESPACE = (
    "Namespace(subparser='bench', model='org/tiny', num_prompts=12, max_concurrency=None, request_rate=inf, seed=0)\n"
)


def read(tmp_path, text, flags=FLAGS):
    return import_all(write(tmp_path / "paste.txt", text), flags=flags)


def refusal(tmp_path, text) -> str:
    (report,) = read(tmp_path, text).files
    assert report.outcome is FileOutcome.REFUSED
    return report.reason


@pytest.mark.parametrize("label", ["Total Token throughput (tok/s):", "Total token throughput (tok/s):"])
def test_a_block_gives_its_numbers_to_two_decimals(tmp_path, label):
    made = made_up(seed=8)
    trial = read(tmp_path, console(made, total_label=label)).runs[0].trials[0]
    expected = expected_metrics(made)
    assert {"ttft_mean", "tpot_median", "itl_p99", "total_throughput"} <= set(trial.metrics)
    for name, value in trial.metrics.items():
        assert value == pytest.approx(expected[name], abs=0.005 if "throughput" in name else 0.5e-5)
    assert trial.source.format == "vllm-serve-console"


def test_issue_text_around_the_block_is_ignored(tmp_path):
    text = "### My result\n\n```text\n" + console(made_up()) + "```\nI expected: faster\n"
    assert read(tmp_path, text).complete


def test_a_quoted_block_is_read(tmp_path):
    quoted = "".join(f"> {line}\n" for line in console(made_up()).splitlines())
    assert read(tmp_path, quoted).complete


def test_several_blocks_are_several_results(tmp_path):
    text = console(made_up(seed=1)) + "\nand again\n" + console(made_up(seed=2))
    (run,) = read(tmp_path, text).runs
    assert [(trial.ordinal, trial.source.position) for trial in run.trials] == [(1, 0), (2, 1)]


def test_the_same_block_pasted_twice_counts_once(tmp_path):
    intake = read(tmp_path, console(made_up()) * 2)
    assert [report.outcome for report in intake.files] == [FileOutcome.STORED, FileOutcome.SKIPPED]


def test_what_the_client_printed_before_the_block_names_the_scenario(tmp_path):
    before = NAMESPACE + "Traffic request rate: inf\nBurstiness factor: 1.0 (Poisson process)\n"
    made = made_up(concurrency=None)
    (run,) = read(tmp_path, before + console(made), flags=IdentityFlags.parse(version="0.9.2", testbed="box")).runs
    assert run.trials[0].scenario == "tiny-unlimited-inf-n12"


def test_a_block_that_names_no_model_needs_a_scenario(tmp_path):
    with pytest.raises(InputError, match="give --scenario"):
        read(tmp_path, console(made_up()), flags=IdentityFlags.parse(version="0.9.2", testbed="box"))


def test_unknown_failures_are_not_taken_for_none(tmp_path):
    intake = read(tmp_path, console(made_up(), failed_line=False))
    assert "failed_requests" not in intake.runs[0].trials[0].metrics
    assert "does not say how many requests failed" in intake.files[0].notes


def test_failures_follow_from_the_number_of_prompts(tmp_path):
    text = NAMESPACE + console(made_up(requests=12, failed=3), failed_line=False)
    assert read(tmp_path, text).runs[0].trials[0].failed == 3


BLOCK = console(made_up(seed=9))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BLOCK.rstrip("=\n"), "no closing line"),
        (BLOCK.rstrip("=\n") + "\n" + BLOCK, "no closing line"),
        (BLOCK.replace("Mean TTFT (ms)", "Mean TTFT (s)"), "'Mean TTFT (s)' is not in ms"),
        (BLOCK.replace("Successful requests", "Successful"), "the line 'Successful requests' is missing"),
        (BLOCK.replace("Mean ITL (ms):", "Mean TTFT (ms):"), "stands twice in one block"),
        (BLOCK.replace("Benchmark duration (s):                  ", "Benchmark duration (s): about "), "not a number"),
        (BLOCK.replace("Benchmark duration (s):                  ", "Benchmark duration (s): 9"), "says"),
        (BLOCK.replace("Total input", "Backend:   sglang\nTotal input"), "SGLang"),
        (BLOCK.replace("Mean ITL (ms)", "Mean E2E Latency (ms)"), "SGLang"),
        (BLOCK.replace("Peak concurrent requests", "Peak memory (MB)"), "vLLM-Omni"),
        (BLOCK.replace("Median TTFT (ms):", "Median TTFT (ms): nan #"), "not a number"),
    ],
)
def test_blocks_that_are_cut_edited_or_of_other_tools_are_refused(tmp_path, text, reason):
    intake = read(tmp_path, text)
    reasons = [report.reason for report in intake.files if report.outcome is FileOutcome.REFUSED]
    assert len(reasons) == 1
    assert reason in reasons[0]


def test_a_dead_run_is_refused_as_text_too(tmp_path):
    dead = BLOCK.replace("Successful requests:                     12", "Successful requests:                     0")
    assert "no request succeeded" in refusal(tmp_path, dead)
