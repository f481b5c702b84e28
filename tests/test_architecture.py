"""What only the base layer does: user directories, replacing files, control characters, plurals.

No module imports itself through others. The layers themselves are contracts of import-linter in pyproject.toml.
"""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import regress_gate

PACKAGE = Path(regress_gate.__file__).parent
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "migrations" not in path.parts)


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))))


def outside(*base: str) -> Iterator[tuple[Path, tuple[ast.AST, ...]]]:
    """Each other module and all its nodes."""
    for path in MODULES:
        if str(path.relative_to(PACKAGE)) not in base:
            yield path, nodes_of(path)


def imported(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Names of imported modules, and of what is imported from them, with their lines."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.lineno
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("platformdirs", "paths.py"),
        ("unicodedata", "text.py"),
        ("difflib.get_close_matches", "text.py"),
        ("os.replace", "files.py"),
        ("os.rename", "files.py"),
        ("shutil.move", "files.py"),
        ("tempfile.mkstemp", "files.py"),
        ("tempfile.NamedTemporaryFile", "files.py"),
    ],
)
def test_only_the_base_layer_uses(name: str, base: str) -> None:
    module, _, function = name.rpartition(".")
    found = []
    for path, nodes in outside(base):
        found += [f"{path}:{line}" for used, line in imported(nodes) if used == name]
        found += [
            f"{path}:{node.lineno}"
            for node in nodes
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and (node.value.id, node.attr) == (module, function)
        ]
    assert found == []


def test_only_the_base_layer_replaces_files() -> None:
    """`Path.replace` is the only `replace` with exactly one argument."""
    found = [
        f"{path}:{node.lineno}"
        for path, nodes in outside("files.py")
        for node in nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "replace"
        and len(node.args) == 1
        and not node.keywords
    ]
    assert found == []


def test_only_the_base_layer_removes_escape_sequences() -> None:
    """No other module has a pattern that is an escape sequence as a whole."""
    found = [
        f"{path}:{node.lineno}"
        for path, nodes in outside("text.py")
        for node in nodes
        if isinstance(node, ast.Constant) and str(node.value).startswith((r"\x1b\[", "\x1b\\["))
    ]
    assert found == []


def test_only_the_base_layer_makes_plurals() -> None:
    """Not `"run" + ("s" if n != 1 else "")` and its like."""
    found = [
        f"{path}:{node.lineno}"
        for path, nodes in outside("text.py")
        for node in nodes
        if isinstance(node, ast.IfExp)
        and {getattr(node.body, "value", None), getattr(node.orelse, "value", None)} == {"s", ""}
    ]
    assert found == []


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path): path for path in MODULES if path != PACKAGE / "__init__.py"}
"""Without the package itself, which offers the Python API from above and is imported for its version only."""


@cache
def imports_of(name: str) -> set[str]:
    """The modules of the package that a module imports, anywhere in it, also for types only."""
    found = set()
    for node in nodes_of(NAMES[name]):
        if isinstance(node, ast.ImportFrom) and node.module:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names} & NAMES.keys()
            found |= submodules if len(submodules) == len(node.names) else submodules | {node.module}
    return found & NAMES.keys()


def test_no_module_imports_itself_through_others() -> None:
    try:
        TopologicalSorter({name: imports_of(name) for name in NAMES}).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def imports_without_reason(path: Path) -> Iterator[str]:
    """Imports inside functions without a comment on their line or above; one comment serves neighbouring imports."""
    lines = path.read_text(encoding="utf-8").splitlines()
    functions = [node for node in nodes_of(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    local = {
        node.lineno: node
        for each in functions
        for node in ast.walk(each)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    explained: set[int] = set()
    for number, node in sorted(local.items()):
        own = range(number, (node.end_lineno or number) + 1)
        above = number - 1 if lines[number - 2].strip() else number - 2  # groups of imports are parted by a line
        has_comment = any("#" in lines[line - 1] for line in own) or lines[above - 1].strip().startswith("#")
        if has_comment or above in explained:
            explained.update(own)
        else:
            yield f"{path}:{number}"


def test_an_import_inside_a_function_has_its_reason_beside_it() -> None:
    assert [place for path in MODULES for place in imports_without_reason(path)] == []


SETTLED = {
    "accelerators", "bench", "gate", "ingest", "known", "measurement", "model", "stats", "store", "suites", "vllm",
}  # fmt: skip
"""Layers that are whole: what they learn goes into the modules that they have, but for a table or column of the store,
the search of `bisect` and its length, reading a server's `/metrics`, objectives, capacities, throughput against
latency, costs, chats, what only a server can count, and how far hosts of one class differ; and for the log lines that
the rules read, which came from `gate/audit`, because runs keep them. The rules of `gate/audit` are a package of their
own, which grows with every rule, and so is `bench/fleet`, with every engine. `app`, `cli`, `report` and new packages
grow with the commands, and each of their modules has to earn its file by the test below."""


def test_the_settled_layers_have_no_more_modules_than_they_had() -> None:
    base = [path for path in MODULES if path.parent == PACKAGE]
    settled = [path for path in MODULES if path.relative_to(PACKAGE).parts[0] in SETTLED]
    apart = ("gate", "audit"), ("bench", "fleet")
    settled = [path for path in settled if path.relative_to(PACKAGE).parts[:2] not in apart]
    assert len(base) + len(settled) <= 249


FULL = 400
"""Lines. What would be longer than that as one file may stay two."""
MODULES_OF_THEIR_OWN = {
    "regress_gate.__main__": "`python -m` starts this file, the console script the other",
    "regress_gate.accelerators.registry": "a module for each family of accelerators",
    "regress_gate.ingest.registry": "a module for each result format",
    "regress_gate.gate.audit.engine": "a module of rules for each concern",
}
"""Importers that keep each of their modules apart, and why: implementations of one interface, which people add."""


def names_used(importer: str, module: str) -> set[str]:
    """What an importer takes from a module; the module itself counts as two names."""
    package, _, name = module.rpartition(".")
    used: set[str] = set()
    for node in nodes_of(NAMES[importer]):
        if isinstance(node, ast.ImportFrom) and node.module == module:
            used |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == package and name in {a.name for a in node.names}:
            used |= {name, f"{name}.*"}
    return used


def loaded_by_name(path: Path) -> set[str]:
    """Modules that a table names as text: `"regress_gate.cli.db:db"`."""
    texts = (node.value for node in nodes_of(path) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return {text.partition(":")[0] for text in texts} & NAMES.keys()


def test_a_module_of_which_one_other_takes_one_name_belongs_into_that_one() -> None:
    importers: dict[str, list[str]] = {name: [] for name in NAMES}
    for name in NAMES:
        for module in imports_of(name) - {name}:
            importers[module].append(name)
    by_name = {module for path in NAMES.values() for module in loaded_by_name(path)}
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in NAMES.items()}

    def is_a_package(name: str) -> bool:
        return NAMES[name].name == "__init__.py"

    found = []
    for module, names in importers.items():
        if len(names) != 1 or module in by_name or is_a_package(module):
            continue
        (only,) = names
        same_layer = module.split(".")[1] == only.split(".")[1]
        apart = is_a_package(only) or only in MODULES_OF_THEIR_OWN or lines[module] + lines[only] > FULL
        if same_layer and not apart and len(names_used(only, module)) == 1:
            found.append(f"{module} into {only}")
    assert found == []
