"""A repository is somebody else's: its names, contents and settings are read, and nothing of it is run."""

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.pins import git_tree
from regress_gate.pins.git_tree import Repository, changed_paths
from regress_gate.pins.pin_files import find_pins, kind_of
from tests.factories.git_checkout import Checkout
from tests.pins.forms import FORMS
from tests.pins.test_forms import pins_in


@pytest.fixture
def repo(tmp_path):
    return Checkout.new(tmp_path / "repo")


def pins_now(repo):
    with Repository.find(repo.root) as repository:
        return find_pins(repository.working_tree())


def listed(repo):
    return [(pin.file, pin.line, str(pin.version)) for pin in pins_now(repo).pins]


NAMES = [
    "-rf.yaml",
    "--output=x/compose.yaml",
    "new\nline/compose.yaml",
    "tab\there.yaml",
    'quote".yaml',
    "::error::x.yaml",
    "##[group]x.yaml",
    "ünïcode/вллм.yaml",
    "space here/ compose.yaml",
    ":(exclude)x.yaml",
    "*.yaml",
    "$(touch x).yaml",
]


@pytest.mark.parametrize("name", NAMES)
def test_any_file_name_is_read_and_compared(repo, name):
    text = "a:\n  image: vllm/vllm-openai:v{}\n"
    first = repo.commit({name: text.format("0.19.1")})
    repo.commit({name: text.format("0.32.0")})
    assert listed(repo) == [(name, 2, "0.32.0")]
    with Repository.find(repo.root) as repository:
        before, after = repository.commit_tree(first), repository.commit_tree(repo.git("rev-parse", "HEAD"))
        assert changed_paths(before, after) == [name]
        assert str(find_pins(before, [name]).pins[0].version) == "0.19.1"


def test_a_name_that_is_no_unicode_is_shown_with_escapes(repo):
    name = os.fsdecode(b"caf\xe9.yaml")
    repo.commit({name: "image: vllm/vllm-openai:v0.19.1\n"})
    assert listed(repo) == [(name, 1, "0.19.1")]
    for format_ in ("json", "table", "markdown"):
        done = subprocess.run(
            [sys.executable, "-m", "regress_gate", "ci", "versions", "--pins", "--format", format_],
            cwd=repo.root,
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        if format_ == "json":
            assert json.loads(done.stdout)["pins"][0]["file"] == name


def test_names_and_texts_start_no_workflow_command_and_no_escape_sequence(repo):
    repo.commit(
        {"a\n::error::hacked.yaml": 'image: "vllm/vllm-openai:v0.19.1\\e[31m"\n', "b.txt": "vllm>=1,\x1b[2J<2\n"}
    )
    done = subprocess.run(
        [sys.executable, "-m", "regress_gate", "ci", "versions", "--pins"],
        cwd=repo.root,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout
    assert not [line for line in done.stdout.split(b"\n") if line.startswith(b"::")]


def test_nothing_that_the_repository_configures_is_run(repo, tmp_path, monkeypatch):
    """Hooks, monitors, external diffs, text converters, pagers, aliases."""
    mark = tmp_path / "ran"
    script = tmp_path / "script"
    script.write_text(f'#!/bin/sh\necho "$0 $*" >> \'{mark}\'\ncat "$1" 2>/dev/null\nexit 0\n')
    script.chmod(0o755)
    first = repo.commit({"requirements.txt": "vllm==0.19.1\n", ".gitattributes": "* diff=evil\n"})
    repo.commit({"requirements.txt": "vllm==0.32.0\n"})
    for key in (
        *("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "diff.external", "pager.ls-tree"),
        *("diff.evil.command", "diff.evil.textconv", "alias.rev-parse", "credential.helper", "core.gitProxy"),
    ):
        repo.git("config", key, str(script))
    for hook in ("post-index-change", "reference-transaction", "post-checkout", "fsmonitor-watchman"):
        (repo.root / ".git/hooks").mkdir(exist_ok=True)
        file = repo.root / ".git/hooks" / hook
        file.write_text(script.read_text())
        file.chmod(0o755)
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(script))
    monkeypatch.setenv("GIT_PAGER", str(script))
    repo.write("requirements.txt", "vllm==0.33.0\n")
    monkeypatch.chdir(repo.root)
    from regress_gate.app.version_pins import moved_versions  # with git, from the changed directory

    move = moved_versions(first, environ={}).move
    assert move is not None
    assert str(move.candidate) == "0.33.0"
    assert not mark.exists(), mark.read_text()


def test_links_and_what_lies_behind_them_are_not_followed(repo, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "requirements.txt").write_text("vllm==0.1.0\n")
    (repo.root / "requirements.txt").symlink_to(outside / "requirements.txt")
    (repo.root / "deploy").symlink_to(outside)
    repo.commit({"real/requirements.txt": "vllm==0.19.1\n"})
    assert listed(repo) == [("real/requirements.txt", 1, "0.19.1")]
    # A tracked folder that is replaced by a link afterwards.
    (repo.root / "real/requirements.txt").unlink()
    (repo.root / "real").rmdir()
    (repo.root / "real").symlink_to(outside)
    assert listed(repo) == []


def test_a_pipe_in_place_of_a_tracked_file_is_not_waited_for(repo):
    repo.commit({"requirements.txt": "vllm==0.19.1\n"})
    (repo.root / "requirements.txt").unlink()
    os.mkfifo(repo.root / "requirements.txt")
    assert listed(repo) == []


def test_huge_and_binary_files_are_passed_over(repo, monkeypatch):
    monkeypatch.setattr(git_tree, "MAX_BYTES", 100_000)
    repo.commit(
        {
            "a.yaml": "x: " + "y" * 200_000 + "\nimage: vllm/vllm-openai:v0.19.1\n",
            "b.yaml": b"\x00\x01\x02 vllm/vllm-openai:v0.19.1",
            "z/requirements.txt": "vllm==0.19.1\n",
        }
    )
    assert listed(repo) == [("z/requirements.txt", 1, "0.19.1")]


@pytest.mark.parametrize(
    "content",
    [
        "torch\r\nvllm==0.19.1\r\n".encode("utf-16"),
        b"\xef\xbb\xbf# caf\xe9\nvllm==0.19.1\n",
        b"# \xe9\x00\nvllm==0.19.1\n".replace(b"\x00", b" "),
        "# \x0b\x0c\x1c\x85\u2028\nvllm==0.19.1\n".encode(),
    ],
    ids=["utf-16", "bom and latin-1", "latin-1", "odd line ends"],
)
def test_any_encoding_keeps_the_line(content):
    assert [(pin.line, str(pin.version)) for pin in pins_in("requirements.txt", content).pins] == [(2, "0.19.1")]


def test_odd_line_ends_in_yaml_do_not_count():
    text = "a: '\x85\u2028\u2029'\nimage: vllm/vllm-openai:v0.19.1\n"
    assert [(pin.line, str(pin.version)) for pin in pins_in("a.yaml", text).pins] == [(2, "0.19.1")]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.yaml", "image: vllm/vllm-openai:v0.19.1\n  bad: [\n"),
        ("pyproject.toml", '[project]\ndependencies = [\n<<<<<<< HEAD\n  "vllm==0.19.1",\n=======\n'),
        ("app.py", "import modal\n.pip_install('vllm==0.19.1'\n"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_named(path, text):
    (note,) = pins_in(path, text).notes
    assert note.startswith(f"{path}: not valid ")
    assert note.endswith(" read")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("deep.yaml", "vllm: " + "[" * 50_000),
        ("wide.yaml", "vllm: &a [x, x]\n" + "".join(f"k{i}: &b{i} [*a, *a]\n" for i in range(5000))),
        ("nested.yaml", "".join(" " * level + f"vllm{level}: |\n" for level in range(1500))),
        ("pyproject.toml", "vllm = " + "[" * 50_000),
        ("pyproject.toml", "dependencies = [" + '"vllm==0.19.1",' * 20_000 + "]"),
        ("Dockerfile", "ARG VLLM=x\n" + "ARG VLLM=$VLLM$VLLM\n" * 200 + "FROM vllm/vllm-openai:$VLLM\n"),
        ("Dockerfile", "FROM vllm/vllm-openai:v0.19.1\n" + "RUN pip install vllm==0.19.1\n" * 3000),
        ("requirements.txt", "vllm" + "[" * 100_000),
        ("requirements.txt", "vllm==0.19.1 " + "\\\n" * 100_000),
        ("run.sh", "pip install vllm==0.19.1 " + "$(" * 20_000),
        ("run.sh", ('bash -c "pip install vllm==0.19.1; ' * 2000)),
        ("app.py", "f(" * 5000 + "'vllm==0.19.1'" + ")" * 5000),
        ("uv.lock", '[[package]]\nname = "vllm"\n' * 20_000),
        (".env", "VLLM_TAG=" + "a" * 1_000_000),
    ],
    ids=lambda text: text[:30].replace("\n", " "),
)
def test_a_file_made_to_exhaust_the_reader_is_read_in_seconds(path, text):
    """As a process of its own with a limit on time and memory: no reader hangs, and none crashes."""
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_CPU, (20, 20))\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        "from tests.pins.test_forms import pins_in\n"
        "print(len(pins_in(sys.argv[1], sys.stdin.read()).pins))"
    )
    done = subprocess.run([sys.executable, "-c", script, path], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@given(data=st.data(), form=st.sampled_from(FORMS))
def test_a_damaged_file_is_never_an_error(data, form):
    text = form.filled("0.19.1")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(at, min(len(text), at + 20)))
        text = text[:at] + data.draw(st.text("[]{}\"'\\\n\t :=$#%|>&*!~\x00\ue000é-vllm01.", max_size=6)) + text[end:]
    lines = text.replace("\x00", " ").split("\n")
    for pin in pins_in(form.path, text).pins:
        assert 1 <= pin.line <= len(lines)
        assert pin.version is not None or pin.pinned.why


@given(path=st.text(max_size=40), content=st.binary(max_size=300))
def test_any_bytes_under_any_name_are_never_an_error(path, content):
    kind_of(path)
    for name in (
        path,
        "requirements.txt",
        "a.yaml",
        "Dockerfile",
        "pyproject.toml",
        "a.py",
        ".env",
        "a.sh",
        "uv.lock",
        "a.json",
    ):
        pins_in(name, b"vllm" + content)
