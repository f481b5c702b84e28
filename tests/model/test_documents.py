"""Strict reading of YAML and TOML: types, lines, and one-line refusals of everything that surprises."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from regress_gate.errors import InputError
from regress_gate.model.config import Config
from regress_gate.model.documents import (
    Document,
    StrictFloat,
    StrictInt,
    StrictModel,
    parse_toml,
    parse_yaml,
    validate,
    yaml_as_json,
)
from regress_gate.model.issue import KnownIssue
from regress_gate.model.suite import Suite


def yaml(text):
    return parse_yaml(text, "file.yaml")


def toml(text):
    return parse_toml(text, "file.toml")


def complaint(parse, text):
    with pytest.raises(InputError) as caught:
        parse(text)
    message = str(caught.value)
    assert "\n" not in message
    return message


def refusal(parse, text):
    """The complaint about a text that may well be fine; any other exception is the test's failure."""
    try:
        parse(text)
    except InputError as error:
        return str(error)
    return None


class TestYamlValues:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("on", "on"),
            ("no", "no"),
            ("Yes", "Yes"),
            ("12:30", "12:30"),
            ("2026-11-21", "2026-11-21"),
            ("2026-11-21T10:00:00Z", "2026-11-21T10:00:00Z"),
            ("1_000", "1_000"),
            ("0b11", "0b11"),
            ("017", 17),
            ("0o17", 15),
            ("0x1F", 31),
            ("+5", 5),
            ("-5", -5),
            ("0.5", 0.5),
            (".5", 0.5),
            ("1e3", 1000.0),
            ("1.", 1.0),
            ("0.19.1", "0.19.1"),
            ("true", True),
            ("False", False),
            ("tRue", "tRue"),
            ("~", None),
            ("null", None),
            ("", None),
            (".inf", ".inf"),
            (".nan", ".nan"),
            ("'5'", "5"),
            ('"true"', "true"),
            ("''", ""),
            ("|\n  5\n", "5\n"),
            ("<<", "<<"),
            ("=", "="),
            ("１２", "１２"),
            ("[a, 1, [b]]", ["a", 1, ["b"]]),
            ("{a: 1, b: {c: ~}}", {"a": 1, "b": {"c": None}}),
        ],
    )
    def test_plain_scalars_have_the_types_of_yaml_1_2(self, text, value):
        found = yaml(f"key: {text}").data["key"]
        assert found == value
        assert type(found) is type(value)

    def test_keys_are_text_whatever_they_look_like(self):
        assert yaml("1: a\ntrue: b\n~: c\n2026-11-21: d\n<<: {e: 1}").data == {
            "1": "a",
            "true": "b",
            "~": "c",
            "2026-11-21": "d",
            "<<": {"e": 1},
        }

    def test_every_key_and_item_has_its_line(self):
        document = yaml("a: 1\nb:\n  - x\n  - c: 2\n\n    d: 3\n")
        assert document.line(("a",)) == 1
        assert document.line(("b", 1, "d")) == 6
        assert document.line(("b", 1, "unheard", "of")) == 4
        assert document.line(("z",)) == 1

    @pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "\ufeff"])
    def test_an_empty_document_is_none(self, text):
        assert yaml(text).data is None

    @given(
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-(10**30), 10**30)
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(string.printable.strip()),
            lambda inner: (
                st.lists(inner, max_size=4) | st.dictionaries(st.text(string.ascii_letters), inner, max_size=4)
            ),
            max_leaves=12,
        )
    )
    def test_json_is_yaml(self, value):
        import json

        text = json.dumps({"value": value})
        assert yaml(text).data == {"value": value}
        assert json.loads(yaml_as_json(text, "file.yaml")) == {"value": value}


class TestYamlRefusals:
    @pytest.mark.parametrize(
        ("text", "where", "what"),
        [
            ("a: 1\nb: 2\na: 3", "file.yaml:3", "key 'a' is given twice"),
            ("a: {x: 1,\n  x: 2}", "file.yaml:2", "key 'x' is given twice"),
            ("1: a\n'1': b", "file.yaml:2", "given twice"),
            ("a: &x {b: 1}\nc: *x", "file.yaml:2", "aliases are not supported"),
            ("a: &x 1\nb: *x", "file.yaml:2", "aliases are not supported"),
            ("&a [*a]", "file.yaml:1", "aliases are not supported"),
            ("a: 1\nb: !!python/object/apply:os.system [id]", "file.yaml:2", "tag"),
            ("a: !!int abc", "file.yaml:1", "tag"),
            ("a: !!float x", "file.yaml:1", "tag"),
            ("a: !!binary zz", "file.yaml:1", "tag"),
            ("a: !own 5", "file.yaml:1", "tag"),
            ("!!set {a}", "file.yaml:1", "tag"),
            ("a:\n  ? [b]\n  : c", "file.yaml:2", "a key must be plain text"),
            ("a: 1\n--- \nb: 2", "file.yaml:2", "a second YAML document"),
            ("a: 'open\n", "file.yaml:2", "not valid YAML"),
            ("a: 1\n\tb: 2", "file.yaml:2", "not valid YAML"),
            ("a: 1\nb: [", "file.yaml:3", "not valid YAML"),
            ("a: \0", "file.yaml", "not valid YAML"),
            ("a: \x1b[31m", "file.yaml", "not valid YAML"),
            ("a: \ud800", "file.yaml", "not valid YAML"),
            ("a: 1\nb: " + "9" * 5000, "file.yaml:2", "out of range"),
            ("a: 0x" + "f" * 9000, "file.yaml:1", "out of range"),
            ("a: 1e400", "file.yaml:1", "the number 1e400 is out of range"),
        ],
    )
    def test_what_surprises_is_refused_with_its_line(self, text, where, what):
        message = complaint(yaml, text)
        assert message.startswith(where)
        assert what in message

    @pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 20_000, "- " * 20_000, "? " * 5_000])
    def test_deep_nesting_is_refused(self, text):
        message = complaint(yaml, "ok: 1\nx: " + text if text[0] in "[{" else text)
        assert "nested too deeply" in message or "a key must be plain text" in message

    def test_billion_laughs_are_refused_at_the_first_alias(self):
        laughs = "a: &a [ha, ha]\n" + "".join(
            f"{new}: &{new} [*{old}, *{old}]\n" for old, new in zip("ab", "bc", strict=True)
        )
        assert complaint(yaml, laughs).startswith("file.yaml:2: YAML aliases are not supported")

    @given(st.text())
    def test_no_text_raises_anything_but_an_input_error(self, text):
        assert (refusal(yaml, text) or "file.yaml").startswith("file.yaml")

    @given(st.text(alphabet="ab:-[]{}!&*?|>'\"#%@`,<~0159. \n\t"))
    def test_no_punctuation_raises_anything_but_an_input_error(self, text):
        assert (refusal(yaml, text) or "file.yaml").startswith("file.yaml")

    @given(st.text(alphabet="ab:-[]{}!&*?|>'\"#%@`,<~0159. \n\t"))
    def test_as_json_it_has_the_same_value_or_the_same_refusal(self, text):
        import json

        refused = refusal(yaml, text)
        assert refusal(lambda given: yaml_as_json(given, "file.yaml"), text) == refused
        if refused is None:
            assert json.loads(yaml_as_json(text, "file.yaml")) == yaml(text).data


class TestToml:
    CONFIGURATION = """\
[store]
url = 'x'
[gate] # a comment
metrics = [
  'ttft_p99', ]
margins.ttft_p99 = 0.1
margins . '*_p90' = 0.1
margins."a.b" = 0.1

[[waivers]]
finding = 'a'
[[ waivers ]]
# nothing
finding = 'b'

[deployment]
engine_args.dtype = 'auto'
env = { A = "1" }
"""

    @pytest.mark.parametrize(
        ("location", "line"),
        [
            (("store", "url"), 2),
            (("gate", "metrics"), 4),
            (("gate", "metrics", 0), 4),
            (("gate", "margins"), 6),
            (("gate", "margins", "ttft_p99"), 6),
            (("gate", "margins", "*_p90"), 7),
            (("gate", "margins", "a.b"), 8),
            (("waivers", 0, "finding"), 11),
            (("waivers", 1, "until"), 12),
            (("waivers", 1, "finding"), 14),
            (("deployment", "engine_args"), 17),
            (("deployment", "engine_args", "dtype"), 17),
            (("deployment", "env", "A"), 18),
            (("unheard", "of"), None),
        ],
    )
    def test_every_key_has_its_line_or_the_line_of_what_it_is_in(self, location, line):
        assert toml(self.CONFIGURATION).line(location) == line
        assert toml(self.CONFIGURATION.replace("\n", "\r\n")).line(location) == line

    def test_a_line_inside_a_multi_line_text_is_not_a_key(self):
        document = toml('[gate]\nreason = """\n[store]\nurl = 1\n"""\nmetrics = []')
        assert document.line(("store", "url")) is None
        assert document.line(("gate", "metrics")) == 6

    def test_a_table_below_an_array_of_tables_belongs_to_its_latest_item(self):
        document = toml("[[a]]\n[a.b]\nx = 1\n[[a]]\n[a.b]\nx = 2\n[[a.c]]\ny = 3")
        assert document.line(("a", 0, "b", "x")) == 3
        assert document.line(("a", 1, "b", "x")) == 6
        assert document.line(("a", 1, "c", 0, "y")) == 8

    @pytest.mark.parametrize(
        ("text", "where"),
        [
            ("a = 1\nb =", "file.toml:2"),
            ("a = 1\na = 2\n", "file.toml:2"),
            ("[a]\n[a]", "file.toml:2"),
            ("a = 1\n\0", "file.toml:2"),
            ("a = 1\nb = 1979-13-45", "file.toml:2"),
            ("a = '''open\n\n", "file.toml:1"),
            ("a = " + "[" * 10_000, "file.toml"),
            ("a = " + "{b = " * 10_000, "file.toml"),
            ("a" + ".a" * 3_000 + " = 1", "file.toml:1"),
            ("[" + ".".join(["a"] * 3_000) + "]", "file.toml:1"),
            ("a = " + "9" * 5000, "file.toml"),
            ("ok = 1\na = 0x" + "f" * 9000, "file.toml:2"),
        ],
    )
    def test_invalid_or_unbounded_toml_is_refused(self, text, where):
        assert complaint(toml, text).startswith(where)

    @given(st.text() | st.text(alphabet="ab.=[]{}'\"#0159- \n\t"))
    def test_no_text_raises_anything_but_an_input_error(self, text):
        assert (refusal(toml, text) or "file.toml").startswith("file.toml")

    @given(st.text())
    def test_whatever_is_read_can_be_checked_against_the_configuration(self, text):
        assert (refusal(lambda text: validate(Config, toml(text)), text) or "file.toml").startswith("file.toml")


class Inner(StrictModel):
    size: StrictInt = 0
    share: StrictFloat = 0.5


class Outer(StrictModel):
    name: str
    inner: Inner = Inner()
    several: list[Inner] = Field(default_factory=list)
    named: dict[str, Inner] = Field(default_factory=dict)
    either: str | Inner | None = None


class TestValidation:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("name: a\nsiz: 1", "file.yaml:2: unknown key 'siz' (known: name, inner, several, named, either)"),
            ("nam: a", "file.yaml:1: unknown key 'nam' (did you mean 'name'?)"),
            ("name: a\ninner:\n  siz: 1", "file.yaml:3: unknown key 'siz' in inner (did you mean 'size'?)"),
            (
                "name: a\nseveral:\n  - {}\n  - sise: 1",
                "file.yaml:4: unknown key 'sise' in several.1 (did you mean 'size'?)",
            ),
            (
                "name: a\nnamed:\n  x:\n    shar: 1",
                "file.yaml:4: unknown key 'shar' in named.x (did you mean 'share'?)",
            ),
            ("inner: {}", "file.yaml:1: key 'name' is missing"),
            ("name: 5", "file.yaml:1: name: Input should be a valid string"),
            ("name: a\nseveral: x", "file.yaml:2: several: Input should be a valid list"),
            ("name: a\ninner: x", "file.yaml:2: inner: expected keys and values"),
            ("name: a\ninner:\n  size: '5'", "file.yaml:3: inner.size: Input should be a valid integer"),
            ("name: a\ninner:\n  size: true", "file.yaml:3: inner.size: Input should be a valid integer"),
            ("name: a\ninner:\n  size: 1.0", "file.yaml:3: inner.size: Input should be a valid integer"),
            ("name: a\ninner:\n  share: '0.5'", "file.yaml:3: inner.share: Input should be a valid number"),
            ("name: a\ninner:\n  share: no", "file.yaml:3: inner.share: Input should be a valid number"),
            ("name: a\neither: 5", "file.yaml:2: either: Input should be a valid string"),
            ("- a", "file.yaml:1: expected keys and values"),
            ("", "file.yaml: the file is empty"),
        ],
    )
    def test_a_complaint_names_line_place_and_the_nearest_known_key(self, text, message):
        assert complaint(lambda text: validate(Outer, yaml(text)), text) == message

    def test_the_first_complaint_in_the_file_is_the_one_that_is_made(self):
        text = "name: a\nzz: 1\ninner:\n  yy: 1\nxx: 1"
        assert complaint(lambda text: validate(Outer, yaml(text)), text).startswith("file.yaml:2: unknown key 'zz'")

    def test_a_whole_number_is_a_real_one(self):
        assert validate(Inner, yaml("share: 1")).share == 1.0

    def test_a_part_of_a_larger_file_is_complained_of_at_its_line(self):
        document = toml("[project]\nname = 'x'\n\n[tool.mine]\nnam = 'a'")
        part = Document(document.data["tool"]["mine"], document.where, document.lines)
        with pytest.raises(InputError, match=r"file\.toml:5: unknown key 'nam' \(did you mean 'name'\?\)"):
            validate(Outer, part, root=("tool", "mine"))

    def test_models_cannot_be_changed(self):
        with pytest.raises(ValueError, match="frozen"):
            validate(Inner, yaml("size: 1")).size = 2

    @pytest.mark.parametrize("model", [Suite, KnownIssue, Config])
    @given(data=st.dictionaries(st.text(max_size=8), st.none() | st.booleans() | st.integers() | st.text(), max_size=4))
    def test_no_data_raises_anything_but_an_input_error(self, model, data):
        assert (refusal(lambda data: validate(model, Document(data, "file.x", {})), data) or "file.x").startswith(
            "file.x"
        )
