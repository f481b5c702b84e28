"""What two servers that were started alike have made of it: backends and configuration, by their own start logs.

What only one side's log tells is passed over: logs change their wording with every version, and what is not told is
not known.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_OF_THE_START = frozenset({"port", "host", "model", "model_tag", "served_model_name", "tokenizer", "uds"})
"""Arguments that say where and what, not how."""
_NOT_COMPARED = frozenset(
    {"model", "tokenizer", "served_model_name", "download_dir", "revision", "tokenizer_revision", "seed"}
)
_LONG = 200
"""Characters of a value that can still be read as a whole."""


def resolved_changes(
    baseline: Sequence[Mapping[str, Any]], candidate: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str, str]]:
    """(name, before, after) of everything on which servers with the same arguments do not agree.

    The mappings are those of `Run.server`. With several servers a side, only what no two of them share is a change.
    """
    found: dict[str, tuple[str, str]] = {}
    before, after = _by_arguments(baseline), _by_arguments(candidate)
    for arguments in before.keys() & after.keys():
        ours, theirs = _values(before[arguments]), _values(after[arguments])
        for name in ours.keys() & theirs.keys():
            if not ours[name] & theirs[name]:
                found[name] = ("/".join(sorted(ours[name])), "/".join(sorted(theirs[name])))
    return [(name, *sides) for name, sides in sorted(found.items())]


def _by_arguments(servers: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for server in servers:
        given = server.get("non_default_args")
        if isinstance(given, Mapping):
            kept = {str(key): str(value) for key, value in given.items() if key not in _OF_THE_START}
            groups.setdefault(json.dumps(kept, sort_keys=True), []).append(server)
    return groups


def _values(servers: Sequence[Mapping[str, Any]]) -> dict[str, set[str]]:
    values: dict[str, set[str]] = {}
    for server in servers:
        for name, value in _facts(server):
            values.setdefault(name, set()).add(value)
    return values


def _facts(server: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    backends, config = server.get("backends"), server.get("config")
    for name, value in backends.items() if isinstance(backends, Mapping) else ():
        yield f"{name} backend", str(value)
    for name, value in config.items() if isinstance(config, Mapping) else ():
        if name in _NOT_COMPARED:
            continue
        text = str(value)
        inner = dict(_members(text))
        for key, item in inner.items():
            if len(item) <= _LONG:
                yield f"{name}.{key}", item
        if not inner and len(text) <= _LONG:
            yield str(name), text


def _members(text: str) -> Iterator[tuple[str, str]]:
    """The members of a printed dictionary or object: `{'mode': <…>, …}` and `PassConfig(fuse=True, …)`."""
    opening = min((at for at in (text.find("{"), text.find("(")) if at >= 0), default=-1)
    if opening < 0 or not text.endswith((")", "}")) or not (text[:opening] or "X").isidentifier():
        return
    for part in _outermost(text[opening + 1 : -1]):
        sign = ":" if text[opening] == "{" else "="
        key, found, value = part.partition(sign)
        if found:
            yield key.strip().strip("'\""), value.strip()


def _outermost(text: str) -> Iterator[str]:
    """Split at commas that stand in no brackets and no quotes."""
    begin, depth, quote = 0, 0, ""
    for position, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign in "([{<":
            depth += 1
        elif sign in ")]}>":
            depth -= 1
        elif sign == "," and depth == 0:
            yield text[begin:position]
            begin = position + 1
    yield text[begin:]
