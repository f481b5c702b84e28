"""Every form in which a repository pins vLLM is read as a person reads it: the version, and its line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.pins.git_tree import Entry
from regress_gate.pins.pin_files import find_pins
from tests.pins.forms import FORMS


class Files:
    """A tree without git."""

    def __init__(self, **files: str | bytes):
        self.files = {
            name: content.encode() if isinstance(content, str) else content for name, content in files.items()
        }
        self.entries = {name: Entry("100644", name) for name in files}

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)


def pins_in(path: str, text: str | bytes, **others: str):
    return find_pins(Files(**{path: text, **others}))


versions = st.builds(
    "{}.{}.{}{}".format,
    st.integers(0, 2),
    st.integers(0, 60),
    st.integers(0, 9),
    st.sampled_from(["", "", "", ".post1", "rc2"]),
)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.name} ({form.path})")
def test_a_form_is_read_with_its_version_and_line(form):
    found = pins_in(form.path, form.filled("0.19.1"))
    assert [(pin.line, str(pin.version and pin.version.number)) for pin in found.pins] == [
        (line, "0.19.1") for line in form.lines
    ]
    assert found.notes == []


@given(form=st.sampled_from(FORMS), version=versions)
def test_any_version_is_found_where_it_was_written(form, version):
    text = form.filled(version)
    lines = text.split("\n")
    for pin in pins_in(form.path, text).pins:
        assert pin.version is not None
        assert pin.version.number == version
        assert version in lines[pin.line - 1]


@given(form=st.sampled_from(FORMS), before=st.integers(0, 40), crlf=st.booleans())
def test_lines_are_counted_as_git_counts_them(form, before, crlf):
    comment = {"json": "", "lock": ""}.get(form.path.rpartition(".")[2].casefold(), "# é \x0b \x0c\n" * before)
    if form.text.startswith(("#!", "{")) or form.path.endswith((".py", "Pipfile.lock")):
        comment = "\n" * before if not form.text.startswith("#!") else ""
    if form.path.endswith((".yml", ".yaml", "j2", "toml", "Pipfile")):
        comment = comment.replace("\x0b", "").replace("\x0c", "")
    text = comment + form.filled("0.19.1")
    text = text.replace("\r\n", "\n").replace("\n", "\r\n") if crlf else text
    lines = text.split("\n")
    found = pins_in(form.path, text).pins
    assert len(found) == len(form.lines)
    assert all("0.19.1" in lines[pin.line - 1] for pin in found)
