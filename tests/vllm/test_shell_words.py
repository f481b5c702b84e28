"""Simple commands of scripts, and variables in texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.vllm.shell_words import interpolate, is_open, open_names, open_value, read_script, shown


def commands(script: str) -> list[list[str]]:
    return [[shown(word) for word in command.words] for command in read_script(script)]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("vllm serve m --a 1", ["vllm", "serve", "m", "--a", "1"]),
        ("vllm serve \\\n  m \\\r\n  --a 1", ["vllm", "serve", "m", "--a", "1"]),
        ("vllm serve m \\   \n --a 1", ["vllm", "serve", "m", "--a", "1"]),
        ("vllm serve m \\", ["vllm", "serve", "m"]),
        ("docker run `\n  image `\n  --a", ["docker", "run", "image", "--a"]),
        ("""run '{"a": "$X b"}' "c d" e\\ f""", ["run", '{"a": "$X b"}', "c d", "e f"]),
        ('run "a\\"b" "\\x"', ["run", 'a"b', "\\x"]),
        ("run a # and a comment", ["run", "a"]),
        ("run a#b", ["run", "a#b"]),
        ("run a > log.txt 2>&1", ["run", "a"]),
        ("run <<< text a", ["run", "a"]),
        ("X=1; run $X", ["run", "1"]),
        ("X='1 2'; run $X \"$X\" a${X}b", ["run", "1", "2", "1 2", "a1", "2b"]),
        ("X=a\nX+=b\nrun ${X}", ["run", "ab"]),
        ("X=${Y:-1}; run $X", ["run", "1"]),
        ("run ${Y:-a b}", ["run", "a", "b"]),
        ("run ${Y:-${Z:-c}}", ["run", "c"]),
        ('run "${Y:-"quoted"}"', ["run", "quoted"]),
        ("run $Y ${Z} ${Z:?needed} ${Z%%/*}", ["run", "${Y}", "${Z}", "${Z}", "${Z}"]),
        ("run $(date +%s) `id` $1 $@", ["run", "${$(…)}", "${`…`}", "${1}", "${@}"]),
        ("A=(--x 1 '2 3')\nrun ${A[@]} end", ["run", "--x", "1", "2 3", "end"]),
        ("A=(--x)\nA+=(--y \\\n  # why\n --z)\nrun \"${A[@]}\"", ["run", "--x", "--y", "--z"]),
        ("for i in 1 2; do run $i; done", ["run", "${i}"]),
    ],
)  # fmt: skip
def test_a_command_as_a_shell_would_run_it(script: str, words: list[str]) -> None:
    assert commands(script)[-1] == words


def test_commands_are_distinguished() -> None:
    assert commands("a && b || c; d | e & f\ng") == [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"]]


def test_a_here_document_is_no_command() -> None:
    assert commands("cat <<EOF > file\nvllm serve m\nEOF\nrun a") == [["cat"], ["run", "a"]]


def test_what_a_branch_sets_is_not_known_afterwards() -> None:
    script = 'ARGS=(--a)\nif [ "$1" = x ]; then ARGS+=(--b); M=1; fi\nrun "${ARGS[@]}" $M'
    assert commands(script)[-1] == ["run", "--a", "${ARGS}", "${M}"]


def test_only_exported_variables_and_those_in_front_are_the_commands() -> None:
    script = "A=1\nexport B=2\nexport C\nC=3 D=4 run\nset -a\nE=5\nrun"
    first, second = (command for command in read_script(script) if command.words == ["run"])
    assert first.env == {"B": "2", "C": "3", "D": "4"}
    assert second.env == {"B": "2", "E": "5"}


def test_a_command_has_the_line_that_it_begins_on() -> None:
    assert [command.line for command in read_script("\n# a\nrun \\\n a\n\n  run b")] == [3, 6]


def test_a_variable_that_doubles_itself_stays_bounded() -> None:
    script = "X=xxxxxxxxxx\n" + 'X="$X$X"\n' * 60 + "run $X"
    assert len("".join(commands(script)[-1])) < 500_000


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("a${X}b", "a1b"),
        ("$X-$$X", "1-$X"),
        ("${Y:-d}${Y-d}", "dd"),
        ("${E:-d}${E-d}", "d"),
        ("${X:+set}", "set"),
        ("${Y:-${X}}", "1"),
        ("cost: $5", "cost: $5"),
        ("${", "${…}"),
    ],
)
def test_variables_of_compose(text: str, result: str) -> None:
    assert shown(interpolate(text, {"X": "1", "E": ""}.get, escape="$")) == result


def test_an_open_value_keeps_its_name() -> None:
    text = interpolate("v${VERSION}-${ARCH}", {}.get)
    assert is_open(text)
    assert open_names(text) == ["VERSION", "ARCH"]
    assert open_value("A") in interpolate("$A", {}.get)


@given(st.text(alphabet="ab${}()'\"\\ \n;&|<>#=:-`[]@EOF", max_size=80))
def test_any_script_can_be_read(script: str) -> None:
    for command in read_script(script):
        assert command.words
    interpolate(script, {"a": "b"}.get, escape="$")
