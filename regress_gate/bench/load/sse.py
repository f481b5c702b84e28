"""Server-sent events out of bytes, however they were cut on the way. Not for what the events mean."""


class SseParser:
    """Takes pieces of a stream and returns the data of each event that is complete.

    Lines end in LF or CRLF. Comments and fields other than `data` carry nothing here. An event without its closing
    blank line is never returned, as the standard wants it. Never raises.
    """

    def __init__(self) -> None:
        self._line = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        *lines, self._line = (self._line + piece).split(b"\n")
        events = []
        for ended in lines:
            line = ended.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events

    @property
    def pending(self) -> int:
        """Bytes held back for an event that is not complete."""
        return len(self._line) + sum(map(len, self._data))
