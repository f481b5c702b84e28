"""`check --suggest-scenarios`: a suite that would show what the check can only tell of."""

import yaml

MOVE = ("check", "v0.20.0", "--from", "v0.19.1", "--suggest-scenarios")
MIXTRAL = ("--accelerator", "H200", "--model", "mistralai/Mixtral-8x7B-v0.1", "--quantization", "none")


def test_what_is_printed_is_a_suite_that_lint_accepts(gate, tmp_path):
    done = gate(*MOVE, *MIXTRAL)
    assert (done.code, done.err) == (0, "")
    file = tmp_path / "more.yaml"
    file.write_text(done.out, encoding="utf-8")
    linted = gate("suite", "lint", file)
    assert (linted.code, linted.out) == (0, "")
    seen = [issue for scenario in yaml.safe_load(done.out)["scenarios"] for issue in scenario["sees"]]
    assert "VLLM-41306" in seen


def test_what_the_given_suite_shows_already_is_left_out(gate, tmp_path):
    first = tmp_path / "more.yaml"
    first.write_text(gate(*MOVE, *MIXTRAL).out, encoding="utf-8")
    again = gate(*MOVE, *MIXTRAL, "--suite", first)
    assert again.code == 0
    assert yaml.safe_load(again.out) is None


def test_a_deployment_that_nothing_applies_to_gets_a_comment(gate):
    done = gate(*MOVE, "--accelerator", "TPU v5e", "--model", "org/Model")
    assert done.code == 0
    assert all(line.startswith("#") for line in done.out.splitlines())
