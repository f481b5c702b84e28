"""Pins in Dockerfiles, files of variables, scripts and Python programs that build images."""

import ast
import re
from collections.abc import Iterator, Mapping

from regress_gate.pins.pin import Pin, Pinned, looks_like_vllm_image, read_image_pin, read_requirement
from regress_gate.pins.pin_file import (
    PinFile,
    Variables,
    command_pins,
    installed,
    read_variable,
    scan_lines,
    version_needles,
)
from regress_gate.pins.python_files import is_requirements
from regress_gate.vllm.docker_files import read_assignments, read_instructions
from regress_gate.vllm.shell_words import interpolate, is_open, without_marks

_ENV_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(.*)")
_INSTALLERS = (
    "pip_install",
    "uv_pip_install",
    "with_pip_packages",
    "run_commands",
    "dockerfile_commands",
    "workdir",
    "from_registry",
    "setup",
)
_TEST = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test|conftest)\.py$")
"""What stands in a test is an example."""
_IMAGE_MAKERS = ("from_registry", "from_dockerhub", "Container", "Image", "DockerImage")


def read_dockerfile(file: PinFile) -> Iterator[Pin]:
    """FROM with its ARGs, COPY --from, and what RUN installs, at the line that holds the version."""
    outer, inner, stages = Variables(), Variables(), dict[str, Variables]()
    begun = False
    instructions = list(read_instructions(file.text))
    ends = [line - 1 for _, _, line in instructions[1:]] + [len(file.lines)]
    for (instruction, value, line), last in zip(instructions, ends, strict=False):
        if instruction in ("ARG", "ENV"):
            known = inner if begun else outer
            for name, text in read_assignments(value):
                if text is None and instruction == "ARG" and name in outer.values:
                    known.values[name] = outer.values[name]
                elif text is not None:
                    here = _line_with(file, text, line, f"{name}=") or line
                    known.used.clear()
                    filled = interpolate(text, known.lookup, escape="\\")
                    origin = next((known.values[one] for one in known.used if known.values[one][0] == filled), None)
                    known.values[name] = (filled, here if origin is None else origin[1], None)
                    if (pinned := read_variable(name, text)) is not None:
                        yield file.pin(here, f"{instruction} {name}", pinned)
        elif instruction == "FROM":
            begun, inner = True, Variables()
            words = [word for word in value.split() if not word.startswith("--")]
            if words:
                name = words[2].casefold() if len(words) > 2 and words[1].casefold() == "as" else ""
                yield from _image_pin(file, words[0], line, outer, stages, f"FROM {name}".strip())
                inner.values |= stages[words[0].casefold()].values if words[0].casefold() in stages else {}
                stages[name] = inner
        elif instruction in ("COPY", "ADD") and (match := re.match(r"(?:--\S+\s+)*?--from=(\S+)", value)):
            yield from _image_pin(file, match[1], line, outer, stages, "COPY --from")
        elif instruction == "RUN":
            yield from _run_pins(file, value, line, last, inner)


def _image_pin(
    file: PinFile, text: str, line: int, variables: Variables, stages: Mapping[str, Variables], place: str
) -> Iterator[Pin]:
    name = variables.put_in(text)
    if name.casefold() in stages or name.isdecimal() or (pinned := read_image_pin(name)) is None:
        return
    origin = variables.origin(pinned)
    yield file.pin(file.line_of(pinned, line, line + 20) if origin is None else origin[0], place, pinned)


def _run_pins(file: PinFile, value: str, line: int, last: int, variables: Variables) -> Iterator[Pin]:
    known = {name: text for name, (text, _, _) in variables.values.items()}
    script = re.sub(r"^(?:--\S+\s+)+", "", value)
    for found in command_pins(script, known):
        version = found.pinned.spec.lstrip("=").removeprefix("v")
        holder = next(
            (at for text, at, _ in variables.values.values() if version and text.removeprefix("v") == version), None
        )
        own = any(version in text for text in file.lines[line - 1 : last])
        at = holder if holder is not None and not own else file.line_of(found.pinned, line, last)
        yield file.pin(at, f"RUN {found.pinned.name}", found.pinned)


def _line_with(file: PinFile, text: str, first: int, name: str) -> int | None:
    for number, line in enumerate(file.lines[first - 1 : first + 50], first):
        if text in line and name in line:
            return number
    return None


def read_env(file: PinFile) -> Iterator[Pin]:
    """A file of variables: `VLLM_TAG=v0.19.1`. Other names count where a Compose file uses them: see `yaml_files`."""
    for name, (value, line, _) in env_variables(file.text).items():
        if (pinned := read_variable(name, value)) is not None:
            yield file.pin(line, name, pinned)


def env_variables(text: str, file: str | None = None) -> dict[str, tuple[str, int, str | None]]:
    """The variables of a `.env` file, with their lines."""
    found: dict[str, tuple[str, int, str | None]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        match = _ENV_LINE.fullmatch(line.rstrip("\r"))
        if match is not None:
            value = match[2].strip()
            quoted = value[:1] in "\"'" and len(value) > 1 and (end := value.find(value[0], 1)) > 0
            found[match[1]] = (value[1:end] if quoted else re.sub(r"\s+#.*", "", value), number, file)
    return found


def read_shell(file: PinFile) -> Iterator[Pin]:
    """A script, a Makefile, a unit: what its commands install or start, and what single lines say."""
    yield from scan_lines(file)
    text = re.sub(r"^\t[@-]?", "", file.text, flags=re.MULTILINE) if "akefile" in file.path else file.text
    for found in command_pins(text):
        if not is_open(found.pinned.text) and "$" not in found.pinned.spec:
            line = _script_line(file, found.pinned, found.line)
            yield file.pin(line, f"line {found.pinned.name}", found.pinned)


def _script_line(file: PinFile, pinned: Pinned, line: int) -> int:
    """The command's own lines if they hold the version, else the line before them that sets the variable."""
    last = line
    while last <= len(file.lines) and file.lines[last - 1].rstrip().endswith("\\"):
        last += 1
    for needle in version_needles(pinned):
        own = (n for n in range(line, last + 1) if n <= len(file.lines) and needle in file.lines[n - 1])
        setting = (n for n in range(line - 1, 0, -1) if needle in file.lines[n - 1] and "=" in file.lines[n - 1])
        if (found := next(own, None) or next(setting, None)) is not None:
            return found
    return line


def read_python(file: PinFile) -> Iterator[Pin]:
    """Calls that build an image (Modal's `pip_install("vllm==…")`) or declare dependencies (`setup`), commands as lists
    of words, and constants that hold an image of vLLM or are named for its version."""
    if _TEST.search(file.path):
        return
    try:
        tree = ast.parse(file.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        file.notes.append("not valid Python; nothing in it is read")
        return
    for call in ast.walk(tree):
        if isinstance(call, ast.Assign | ast.AnnAssign):
            yield from _python_constant(file, call)
        if isinstance(call, ast.List):
            yield from _python_words(file, call)
        if not isinstance(call, ast.Call):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name not in _INSTALLERS and name not in _IMAGE_MAKERS:
            continue
        for node in (one for argument in _arguments(call) for one in ast.walk(argument)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "vllm" in node.value.casefold():
                yield from _python_text(file, name, without_marks(node.value), node)


def _python_constant(file: PinFile, node: ast.Assign | ast.AnnAssign) -> Iterator[Pin]:
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    value = node.value
    if isinstance(value, ast.List | ast.Tuple):
        texts = [one for one in value.elts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        if is_requirements("\n".join(str(one.value) for one in texts)):
            for one in texts:
                pinned = read_requirement(str(one.value))
                if pinned is not None and pinned.spec:
                    yield file.pin(one.lineno, f"{ast.unparse(target)} {pinned.name}", pinned)
    if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
        pinned = read_variable(target.id, without_marks(value.value))
        if pinned is not None:
            yield file.pin(file.line_of(pinned, value.lineno, value.end_lineno), target.id, pinned)


def _python_words(file: PinFile, node: ast.List) -> Iterator[Pin]:
    """`[sys.executable, "-m", "pip", "install", "vllm==0.19.1"]`"""
    words = [one.value if isinstance(one, ast.Constant) and isinstance(one.value, str) else "…" for one in node.elts]
    if "install" in words:
        for pinned in installed([without_marks(word) for word in words]):
            yield file.pin(file.line_of(pinned, node.lineno, node.end_lineno), f"install {pinned.name}", pinned)


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _python_text(file: PinFile, call: str, text: str, node: ast.Constant) -> Iterator[Pin]:
    last = node.end_lineno or node.lineno
    if looks_like_vllm_image(text) and (image := read_image_pin(text)) is not None:
        yield file.pin(file.line_of(image, node.lineno, last), f"{call} {image.name}", image)
    elif (pinned := read_requirement(text)) is not None and (pinned.spec or call in ("pip_install", "uv_pip_install")):
        yield file.pin(file.line_of(pinned, node.lineno, last), f"{call} {pinned.name}", pinned)
    elif call in _INSTALLERS:
        for found in command_pins(text):
            yield file.pin(file.line_of(found.pinned, node.lineno, last), f"{call} {found.pinned.name}", found.pinned)


def read_singularity(file: PinFile) -> Iterator[Pin]:
    """An Apptainer definition: `From: vllm/vllm-openai:v0.19.1`."""
    for number, line in enumerate(file.lines, 1):
        match = re.match(r"\s*From:\s*(\S+)", line, re.IGNORECASE)
        if match is not None and (pinned := read_image_pin(match[1])) is not None:
            yield file.pin(number, "From", pinned)
    yield from read_shell(file)


def dockerfile_names(path: str) -> bool:
    name = path.rpartition("/")[2].casefold()
    return name.startswith(("dockerfile", "containerfile")) or name.endswith((".dockerfile", ".containerfile"))
