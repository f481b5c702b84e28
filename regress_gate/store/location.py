"""The location of a store: parses its URL, and shows it without a password. Opens nothing, imports no database code.

Commands that can work on the shipped baselines alone check here whether a store exists, before they import SQLAlchemy.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode

from regress_gate.errors import InputError
from regress_gate.paths import store_file

_SQLITE = re.compile(r"sqlite(\+pysqlite)?:///(?P<path>[^?]*)(\?.*)?", re.DOTALL)
_SERVER = re.compile(r"[A-Za-z][A-Za-z0-9_+]*://.+", re.DOTALL)
_USER_PASSWORD = re.compile(r"(?<=://)(?P<user>[^:@/]*):(?P<password>.*)@")


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """A SQLite file, or a database on a server."""

    url: str
    """As given. May contain a password: never show it."""
    path: Path | None
    """The SQLite file; None for a database on a server."""

    @classmethod
    def parse(cls, url: str) -> "StoreLocation":
        """Parse a SQLAlchemy URL. Raises InputError for any other text, and for SQLite in memory."""
        if found := _SQLITE.fullmatch(url):
            path = unquote(found["path"])
            if "\0" in path:
                raise InputError("a store's path cannot contain a NUL character", where="--store")
            if path and path != ":memory:":
                return cls(url, Path(path))
        elif _SERVER.fullmatch(url) and not url.startswith("sqlite"):
            return cls(url, None)
        raise InputError(
            f"{_without_password(url)!r} names no store",
            where="--store",
            todo="write sqlite:///PATH (four slashes before an absolute path) or postgresql://USER@HOST/DATABASE",
        )

    @property
    def shown(self) -> str:
        """For messages: the path, or the URL without its password."""
        return str(self.path) if self.path is not None else _without_password(self.url)

    @property
    def may_exist(self) -> bool:
        """False if there is certainly no store. Only opening it can confirm that there is one.

        An empty file is not a store: a program that is killed while it creates one leaves it behind.
        """
        try:
            return self.path is None or self.path.stat().st_size > 0
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True


def default_store_url() -> str:
    """The SQLite file in the user's data directory."""
    return "sqlite:///" + quote(str(store_file()), safe="/:\\ ")


def _without_password(url: str) -> str:
    url = _USER_PASSWORD.sub(r"\g<user>:***@", url)
    address, question, query = url.partition("?")
    if not question:
        return address
    pairs = [(key, "***" if "pass" in key.lower() else value) for key, value in parse_qsl(query)]
    return f"{address}?{urlencode(pairs, safe='*/:')}"
