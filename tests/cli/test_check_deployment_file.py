"""`--deployment FILE`: each server in it is checked, with what the file says and nothing that it does not say."""

import json
import subprocess
import sys

import pytest

from tests.cli.test_known_issues import issue
from tests.vllm.deployments.test_compose_file import TWO
from tests.vllm.deployments.test_secrets import ENCODED, FILES, SECRET, TOKEN, with_secrets

MIXTRAL = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: mixtral}
spec:
  template:
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H200}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.19.1
          command: [vllm, serve]
          args: [mistralai/Mixtral-8x7B-v0.1, --quantization, none, --seed, "1"]
          resources: {limits: {nvidia.com/gpu: "2"}}
"""
ONE_OF_EACH = """\
services:
  good:
    image: vllm/vllm-openai:v0.19.1
    command: --model meta-llama/Llama-3.1-8B-Instruct --quantization none
  bad:
    image: vllm/vllm-openai:v0.19.1
    command: --model mistralai/Mixtral-8x7B-v0.1 --quantization none
"""


@pytest.fixture
def write(gate):
    def write_file(name, text):
        (gate.directory / name).write_text(text, encoding="utf-8")
        return name

    return write_file


class TestOneServer:
    def test_known_issues_match_as_with_the_launch_line(self, gate, write):
        write("k8s.yaml", MIXTRAL)
        from_file = gate("check", "v0.20.0", "--deployment", "k8s.yaml", "--format", "json")
        line = "vllm serve mistralai/Mixtral-8x7B-v0.1 --quantization none --seed 1"
        flags = ("--from", "v0.19.1", "--accelerator", "NVIDIA H200", "--platform", "cuda")
        from_line = gate(
            *("check", "v0.20.0", *flags, "--distribution", "vllm/vllm-openai:v0.19.1"),
            *("--serve-command", line, "--format", "json"),
        )
        assert from_file.code == from_line.code == 1
        deployment = from_file.json["deployment"]
        assert (deployment["name"], deployment["where"]) == ("mixtral", "k8s.yaml:9")
        assert from_line.json["deployment"] is None
        assert from_file.json["baseline"]["version"] == "0.19.1"
        for key in ("reasons", "decision"):
            assert from_file.json[key] == from_line.json[key]
        answers = [
            [(one["id"], one["applies"]) for one in done.json["known_issues"]] for done in (from_file, from_line)
        ]
        assert answers[0] == answers[1]
        assert issue(from_file.json, "VLLM-41306")["applies"] == "yes"
        note = "checked against 0.19.1, the version that runs now according to the given file"
        assert from_file.err == f"regress-gate: note: {note}\n"

    def test_the_python_of_the_image_is_known(self, gate, write):
        write("k8s.yaml", MIXTRAL)
        known = gate("check", "v0.26.0", "--deployment", "k8s.yaml", "--format", "json").json
        assert issue(known, "VLLM-49920")["applies"] == "no"
        write("other.yaml", MIXTRAL.replace("vllm/vllm-openai:v0.19.1", "registry.example/ml/own:v0.19.1"))
        own = gate("check", "v0.26.0", "--deployment", "other.yaml", "--format", "json").json
        assert issue(own, "VLLM-49920")["applies"] == "unknown"

    def test_standard_input(self, gate):
        done = gate("check", "v0.20.0", "--deployment", "-", "--format", "json", stdin=MIXTRAL)
        assert done.json["deployment"]["where"] == "standard input:9"

    def test_flags_go_before_the_file_and_the_file_before_the_configuration(self, gate, write):
        write("k8s.yaml", MIXTRAL)
        write("regress-gate.toml", "[deployment]\naccelerator = 'MI300X'\nmodel = 'x/y'\nquantization = 'fp8'\n")
        given = ("check", "v0.20.0", "--deployment", "k8s.yaml", "--format", "json")
        assert issue(gate(*given).json, "VLLM-41306")["applies"] == "yes"
        flags = ("--quantization", "fp8", "--engine-arg", "quantization=fp8")
        assert issue(gate(*given, *flags).json, "VLLM-41306")["applies"] == "no"

    @pytest.mark.parametrize(
        ("flags", "note", "platform"),
        [
            (("--accelerator", "MI300X"), "accelerator MI300X is used; ", "rocm"),
            (("--accelerator", "H100"), "accelerator H100 is used; ", "cuda"),
            (("--gpu-arch", "gfx942"), "GPU level gfx942 is used; ", "rocm"),
            (("--platform", "cpu"), "platform cpu is used; ", "cpu"),
            (("--accelerator", "H200"), "", "cuda"),
            (("--accelerator", "sm_90"), "", "cuda"),
        ],
    )
    def test_of_hardware_that_contradicts_the_file_the_flag_counts_whole(self, gate, write, flags, note, platform):
        write("k8s.yaml", MIXTRAL)
        done = gate("check", "v0.20.0", "--deployment", "k8s.yaml", *flags, "--format", "json")
        assert done.json["coverage"]["platform"] == platform
        notes = [line for line in done.err.splitlines() if "is used" in line]
        said = f"regress-gate: note: {note}k8s.yaml:9 says accelerator NVIDIA H200"
        assert notes == ([said] if note else [])

    def test_the_configuration_names_the_file_relative_to_itself(self, gate, write):
        (gate.directory / "deploy").mkdir()
        write("deploy/k8s.yaml", MIXTRAL)
        write("regress-gate.toml", "[deployment]\nfile = 'deploy/k8s.yaml'\n")
        found = gate("check", "v0.20.0", "--format", "json").json["deployment"]
        assert found["name"] == "mixtral"
        assert found["where"].startswith("deploy/k8s.yaml:")  # the same wherever the checkout lies
        shown = gate("config", "show").out
        assert "deployment.file = deploy/k8s.yaml" in shown
        assert "deployment.model = mistralai/Mixtral-8x7B-v0.1" in shown

    def test_a_conflict_about_the_version_is_said(self, gate, write):
        write("k8s.yaml", MIXTRAL)
        done = gate("check", "v0.20.0", "--from", "v0.19.0", "--deployment", "k8s.yaml", "--format", "json")
        assert done.json["baseline"]["version"] == "0.19.0"
        assert done.err == "regress-gate: note: --from 0.19.0 is used; the given file says that 0.19.1 runs\n"

    def test_an_image_without_a_version_says_what_to_do(self, gate, write):
        write("k8s.yaml", MIXTRAL.replace("v0.19.1", "latest"))
        done = gate("check", "v0.20.0", "--deployment", "k8s.yaml", "--format", "json")
        assert done.json["baseline"] is None
        why = "the image's tag 'latest' names no version"
        assert done.err == f"regress-gate: note: the version that runs is not known: {why}; --from names it\n"

    def test_a_value_that_is_not_in_the_file_stays_unknown(self, gate, write):
        write("run.sh", "docker run vllm/vllm-openai:v0.19.0 --model deepseek-ai/DeepSeek-R1 -tp 8 $EXTRA")
        move = ("check", "v0.19.1", "--deployment", "run.sh", "--accelerator", "H200", "--format", "json")
        assert issue(gate(*move).json, "VLLM-28882")["applies"] == "unknown"
        write("run.sh", "docker run vllm/vllm-openai:v0.19.0 --model deepseek-ai/DeepSeek-R1 -tp 8")
        assert issue(gate(*move).json, "VLLM-28882")["applies"] == "no"
        write(
            "run.sh", "docker run vllm/vllm-openai:v0.19.0 --model deepseek-ai/DeepSeek-R1 --enable-expert-parallel=$E"
        )
        assert issue(gate(*move).json, "VLLM-28882")["applies"] == "unknown"

    @pytest.mark.parametrize(
        ("more", "applies"),
        [
            ("", "no"),
            ("    env_file: gone.env\n", "unknown"),
            ("    environment: {VLLM_USE_FLASHINFER_MOE_FP4: 'True'}\n", "yes"),
            ("    environment: {VLLM_USE_FLASHINFER_MOE_FP4: $X}\n", "unknown"),
        ],
    )
    def test_a_variable_that_a_container_does_not_set_has_its_default(self, gate, write, more, applies):
        image = "services:\n  a:\n    image: vllm/vllm-openai:v0.14.1\n"
        write("compose.yaml", image + "    command: --model nvidia/Qwen3-30B-A3B-FP4\n" + more)
        where = ("--deployment", "compose.yaml", "--accelerator", "RTX PRO 6000", "--quantization", "modelopt_fp4")
        done = gate("check", "v0.15.0", *where, "--format", "json")
        assert issue(done.json, "VLLM-33416")["applies"] == applies

    @pytest.mark.parametrize(
        ("argument", "applies"), [("", "no"), ("--enable-lora", "yes"), ("--enable-lora=$LORA", "unknown")]
    )
    def test_an_argument_of_unknown_value_is_not_off(self, gate, write, argument, applies):
        write("run.sh", f"docker run vllm/vllm-openai:v0.10.0 --model Qwen/Qwen2.5-32B-Instruct {argument}")
        done = gate("check", "v0.11.0", "--deployment", "run.sh", "--accelerator", "A100", "--format", "json")
        assert issue(done.json, "REL-0110-51")["applies"] == applies

    def test_a_file_with_arguments_makes_the_line_incomplete(self, gate, write):
        line = "vllm serve deepseek-ai/DeepSeek-R1 -tp 8 --config more.yaml"
        write("run.sh", line)
        move = ("check", "v0.19.1", "--from", "v0.19.0", "--accelerator", "H200", "--format", "json")
        assert issue(gate(*move, "--deployment", "run.sh").json, "VLLM-28882")["applies"] == "unknown"
        assert issue(gate(*move, "--serve-command", line).json, "VLLM-28882")["applies"] == "unknown"


class TestSeveralServers:
    def test_each_is_reported_and_the_worst_decides(self, gate, write):
        write("compose.yaml", ONE_OF_EACH)
        given = ("check", "v0.20.0", "--deployment", "compose.yaml", "--accelerator", "H200")
        done = gate(*given)
        assert done.code == 1
        assert done.out.startswith("FAIL: 2 servers, 1 fail, ")
        assert "\ngood (compose.yaml:2)\n" in done.out
        assert "\nbad (compose.yaml:5)\n" in done.out
        data = gate(*given, "--format", "json").json
        assert {key: data[key] for key in ("schema_version", "decision", "exit_code")} == {
            "schema_version": "1",
            "decision": "fail",
            "exit_code": 1,
        }
        assert [one["deployment"]["name"] for one in data["deployments"]] == ["good", "bad"]
        assert data["deployments"][1]["decision"] == "fail"
        assert data["deployments"][0]["decision"] != "fail"
        page = gate(*given, "--format", "markdown").out
        assert "### good (compose.yaml:2)" in page
        assert "### bad (compose.yaml:5)" in page

    def test_the_exit_code_is_the_worst_one(self, gate, write):
        write("compose.yaml", TWO)
        given = ("check", "v0.20.0", "--deployment", "compose.yaml", "--accelerator", "H200", "-q")
        codes = [gate(*given[:3], f"compose.yaml#{name}", *given[4:]).code for name in ("chat", "embed")]
        assert sorted(codes) != [0, 0]
        assert gate(*given).code == (1 if 1 in codes else 3)
        assert gate(*given, "--report-only").code == 0
        assert gate(*given, "--on-inconclusive", "fail").code == 1

    def test_one_is_chosen_by_its_name(self, gate, write):
        write("compose.yaml", ONE_OF_EACH)
        given = ("check", "v0.20.0", "--accelerator", "H200", "--format", "json")
        assert gate(*given, "--deployment", "compose.yaml#bad").json["deployment"]["name"] == "bad"
        refused = gate(*given, "--deployment", "compose.yaml#bat")
        assert (refused.code, refused.error) == (2, "compose.yaml: no server 'bat' (did you mean 'bad'?)")

    @pytest.mark.parametrize(
        "command", [("compare", "v0.19.0", "v0.19.1"), ("config", "show"), ("check", "v0.20.0", "--suggest-scenarios")]
    )
    def test_other_commands_need_exactly_one(self, gate, write, command):
        write("compose.yaml", ONE_OF_EACH)
        refused = gate(*command, "--deployment", "compose.yaml")
        assert refused.code == 2
        assert refused.error.startswith("compose.yaml: holds 2 vLLM servers (good, bad); name one: --deployment ")
        assert gate(*command, "--deployment", "compose.yaml#good").code in (0, 1, 3)

    def test_a_comparison_names_its_server(self, gate, write):
        write("compose.yaml", ONE_OF_EACH)
        done = gate("compare", "v0.19.0", "v0.19.1", "--deployment", "compose.yaml#good", "--format", "json")
        assert (done.json["deployment"]["name"], done.json["deployment"]["where"]) == ("good", "compose.yaml:2")

    def test_notes_name_their_server(self, gate, write):
        write("compose.yaml", TWO)
        err = gate("check", "v0.20.0", "--deployment", "compose.yaml", "-q").err
        assert err == ""
        err = gate("check", "v0.20.0", "--deployment", "compose.yaml").err
        assert "regress-gate: note: chat: it starts with the profile gpu only\n" in err


@pytest.mark.parametrize("kind", FILES)
def test_a_secret_is_in_no_output_store_or_trace(gate, write, kind):
    write("deploy", with_secrets(FILES[kind]))
    outputs = []
    move = ("--deployment", "deploy", "--accelerator", "H200", "-vv")
    for format_ in ("table", "json", "markdown"):
        done = gate(
            "check", "v0.20.0", "--from", "v0.9.1", *move, "--format", format_, "--output", f"{format_}:{format_}.out"
        )
        assert done.code in (0, 1, 3)
        outputs += [done.out, done.err]
    outputs += [gate("config", "show", *move[:2]).out, gate("compare", "v0.19.0", "v0.19.1", *move).out]
    outputs += [gate("diff-config", "v0.19.0", "v0.19.1", "--offline", *move[:2], "-v").out]
    write("deploy", with_secrets(FILES[kind]).replace("v0.9.1", "v0.9.1 'broken") + "\n\tbroken: [*nothing\n")
    broken = gate("check", "v0.20.0", *move)
    outputs += [broken.out, broken.err]
    files = [path for path in gate.directory.rglob("*") if path.is_file() and path.name != "deploy"]
    outputs += [path.read_bytes().decode("utf-8", "replace") for path in files]
    for secret in (SECRET, TOKEN, ENCODED):
        assert not any(secret in output for output in outputs)


def test_hostile_names_are_made_harmless(gate, write):
    hostile = "a\\u001b[31mred\\u202eb"
    text = {"services": {"NAME": {"image": "vllm/vllm-openai:v0.19.1", "command": ["--model", "m"]}}}
    write("compose.json", json.dumps(text).replace("NAME", hostile))
    for format_ in ("table", "markdown", "json"):
        done = gate("check", "v0.20.0", "--deployment", "compose.json", "--format", format_)
        assert done.code in (0, 3)
        assert "\x1b" not in done.out + done.err
        assert "\u202e" not in done.out + done.err


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("services:\n  a:\n\timage: x\n", "deploy:3: not valid YAML: a tab indents; write spaces"),
        ("docker run nginx", "deploy: no vLLM server found in a script; "),
        ("vllm serve m n", "deploy:1: 'n' belongs to no argument; quote values with spaces"),
        ("", "deploy: is empty"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(gate, write, text, line):
    write("deploy", text)
    refused = gate("check", "v0.20.0", "--deployment", "deploy")
    assert (refused.code, refused.out) == (2, "")
    assert refused.error.startswith(line)


def test_a_plain_check_loads_no_reader_of_files():
    script = (
        "import sys; sys.argv = ['regress-gate', 'check', 'v0.20.0', '-q']\n"
        "from regress_gate.cli.main import run\n"
        "try: run()\n"
        "except SystemExit: pass\n"
        "print([name for name in sys.modules if 'deployment_files' in name or 'docker' in name])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
