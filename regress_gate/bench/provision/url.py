"""A server that runs already: nothing is provisioned, its version is asked for and held against the one wanted.

Not for starting or stopping it, and not for a version that it does not serve.
"""

import json
from urllib.parse import urlsplit

from regress_gate.bench.provision.interface import (
    Environment,
    Launch,
    Progress,
    Provisioner,
    ProvisionError,
    ServeRequest,
)
from regress_gate.bench.server.http import get
from regress_gate.errors import InputError
from regress_gate.model.version import Version

TIMEOUT = 10.0


class UrlEnvironment(Environment):
    def __init__(self, url: str, version: Version) -> None:
        self.url: str = url
        self.version: Version = version
        self.libraries = {}

    def launch(self, request: ServeRequest, port: int) -> Launch:
        raise InputError(f"{self.url} is a server that runs already; it cannot be started for {request.model}:{port}")


class UrlProvisioner(Provisioner):
    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            _ = parts.port  # read here, because it is checked only when it is read
        except ValueError as error:
            raise InputError(f"{url!r} is not a URL: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{url!r} is not the address of a server", todo="write http://HOST:PORT")
        self.url = url.rstrip("/")

    def provision(self, version: Version, *, progress: Progress | None = None) -> UrlEnvironment:
        """Raises ProvisionError when the server is not there, does not tell its version, or serves another one."""
        if progress:
            progress(f"asking {self.url} for its version")
        said = self._ask()
        # A server tells neither variant nor, mostly, commit; what it does not tell is taken as asked.
        found = Version(
            said.number if version.number is not None else None,
            said.commit or version.commit,
            said.variant or version.variant,
        )
        if not found.matches(version):
            raise ProvisionError(f"{self.url} serves {said}, not {version}")
        return UrlEnvironment(self.url, found)

    def _ask(self) -> Version:
        answer = get(self.url, "/version", TIMEOUT)
        if answer is None:
            raise ProvisionError(f"{self.url} does not answer")
        status, body = answer
        if status != 200:
            raise ProvisionError(f"{self.url}/version answers with status {status}")
        try:
            said = json.loads(body)["version"]
            if isinstance(said, str):
                return Version.parse(said)
        except (ValueError, KeyError, TypeError, InputError):
            pass
        raise ProvisionError(f"{self.url}/version does not tell a vLLM version")
