"""Images are found, pulled, verified and run by digest. The engine's program is a stand-in (`fake_docker`)."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from regress_gate.bench.provision import docker as images
from regress_gate.bench.provision.containers import Container, device_arguments
from regress_gate.bench.provision.docker import DockerProvisioner
from regress_gate.bench.provision.interface import Launch, ProvisionError, ServeRequest
from regress_gate.bench.server.server import start_server
from regress_gate.errors import ExitCode, InputError
from regress_gate.model.version import Version
from tests.bench.provision.fake_docker import CONTENT, DIGEST, FakeDocker

VERSION = Version.parse("v0.19.1")
COMMIT = "4080263bb1c0ffee4080263bb1c0ffee40802631"
IMAGE = "docker.io/vllm/vllm-openai:v0.19.1"
REQUEST = ServeRequest("org/model", "m", {"enforce_eager": True}, {"SECRET": "s3cr3t"})


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[FakeDocker]:
    fake = FakeDocker(tmp_path / "docker")
    yield fake
    fake.end()


def provisioner(docker: FakeDocker, environ: dict[str, str] | None = None, **options: Any) -> DockerProvisioner:
    return DockerProvisioner(
        directory=docker.folder / "facts", environ=docker.environ(**(environ or {})), **{"variant": None, **options}
    )


def launch(docker: FakeDocker, request: ServeRequest = REQUEST, **options: Any) -> Launch:
    docker.publish(options.get("image") or IMAGE, (f"vllm/vllm-openai@{DIGEST}",))
    return provisioner(docker, **options).provision(VERSION).launch(request, 8123)


class TestImage:
    def test_it_is_pulled_verified_and_run_by_its_digest(self, docker: FakeDocker) -> None:
        docker.publish(IMAGE, (f"other/name@sha256:{'0' * 64}", f"vllm/vllm-openai@{DIGEST}"))
        said: list[str] = []
        environment = provisioner(docker).provision(VERSION, progress=said.append)
        assert environment.version == Version("0.19.1")
        assert environment.libraries == {"torch": "2.10.0"}
        assert environment.image == f"vllm/vllm-openai@{DIGEST}"
        assert environment.launch(REQUEST, 1).command[-8:-5] == ("--entrypoint=vllm", environment.image, "serve")
        assert said[:2] == [f"pulling {IMAGE} with docker", "1 of 2 layers"]

    def test_an_image_without_a_registry_is_run_by_its_id(self, docker: FakeDocker) -> None:
        docker.remember(images={"my/vllm": {"Id": CONTENT, "RepoDigests": []}})
        assert provisioner(docker, image="my/vllm").provision(VERSION).image == CONTENT
        assert docker.calls("pull") == []

    def test_content_is_read_once_and_starting_is_tried_every_time(self, docker: FakeDocker) -> None:
        docker.publish(IMAGE)
        for _ in range(2):
            provisioner(docker).provision(VERSION)
        asked = [call for call in docker.calls("run") if "--entrypoint=python3" in call]
        tried = [call for call in docker.calls("run") if "--entrypoint=sh" in call]
        assert (len(asked), len(tried), len(docker.calls("pull"))) == (1, 2, 1)

    def test_unreadable_cache_files_are_made_again(self, docker: FakeDocker) -> None:
        docker.publish(IMAGE)
        provisioner(docker).provision(VERSION)
        (notes,) = (docker.folder / "facts").glob("*.json")
        for spoilt in ("", "[]", '{"said": 1}', '{"said": {}, "packages": []}'):
            notes.write_text(spoilt)
            assert provisioner(docker).provision(VERSION).version == Version("0.19.1")

    def test_another_version_than_the_one_asked_for_is_refused(self, docker: FakeDocker) -> None:
        docker.publish("my/vllm:latest")
        with pytest.raises(ProvisionError, match=r"0\.20\.0 was asked for, but my/vllm:latest contains 0\.19\.1"):
            provisioner(docker, image="my/vllm:latest").provision(Version.parse("0.20.0"))

    def test_a_commit_is_verified(self, docker: FakeDocker) -> None:
        docker.publish(f"docker.io/vllm/vllm-openai:nightly-{COMMIT}")
        wanted = Version.parse(f"commit:{COMMIT}")
        with pytest.raises(ProvisionError, match="does not name its commit"):
            provisioner(docker).provision(wanted)
        docker.remember(said={"version": f"0.19.2rc1.dev4+g{COMMIT[:9]}"})
        for notes in (docker.folder / "facts").glob("*.json"):
            notes.unlink()
        assert provisioner(docker).provision(wanted).version == Version(None, COMMIT)

    def test_the_older_registry_is_tried_second(self, docker: FakeDocker) -> None:
        docker.remember(said={"version": "0.19.1+cpu", "device": "cpu"})
        names = ("vllm-cpu-release-repo", "vllm-arm64-cpu-release-repo")
        for name in names:
            docker.publish(f"public.ecr.aws/q9t5s3a7/{name}:v0.19.1")
        assert provisioner(docker, variant="cpu").provision(VERSION).version == Version.parse("0.19.1+cpu")
        assert next(call[1] for call in docker.calls("pull")) == "docker.io/vllm/vllm-openai-cpu:v0.19.1"

    def test_podman_works_too(self, tmp_path: Path) -> None:
        podman = FakeDocker(tmp_path / "podman", name="podman")
        command = launch(podman, gpus="0,1").command
        assert command[0] == podman.program
        assert "--device=nvidia.com/gpu=0" in command
        assert "--device=nvidia.com/gpu=1" in command


class TestFailures:
    """Each is told in one line with what to do, and is no verdict on a version."""

    @pytest.mark.parametrize(
        ("command", "output", "told"),
        [
            ("image", "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?", "start it"),
            ("image", "permission denied while trying to connect to the Docker daemon socket", "join the group"),
            ("pull", "Error: pull access denied for x, repository does not exist or may require", "no such image"),
            ("pull", "toomanyrequests: You have reached your pull rate limit. denied", "log in to the registry, wait"),
            ("pull", "write /var/lib/docker/tmp/x: no space left on device", "the disk is full; free space"),
            ("pull", "no matching manifest for linux/arm64/v8 in the manifest list entries", "another processor"),
            ("pull", "Get https://registry-1.docker.io/v2/: dial tcp: lookup x: no such host", "cannot be reached"),
            ("pull", "Error response from daemon: Head x: no basic auth credentials", "requires a login; log in"),
            ("pull", "Error response from daemon: something new", "something new"),
            ("run", 'docker: could not select device driver "" with capabilities: [[gpu]].', "Container Toolkit"),
            ("run", 'Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all"', "Container Toolkit"),
            ("run", 'runc: exec: "sh": executable file not found in $PATH: unknown', "name an image of vLLM"),
        ],
    )
    def test_of_the_engine(self, docker: FakeDocker, command: str, output: str, told: str) -> None:
        docker.publish(IMAGE)
        docker.fail(command, output, 125)
        with pytest.raises(ProvisionError) as failed:
            provisioner(docker).provision(VERSION)
        assert told in str(failed.value)
        assert "\n" not in str(failed.value)
        assert failed.value.exit_code is ExitCode.COULD_NOT_MEASURE

    def test_failures_inside_the_container_are_quoted(self, docker: FakeDocker) -> None:
        docker.publish(IMAGE)
        docker.fail("run", "Traceback: no such host\nImportError: libcuda.so.1: cannot open shared object file", 1)
        with pytest.raises(ProvisionError, match="can be started: ImportError: libcuda"):
            provisioner(docker).provision(VERSION)

    def test_without_any_engine(self, tmp_path: Path) -> None:
        with pytest.raises(ProvisionError, match="neither docker nor podman is installed; install one"):
            DockerProvisioner(directory=tmp_path, environ={"PATH": str(tmp_path)}).provision(VERSION)
        with pytest.raises(ProvisionError, match="nerdctl is not installed"):
            DockerProvisioner(directory=tmp_path, environ={"PATH": ""}, program="nerdctl").provision(VERSION)

    def test_an_import_that_does_not_end_leaves_no_container(
        self, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        docker.publish(IMAGE)
        docker.remember(hangs=True)
        monkeypatch.setenv("FAKE_DOCKER", str(docker.folder))
        monkeypatch.setattr(images, "IMPORT_TIMEOUT", 5.0)
        with pytest.raises(ProvisionError, match="docker does not end within 5 s"):
            provisioner(docker).provision(VERSION)
        assert docker.calls("ps")
        assert docker.memory["containers"] == {}

    def test_an_image_with_an_invalid_answer_is_refused(self, docker: FakeDocker) -> None:
        docker.publish(IMAGE)
        docker.remember(said={"version": "unknown"})
        with pytest.raises(ProvisionError, match="calls itself 'unknown', which is not a version"):
            provisioner(docker).provision(VERSION)


class TestCommandLine:
    def test_a_container_is_deleted_at_its_end_marked_and_reachable_from_this_machine_alone(
        self, docker: FakeDocker
    ) -> None:
        made = launch(docker)
        assert made.container is not None
        assert {"--rm", "--init", f"--name={made.container.name}", "--network=host"} <= set(made.command)
        assert f"--label=regress-gate.server={made.container.mark}" in made.command
        assert "--host=127.0.0.1" in made.command
        assert not made.in_process_group

    def test_on_another_network_the_port_is_published_on_this_machine_alone(self, docker: FakeDocker) -> None:
        docker.remember(shares_network=False)
        command = launch(docker).command
        assert "--publish=127.0.0.1:8123:8123" in command
        assert "--host=0.0.0.0" in command
        assert "--network=host" not in command

    def test_values_of_variables_are_not_on_the_command_line(self, docker: FakeDocker) -> None:
        made = launch(docker, environ={"HF_TOKEN": "hf_t0ken", "VLLM_MINE": "1"})
        line = " ".join(made.command)
        assert "s3cr3t" not in line + repr(made)
        assert "hf_t0ken" not in line + repr(made)
        assert {"--env=SECRET", "--env=HF_TOKEN"} <= set(made.command)
        assert (made.env["SECRET"], made.env["HF_TOKEN"]) == ("s3cr3t", "hf_t0ken")
        assert "VLLM_MINE" not in line  # of the caller's shell, not of the suite

    def test_a_variable_of_the_engine_is_set_in_the_container_only(self, docker: FakeDocker) -> None:
        made = launch(docker, ServeRequest("m", "m", {}, {"LD_LIBRARY_PATH": "/x", "DOCKER_HOST": "tcp://y"}))
        assert {"--env=LD_LIBRARY_PATH=/x", "--env=DOCKER_HOST=tcp://y"} <= set(made.command)
        assert not {"LD_LIBRARY_PATH", "DOCKER_HOST"} & set(made.env)

    @pytest.mark.parametrize("name", ["A=B", "A B", ""])
    def test_an_invalid_name_of_a_variable_is_refused(self, docker: FakeDocker, name: str) -> None:
        with pytest.raises(InputError, match="is not a valid name of a variable"):
            launch(docker, ServeRequest("m", "m", {}, {name: "x"}))

    @pytest.mark.parametrize(
        ("options", "flags"),
        [
            ({}, ["--gpus=all"]),
            ({"gpus": "0,GPU-ab1"}, ['--gpus="device=0,GPU-ab1"']),
            ({"environ": {"CUDA_VISIBLE_DEVICES": "3"}}, ['--gpus="device=3"']),
            ({"gpus": "none"}, []),
            ({"shm_size": "2g"}, ["--gpus=all", "--shm-size=2g"]),
            ({"shm_size": "host"}, ["--gpus=all", "--ipc=host"]),
        ],
    )
    def test_devices_and_memory(self, docker: FakeDocker, options: dict[str, Any], flags: list[str]) -> None:
        command = launch(docker, **options).command
        found = [each for each in command if each.startswith(("--gpus", "--ipc", "--shm-size", "--device"))]
        assert found == (flags if any("shm" in flag or "ipc" in flag for flag in flags) else [*flags, "--shm-size=16g"])

    def test_an_image_for_intel_gpus_is_known_by_its_device(self, docker: FakeDocker) -> None:
        docker.remember(said={"version": "0.19.1", "device": "xpu"})
        docker.publish("docker.io/vllm/vllm-openai-xpu:v0.19.1")
        environment = provisioner(docker, variant="xpu").provision(VERSION)
        assert environment.version == Version("0.19.1", None, "xpu")
        assert "--device=/dev/dri" in environment.launch(REQUEST, 1).command

    def test_amd_gpus_and_invalid_devices(self, docker: FakeDocker) -> None:
        docker.remember(said={"version": "0.19.1", "hip": "7.0", "device": "cuda"})
        docker.publish("docker.io/vllm/vllm-openai-rocm:v0.19.1")
        command = provisioner(docker, variant="rocm").provision(VERSION).launch(REQUEST, 1).command
        assert {"--device=/dev/kfd", "--device=/dev/dri", "--group-add=video"} <= set(command)
        with pytest.raises(InputError, match="one AMD GPU cannot be given to a container alone; write all"):
            provisioner(docker, variant="rocm", gpus="0").provision(VERSION)
        with pytest.raises(InputError, match="names no GPUs; write all, none, or numbers"):
            provisioner(docker, gpus="all;rm").provision(VERSION)


@pytest.mark.parametrize(
    ("devices", "variant", "arguments"),
    [
        ("all", None, ["--gpus=all"]),
        ("none", None, []),
        ("all", "rocm721", ["--device=/dev/kfd", "--device=/dev/dri", "--group-add=video"]),
        ("all", "xpu", ["--device=/dev/dri", "--volume=/dev/dri/by-path:/dev/dri/by-path", "--group-add=video"]),
        ("none", "xpu", []),
        ("none", "cpu", ["--cap-add=SYS_NICE"]),
    ],
)
def test_a_container_gets_the_devices_of_its_build(devices: str, variant: str | None, arguments: list[str]) -> None:
    assert device_arguments(devices, variant, podman=False) == arguments


def test_an_ascend_container_gets_its_npus_and_the_driver() -> None:
    arguments = device_arguments("0,3", "ascend", podman=False)
    assert {"--device=/dev/davinci0", "--device=/dev/davinci3", "--device=/dev/davinci_manager"} <= set(arguments)
    assert "--volume=/usr/local/dcmi:/usr/local/dcmi:ro" in arguments
    with pytest.raises(InputError, match="names no Ascend NPUs"):
        device_arguments("npu-0", "ascend", podman=False)


def test_a_gaudi_container_runs_with_habanas_runtime() -> None:
    arguments = device_arguments("0,1", "gaudi", podman=False)
    assert {"--runtime=habana", "--env=HABANA_VISIBLE_DEVICES=0,1"} <= set(arguments)


@pytest.mark.parametrize("variant", ["tpu", "neuron"])
def test_devices_that_no_container_can_get_are_refused(variant: str) -> None:
    with pytest.raises(InputError, match="to a container; use a launch line of your own: --serve-command"):
        device_arguments("all", variant, podman=False)


class TestMounts:
    def test_a_model_directory_is_there_under_its_own_name_and_read_only(
        self, docker: FakeDocker, tmp_path: Path
    ) -> None:
        model = tmp_path / 'my "model", v1'
        model.mkdir()
        made = launch(docker, ServeRequest(str(model), "m"))
        quoted = str(model).replace('"', '""')
        assert f'--mount=type=bind,"source={quoted}","target={quoted}",readonly' in made.command
        assert made.command[made.command.index("serve") + 1] == str(model)
        assert made.env["HF_HUB_OFFLINE"] == "1"
        assert sum("--mount" in each for each in made.command) == 1

    def test_what_a_snapshot_links_to_is_mounted_too(self, docker: FakeDocker, tmp_path: Path) -> None:
        blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
        blobs.mkdir()
        snapshot.mkdir(parents=True)
        (blobs / "1").touch()
        (snapshot / "config.json").symlink_to("../../blobs/1")
        command = launch(docker, ServeRequest(str(snapshot), "m")).command
        assert f"--mount=type=bind,source={blobs},target={blobs},readonly" in command

    def test_a_model_of_the_hub_is_downloaded_to_the_users_cache(self, docker: FakeDocker, tmp_path: Path) -> None:
        made = launch(docker, environ={"HF_HOME": str(tmp_path / "hub")})
        target = "/root/.cache/huggingface"
        assert f"--mount=type=bind,source={tmp_path}/hub,target={target}" in made.command
        assert f"--env=HF_HOME={target}" in made.command or made.env["HF_HOME"] == target
        assert (tmp_path / "hub").is_dir()

    def test_more_is_mounted_where_it_exists(self, docker: FakeDocker, tmp_path: Path) -> None:
        assert (
            f"--mount=type=bind,source={tmp_path},target={tmp_path},readonly"
            in launch(docker, mounts=[tmp_path]).command
        )
        with pytest.raises(InputError, match=r"adapters: cannot be mounted: it does not exist"):
            launch(docker, mounts=[tmp_path / "adapters"])


class TestLife:
    """Against the fake server in a container that, as a real one, is no descendant of the program."""

    @pytest.fixture
    def model(self, tmp_path: Path) -> str:
        (tmp_path / "model").mkdir()
        return str(tmp_path / "model")

    def start(self, docker: FakeDocker, tmp_path: Path, model: str) -> Any:
        docker.publish(IMAGE)
        environment = provisioner(docker).provision(VERSION)
        return start_server(
            environment, ServeRequest(model, "m"), log=tmp_path / "log", state_directory=tmp_path / "states"
        )

    def test_a_server_is_started_and_ended(
        self, docker: FakeDocker, tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FAKE_DOCKER", str(docker.folder))
        with self.start(docker, tmp_path, model) as server:
            assert server.failure(health=True) is None
            assert docker.running()
            (container,) = docker.memory["containers"]
            assert server.startup_time is not None
        assert docker.running() == []
        assert container.startswith("regress-gate-")

    def test_a_container_does_not_survive_the_death_of_its_command(
        self, docker: FakeDocker, tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FAKE_DOCKER", str(docker.folder))
        server = self.start(docker, tmp_path, model)
        os.kill(server.pid, signal.SIGKILL)
        assert docker.running()
        assert server.stop().trouble is None
        assert docker.running() == []

    def test_one_that_the_engine_is_just_taking_away_is_waited_for(
        self, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        container = Container.new(docker.program, {})
        ours = {"pid": -1, "label": f"regress-gate.server={container.mark}"}
        docker.remember(containers={"going": ours}, going=2)
        monkeypatch.setenv("FAKE_DOCKER", str(docker.folder))
        assert container.remove(0.0)
        assert len(docker.calls("rm")) == 3

    def test_only_the_container_with_our_mark_is_ended(
        self, docker: FakeDocker, tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FAKE_DOCKER", str(docker.folder))
        server = self.start(docker, tmp_path, model)
        (name,) = docker.memory["containers"]
        theirs = docker.memory["containers"][name] | {"label": "regress-gate.server=another"}
        docker.remember(containers={name: theirs})
        os.kill(server.pid, signal.SIGKILL)
        server.stop()
        assert docker.running() == [theirs["pid"]]

    def test_a_container_engine_that_does_not_answer_is_an_error(
        self, docker: FakeDocker, tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FAKE_DOCKER", str(docker.folder))
        server = self.start(docker, tmp_path, model)
        os.kill(server.pid, signal.SIGKILL)
        docker.fail("ps", "Cannot connect to the Docker daemon")
        assert "may still exist; remove it with" in (server.stop().trouble or "")
