"""Whether a build would start with the user's arguments, against real builds' argument lists.

Each answer was compared with what the parser of that real build says of the same line.
"""

from typing import Any

import pytest

from regress_gate.gate.launch_line import RefusalKind, find_launch_problems
from regress_gate.model.version import Version
from regress_gate.store.combined import ShippedBuilds
from regress_gate.vllm.build_config import BuildConfig


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
def test_what_the_parser_refuses_is_told(
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


def test_a_build_that_could_not_tell_its_arguments_refuses_nothing(old: BuildConfig) -> None:
    silent = old.model_copy(update={"arguments": {}, "env": {}})
    assert find_launch_problems(silent, {"whatever": 1}, {"VLLM_X": "1"}) == []
