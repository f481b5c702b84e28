"""Where `check` takes the deployment from: flags, a launch line, a start log, an environment, a model's directory."""

import json

import pytest

from regress_gate.app.settings import Settings
from regress_gate.model.deployment import Deployment
from tests.cli.test_known_issues import MIXTRAL, checked, issue
from tests.vllm.test_collect_env import CUDA
from tests.vllm.test_deployment_from_start_log import LOG

MOVE = ("check", "v0.20.0", "--from", "v0.19.1")


def applies(result, id_):
    return issue(result, id_)["applies"]


class TestServeCommand:
    def test_a_flag_that_no_build_has_is_noted(self, gate):
        line = "vllm serve org/model --tensor-paralel-size 4 -dp 2 --no-enable-prefix-caching --max-model-len 8k"
        assert gate("check", "v0.24.0", "--accelerator", "H100", "--serve-command", line).err == (
            "regress-gate: note: --serve-command: no known release has tensor_paralel_size "
            "(did you mean 'tensor_parallel_size'?)\n"
        )

    def test_a_whole_line_answers_what_single_flags_leave_open(self, gate):
        move = ("check", "v0.19.1", "--from", "v0.19.0", "--accelerator", "H200")
        line = "vllm serve deepseek-ai/DeepSeek-R1 -tp 8"
        assert applies(checked(gate, *move, "--model", "deepseek-ai/DeepSeek-R1"), "VLLM-28882") == "unknown"
        assert applies(checked(gate, *move, "--serve-command", line), "VLLM-28882") == "no"
        line += " --enable-expert-parallel"
        assert applies(checked(gate, *move, "--serve-command", line), "VLLM-28882") == "yes"

    def test_its_variables_and_arguments_show_a_workaround(self, gate):
        line = "vllm serve mistralai/Mixtral-8x7B-v0.1 --moe-backend triton"
        flags = ("--accelerator", "H200", "--quantization", "none")
        assert applies(checked(gate, *MOVE, *flags, "--serve-command", line), "VLLM-41306") == "mitigated"

    def test_flags_go_before_it(self, gate):
        line = "vllm serve mistralai/Mixtral-8x7B-v0.1 --quantization fp8"
        flags = ("--accelerator", "H200", "--serve-command", line)
        assert applies(checked(gate, *MOVE, *flags), "VLLM-41306") == "no"
        flags += ("--engine-arg", "quantization=none", "--quantization", "none")
        assert applies(checked(gate, *MOVE, *flags), "VLLM-41306") == "yes"

    def test_it_replaces_the_arguments_of_the_file_and_keeps_its_other_facts(self, gate):
        (gate.directory / "regress-gate.toml").write_text(
            "[deployment]\naccelerator = 'H200'\nquantization = 'none'\nengine_args = {moe_backend = 'triton'}\n"
        )
        line = "vllm serve mistralai/Mixtral-8x7B-v0.1"
        assert applies(checked(gate, *MOVE, "--serve-command", line), "VLLM-41306") == "yes"

    def test_a_line_that_starts_no_server_is_an_error(self, gate):
        done = gate(*MOVE, "--serve-command", "python train.py")
        assert done.code == 2
        assert done.error.startswith("--serve-command: no `vllm serve` found")


class TestFiles:
    def test_an_environment_gives_the_accelerator_and_the_version_that_runs_now(self, gate):
        path = gate.directory / "env.txt"
        path.write_text(CUDA.replace("H100 80GB HBM3", "H200"))
        done = gate(
            "check", "v0.20.0", *MIXTRAL[2:], "--quantization", "none", "--collect-env", path, "--format", "json"
        )
        note = "checked against 0.19.1, the version that runs now according to the given file"
        assert done.err == f"regress-gate: note: {note}\n"
        assert done.json["baseline"]["version"] == "0.19.1"
        assert (applies(done.json, "VLLM-41306"), issue(done.json, "VLLM-41306")["effect"]) == ("yes", "new")
        assert "verysecret" not in done.out

    def test_a_start_log_gives_model_quantization_and_backends(self, gate):
        path = gate.directory / "server.log"
        path.write_text(LOG)
        done = gate("check", "v0.12.0", "--server-log", path, "--accelerator", "H800", "--format", "json")
        assert applies(done.json, "VLLM-33128") == "yes"
        assert "no tuned MoE configuration is used" in done.err
        assert "verysecret" not in done.out + done.err

    def test_from_goes_before_the_version_of_a_file(self, gate):
        path = gate.directory / "server.log"
        path.write_text(LOG)
        done = gate("check", "v0.12.0", "--from", "v0.10.2", "--server-log", path, "--format", "json")
        assert done.json["baseline"]["version"] == "0.10.2"

    def test_a_models_own_configuration_is_read(self, gate):
        model = gate.directory / "Mixtral-8x7B-v0.1"
        model.mkdir()
        (model / "config.json").write_text(json.dumps({"architectures": ["MixtralForCausalLM"]}))
        result = checked(gate, *MOVE, "--accelerator", "H200", "--model", model)
        assert applies(result, "VLLM-41306") == "yes"

    @pytest.mark.parametrize("flag", ["--collect-env", "--server-log"])
    def test_a_file_that_tells_nothing_is_an_error_that_names_it(self, gate, flag):
        path = gate.directory / "nothing.txt"
        path.write_bytes(b"\xff\x00 nothing")
        done = gate(*MOVE, flag, path)
        assert done.code == 2
        assert done.error.startswith(f"{path}: ")


class TestFlags:
    @pytest.mark.parametrize(
        ("flags", "complaint"),
        [
            (("--feature", "lorra"), "--feature: unknown 'lorra' (did you mean 'lora'?)"),
            (("--feature", "lora=maybe"), "--feature: 'lora=maybe' is neither true nor false"),
            (("--backend", "attention"), "--backend: 'attention' has no value"),
            (("--backend", "attn=X"), "--backend: unknown 'attn'"),
            (("--dependency", "=1"), "--dependency: '=1' has no key"),
            (("--gpu-arch", "Hopper"), "--gpu-arch: 'Hopper' is no GPU architecture; write sm_90 or gfx942"),
            (("--platform", "metal"), "Invalid value for '--platform'"),
        ],
    )
    def test_what_is_not_known_is_an_error(self, gate, flags, complaint):
        done = gate(*MOVE, *flags)
        assert done.code == 2
        assert complaint in done.error

    def test_every_fact_can_be_given(self, gate):
        flags = (
            *("--platform", "cuda", "--gpu-arch", "sm_90", "--architecture", "MixtralForCausalLM"),
            *("--moe-quantization", "none", "--distribution", "vllm", "--feature", "lora=false"),
            *("--backend", "moe=TRITON", "--dependency", "triton=3.5.1"),
        )
        without, with_ = (
            [one["applies"] for one in checked(gate, *MOVE, *more)["known_issues"]] for more in ((), flags)
        )
        assert with_.count("unknown") < without.count("unknown")

    def test_what_would_settle_most_is_asked_for(self, gate):
        advice = checked(gate, *MOVE, "--accelerator", "H200")["advice"]
        assert "need more facts; most wanted: --serve-command or --deployment (" in advice


def test_of_two_that_tell_the_same_fact_the_nearer_one_counts(tmp_path):
    (tmp_path / "server.log").write_text(LOG)
    (tmp_path / "env.txt").write_text(CUDA + "VLLM_X=environment\n")
    (tmp_path / "regress-gate.toml").write_text(
        "[deployment]\naccelerator = 'B200'\nquantization = 'nvfp4'\ndistribution = 'vllm'\nfeatures = {lora = true}\n"
        "engine_args = {block_size = 64}\nenv = {VLLM_X = 'file', VLLM_Y = 'file'}\n"
    )
    told = Settings(
        config_flag=tmp_path / "regress-gate.toml",
        launch_line="VLLM_Z=line vllm serve line/model",
        server_log=tmp_path / "server.log",
        collect_env=tmp_path / "env.txt",
        deployment_flag=Deployment(model="flag/model"),
    ).deployment
    assert told.model == "flag/model"
    assert told.engine_args == {}  # the launch line is complete, and sets nothing
    assert told.accelerator == "NVIDIA H20-3e"  # by the log
    assert told.quantization == "fp8"  # by the log
    assert told.dependencies["triton"] == "3.5.1"  # by the environment
    assert (told.distribution, told.features) == ("vllm", {"lora": True})  # by the file
    assert told.env["VLLM_X"] == "environment"
    assert (told.env["VLLM_Y"], told.env["VLLM_Z"]) == ("file", "line")


def test_a_file_may_say_that_its_launch_line_is_complete(gate):
    deployment = "accelerator = 'H200'\nmodel = 'deepseek-ai/DeepSeek-R1'\n"
    for complete, answer in (("", "unknown"), ("complete = true\n", "no")):
        (gate.directory / "regress-gate.toml").write_text(f"[deployment]\n{deployment}{complete}")
        assert applies(checked(gate, "check", "v0.19.1", "--from", "v0.19.0"), "VLLM-28882") == answer


def test_a_variable_can_be_said_not_to_be_set(gate):
    flags = ("check", "v0.15.0", "--from", "v0.14.1", "--accelerator", "MI300X")
    assert applies(checked(gate, *flags), "VLLM-34641") == "unknown"
    assert applies(checked(gate, *flags, "--env", "VLLM_ROCM_USE_AITER="), "VLLM-34641") == "no"
