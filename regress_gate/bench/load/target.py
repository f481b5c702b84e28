"""Which server is measured, and the rule that it is on this machine unless the caller says otherwise."""

import socket
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from regress_gate.bench.load.errors import LoadError
from regress_gate.errors import InputError


@dataclass(frozen=True, slots=True)
class Target:
    url: str
    """`http://127.0.0.1:8000`; what stands after the port is ignored."""
    model: str
    """The name under which the server serves it."""
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A target whose host has been looked up, once and before anything is measured."""

    address: str
    port: int
    host_header: str


def resolve(target: Target, *, allow_remote: bool) -> Endpoint:
    """Raises InputError for a URL that may not be measured, LoadError for a host that is not known."""
    try:
        parts = urlsplit(target.url)
        host, port = parts.hostname, parts.port or 80
    except ValueError as error:
        raise InputError(f"{target.url!r} is not a URL: {error}") from None
    if parts.scheme != "http" or not host:
        raise InputError(f"{target.url!r} cannot be measured", todo="write http://HOST:PORT")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise LoadError(f"{target.url}: the host is not known ({error.strerror})") from None
    # IPv4 first: `localhost` may stand for both, and vLLM listens on IPv4 unless it is told otherwise.
    addresses = sorted((str(entry[4][0]) for entry in found), key=lambda address: ":" in address)
    remote = [address for address in addresses if not ip_address(address.partition("%")[0]).is_loopback]
    if remote and not allow_remote:
        raise InputError(
            f"{target.url} is {remote[0]}, which is not this machine", todo="measure a server on 127.0.0.1"
        )
    return Endpoint(addresses[0], port, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
