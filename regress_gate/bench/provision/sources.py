"""Where packages come from: what the user has configured pip with, for pip and for uv alike.

uv does not read pip's configuration, and many machines (offline ones, those behind a company's index) have no other.
Everything is handed on through variables, because an index URL may hold a password and command lines are public.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from regress_gate.bench.provision.isolation import installer_variables

_CONFIG_LINE = re.compile(r"(?P<section>:env:|[\w-]+)\.(?P<key>[\w-]+)=(?P<value>['\"].*['\"])")
_SECTIONS = ("global", "install", ":env:")
"""From weak to strong, as pip ranks them."""


@dataclass(frozen=True, slots=True)
class PackageSources:
    """pip's settings of the same names; empty where it is left at its default."""

    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    cert: str | None = None
    client_cert: str | None = None
    proxy: str | None = None
    no_index: bool = False

    def pip_variables(self) -> dict[str, str]:
        """pip with these and nothing else: no configuration file can add a target directory."""
        found = {
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
        return {name: value for name, value in found.items() if value}

    def uv_variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """uv with these, where the user has not told uv itself otherwise. Folders of wheels are added to uv's own.

        Not `no_index`, for which uv has a flag and no variable.
        """
        own_index = any(environ.get(name) for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL"))
        own_extra = any(environ.get(name) for name in ("UV_INDEX", "UV_EXTRA_INDEX_URL"))
        own_links = [link for link in environ.get("UV_FIND_LINKS", "").split(",") if link]
        found = {
            "UV_DEFAULT_INDEX": None if own_index else self.index_url,
            "UV_EXTRA_INDEX_URL": None if own_extra else " ".join(self.extra_index_urls),
            "UV_FIND_LINKS": ",".join(dict.fromkeys((*own_links, *self.find_links))),
            "UV_INSECURE_HOST": environ.get("UV_INSECURE_HOST") or " ".join(self.trusted_hosts),
            "SSL_CERT_FILE": environ.get("SSL_CERT_FILE") or self.cert,
            "SSL_CLIENT_CERT": environ.get("SSL_CLIENT_CERT") or self.client_cert,
            # pip's extra indexes are equals of the main one; uv would stop at the first that knows the name.
            "UV_INDEX_STRATEGY": environ.get("UV_INDEX_STRATEGY")
            or ("unsafe-best-match" if self.extra_index_urls and not own_extra else None),
            "HTTPS_PROXY": environ.get("HTTPS_PROXY") or self.proxy,
            "HTTP_PROXY": environ.get("HTTP_PROXY") or self.proxy,
        }
        return {name: value for name, value in found.items() if value}


def configured_sources(environ: Mapping[str, str]) -> PackageSources:
    """What pip is configured with, by files and variables; by variables alone where there is no pip to ask."""
    settings = _from_variables(environ)
    for command in _pips(environ):
        try:
            asked = subprocess.run(  # noqa: S603 - the pip beside the running Python, or the user's
                [*command, "config", "list"],
                env=installer_variables(environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if asked.returncode == 0:
            settings = _from_listing(asked.stdout) | settings
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


def redact(text: str) -> str:
    """Without the user and password that URLs may hold."""
    return re.sub(r"(?<=://)[^/@\s]+@", "***@", text)


def _pips(environ: Mapping[str, str]) -> list[list[str]]:
    found = shutil.which("pip", path=environ.get("PATH"))
    return [[sys.executable, "-m", "pip"], *([[found]] if found else [])]


def _from_listing(text: str) -> dict[str, str]:
    """Read `pip config list`: lines of section.key='value'."""
    by_section: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in text.splitlines():
        if (found := _CONFIG_LINE.fullmatch(line.strip())) and found["section"] in by_section:
            by_section[found["section"]][found["key"]] = str(ast.literal_eval(found["value"]))
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
    """The installer runs in another directory than the user who wrote a relative path."""
    return link if "://" in link or not Path(link).exists() else str(Path(link).resolve())
