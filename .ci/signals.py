"""What each release of vLLM prints and exposes, read from its sources: the table that proves the audit rules.

    python .ci/signals.py [--write] [--sources DIRECTORY] [--releases 0.33.0 ...]

The Python files of every published wheel since 0.8.0 are parsed; nothing of them is imported or run. A line is looked
for by a short phrase. Of a line the table keeps the beginning of its format string (a value is `%s`, `%d`, … or `{}`),
its level, the file, and the releases; of a metric its kind and the releases. Lines that only engine V0 prints are left
out, and metrics that only it creates are marked. --sources takes a folder of unpacked sources, each in
`vllm-VERSION/vllm/`, in place of the wheels. --releases names the releases that are read, for a look. Without --write
the script only compares: it exits 1 where the table differs from the sources.
"""

import argparse
import ast
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from regress_gate.bench.inspect.published_wheels import DISTRIBUTION, find_published, open_wheel, published_versions
from regress_gate.files import write_output_file
from regress_gate.vllm.log_signals import SIGNALS

TABLE = Path(__file__).resolve().parent.parent / "tests" / "factories" / "released_signals.json"
FIRST_RELEASE = "0.8.0"
MAX_TEXT = 240
"""Characters of a format string that are kept: enough to know the line, not a copy of a text."""
LEVELS = ("debug", "info", "warning", "warn", "error", "exception", "critical", "log")
"""Names of a logger's methods. vLLM adds `_once`."""
KINDS = ("counter", "gauge", "histogram")
LINES: Mapping[str, str] = {
    "api_server_version": "vLLM API server version",
    "server_version": "vLLM server version",
    "engine_config": "Initializing a V1 LLM engine (v",
    "non_default_args": "non-default args: ",
    "kv_cache_size": "KV cache size: ",
    "max_concurrency": "Maximum concurrency for ",
    "architecture": "Resolved architecture",
    "loading_weights": "Loading weights took",
    "model_loading": "Model loading took",
    "compile_takes": "torch.compile takes",
    "compiled": "torch.compile took",
    "graph_capture": "Graph capturing finished in",
    "init_engine": "init engine (",
    "detected_platform": "Automatically detected platform %s",
    "attention_backend": "attention backend out of potential backends",
    "attention_backend_v1": "backend on V1 engine",
    "flash_attention_version": "Using FlashAttention version",
    "kv_cache_layout": "Using %s KV cache layout",
    "mla_prefill_backend": "Using %s MLA prefill backend",
    "attention_backend_named": "Using %s backend",
    "moe_backend": "Using … MoE backend",
    "sampler": "for top-p & top-k sampling",
    "linear_kernel": "Using %s for ",
    "model_runner_v2_off": "using the V1 model runner instead",
    "statistics": "Avg prompt throughput: ",
    "statistics_waiting": "Waiting: %d reqs",
    "statistics_deferred": "Deferred: %d reqs",
    "statistics_preemptions": "Preemptions: %d",
    "statistics_kv_cache": " KV cache usage: ",
    "statistics_hit_rate": "Prefix cache hit rate: ",
    "statistics_of_several": "Engines Aggregated",
}
"""Lines that `start_log` and the audit's statistics read: name in the table, and a phrase of every such line. `…`
stands for any text. Those of the audit rules stand in `log_signals`; of two with a name, this is narrower."""
PHRASES = {**{name: signal.literal for name, signal in SIGNALS.items()}, **LINES}
FORMER_ENGINE = ("vllm/engine/metrics.py", "vllm/worker/", "vllm/spec_decode/", "vllm/core/")
"""Files of engine V0, which the releases up to 0.10 carry beside V1."""
NOT_SERVING = ("vllm/benchmarks/", "vllm/v1/metrics/reader.py", "vllm/v1/metrics/ray_wrappers.py")
"""Files that name metrics that others create."""
_JOINED_LITERALS = re.compile(r"""["']\s*\n\s*[frbFRB]{0,2}["']""")
"""Where a string is continued on the next line."""
_METRIC = re.compile(r"vllm:[a-z0-9_]+")


@dataclass(frozen=True)
class Line:
    name: str
    text: str
    level: str
    file: str


@dataclass(frozen=True)
class Metric:
    name: str
    kind: str
    engine: str
    """`V1`, `V0`, or `hidden`: V1, but only with --show-hidden-metrics-for-version."""


Signals = frozenset[Line | Metric]


def read_signals(files: Iterable[tuple[str, str]], phrases: Mapping[str, str], known: dict[str, Signals]) -> Signals:
    """The signals of a release; `files` are paths and texts. `known` keeps what files with the same text gave."""
    found: set[Line | Metric] = set()
    for path, text in files:
        joined = _JOINED_LITERALS.sub("", text)
        if path.startswith(NOT_SERVING) or not any(_has(joined, phrase) for phrase in (*phrases.values(), "vllm:")):
            continue
        key = hashlib.sha256(f"{path}\n{text}".encode()).hexdigest()
        if key not in known:
            known[key] = frozenset(_file_signals(path, ast.parse(text), phrases))
        found |= known[key]
    return frozenset(found)


def _file_signals(path: str, tree: ast.Module, phrases: Mapping[str, str]) -> Iterator[Line | Metric]:
    for text, parents in _strings(tree, ()):
        for name, phrase in phrases.items():
            if _has(text, phrase) and not path.startswith(FORMER_ENGINE):
                yield Line(name, " ".join(text[:MAX_TEXT].split()), _level(parents), path)
        if _METRIC.fullmatch(text):
            hidden = any(isinstance(one, ast.If) and "show_hidden" in ast.dump(one.test) for one in parents)
            engine = "V0" if path.startswith(FORMER_ENGINE) else "hidden" if hidden else "V1"
            kind, name = _kind(parents), text.removeprefix("vllm:")
            # The client library appends `_total` to the name of a counter that lacks it.
            yield Metric(name.removesuffix("_total") if kind == "counter" else name, kind, engine)


def _has(text: str, phrase: str) -> bool:
    first, *rest = phrase.split("…")
    return first in text and all(part in text[text.index(first) :] for part in rest)


def _strings(node: ast.AST, parents: tuple[ast.AST, ...]) -> Iterator[tuple[str, tuple[ast.AST, ...]]]:
    """Every text in the code but docstrings and errors that are raised, with what it stands in, the outermost first."""
    if isinstance(node, ast.Raise | ast.Assert) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ):
        return
    text = _text(node)
    if text is not None:
        yield text, parents
        return
    for child in ast.iter_child_nodes(node):
        yield from _strings(child, (*parents, node))


def _text(node: ast.AST) -> str | None:
    """The text of a literal, of one with fields, or of a sum with a literal; fields and other terms are `{}`."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left), _text(node.right)
        return None if left is None and right is None else ("{}" if left is None else left) + (right or "{}")
    return None


def _level(parents: tuple[ast.AST, ...]) -> str:
    """The level at which a text is printed; empty where it is not in the call of a logger."""
    for one in reversed(parents):
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute):
            method = one.func.attr.removesuffix("_once")
            if method in LEVELS:
                return "warning" if method == "warn" else method
    return ""


def _kind(parents: tuple[ast.AST, ...]) -> str:
    """Of the call that a metric's name stands in, or of the only kind that its function or class creates."""
    for one in reversed(parents):
        if isinstance(one, ast.Call) and (kinds := _kinds(one.func)):
            return kinds.pop()
        if isinstance(one, ast.FunctionDef | ast.ClassDef):
            calls = [call.func for call in ast.walk(one) if isinstance(call, ast.Call)]
            kinds = {kind for call in calls for kind in _kinds(call)}
            return kinds.pop() if len(kinds) == 1 else ""
    return ""


def _kinds(called: ast.expr) -> set[str]:
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return {kind for kind in KINDS if kind in name.lower()}


# The table


def table_of(found: Mapping[str, Signals], phrases: Mapping[str, str]) -> dict[str, object]:
    """The table, with ranges of releases: [first, last], and null for a range that reaches the newest release."""
    releases = sorted(found, key=Version)

    lines: dict[str, object] = {}
    for name, phrase in sorted(phrases.items()):
        same: dict[tuple[str, str], dict[str, set[Line]]] = {}
        for release in releases:
            for one in found[release]:
                if isinstance(one, Line) and one.name == name:
                    same.setdefault((one.text, one.level), {}).setdefault(release, set()).add(one)
        forms = []
        for (text, level), by_release in same.items():
            newest = max(by_release, key=Version)
            forms.append(
                {
                    "text": text,
                    "level": level,
                    "file": min(one.file for one in by_release[newest]),
                    "releases": ranges_of([release in by_release for release in releases], releases),
                }
            )
        lines[name] = {"phrase": phrase, "forms": sorted(forms, key=lambda form: _first(form, releases))}
    metrics: dict[str, dict[str, object]] = {}
    every = {one for signals in found.values() for one in signals if isinstance(one, Metric)}
    kinds = {one.name: one.kind for one in every if one.kind}
    for name, engine in sorted({(one.name, one.engine) for one in every}):
        present = [any(isinstance(one, Metric) and (one.name, one.engine) == (name, engine) for one in found[release])
                   for release in releases]  # fmt: skip
        metrics.setdefault(name, {"kind": kinds.get(name, "")})[engine] = ranges_of(present, releases)
    return {
        "schema_version": "1",
        "made_by": "python .ci/signals.py --write",
        "releases": releases,
        "lines": lines,
        "metrics": dict(sorted(metrics.items())),
    }


def _first(form: Mapping[str, object], releases: list[str]) -> tuple[int, str]:
    spans = form["releases"]
    return releases.index(spans[0][0]), str(form["text"])  # type: ignore[index]


def ranges_of(present: list[bool], releases: list[str]) -> list[list[str | None]]:
    """The spans of releases in which something is present."""
    spans: list[list[str | None]] = []
    for number, here in enumerate(present):
        if here and (number == 0 or not present[number - 1]):
            spans.append([releases[number], None])
        if not here and number and present[number - 1]:
            spans[-1][1] = releases[number - 1]
    return spans


def dump(table: Mapping[str, object]) -> str:
    """A line of text is a form of a log line, or a metric."""
    lines = []
    for name, entry in table["lines"].items():  # type: ignore[attr-defined]
        forms = ",\n".join(f"    {_json(form)}" for form in entry["forms"])
        head = f'  {_json(name)}: {{"phrase": {_json(entry["phrase"])}, "forms": ['
        lines.append(f"{head}\n{forms}\n  ]}}" if forms else f"{head}]}}")
    metrics = [f"  {_json(name)}: {_json(entry)}" for name, entry in table["metrics"].items()]  # type: ignore[attr-defined]
    head = "".join(f" {_json(key)}: {_json(table[key])},\n" for key in ("schema_version", "made_by", "releases"))
    body = ",\n".join(lines), ",\n".join(metrics)
    return f'{{\n{head} "lines": {{\n{body[0]}\n }},\n "metrics": {{\n{body[1]}\n }}\n}}\n'


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# Sources


def _release_files(release: str, sources: Path | None) -> list[tuple[str, str]]:
    if sources is not None:
        root = sources / f"{DISTRIBUTION}-{release}"
        paths = sorted((root / "vllm").rglob("*.py"))
        return [(path.relative_to(root).as_posix(), path.read_text("utf-8", "replace")) for path in paths]
    with open_wheel(find_published(DISTRIBUTION, release, dict(os.environ))) as files:
        names = sorted(name for name in files.names if name.startswith("vllm/") and name.endswith(".py"))
        return [(name, files.text(name) or "") for name in names]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table")
    parser.add_argument("--sources", type=Path, help="a folder of unpacked sources, in place of the wheels")
    parser.add_argument("--releases", nargs="+", help="only these releases, for a look")
    chosen = parser.parse_args(arguments)
    if chosen.write and chosen.releases:
        parser.error("the table is of all releases: leave out --releases")
    if chosen.sources:
        names = [path.name.removeprefix(f"{DISTRIBUTION}-") for path in chosen.sources.glob(f"{DISTRIBUTION}-*")]
    else:
        names = published_versions(DISTRIBUTION, dict(os.environ))
    wanted = [name for name in names if Version(name) >= Version(FIRST_RELEASE)]
    releases = sorted(chosen.releases or wanted, key=Version)
    known: dict[str, Signals] = {}

    def read(release: str) -> Signals:
        signals = read_signals(_release_files(release, chosen.sources), PHRASES, known)
        print(f"{release}: {len(signals)} signals", file=sys.stderr)
        return signals

    with ThreadPoolExecutor(1 if chosen.sources else 3) as pool:  # the time goes into waiting for the index
        found = dict(zip(releases, pool.map(read, releases), strict=True))
    text = dump(table_of(found, PHRASES))
    if chosen.write:
        write_output_file(TABLE, text)
    elif chosen.releases:
        sys.stdout.write(text)
    return 0 if chosen.write or chosen.releases or text == TABLE.read_text(encoding="utf-8") else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
