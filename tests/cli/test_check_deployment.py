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

    def test_a_key_of_a_former_spelling_is_no_unknown_flag(self, gate):
        done = gate("check", "v0.24.0", "--accelerator", "H100", "--serve-command", "vllm serve org/model -O.mode=3")
        assert (done.code, done.err) == (1, "")
        assert "0.24.0 has no -O.mode; it is now --compilation-config.mode" in " ".join(done.out.split())

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

    def test_a_damaged_number_in_a_log_is_passed_over(self, gate):
        path = gate.directory / "server.log"
        path.write_text(LOG.replace("49,152 tokens", "7" * 5000 + " tokens"))
        done = gate("check", "v0.12.0", "--server-log", path, "--accelerator", "H800", "--format", "json")
        assert applies(done.json, "VLLM-33128") == "yes"

    def test_a_models_own_configuration_is_read(self, gate):
        model = gate.directory / "Mixtral-8x7B-v0.1"
        model.mkdir()
        (model / "config.json").write_text(json.dumps({"architectures": ["MixtralForCausalLM"]}))
        result = checked(gate, *MOVE, "--accelerator", "H200", "--model", model)
        assert applies(result, "VLLM-41306") == "yes"

    @pytest.mark.parametrize("flag", ["--collect-env", "--server-log"])
    def test_a_file_without_facts_is_an_error_that_names_it(self, gate, flag):
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
        assert "Known issues need more facts; most wanted: --serve-command or --deployment (" in advice


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


def test_names_that_are_not_known_are_noted_once_and_taken_as_they_are(gate):
    flags = ("--accelerator", "H1000", "--quantization", "fp88", "--gpu-arch", "sm90")
    done = gate(*MOVE, *flags)
    assert done.err == (
        "regress-gate: note: accelerator 'H1000' is not known here (did you mean 'H100'?)\n"
        "regress-gate: note: quantization 'fp88' is not known here (did you mean 'fp8'?)\n"
    )
    coverage = gate(*MOVE, *flags, "--format", "json").json["coverage"]
    assert coverage["platform"] == "cuda"  # sm90 is sm_90


def test_the_advice_says_that_the_accelerator_is_not_known(gate):
    advice = gate(*MOVE, "--accelerator", "H1000", "--format", "json").json["advice"]
    assert advice.startswith(
        "Accelerator 'H1000' is not known here (did you mean 'H100'?): correct it or name the platform (--platform), "
        "then check again."
    )
    assert "Name the accelerator" not in advice
    assert "Name the accelerator" in checked(gate, *MOVE)["advice"]


def test_a_variable_can_be_said_not_to_be_set(gate):
    flags = ("check", "v0.15.0", "--from", "v0.14.1", "--accelerator", "MI300X")
    assert applies(checked(gate, *flags), "VLLM-34641") == "unknown"
    assert applies(checked(gate, *flags, "--env", "VLLM_ROCM_USE_AITER="), "VLLM-34641") == "no"


class TestLaunchLine:
    """Whether the candidate takes the launch line, whatever the records say."""

    FACTS = ("--accelerator", "H100", "--model", "meta-llama/Llama-3.1-8B-Instruct", "--quantization", "none")

    def reasons(self, gate, *arguments):
        done = gate("check", *arguments, *self.FACTS, "--format", "json")
        return done.code, [reason["text"] for reason in done.json["reasons"] if reason["code"] == "launch_line"]

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (("--engine-arg", "tensor_paralel_size=2"), "(did you mean --tensor-parallel-size?)"),
            (("--engine-arg", "max_num_partial_prefills=2"), "--max-num-partial-prefills; removed in 0.27.0"),
            (("--serve-command", "vllm serve m --max-num-seqs x"), "must be a whole number, not 'x'"),
        ],
    )
    def test_what_the_candidate_refuses_is_a_fail(self, gate, arguments, text):
        code, (reason,) = self.reasons(gate, "v0.32.0", "--from", "v0.19.1", *arguments)
        assert code == 1
        assert text in reason

    @pytest.mark.parametrize("format_", ["table", "markdown"])
    def test_a_variable_that_neither_version_reads_is_a_warning_of_the_report(self, gate, format_):
        given = ("check", "v0.24.0", "--from", "v0.23.0", *self.FACTS, "--env", "VLLM_MODEL=m")
        text = "0.24.0 does not read the variable VLLM_MODEL, and 0.23.0 does not read it either"
        done = gate(*given, "--format", "json")
        assert (done.err, done.json["warnings"]) == ("", [text])
        assert text in " ".join(gate(*given, "--format", format_).out.replace("\\_", "_").split())

    @pytest.mark.parametrize(
        ("variable", "hint"),
        [
            ("VLLM_RPC_TIMEUOT", "(did you mean VLLM_RPC_TIMEOUT, removed in 0.23.0?)"),
            ("VLLM_ATENTION_BACKEND", "(did you mean VLLM_ATTENTION_BACKEND, now --attention-backend?)"),
            ("VLLM_RAY_PER_WORKER_GPU", "(did you mean VLLM_RAY_PER_WORKER_GPUS?)"),
        ],
    )
    def test_a_misspelt_variable_has_no_effect_today_either_so_the_move_is_no_fail(self, gate, variable, hint):
        given = ("check", "v0.32.0", "--from", "v0.19.1", *self.FACTS, "--env", f"{variable}=1")
        done = gate(*given, "--format", "json")
        assert not any(reason["code"] == "launch_line" for reason in done.json["reasons"])
        text = f"0.32.0 does not read the variable {variable} {hint}, and 0.19.1 does not read it either"
        assert done.json["warnings"] == [text]

    def test_without_a_baseline_a_variable_that_is_ignored_is_a_warning(self, gate):
        done = gate("check", "v0.29.0", *self.FACTS, "--env", "VLLM_USE_V1=1", "--format", "json")
        assert not any(reason["code"] == "launch_line" for reason in done.json["reasons"])
        ignored = "0.29.0 does not read the variable VLLM_USE_V1; removed in 0.11.1"
        unknown = "whether the version that runs reads it is not known (--from RELEASE)"
        assert done.json["warnings"] == [f"{ignored}; {unknown}"]

    def test_what_the_running_version_does_not_take_either_is_not_blamed_on_the_move(self, gate):
        line = "vllm serve m --tensor-paralel-size 2"
        code, texts = self.reasons(gate, "v0.28.0", "--from", "v0.29.0", "--serve-command", line)
        assert code == 1
        refused = "0.28.0 has no --tensor-paralel-size (did you mean --tensor-parallel-size?)"
        assert texts == [f"{refused}; 0.29.0 does not take it either, so it is not the line that runs"]

    def test_the_report_names_it_first(self, gate):
        line = "vllm serve m --max-num-partial-prefills 2"
        done = gate("check", "v0.32.0", "--from", "v0.19.1", *self.FACTS, "--serve-command", line)
        assert done.out.startswith("FAIL: your launch line has to change")
        assert "Do not move to 0.32.0 as it is: your launch line needs 1 change." in " ".join(done.out.split())

    def test_the_configuration_file_is_part_of_it(self, gate):
        (gate.directory / "regress-gate.toml").write_text("[deployment.engine_args]\nmax_num_partial_prefills = 2\n")
        assert self.reasons(gate, "v0.32.0", "--from", "v0.19.1")[0] == 1
        assert self.reasons(gate, "v0.26.0", "--from", "v0.19.1")[1] == []

    def test_a_server_of_a_deployment_file_is_tried_with_its_own_line(self, gate):
        (gate.directory / "compose.yaml").write_text(
            "services:\n  chat:\n    image: vllm/vllm-openai:v0.14.1\n"
            "    environment: [VLLM_ATTENTION_BACKEND=FLASHINFER]\n"
            "    command: [--model, m, --max-num-seqs, '64', --swap-space, '4']\n"
        )
        code, texts = self.reasons(gate, "v0.24.0", "--deployment", "compose.yaml")
        assert code == 1
        assert texts == [
            "0.24.0 has no --swap-space; removed in 0.18.0",
            "0.24.0 does not read the variable VLLM_ATTENTION_BACKEND; it is now --attention-backend; 0.14.1 reads it",
        ]

    def test_of_a_build_whose_arguments_are_not_known_nothing_is_claimed(self, gate):
        nightly = "0.23.1rc1.dev1403+g4080263bb"
        done = gate("check", nightly, *self.FACTS, "--engine-arg", "whatever=1", "--format", "json")
        assert done.code == 3
        texts = [reason["text"] for reason in done.json["reasons"]]
        what = f"the arguments of {nightly} are not known (the nearest known release is 0.23.0)"
        assert f"the launch line was not tested: {what}" in texts

    def test_a_recommended_release_takes_the_launch_line(self, gate):
        done = gate(
            "check", "--recommend", "--offline", "--from", "v0.19.1", *self.FACTS,
            "--engine-arg", "max_num_partial_prefills=2", "--format", "json",
        )  # fmt: skip
        assert done.json["candidate"]["version"] == "0.26.0", "the last one that has the argument"
        assert "to 0.27.0: does not take the launch line" in done.json["advice"]
