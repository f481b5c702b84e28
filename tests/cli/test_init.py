"""`init`: defaults from the directory, files that the other commands accept, and nothing overwritten unasked."""

import os
import pty
import subprocess
import sys
import tomllib

import pytest
import yaml

from regress_gate.app.setup import ACTION
from regress_gate.paths import shipped_workflows
from tests.cli.conftest import ROOT
from tests.factories.git_checkout import Checkout

COMPOSE = """\
services:
  llm:
    image: vllm/vllm-openai:v0.19.1
    command: ["--model", "meta-llama/Llama-3.1-8B-Instruct", "--tensor-parallel-size", "2"]
"""
ON_H100 = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  template:
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
      containers:
        - {name: vllm, image: "vllm/vllm-openai:v0.30.0", args: [--model, MODEL]}
"""
FLAGS = ("--accelerator", "H100", "--store", "default")


@pytest.fixture
def deployed(repo):
    repo.commit({"deploy/compose.yaml": COMPOSE})
    return repo


def test_what_it_writes_is_taken_by_the_other_commands(gate, deployed):
    done = gate("init", *FLAGS, "--testbed", "h100-a")
    assert (done.code, done.err) == (0, "")
    assert "deploy/compose.yaml (it starts a vLLM server)" in done.out
    assert "0.19.1 (deploy/compose.yaml starts it)" in done.out
    shown = gate("config", "show").out
    assert "deployment.file = deploy/compose.yaml" in shown
    assert "defaults.testbed = h100-a" in shown
    assert gate("check", "v0.19.1").code == 0
    assert (deployed.root / ".github" / "workflows" / "upgrade-gate.yml").read_text() == (
        ROOT / "ci" / "upgrade-gate.yml"
    ).read_text()
    assert not (deployed.root / ".github" / "workflows" / "measure-on-gpu.yml").exists()
    again = gate("init", *FLAGS, "--testbed", "h100-a")
    assert (again.code, again.out.count("as it was"), again.out.count("wrote")) == (0, 3, 0)
    assert "pinned before: 0.19.1" in again.out


@pytest.mark.parametrize(
    ("accelerator", "says"),
    [
        ("H100", "Which suite do you measure with? h100-llama8b (it serves meta-llama/Llama-3.1-8B-Instruct: A dense"),
        ("H200", "Which suite do you measure with? none (none for H200 serves meta-llama/Llama-3.1-8B-Instruct: "),
        ("B300", "Which suite do you measure with? none (none is made for B300: `regress-gate suite new FILE` begins"),
        ("none", "Which suite do you measure with? none (which cuda device you serve on is not known"),
        ("cpu", "Which suite do you measure with? cpu-tiny (made for machines without an accelerator)"),
    ],
)
@pytest.mark.usefixtures("deployed")
def test_the_suite_is_for_the_model_and_for_what_it_is_served_on(gate, accelerator, says):
    done = gate("init", "--accelerator", accelerator, "--store", "default", "--testbed", "a", "--dry-run")
    assert (done.code, done.err) == (0, "")
    assert says in done.out


def test_the_file_that_is_given_answers_the_other_questions(gate, deployed):
    deployed.write("k8s.yaml", ON_H100.replace("MODEL", "Qwen/Qwen3-30B-A3B"))
    for target in ("k8s.yaml", "k8s.yaml#llm"):
        done = gate("init", "--yes", "--deployment", target, "--dry-run")
        assert (done.code, done.err) == (0, "")
        assert f"0.30.0 ({target} starts it)" in done.out
        assert f"NVIDIA H100 80GB HBM3 ({target} asks for it)" in done.out
        assert "Which suite do you measure with? h100-moe (it serves Qwen/Qwen3-30B-A3B: " in done.out
    assert "no server 'other'" in gate("init", "--yes", "--deployment", "k8s.yaml#other", "--dry-run").error


def test_without_a_file_the_repository_and_the_flags_answer(gate, deployed):
    deployed.write("requirements.txt", "vllm==0.20.0\n")
    without = ("init", "--yes", "--deployment", "none", "--accelerator", "H100", "--dry-run")
    assert "0.20.0 (requirements.txt:1 pins it)" in gate(*without).out
    assert (
        "none (which model you serve is not known; `regress-gate suite list` shows 11 for H100)" in gate(*without).out
    )
    assert "h100-moe (" in gate(*without, "--model", "Qwen/Qwen3-30B-A3B").out


def test_no_suite_of_another_model_is_written(gate, deployed):
    deployed.write("k8s.yaml", ON_H100.replace("MODEL", "Qwen/Qwen3-32B"))
    done = gate("init", "--yes", "--deployment", "k8s.yaml")
    assert done.code == 0, done.err
    begin = "`regress-gate suite new FILE` begins one"
    assert f"none (none for NVIDIA H100 80GB HBM3 serves Qwen/Qwen3-32B: {begin})" in done.out
    assert "suite" not in (deployed.root / "regress-gate.toml").read_text()


def test_names_that_are_given_stand_in_the_workflows(gate, deployed):
    done = gate("init", *FLAGS, "--testbed", "h100-a", "--suite", "h100-llama8b", "--workflow", "all",
                "--action", "team/regress-gate@v1")  # fmt: skip
    assert done.code == 0, done.err
    for name in shipped_workflows():
        text = (deployed.root / ".github" / "workflows" / f"{name}.yml").read_text()
        yaml.safe_load(text)
        assert ACTION not in text
        assert "h200-node-3" not in text
        assert "serving.yaml" not in text
        assert "uses: team/regress-gate@v1\n" in text


def test_a_file_that_is_there_stays_without_force(gate, deployed):
    config = deployed.root / "regress-gate.toml"
    config.write_text("# mine\n")
    refused = gate("init", *FLAGS)
    assert refused.code == 2
    assert refused.error.startswith("there already, with other content: regress-gate.toml; nothing was written")
    assert config.read_text() == "# mine\n"
    assert not (deployed.root / ".github").exists()
    done = gate("init", *FLAGS, "--force")
    assert f"replacing {config}" in done.out
    assert "H100" in config.read_text()


def test_a_dry_run_writes_nothing(gate, deployed):
    assert "would write" in gate("init", *FLAGS, "--dry-run").out
    assert not (deployed.root / "regress-gate.toml").exists()
    assert not gate.store.exists()


def test_outside_of_git_it_writes_a_configuration_alone(gate):
    (gate.directory / "docker-compose.yml").write_text(COMPOSE)
    done = gate("init", *FLAGS)
    assert done.code == 0, done.err
    assert "no workflow was written: this is no git repository" in done.out
    assert not (gate.directory / ".github").exists()
    assert 'file = "docker-compose.yml"' in (gate.directory / "regress-gate.toml").read_text()


def test_a_file_that_was_not_added_yet_is_found_and_one_that_git_ignores_is_not(gate, repo):
    repo.commit({"README.md": "# Ours\n", ".gitignore": "old/\n"})
    repo.write("old/compose.yaml", COMPOSE.replace("0.19.1", "0.99.0"))
    assert "no file that starts a vLLM server was found" in gate("init", *FLAGS, "--dry-run").out
    repo.write("deploy/compose.yaml", COMPOSE)
    repo.write("requirements.txt", "vllm==0.18.0\n")
    done = gate("init", *FLAGS, "--dry-run")
    assert "deploy/compose.yaml (it starts a vLLM server)" in done.out
    assert "0.19.1 (deploy/compose.yaml starts it)" in done.out
    (repo.root / "deploy" / "compose.yaml").unlink()
    assert "0.18.0 (requirements.txt:1 pins it)" in gate("init", *FLAGS, "--dry-run").out


def test_a_file_that_says_what_is_served_is_preferred_to_one_that_names_the_image_alone(gate, repo):
    repo.commit({"Dockerfile": "FROM vllm/vllm-openai:v0.19.1\n"})
    assert "Dockerfile (it starts a vLLM server)" in gate("init", *FLAGS, "--dry-run").out
    repo.write("deploy/compose.yaml", COMPOSE)
    assert "deploy/compose.yaml (it starts a vLLM server; 1 more" in gate("init", *FLAGS, "--dry-run").out


def test_another_repository_and_links_among_the_new_files_are_left_alone(gate, repo, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "compose.yaml").write_text(COMPOSE)
    (repo.root / "linked").symlink_to(tmp_path / "outside")
    (repo.root / "compose.yaml").symlink_to(tmp_path / "outside" / "compose.yaml")
    Checkout.new(repo.root / "vendored").commit({"compose.yaml": COMPOSE})
    done = gate("init", *FLAGS, "--dry-run")
    assert (done.code, "no file that starts a vLLM server was found" in done.out) == (0, True), done.err
    assert "no file pins a version of vLLM" in done.out


def test_an_empty_directory_gets_what_the_flags_say(gate):
    done = gate("init", "--model", "org/Model-8B", "--pin", "v0.19.1", "--accelerator", "none", "--suite", "none")
    assert done.code == 0, done.err
    assert "name the accelerator that you serve on" in done.out
    assert (gate.directory / "regress-gate.toml").read_text().endswith('[deployment]\nmodel = "org/Model-8B"\n')


def test_a_hostile_directory_hangs_and_leads_nowhere(gate, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "compose.yaml").write_text(COMPOSE)
    os.mkfifo(gate.directory / "compose.yaml")
    (gate.directory / "linked").symlink_to(outside)
    (gate.directory / "Dockerfile").symlink_to(outside / "compose.yaml")
    (gate.directory / "a\x1b[31m\ncompose.yaml").write_text(COMPOSE)
    (gate.directory / "vllm.yaml").write_bytes(b"\xff\xfe vllm: [")
    (gate.directory / "loop").symlink_to(gate.directory)
    done = gate("init", *FLAGS)
    assert done.code == 0, done.err
    assert "no file that starts a vLLM server was found" in done.out
    assert "\x1b" not in done.out


@pytest.mark.parametrize("target", ["regress-gate.toml", ".github"])
def test_links_are_not_written_through(gate, deployed, tmp_path, target):
    (tmp_path / "elsewhere").mkdir()
    (deployed.root / target).symlink_to(tmp_path / "elsewhere" / ("x" if "." in target[1:] else ""))
    assert gate("init", *FLAGS, "--force").code == 2
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--pin", "latest"], "names no build"),
        (["--suite", "h100-lama8b"], "did you mean 'h100-llama8b'"),
        (["--workflow", "upgrade-gat"], "did you mean 'upgrade-gate'"),
        (["--deployment", "nothing.yaml"], "cannot be read"),
        (["--store", "postgresql://me:secret@db/x"], "holds a password"),
        (["--testbed", "a b\n"], "is no name of a testbed"),
        (["--action", "x@y\nz"], "is no action"),
    ],
)
def test_an_answer_that_cannot_be_used_is_refused_and_nothing_is_written(gate, deployed, options, what):
    done = gate("init", *options)
    assert done.code == 2
    assert what in done.error
    assert "secret" not in done.out + done.err
    assert not (deployed.root / "regress-gate.toml").exists()


def test_five_questions_are_asked_on_a_terminal(deployed):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "regress_gate", "init"]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as asked:
        os.close(theirs)
        os.write(ours, b"\n\nH200\nnone\n\n")
        out, _ = asked.communicate(timeout=60)
    os.close(ours)
    assert asked.returncode == 0, out
    assert out.count("? [") + out.count("kept? [") >= 5
    text = (deployed.root / "regress-gate.toml").read_text()
    assert text.endswith('[deployment]\nfile = "deploy/compose.yaml"\naccelerator = "H200"\n')


def test_the_workflows_are_package_data():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]["ci"] == "regress_gate/_data/ci"
