"""A suite's data as the text of a YAML file, which reads back to the same data. Not for checking it."""

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

_LIKE_NUMBERS = tuple("+-.0123456789")
WIDTH = 120


class _Dumper(yaml.SafeDumper):
    """Writes lists inside the mappings that hold them, and quotes text that could be taken for another."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - PyYAML's signature
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the reader refuses all of them
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    quoted = '"' if value.startswith(_LIKE_NUMBERS) or not value.isprintable() else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=quoted)


_Dumper.add_representer(str, _text)


def suite_text(suite: Mapping[str, Any], comments: Iterable[str] = ()) -> str:
    """The YAML text, with the comments (one line each) before it."""
    body = yaml.dump(dict(suite), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    return "".join(f"# {line}\n" for line in comments) + str(body)
