"""Running uv or pip in a fresh virtual environment, with the package sources that the user configured for pip.

uv does not read pip's configuration, and many machines (offline, or behind a company's index) have no other. Sources
are passed in environment variables, because an index URL may hold a password and other users can read command lines.
Not for choosing what to install (`recipe`), and not for checking the result (`verify`).
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regress_gate.bench.provision.interface import ProvisionError, installer_variables
from regress_gate.redaction import redact

INSTALL_TIMEOUT = 3600.0
"""Seconds for one call of the installer; vLLM with CUDA is several gigabytes."""
MAX_LINES = 6
"""Lines of an installer's output that an error quotes."""

_NOISE = re.compile(
    r"^\s*(WARNING: .*|\[?notice\]?.*|Collecting .*|Using cached .*|Downloading .*|Downloaded .*|Building .*"
    r"|Prepared .*|Resolved .*|Installing .*|Looking in .*|Requirement already .*|Using Python .*|[-━╸ ]+.*/s.*)$"
)
_COMPLAINT = re.compile(r"^(ERROR:|error:|×)|No space left|Permission denied|Killed")
_CAUSE = re.compile(
    r"^(cause:|╰─▶|├─▶|Caused by:|ERROR: Could not find a version|OSError:)|No space left|Permission denied"
)
_CONFIG_LINE = re.compile(r"(?P<section>:env:|[\w-]+)\.(?P<key>[\w-]+)=(?P<value>['\"].*['\"])")
_SECTIONS = ("global", "install", ":env:")
"""From weakest to strongest, as pip ranks them."""


@dataclass(frozen=True, slots=True)
class PackageSources:
    """pip's settings of the same names; empty for pip's default."""

    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    cert: str | None = None
    client_cert: str | None = None
    proxy: str | None = None
    no_index: bool = False

    def pip_variables(self) -> dict[str, str]:
        """Variables for pip with these settings alone: no configuration file can add a target directory."""
        variables = {
            "PIP_INDEX_URL": self.index_url,
            "PIP_EXTRA_INDEX_URL": " ".join(self.extra_index_urls),
            "PIP_FIND_LINKS": " ".join(self.find_links),
            "PIP_TRUSTED_HOST": " ".join(self.trusted_hosts),
            "PIP_CERT": self.cert,
            "PIP_CLIENT_CERT": self.client_cert,
            "PIP_PROXY": self.proxy,
            "PIP_NO_INDEX": "1" if self.no_index else None,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_INPUT": "1",
        }
        return {name: value for name, value in variables.items() if value}

    def uv_variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Variables for uv with these settings. The user's own for uv go before them, but folders of wheels add up.

        Without `no_index`: uv has a flag and no variable for it.
        """
        own_index = any(environ.get(name) for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL"))
        own_extra = any(environ.get(name) for name in ("UV_INDEX", "UV_EXTRA_INDEX_URL"))
        own_links = [link for link in environ.get("UV_FIND_LINKS", "").split(",") if link]
        variables = {
            "UV_DEFAULT_INDEX": None if own_index else self.index_url,
            "UV_EXTRA_INDEX_URL": None if own_extra else " ".join(self.extra_index_urls),
            "UV_FIND_LINKS": ",".join(dict.fromkeys((*own_links, *self.find_links))),
            "UV_INSECURE_HOST": environ.get("UV_INSECURE_HOST") or " ".join(self.trusted_hosts),
            "SSL_CERT_FILE": environ.get("SSL_CERT_FILE") or self.cert,
            "SSL_CLIENT_CERT": environ.get("SSL_CLIENT_CERT") or self.client_cert,
            # pip treats extra indexes as equal to the main one; uv would stop at the first with the package.
            "UV_INDEX_STRATEGY": environ.get("UV_INDEX_STRATEGY")
            or ("unsafe-best-match" if self.extra_index_urls and not own_extra else None),
            "HTTPS_PROXY": environ.get("HTTPS_PROXY") or self.proxy,
            "HTTP_PROXY": environ.get("HTTP_PROXY") or self.proxy,
        }
        return {name: value for name, value in variables.items() if value}


def configured_sources(environ: Mapping[str, str]) -> PackageSources:
    """pip's configuration in files and variables; in variables alone if there is no pip."""
    settings = _from_variables(environ)
    # With this value pip reads no file, so it need not be asked, which takes half a second.
    reads_files = environ.get("PIP_CONFIG_FILE") != os.devnull
    for command in pip_commands(environ) if reads_files else ():
        try:
            finished = subprocess.run(  # noqa: S603 - the pip beside the running Python, or the user's
                [*command, "config", "list"],
                env=installer_variables(environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if finished.returncode == 0:
            settings = _from_listing(finished.stdout) | settings
            break
    return PackageSources(
        index_url=settings.get("index-url") or None,
        extra_index_urls=tuple(settings.get("extra-index-url", "").split()),
        find_links=tuple(_absolute(link) for link in settings.get("find-links", "").split()),
        trusted_hosts=tuple(settings.get("trusted-host", "").split()),
        cert=settings.get("cert") or None,
        client_cert=settings.get("client-cert") or None,
        proxy=settings.get("proxy") or None,
        no_index=settings.get("no-index", "").lower() in ("1", "true", "yes", "on"),
    )


def pip_commands(environ: Mapping[str, str]) -> list[list[str]]:
    """The pip of the running Python, and the one on the PATH."""
    pip = shutil.which("pip", path=environ.get("PATH"))
    return [[sys.executable, "-m", "pip"], *([[pip]] if pip else [])]


def _from_listing(text: str) -> dict[str, str]:
    """Read `pip config list`: lines of section.key='value'."""
    by_section: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in text.splitlines():
        if (match := _CONFIG_LINE.fullmatch(line.strip())) and match["section"] in by_section:
            by_section[match["section"]][match["key"]] = str(ast.literal_eval(match["value"]))
    merged: dict[str, str] = {}
    for section in _SECTIONS:
        merged |= by_section[section]
    return merged


def _from_variables(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix("PIP_").lower().replace("_", "-"): value
        for name, value in environ.items()
        if name.startswith("PIP_") and value
    }


def _absolute(link: str) -> str:
    """Relative paths are made absolute, because the installer runs in another directory."""
    return link if "://" in link or not Path(link).exists() else str(Path(link).resolve())


def find_uv(environ: Mapping[str, str]) -> Path | None:
    """uv beside the running Python, else on the PATH."""
    beside = Path(sysconfig.get_path("scripts")) / "uv"
    path = str(beside) if os.access(beside, os.X_OK) else shutil.which("uv", path=environ.get("PATH"))
    return Path(path) if path else None


@dataclass(frozen=True, slots=True)
class Installer:
    """Creates one environment at `venv` and writes all output to `log`."""

    venv: Path
    log: Path
    python: Path
    """The interpreter that the environment is created from."""
    uv: Path | None
    """None: pip."""
    environ: Mapping[str, str]
    """The environment variables of the caller."""
    sources: PackageSources
    """Where packages come from; see `configured_sources`."""
    use_cache: bool
    """Whether the installer may use its own cache. uv links files from there, so a file that is damaged in an
    environment is damaged in the cache too."""
    lock: int
    """File handle of the lock on the environment. The installer inherits it: it may outlive this process if that is
    killed, and no other process may start in the same place before it has ended."""

    @property
    def interpreter(self) -> Path:
        return self.venv / "bin" / "python"

    def create(self) -> None:
        if self.uv:
            command = [str(self.uv), "venv", "--no-project", "--python", str(self.python), str(self.venv)]
        else:
            command = [str(self.python), "-m", "venv", str(self.venv)]
        self._run(command, "the virtual environment could not be created")

    def install(
        self,
        *requirements: str,
        dependencies: bool = True,
        overrides: Sequence[str] = (),
        torch: str | None = None,
        companion_index: str | None = None,
    ) -> None:
        """Install the requirements; `overrides` and `torch` (a torch build) are for uv alone.

        `companion_index` is a package index that goes before the configured ones. Raises ProvisionError with the
        decisive lines of the installer's output.
        """
        what = requirements[0] if len(requirements) == 1 else "the requirements"
        wanted = self.venv.parent / "requirements.txt"
        wanted.write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8")
        if self.uv:
            command = [str(self.uv), "pip", "install", "--python", str(self.interpreter), "--compile-bytecode"]
            if overrides:
                overriding = self.venv.parent / "overrides.txt"
                overriding.write_text("".join(f"{line}\n" for line in overrides), encoding="utf-8")
                command += ["--override", str(overriding)]
            if not self.use_cache:
                command.append("--no-cache")
            if self.sources.no_index:
                command.append("--no-index")
            if torch:
                command += ["--torch-backend", torch]
        elif torch:
            raise ProvisionError(f"a torch build for {torch} needs uv; install it (pip install uv)")
        else:
            command = [str(self.interpreter), "-m", "pip", "install", "--progress-bar", "off"]
            command += [] if self.use_cache else ["--no-cache-dir"]
        command += ["--requirements" if self.uv else "--requirement", str(wanted)]
        variables = self.sources.uv_variables(self.environ) if self.uv else self.sources.pip_variables()
        if companion_index is not None:
            name = "UV_EXTRA_INDEX_URL" if self.uv else "PIP_EXTRA_INDEX_URL"
            others = variables.get(name) or (self.environ.get(name) if self.uv else None)
            variables[name] = " ".join(filter(None, (companion_index, others)))
        if not dependencies:
            command.append("--no-deps")
        try:
            self._run(command, f"{redact(what)} could not be installed", variables)
        finally:
            wanted.unlink(missing_ok=True)  # its addresses may hold passwords

    def _run(self, command: list[str], failure: str, variables: Mapping[str, str] | None = None) -> None:
        variables = {**installer_variables(self.environ), **(variables or {}), "NO_COLOR": "1", "UV_NO_PROGRESS": "1"}
        with self.log.open("ab") as log:
            begin = log.tell()
            try:
                # In a directory of its own: uv reads the configuration of a project that it runs in.
                code = subprocess.run(  # noqa: S603 - the command is built above
                    command,
                    env=variables,
                    cwd=self.log.parent,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    timeout=INSTALL_TIMEOUT,
                    pass_fds=(self.lock,),
                ).returncode
            except subprocess.TimeoutExpired:
                raise ProvisionError(f"{failure}: not finished after {INSTALL_TIMEOUT:.0f} s", log=self.log) from None
            except OSError as error:
                raise ProvisionError(f"{failure}: {error}") from None
        output = _redact_log(self.log, begin)
        if code:
            raise ProvisionError(failure, lines=useful_lines(output), log=self.log)


def _redact_log(log: Path, begin: int) -> str:
    """Mask secrets in what was written to the log from `begin` on, which is returned."""
    with log.open("r+b") as file:
        file.seek(begin)
        output = redact(file.read().decode("utf-8", "replace"))
        file.seek(begin)
        file.truncate()
        file.write(output.encode())
    return output


def useful_lines(output: str) -> tuple[str, ...]:
    """Why an installer failed, causes first: all lines from its first complaint on, else its last lines."""
    lines = [redact(line.strip()) for line in output.splitlines() if line.strip() and not _NOISE.match(line)]
    first = next(
        (number for number, line in enumerate(lines) if _COMPLAINT.search(line)), max(0, len(lines) - MAX_LINES)
    )
    ranked = sorted(lines[first:], key=lambda line: _CAUSE.search(line) is None)
    return tuple(ranked[:MAX_LINES])


def running_python() -> Path:
    return Path(sys.executable)
