"""What comes back from a server: the agreement between who asks (`github`) and who holds the wire (`github_wire`)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

LOCATION = "redirect-to"
"""What a redirect's Location is called here, so that PyGithub does not follow it on its own."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, whatever its status."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    text: str
    size: int
    """Bytes of the body, unpacked."""


class NoReplyError(Exception):
    """There is no whole answer. `str()` of it says why, in words of our own."""

    def __init__(self, why: str, *, reached: bool):
        self.reached = reached
        """Whether the server was there at all."""
        super().__init__(why)


Send = Callable[[str, dict[str, str]], Reply]
"""A path below the base, with its query, and headers: to be fetched. Raises NoReplyError."""
