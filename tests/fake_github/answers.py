"""Requests and answers, apart from HTTP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Answer:
    status: int
    content: Any
    """JSON, or bytes as they are."""
    headers: dict[str, str] = field(default_factory=dict)
    zeros: int = 0
    """So many bytes of zero come instead of the content, for as long as they are read."""
    sent: Callable[[int], None] = lambda number: None  # noqa: ARG005
    """Called with the number of the zeros that were sent."""


@dataclass
class Request:
    method: str
    path: str
    """Without the API's own prefix."""
    query: dict[str, str]
    headers: dict[str, str]
    """Names in lower case."""
    json: Any
    base: str
    """Address of the API."""
    storage: str
    """Address of the other host, to which downloads are redirected."""

    def page(self, items: list[Any]) -> Answer:
        """The page that was asked for, with the address of the next one."""
        number, size = int(self.query.get("page", "1")), min(int(self.query.get("per_page", "30")), 100)
        headers = {}
        if len(items) > number * size:
            query = "&".join(f"{key}={value}" for key, value in {**self.query, "page": number + 1}.items())
            headers["Link"] = f'<{self.base}{self.path}?{query}>; rel="next"'
        return Answer(200, items[(number - 1) * size : number * size], headers)


class RefusedError(Exception):
    """GitHub says no."""

    def __init__(
        self,
        status: int,
        message: str,
        headers: dict[str, str] | None = None,
        errors: list[dict[str, str]] | None = None,
    ):
        super().__init__(message)
        self.answer = Answer(status, {"message": message, **({"errors": errors} if errors else {})}, headers or {})


def not_found() -> RefusedError:
    return RefusedError(404, "Not Found")
