"""`init`: what a directory says about a deployment, and the files that make a gate for it.

Nothing of the directory is run, and nothing is followed out of it. Files that are there are never replaced unasked.
"""

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.version import Version as Pep440

from regress_gate.accelerators.registry import accelerator_matches, find_accelerators
from regress_gate.app.deployment_facts import gather_deployment
from regress_gate.app.settings import CONFIG_NAME, Settings, read_config, toml_string
from regress_gate.errors import InputError
from regress_gate.files import open_regular, write_output_file
from regress_gate.known.matching.names import model_matches
from regress_gate.model.deployment import Deployment
from regress_gate.model.version import Ref, Version
from regress_gate.paths import WORKFLOW_FOLDER, shipped_workflows, store_file
from regress_gate.pins.git_tree import REGULAR, Repository
from regress_gate.pins.pin_files import find_pins, kind_of
from regress_gate.redaction import redact_url
from regress_gate.store.repository import open_store
from regress_gate.store.store_interface import StoreLocation
from regress_gate.suites import is_suite_path, load_suite, shipped_suites
from regress_gate.text import did_you_mean, is_valid_name, natural_key
from regress_gate.vllm.deployed_server import DeployedServer
from regress_gate.vllm.deployment_files import read_deployment, read_deployments

DEFAULT_WORKFLOWS = ("upgrade-gate", "upgrade-gate-comment")
"""Those that need no machine of the user's."""
ACTION = f"OWNER/regress-gate@{'0' * 40} # v1"
"""What stands in the shipped workflows for the owner and the commit."""
MAX_FILES = 5000
MAX_DEPTH = 4
_MAX_READ = 1024 * 1024
_MAX_TRIED = 100
_DEPLOYS = frozenset({"dockerfile", "yaml", "script", "env"})


@dataclass(frozen=True, slots=True)
class Detected:
    """A value and where it comes from; None: nothing was found."""

    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a directory and this machine say."""

    root: Path
    """Of the repository, or the directory itself."""
    is_repository: bool
    deployment: Detected
    pinned: Detected
    """The version that its files pin."""
    store: Detected


@dataclass(frozen=True, slots=True)
class Served:
    """What is served now, as far as it was found."""

    version: Detected
    accelerator: Detected
    platform: str | None
    """That the deployment is for: `cuda`."""
    model: str | None


@dataclass(frozen=True, slots=True)
class Answers:
    deployment: str | None = None
    """A deployment file, from the root."""
    version: str | None = None
    """The version that runs now."""
    accelerator: str | None = None
    suite: str | None = None
    store: str | None = None
    """Path or URL; None: the default."""
    model: str | None = None
    workflows: Sequence[str] = ()
    action: str | None = None
    """`OWNER/regress-gate@REF`, which the workflows call."""
    testbed: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedFile:
    path: Path
    text: str
    state: str
    """`new`, `same` or `different`: from what is there."""


@dataclass
class Setup:
    root: Path
    files: list[PlannedFile] = field(default_factory=list)
    pin: Version | None = None
    notes: list[str] = field(default_factory=list)


def look_around(directory: Path) -> Surroundings:
    """The defaults of the questions about a directory. Reads files, and asks git; changes nothing."""
    root, names, pinned = _repository_files(directory)
    is_repository = names is not None
    servers = list(_deployment_files(root, sorted(names if names is not None else _walk(root), key=_shallow_first)))
    deployment = Detected(None, "no file that starts a vLLM server was found")
    if servers:
        # A Dockerfile often names the image alone, and another file what is served with it.
        name = next((name for name, server in servers if server.words), servers[0][0])
        others = f"; {len(servers) - 1} more start servers, too" if len(servers) > 1 else ""
        deployment = Detected(name, f"it starts a vLLM server{others}")
    return Surroundings(
        root=root,
        is_repository=is_repository,
        deployment=deployment,
        pinned=pinned,
        store=Detected(str(store_file()), "a file of this user"),
    )


def look_at_deployment(around: Surroundings, name: str | None, accelerator: str | None = None) -> Served:
    """The defaults of the questions about a deployment file, FILE or FILE#NAME from the root; what it does not say,
    and everything without one, the pins of the directory and the drivers of this machine say.

    Raises InputError for a file that cannot be read or starts no server.
    """
    if name is None:
        return Served(around.pinned, _accelerator(None, "", accelerator), platform=None, model=None)
    told = gather_deployment(Deployment(), Deployment(), server=read_deployment(str(around.root / name))[0])
    return Served(
        version=around.pinned if told.version is None else Detected(str(told.version), f"{name} starts it"),
        accelerator=_accelerator(told.deployment.accelerator, name, accelerator),
        platform=told.deployment.platform,
        model=told.deployment.model,
    )


def _accelerator(asked: str | None, by: str, given: str | None) -> Detected:
    if given is not None:
        return Detected(given, "--accelerator")
    if asked is not None:
        return Detected(asked, f"{by} asks for it")
    accelerators = find_accelerators()
    if accelerators is not None:
        return Detected(accelerators.name, "this machine has it")
    return Detected(None, "this machine has none; known issues can be matched where one is named")


def propose_suite(accelerator: str | None, platform: str | None, model: str | None) -> Detected:
    """The shipped suite that serves a model on an accelerator; of several the one of the shortest name, because those
    for one side of a model have a longer one (`h100-llama8b-capacity`). None of another model: what it measures says
    little about this one. Where no accelerator is known: that for processors, unless the deployment is for another
    platform."""
    if accelerator == "cpu" or (accelerator is None and platform in (None, "cpu")):
        return Detected("cpu-tiny", "made for machines without an accelerator")
    if accelerator is None:
        return Detected(None, f"which {platform} device you serve on is not known; `regress-gate suite list` shows all")
    fitting = [
        suite
        for suite in shipped_suites().values()
        if suite.accelerator and accelerator_matches(suite.accelerator, accelerator)
    ]
    begin = "`regress-gate suite new FILE` begins one"
    if not fitting:
        return Detected(None, f"none is made for {accelerator}: {begin}")
    if model is None:
        listed = f"`regress-gate suite list` shows {len(fitting)} for {accelerator}"
        return Detected(None, f"which model you serve is not known; {listed}")
    serving = [
        suite for suite in fitting if (own := suite.deployment().model) and model_matches(own, model) is not False
    ]
    if not serving:
        return Detected(None, f"none for {accelerator} serves {model}: {begin}")
    suite = min(serving, key=lambda suite: len(suite.name))
    return Detected(suite.name, f"it serves {suite.deployment().model}: {suite.description.rstrip('.')}")


def _repository_files(directory: Path) -> tuple[Path, list[str] | None, Detected]:
    """The root, the names of its files (None outside of git), and the version that they pin. Whoever sets up a gate may
    have made a file a minute ago, so those count that were not added yet; what git ignores does not."""
    nothing = Detected(None, "no file pins a version of vLLM")
    try:
        with Repository.find(directory) as repository:
            tree = repository.working_tree(untracked=MAX_FILES)
            pins = [pin for pin in find_pins(tree).pins if pin.version is not None]
            names = [name for name, entry in tree.entries.items() if entry.mode in REGULAR]
            if pins:
                newest = max(pins, key=lambda pin: _order(pin.version))
                nothing = Detected(str(newest.version), f"{newest.where} pins it")
            return repository.root, names, nothing
    except InputError:
        return directory.absolute(), None, nothing


def _order(version: Version | None) -> tuple[bool, Pep440]:
    key = None if version is None else version.order_key
    return key is not None, key or Pep440("0")


def _walk(root: Path) -> Iterator[str]:
    """Regular files of a directory that git does not know, not too deep and not too many."""
    seen = 0
    for folder, folders, files in os.walk(root):
        depth = len(Path(folder).relative_to(root).parts)
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if depth < MAX_DEPTH else []
        for name in sorted(files):
            seen += 1
            if seen > MAX_FILES:
                return
            yield (Path(folder) / name).relative_to(root).as_posix()


def _shallow_first(name: str) -> tuple[int, tuple[object, ...]]:
    return name.count("/"), natural_key(name)


def _deployment_files(root: Path, names: Sequence[str]) -> Iterator[tuple[str, DeployedServer]]:
    """The files that start a server of vLLM, each with its first one. What cannot be read is no such file."""
    tried = 0
    for name in names:
        kind = kind_of(name)
        suffix = Path(name).suffix
        if (kind is None or kind.title not in _DEPLOYS) and suffix not in (".service", ".sh"):
            continue
        if not name.isprintable() or "#" in name or not _mentions_vllm(root / name):
            continue
        tried += 1
        if tried > _MAX_TRIED:
            return
        try:
            servers = read_deployments(str(root / name))
        except InputError:
            continue
        yield name, servers[0]


def _mentions_vllm(path: Path) -> bool:
    try:
        if not stat.S_ISREG(path.lstat().st_mode):  # a link may lead anywhere
            return False
        with open_regular(path) as stream:
            content = stream.read(_MAX_READ + 1)
    except (OSError, ValueError):
        return False
    return len(content) <= _MAX_READ and b"vllm" in content.lower()


def plan_setup(answers: Answers, around: Surroundings) -> Setup:
    """The files and the pin of these answers. Raises InputError for an answer that cannot be used; writes nothing."""
    setup = Setup(around.root)
    config = _config_text(answers, around)
    read_config(config, around.root / CONFIG_NAME)  # what is written can be read
    _plan(setup, Path(CONFIG_NAME), config)
    known = shipped_workflows()
    for name in answers.workflows:
        if name not in known:
            raise InputError(f"no workflow {name!r} is shipped" + did_you_mean(name, known), where="--workflow")
        _plan(setup, WORKFLOW_FOLDER / f"{name}.yml", _workflow_text(known[name], answers))
    if answers.version is not None:
        ref = Ref.parse(answers.version)
        if ref.version is None:
            todo = "write a release, such as v0.19.1, or commit:<sha>"
            raise InputError(f"{answers.version!r} names no build", where="--pin", todo=todo)
        setup.pin = ref.version
    return setup


def _plan(setup: Setup, name: Path, text: str) -> None:
    path = setup.root / name
    for folder in path.relative_to(setup.root).parents:
        if (setup.root / folder).is_symlink():
            raise InputError("is a symbolic link, which is not followed", where=setup.root / folder)
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise InputError("is no regular file, and is not replaced", where=path, todo="move it away")
    try:
        state = "new" if not path.exists() else "same" if path.read_bytes() == text.encode() else "different"
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=path) from None
    setup.files.append(PlannedFile(path, text, state))


def write_setup(setup: Setup, *, force: bool) -> bool:
    """Write the files, and pin the version in the store that is then in force; whether the pin is new.

    Raises InputError, and nothing is written, if a file of another content is there and `force` is not set.
    """
    there = [file.path for file in setup.files if file.state == "different"]
    if there and not force:
        names = ", ".join(str(path.relative_to(setup.root)) for path in there)
        raise InputError(f"there already, with other content: {names}", todo="nothing was written; --force replaces it")
    for file in setup.files:
        if file.state != "same":
            try:
                file.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"cannot be made ({error.strerror})", where=file.path.parent) from None
            write_output_file(file.path, file.text)
    if setup.pin is None:
        return False
    settings = Settings(config_flag=setup.root / CONFIG_NAME)
    with open_store(str(settings.store_url.value), create=True) as store:
        return store.pin(setup.pin)


def next_steps(answers: Answers, setup: Setup) -> Iterator[str]:
    """What is left to a person, in order."""
    if answers.deployment is None and answers.model is None:
        yield f"name your deployment file, or model and engine arguments, in [deployment] of {CONFIG_NAME}"
    if answers.accelerator is None:
        yield f"name the accelerator that you serve on in [deployment] of {CONFIG_NAME}"
    base = f" --from {setup.pin}" if setup.pin is not None else ""
    yield f"is something known of the version that you want: regress-gate check VERSION{base}"
    if answers.suite is not None and setup.pin is not None:
        yield f"measure what you run now: regress-gate run {setup.pin} --runs 6"
    if answers.workflows:
        if answers.action is None:
            yield f"in {WORKFLOW_FOLDER.as_posix()} put owner and commit of the action where OWNER and zeros stand"
        if "nightly-watch" in answers.workflows:
            yield "in nightly-watch.yml name your runner's labels; run it once by hand with what you run now as pin"
        if "measure-on-gpu" in answers.workflows:
            yield "in measure-on-gpu.yml name your runner's labels; in Settings, Environments make `gpu` with reviewers"
        yield "commit these files; the gate answers the next pull request that moves vLLM"
    yield "what is missing or stale, at any time: regress-gate doctor"


def _config_text(answers: Answers, around: Surroundings) -> str:
    deployment: dict[str, str | None] = {
        "file": answers.deployment,
        "accelerator": answers.accelerator,
        "model": answers.model,
    }
    if answers.store is not None and "://" in answers.store:
        if redact_url(answers.store) != answers.store:
            todo = "put the whole URL into the variable REGRESS_GATE_STORE"
            raise InputError("holds a password, which does not belong into a file", where="--store", todo=todo)
        StoreLocation.parse(answers.store)
    if answers.suite is not None:
        load_suite(str(around.root / answers.suite) if is_suite_path(answers.suite) else answers.suite)
    if answers.testbed is not None and not is_valid_name(answers.testbed):
        raise InputError(f"{answers.testbed!r} is no name of a testbed", where="--testbed")
    tables: Mapping[str, Mapping[str, str | None]] = {
        "store": {"url": answers.store},
        "defaults": {"suite": answers.suite, "testbed": answers.testbed},
        "deployment": deployment,
    }
    lines = ["# `regress-gate config show` says what is in force, and from where."]
    for table, values in tables.items():
        given = {key: value for key, value in values.items() if value is not None}
        if given:
            lines += ["", f"[{table}]", *(f"{key} = {toml_string(value)}" for key, value in given.items())]
    return "\n".join([*lines, ""])


def _workflow_text(file: Path, answers: Answers) -> str:
    """A shipped workflow with the names that were given put in. They are quoted, so that they stay values."""
    text = file.read_text(encoding="utf-8")
    if answers.action is not None:
        text = text.replace(ACTION, answers.action)
    if answers.suite is not None:
        text = text.replace("suite: serving.yaml", f"suite: {json.dumps(answers.suite)}")
    if answers.testbed is not None:
        text = text.replace("testbed: h200-node-3", f"testbed: {json.dumps(answers.testbed)}")
        text = text.replace("--testbed h200-node-3", f"--testbed {answers.testbed}")
        text = text.replace("group: gpu-h200-node-3", f"group: gpu-{answers.testbed}")
    return text
