"""`env` lists, prunes and adds environments; flags, variable and file choose the way, for every command alike."""

import json
import os
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest

from regress_gate.app.provisioning import make_provisioner, resolve_published_build
from regress_gate.app.settings import Settings
from regress_gate.bench.provision.command import CommandProvisioner
from regress_gate.bench.provision.docker import DockerProvisioner
from regress_gate.bench.provision.environment_cache import EnvironmentCache
from regress_gate.bench.provision.venv import VenvProvisioner
from regress_gate.cli.options import provision_options, provisioning_from
from regress_gate.errors import InputError
from regress_gate.model.config import ProvisionConfig, ProvisionMethod
from regress_gate.model.version import Version
from tests.bench.provision.fake_docker import FakeDocker
from tests.bench.provision.wheels import make_cpu_build

COMMIT = "4080263bb1c0ffee4080263bb1c0ffee40802631"
DAY = 86400


@pytest.fixture
def environments(gate: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = Path(gate.directory) / "environments"
    monkeypatch.setenv("REGRESS_GATE_ENVIRONMENTS", str(directory))
    return directory


def make(directory: Path, version: str, *, days: float = 0) -> Path:
    """A small environment that was last used some days ago."""
    cache = EnvironmentCache(directory)
    key = f"vllm-{version.replace(':', '-')}-1a2b3c4d-cp311-x86_64"
    path = cache.clear(key)
    (path / "venv").mkdir()
    (path / "venv" / "file").write_text(version)
    fields = {"distribution": "vllm", "requirement": f"vllm=={version}", "python": "cp311", "installer": "uv"}
    cache.finish(key, {**fields, "version": version, "packages": {}})
    used = time.time() - days * DAY
    os.utime(path / "complete.json", (used, used))
    return path


class TestList:
    def test_the_longest_unused_comes_first_and_the_table_fits_a_terminal(self, gate: Any, environments: Path) -> None:
        make(environments, "0.19.1+cpu", days=40)
        make(environments, f"0.23.1rc1.dev1403+g{COMMIT}.cu129")
        (make(environments, "0.20.0", days=2) / "venv" / "file").write_text("changed since")
        EnvironmentCache(environments).clear("half")
        shown = gate("env", "list").out
        lines = shown.splitlines()
        assert max(map(len, lines)) <= 80
        assert lines[0].split() == ["ID", "VERSION", "SIZE", "LAST", "USED", "STATE"]
        assert "0.19.1+cpu" in lines[1]
        assert {line.split()[-1] for line in lines[1:]} == {"whole", "damaged", "half-made"}

    def test_json_has_everything(self, gate: Any, environments: Path) -> None:
        path = make(environments, "0.19.1+cpu")
        with closing(EnvironmentCache(environments).lock(path.name)) as lock:
            lock.acquire(exclusive=False, wait=0)
            (found,) = gate("env", "list", "--format", "json").json
        assert found["state"] == "in use"
        assert (found["version"], found["path"], found["key"]) == ("0.19.1+cpu", str(path), path.name)
        assert found["size_bytes"] == len("0.19.1+cpu")
        assert found["last_used"].endswith("Z")

    def test_nothing_is_said_to_be_nothing(self, gate: Any, environments: Path) -> None:
        assert gate("env", "list").out == f"no environments in {environments}\n"
        assert gate("env", "list", "--format", "json").json == []

    def test_names_from_the_disk_are_printed_plain(self, gate: Any, environments: Path) -> None:
        (environments / "x\x1b[31m\n").mkdir(parents=True)
        assert gate("env", "list").out.replace("\n", "").isprintable()
        assert gate("env", "prune", "--unused-for", "0d").out.replace("\n", "").isprintable()


class TestPrune:
    def test_what_was_long_unused_goes(self, gate: Any, environments: Path) -> None:
        old, new = make(environments, "0.19.1", days=40), make(environments, "0.20.0", days=2)
        assert "would delete" in gate("env", "prune", "--unused-for", "30d", "--dry-run").out
        assert old.exists()
        assert gate("env", "prune", "--unused-for", "30d").out == f"deleted {old.name} (0.0 GB)\n"
        assert (old.exists(), new.exists()) == (False, True)

    def test_they_can_be_named_by_id_key_and_version(self, gate: Any, environments: Path) -> None:
        paths = [make(environments, version) for version in ("0.19.1+cpu", "0.20.0", "0.21.0", "0.22.0")]
        identity = next(entry.id for entry in EnvironmentCache(environments).entries() if entry.path == paths[2])
        assert gate("env", "prune", "v0.19.1", paths[1].name, identity).code == 0
        assert [path.exists() for path in paths] == [False, False, False, True]

    def test_one_in_use_stays_and_is_said_to(self, gate: Any, environments: Path) -> None:
        path = make(environments, "0.19.1")
        with closing(EnvironmentCache(environments).lock(path.name)) as lock:
            lock.acquire(exclusive=False, wait=0)
            pruned = gate("env", "prune", "0.19.1")
        assert path.exists()
        assert pruned.out == "nothing was deleted\n"
        assert pruned.err == f"kept {path.name}, which is in use\n"

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            ([], "nothing says what to prune; name environments, or how long they were --unused-for"),
            (["0.19.2"], "no environment is '0.19.2' (did you mean '0.19.1'?); see `env list`"),
            (["--unused-for", "soon"], "--unused-for: 'soon' is no length of time; write 30d, 12h or 2w"),
            (["--unused-for", "-1d"], "--unused-for: '-1d' is no length of time; write 30d, 12h or 2w"),
        ],
    )
    def test_what_cannot_be_meant_deletes_nothing(
        self, gate: Any, environments: Path, arguments: list[str], error: str
    ) -> None:
        path = make(environments, "0.19.1")
        refused = gate("env", "prune", *arguments)
        assert (refused.code, refused.error) == (2, error)
        assert path.exists()


@pytest.mark.usefixtures("environments")
class TestAdd:
    def test_a_version_is_installed_now(self, gate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        make_cpu_build(gate.directory / "wheels")
        settings = {"CONFIG_FILE": os.devnull, "FIND_LINKS": gate.directory / "wheels", "NO_INDEX": 1}
        for name, value in settings.items():
            monkeypatch.setenv(f"PIP_{name}", str(value))
        monkeypatch.setenv("UV_CACHE_DIR", str(gate.directory / "uv"))
        added = gate("env", "add", "v9.1.0", "--variant", "cpu")
        assert added.out.startswith("9.1.0+cpu is ready in ")
        assert "verifying 9.1.0+cpu" in added.err
        assert gate("env", "list", "--format", "json").json[0]["state"] == "whole"
        assert gate("env", "add", "v9.1.0", "--variant", "cpu", "-q").err == ""
        assert gate("env", "add", "v9.9.9", "--variant", "cpu").code == 4

    def test_an_image_is_pulled_now(self, gate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        docker = FakeDocker(gate.directory / "docker")
        docker.publish("docker.io/vllm/vllm-openai:v0.19.1")
        for name, value in docker.environ().items():
            monkeypatch.setenv(name, value)
        added = gate("env", "add", "v0.19.1", "--provision", "docker", "--accelerator", "H200")
        assert added.out.startswith("0.19.1 is ready in ")
        assert "pulling docker.io/vllm/vllm-openai:v0.19.1 with docker" in added.err

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            (["nightly@2026-07-24"], "'nightly@2026-07-24' names no build that can be provisioned; write a version"),
            (["0.19.1", "--serve-command", "x"], "a launch line of your own needs no provisioning"),
            (["0.19.1", "--serve-command", "x", "--image", "y"], "the flags belong to two methods, command and docker"),
            (["0.19.1", "--variant", "CPU!"], "the flags: variant"),
        ],
    )
    def test_what_cannot_be_meant_is_refused(self, gate: Any, arguments: list[str], error: str) -> None:
        refused = gate("env", "add", *arguments)
        assert refused.code == 2
        assert refused.error.startswith(error)


def chosen(*arguments: str, **variables: str) -> ProvisionConfig:
    """What a command with the provision options would work with."""
    found: list[ProvisionConfig] = []

    @click.command()
    @provision_options
    def command(**options: Any) -> None:
        found.append(provisioning_from(options, Settings(environment=variables)))
        assert options == {}

    command.main(list(arguments), standalone_mode=False)
    return found[0]


@pytest.mark.usefixtures("gate")
class TestChoice:
    def test_flags_go_over_the_variable_and_the_variable_over_the_file(self, gate: Any) -> None:
        assert chosen() == ProvisionConfig()
        file = gate.directory / "regress-gate.toml"
        file.write_text("[provision]\nway = 'command'\nvariant = 'cu129'\ncommand = 'a'\n")
        assert chosen().way is ProvisionMethod.COMMAND
        assert chosen(REGRESS_GATE_PROVISION="venv").way is ProvisionMethod.VENV
        flagged = chosen("--provision", "docker", "--variant", "cpu", REGRESS_GATE_PROVISION="venv")
        assert (flagged.way, flagged.variant, flagged.command) == (ProvisionMethod.DOCKER, "cpu", "a")

    def test_a_launch_line_or_an_image_chooses_its_way(self) -> None:
        assert chosen("--serve-command", "x", REGRESS_GATE_PROVISION="venv").way is ProvisionMethod.COMMAND
        assert chosen("--image", "x").way is ProvisionMethod.DOCKER

    def test_a_variable_that_names_no_way_is_reported(self) -> None:
        with pytest.raises(InputError, match=r"REGRESS_GATE_PROVISION: 'dokcer' is not a way .*mean 'docker'"):
            chosen(REGRESS_GATE_PROVISION="dokcer")

    @pytest.mark.parametrize(
        ("line", "complaint"),
        [
            ("varaint = 'cpu'", "did you mean 'variant'"),
            ("way = 'podman'", "way"),
            ("shm_size = 'lots'", "shm_size"),
            ("wheel_index = 'wheels'", "wheel_index"),
            ("mounts = '/x'", "mounts"),
        ],
    )
    def test_a_mistake_in_the_file_is_reported_with_its_line(self, gate: Any, line: str, complaint: str) -> None:
        (gate.directory / "regress-gate.toml").write_text(f"[provision]\n{line}\n")
        refused = gate("env", "add", "0.19.1")
        assert refused.code == 2
        assert "regress-gate.toml:2: " in refused.error
        assert complaint in refused.error

    def test_paths_in_a_file_are_meant_from_that_file(self, gate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        text = "[provision]\npython = './py/bin/python'\nmounts = ['adapters', '/abs']\n"
        (gate.directory / "regress-gate.toml").write_text(text)
        (gate.directory / "below").mkdir()
        monkeypatch.chdir(gate.directory / "below")
        found = chosen()
        assert found.python == f"{gate.directory}/py/bin/python"
        assert found.mounts == [f"{gate.directory}/adapters", "/abs"]

    @pytest.mark.parametrize(
        ("config", "kind"),
        [
            (ProvisionConfig(), VenvProvisioner),
            (ProvisionConfig(way=ProvisionMethod.DOCKER, image="x"), DockerProvisioner),
            (ProvisionConfig(way=ProvisionMethod.COMMAND, command="env {version} {port}"), CommandProvisioner),
        ],
    )
    def test_each_way_has_its_provisioner(self, config: ProvisionConfig, kind: type) -> None:
        assert type(make_provisioner(config, accelerator="cpu", environ={"PATH": "/usr/bin"})) is kind

    def test_a_way_without_what_it_needs_is_refused(self) -> None:
        with pytest.raises(InputError, match="no launch line is given; give --serve-command"):
            make_provisioner(ProvisionConfig(way=ProvisionMethod.COMMAND), accelerator=None, environ={})

    def test_refs_that_mean_a_build_are_resolved(self) -> None:
        assert resolve_published_build("v0.19.1", ProvisionConfig(), accelerator="cpu") == Version.parse("0.19.1")
        assert resolve_published_build(f"commit:{COMMIT}", ProvisionConfig(), accelerator="cpu").commit == COMMIT

    def test_nightly_is_asked_of_the_index(self, gate: Any) -> None:
        import platform

        listing = gate.directory / "nightly" / "cpu" / "vllm" / "metadata.json"
        listing.parent.mkdir(parents=True)
        path = f"../../../{COMMIT}/vllm.whl"
        entry = {"version": "0.23.1rc1.dev1", "platform_tag": platform.machine(), "path": path}
        listing.write_text(json.dumps([entry]))
        config = ProvisionConfig(wheel_index=gate.directory.as_uri())
        assert resolve_published_build("nightly", config, accelerator="cpu") == Version("0.23.1rc1.dev1", COMMIT, "cpu")
