"""Shell scripts as simple commands, and variables in texts, as far as a file alone tells them. Nothing is run.

A value that the file does not say (an unset variable, the output of a command) is *open*: a mark with the variable's
name stands for it, so that it is not taken for a value. A default in the file (`${SIZE:-8}`) is a value.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

_OPEN, _CLOSE = "\ue000", "\ue001"
_MARK = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[@*]\])?(?:(:?[-=?+])(.*))?", re.DOTALL)
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_OPERATOR = re.compile(r"&&|\|\||;;&?|;&|\|&|&>>?|<<<|<<-?|>>|>&|<&|>\||<>|[;&|()<>\n]")
_PLAIN = re.compile(r"[^\\'\"`$\s#&|;<>()]+")
_MAX_EXPANSION = 20_000
"""Characters: a variable that contains itself many times over must not fill the memory."""
_MAX_ITEMS = 2000
"""Of an array."""
_MAX_NESTING = 20

Lookup = Callable[[str], "str | list[str] | None"]
"""The value of a variable, a list for an array; None: the file does not set it."""


def open_value(name: str) -> str:
    """The mark for a value that the file does not say; `name` is the variable's."""
    return f"{_OPEN}{name.replace(_OPEN, '').replace(_CLOSE, '')[:60]}{_CLOSE}"


def is_open(text: str) -> bool:
    """Whether a part of the text is not known."""
    return _OPEN in text


def is_wholly_open(text: str) -> bool:
    """Whether nothing of the text is known, so that it may be several words or none."""
    return is_open(text) and not _MARK.sub("", text)


def open_names(text: str) -> list[str]:
    """The variables whose values are not known."""
    return _MARK.findall(text)


def shown(text: str) -> str:
    """The text for people: `${NAME}` for what is not known."""
    return _MARK.sub(r"${\1}", text).replace(_OPEN, "").replace(_CLOSE, "")


def without_marks(text: str) -> str:
    """Text from a file without the signs that this module uses itself."""
    return text.replace(_OPEN, "\N{REPLACEMENT CHARACTER}").replace(_CLOSE, "\N{REPLACEMENT CHARACTER}")


@dataclass(frozen=True, slots=True)
class ShellCommand:
    words: list[str]
    env: Mapping[str, str]
    """What was exported before, and the assignments in front of the command."""
    line: int
    """Counted from 1 in the script."""


@dataclass(frozen=True, slots=True)
class HereDocument:
    """A file that a script writes or pipes: `cat <<EOF > FILE`."""

    text: str
    line: int
    """Of its first line, counted from 1 in the script."""


def interpolate(text: str, lookup: Lookup, *, escape: str = "", depth: int = 0) -> str:
    """`$NAME`, `${NAME}`, `${NAME:-default}`… replaced, as Compose and Dockerfiles have them.

    `escape` before a `$` keeps it: `$` in Compose, a backslash in a Dockerfile.
    """
    parts: list[str] = []
    at = size = 0
    limit = len(text) + _MAX_EXPANSION
    begins = re.compile(rf"{re.escape(escape)}\$|\$" if escape else r"\$")
    while size < limit:
        match = begins.search(text, at)
        end = len(text) if match is None else match.start()
        parts.append(text[at:end])
        size += end - at
        if match is None:
            break
        if len(match[0]) > 1:
            parts.append("$")
            at = match.end()
        elif (found := read_parameter(text, end, lookup, depth)) is not None:
            value, at = found
            parts.append(value if isinstance(value, str) else " ".join(value))
            size += len(parts[-1])
        else:
            parts.append("$")
            at = end + 1
    return "".join(parts)[:limit]


def read_parameter(text: str, at: int, lookup: Lookup, depth: int = 0) -> tuple[str | list[str], int] | None:
    """The value of `$NAME` or `${…}` that begins at `at`, and where it ends; None: no variable begins there."""
    if text.startswith("${", at):
        end = _closing(text, at + 2, "{", "}")
        body = text[at + 2 : end]
        return _parameter(body, lookup, depth), end + 1
    if match := _NAME.match(text, at + 1):
        value = lookup(match[0])
        return (open_value(match[0]) if value is None else value), match.end()
    return None


def _parameter(body: str, lookup: Lookup, depth: int) -> str | list[str]:
    match = _PARAMETER.fullmatch(body)
    if match is None or depth > _MAX_NESTING:
        inner = _NAME.search(body)
        return open_value(inner[0] if inner else "…")
    name, array, operation, word = match.groups()
    value = lookup(name)
    if isinstance(value, list) and not array:
        value = value[0] if value else ""
    is_missing = value is None or (value in ("", []) and operation is not None and operation[0] == ":")
    if operation is not None and operation[-1] == "+":
        # Whether the surroundings set it is not known.
        return open_value(name) if value is None else "" if is_missing else interpolate(word, lookup, depth=depth + 1)
    if is_missing and operation is not None and operation[-1] in "-=":
        return interpolate(_unquoted(word), lookup, depth=depth + 1)
    return open_value(name) if value is None else value


def _unquoted(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'" else word


def _closing(text: str, at: int, opening: str, closing: str) -> int:
    """Where the bracket is closed whose content begins at `at`; the end of the text if it is not closed."""
    depth = 1
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == opening:
            depth += 1
        elif text[at] == closing:
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return at


def read_script(text: str, env: Mapping[str, str] | None = None) -> list[ShellCommand]:
    """The simple commands of a script, in their order, with the variables put in that the script or `env` sets.

    What branches and loops contain is read as if it were run; a variable that they set is open afterwards.
    """
    return _Script(text, env or {}).commands()


def here_documents(text: str) -> list[HereDocument]:
    """The files in a script, with the variables put in that the script sets."""
    script = _Script(text, {})
    script.commands()
    return script.documents


_BEGIN = frozenset({"if", "while", "until", "for", "case", "select"})
_END = frozenset({"fi", "done", "esac"})
_RESERVED = _BEGIN | _END | {"then", "else", "elif", "do", "{", "}", "!", "time", "function"}
_EXPORTING = frozenset({"export", "declare", "typeset", "local", "readonly"})


@dataclass
class _Assignment:
    name: str
    value: str | list[str]
    appends: bool


@dataclass
class _Script:
    text: str
    env: Mapping[str, str]
    is_array: bool = False
    """The items of an array: new lines only part them."""
    at: int = 0
    line: int = 1
    room: int = 500_000
    """Characters that variables may still add."""
    conditional: int = 0
    """How many branches and loops are open."""
    variables: dict[str, str | list[str]] = field(default_factory=dict)
    exported: dict[str, str] = field(default_factory=dict)
    exports_all: bool = False
    found: list[ShellCommand] = field(default_factory=list)
    documents: list[HereDocument] = field(default_factory=list)
    # The command that is being read.
    words: list[str] = field(default_factory=list)
    assignments: list[_Assignment] = field(default_factory=list)
    first_line: int = 0
    word: list[str] | None = None
    waiting_documents: list[tuple[str, bool, bool]] = field(default_factory=list)
    """Delimiters, whether tabs before them are left out, and whether variables are put in."""
    skips_word: bool = False
    """The next word is the target of a redirection."""

    def __post_init__(self) -> None:
        self.text = self.text.replace("\r\n", "\n").replace("\r", "\n")
        self.exported = dict(self.env)

    def lookup(self, name: str) -> str | list[str] | None:
        return self.variables.get(name, self.exported.get(name))

    def commands(self) -> list[ShellCommand]:
        while self.at < len(self.text):
            self._step()
        self._end_command()
        return self.found

    def _step(self) -> None:
        sign = self.text[self.at]
        if sign == "\\":
            self._backslash()
        elif sign == "'":
            self._add(self._until("'"))
        elif sign == '"':
            self._double_quoted()
        elif sign == "`" and self.text.startswith("`\n", self.at):  # PowerShell continues a line so
            self._end_word()
            self._advance(2)
        elif sign in "$`":
            self._expansion()
        elif sign in " \t" or (sign == "\n" and self.is_array):
            self._end_word()
            self._advance(1)
        elif sign == "#" and self.word is None:
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        elif match := _OPERATOR.match(self.text, self.at):
            self._operator(match[0])
        elif self.word is None and (match := _ASSIGNMENT.match(self.text, self.at)) and self._may_assign():
            self._assignment(match)
        else:
            plain = _PLAIN.match(self.text, self.at)
            self._add(plain[0] if plain else sign)
            self.at += len(plain[0]) if plain else 1

    def _may_assign(self) -> bool:
        first = next((word for word in self.words if word not in _RESERVED), None)
        return not self.skips_word and (first is None or first in _EXPORTING)

    def _advance(self, count: int) -> None:
        self.line += self.text.count("\n", self.at, self.at + count)
        self.at += count

    def _add(self, text: str) -> None:
        if self.word is None:
            self.word = []
            if not self.words and not self.assignments:
                self.first_line = self.line
        self.word.append(text)

    def _backslash(self) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if following in ("\n", ""):
            self._advance(2)
        elif match := re.compile(r"\\[ \t]+\n").match(self.text, self.at):
            # Spaces after a backslash end the command in a shell; people mean a continuation.
            self._end_word()
            self._advance(match.end() - self.at)
        else:
            self._add(following)
            self._advance(2)

    def _until(self, quote: str) -> str:
        end = self.text.find(quote, self.at + 1)
        end = len(self.text) if end < 0 else end
        content = self.text[self.at + 1 : end]
        self._advance(end + 1 - self.at)
        return content

    def _double_quoted(self) -> None:
        self._add("")
        self._advance(1)
        while self.at < len(self.text) and self.text[self.at] != '"':
            sign = self.text[self.at]
            if sign == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                self._add("" if following == "\n" else following if following in '$`"\\' else sign + following)
                self._advance(2)
            elif sign in "$`":
                self._expansion(is_quoted=True)
            else:
                self._add(sign)
                self._advance(1)
        self._advance(1)

    def _expansion(self, *, is_quoted: bool = False) -> None:
        begin = self.at
        value: str | list[str]
        if self.text[begin] == "`":
            closing = self.text.find("`", begin + 1)
            value, end = open_value("`…`"), len(self.text) if closing < 0 else closing + 1
        elif self.text.startswith("$(", begin):
            value, end = open_value("$(…)"), _closing(self.text, begin + 2, "(", ")") + 1
        elif self.text.startswith("$'", begin) and not is_quoted:
            self._advance(1)
            self._add(self._until("'"))
            return
        elif (found := read_parameter(self.text, begin, self.lookup)) is not None:
            value, end = found
        elif match := re.compile(r"\$[0-9@*#?!$-]").match(self.text, begin):
            value, end = open_value(match[0].removeprefix("$")), match.end()
        else:
            value, end = "$", begin + 1
        self._advance(end - begin)
        if self.room > 0:
            self.room -= len(value) if isinstance(value, str) else sum(len(item) + 20 for item in value)
        else:
            value = open_value("…")
        if isinstance(value, list):
            self._add_several(value)
        elif is_quoted or is_open(value):
            self._add(value)
        else:
            self._add_split(value)

    def _add_several(self, values: list[str]) -> None:
        """The items of an array: the first joins the word so far, the last may be joined by what follows."""
        for number, value in enumerate(values):
            if number:
                self._end_word()
            self._add(value)

    def _add_split(self, value: str) -> None:
        """A variable without quotes: its value is split into words."""
        pieces = value.split()
        if not pieces:
            return
        if value[0].isspace():
            self._end_word()
        self._add_several(pieces)
        if value[-1].isspace():
            self._end_word()

    def _assignment(self, match: re.Match[str]) -> None:
        if not self.words and not self.assignments:
            self.first_line = self.line
        self._advance(match.end() - self.at)
        value: str | list[str]
        if self.text.startswith("(", self.at):
            end = _closing(self.text, self.at + 1, "(", ")")
            inner = _Script(self.text[self.at + 1 : end], self.env, is_array=True)
            inner.variables, inner.exported = self.variables, self.exported
            value = [word for command in inner.commands() for word in command.words]
            self._advance(end + 1 - self.at)
        else:
            value = self._assigned_text()
        self.assignments.append(_Assignment(match[1], value, bool(match[2])))

    def _assigned_text(self) -> str:
        """The value of an assignment: one word, which is not split."""
        before, self.word = (self.words, self.assignments), []
        self.words, self.assignments = ["="], []
        while self.at < len(self.text) and self.text[self.at] not in " \t" and not _OPERATOR.match(self.text, self.at):
            self._step()
        value = (
            " ".join([*self.words[1:], "".join(self.word or [])]) if len(self.words) > 1 else "".join(self.word or [])
        )
        (self.words, self.assignments), self.word = before, None
        return value

    def _operator(self, operator: str) -> None:
        is_descriptor = operator[0] in "<>" and self.word is not None and "".join(self.word).isdecimal()
        if is_descriptor:
            self.word = None
        self._end_word()
        self._advance(len(operator))
        if operator in ("<<", "<<-"):
            match = re.compile(r"[ \t]*(['\"]?)([A-Za-z_0-9]+)\1").match(self.text, self.at)
            if match:
                self.waiting_documents.append((match[2], operator == "<<-", not match[1]))
                self._advance(match.end() - self.at)
        elif operator[0] in "<>" or operator.startswith("&>"):
            self.skips_word = True
        else:
            self._end_command()
            if operator == "\n":
                self._read_documents()

    def _read_documents(self) -> None:
        for delimiter, is_indented, expands in self.waiting_documents:
            first, lines = self.line, []
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                line = self.text[self.at : end if end >= 0 else len(self.text)]
                self._advance(len(line) + 1)
                line = line.lstrip("\t") if is_indented else line
                if line == delimiter:
                    break
                lines.append(line)
            body = "\n".join(lines)
            if expands:
                body = re.sub(r"\\([\\$`])", lambda m: m[1], interpolate(body, self.lookup, escape="\\"))
            self.documents.append(HereDocument(body, first))
        self.waiting_documents = []

    def _end_word(self) -> None:
        if self.word is None:
            return
        text, self.word = "".join(self.word), None
        if self.skips_word:
            self.skips_word = False
        else:
            self.words.append(text)

    def _end_command(self) -> None:
        self._end_word()
        self.skips_word = False
        words, assignments = self.words, self.assignments
        self.words, self.assignments = [], []
        while words and words[0] in _RESERVED:
            word = words.pop(0)
            self.conditional += (word in _BEGIN) - (word in _END)
            if word in ("for", "select", "case"):
                if words and word != "case":
                    self.variables[words[0]] = open_value(words[0])
                words = []
        exporting = bool(words) and words[0] in _EXPORTING
        if exporting or not words:
            for assignment in assignments:
                self._assign(assignment, exports=exporting and words[0] in ("export", "declare", "typeset"))
            for name in words[1:]:
                if words[0] == "export" and isinstance(value := self.variables.get(name), str):
                    self.exported[name] = value
            return
        if words[0] == "set" and ("-a" in words or "allexport" in words):
            self.exports_all = True
        own = {one.name: one.value for one in assignments if isinstance(one.value, str)}
        self.found.append(ShellCommand(words, {**self.exported, **own}, self.first_line))

    def _assign(self, one: _Assignment, *, exports: bool) -> None:
        value: str | list[str] = one.value
        if one.appends:
            before = self.lookup(one.name)
            if isinstance(value, list):
                old = before if isinstance(before, list) else [open_value(one.name) if before is None else before]
                value = [*old, *([open_value(one.name)] if self.conditional else value)]
            else:
                old_text = open_value(one.name) if not isinstance(before, str) else before
                value = old_text + (open_value(one.name) if self.conditional else value)
        elif self.conditional:
            value = [open_value(one.name)] if isinstance(value, list) else open_value(one.name)
        if len(value) > (_MAX_ITEMS if isinstance(value, list) else _MAX_EXPANSION):
            value = open_value(one.name)
        self.variables[one.name] = value
        if (exports or self.exports_all or one.name in self.exported) and isinstance(value, str):
            self.exported[one.name] = value
