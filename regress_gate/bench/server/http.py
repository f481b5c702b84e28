"""One GET to a server, for health and facts; the workload has a client of its own."""

import http.client
import ssl
from urllib.parse import urlsplit

MAX_BODY = 2**24


def get(url: str, path: str, timeout: float) -> tuple[int, bytes] | None:
    """Status and body; None when there was no answer. Proxies are not asked: the server is addressed directly."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection = (
        http.client.HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context())
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=timeout)
    )
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        answer = connection.getresponse()
        return answer.status, answer.read(MAX_BODY)
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def is_healthy(url: str, timeout: float) -> bool:
    answer = get(url, "/health", timeout)
    return answer is not None and answer[0] == 200
