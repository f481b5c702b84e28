"""Versions and refs: every form that a user may type, what has an order, and what is refused."""

from contextlib import suppress
from datetime import date
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.errors import InputError
from regress_gate.model.version import Channel, Ref, RefKind, Version

NUMBERS = st.one_of(
    st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99)).map(lambda parts: ".".join(map(str, parts))),
    st.sampled_from(["0.20.0rc1", "0.11.0.post1", "0.23.1rc1.dev1403", "1!0.19.1", "0.19.0a2"]),
)
COMMITS = st.text("0123456789abcdef", min_size=7, max_size=40)
VARIANTS = st.sampled_from(["cpu", "cu129", "rocm700", "cpu.avx2", "1", "precompiled.cu130"])
VERSIONS = st.builds(Version, NUMBERS, st.none() | COMMITS, st.none() | VARIANTS) | st.builds(
    Version, st.none(), COMMITS, st.none() | VARIANTS
)


class TestForms:
    @pytest.mark.parametrize(
        ("text", "number", "commit", "variant", "channel"),
        [
            ("0.19.1", "0.19.1", None, None, Channel.RELEASE),
            ("v0.19.1", "0.19.1", None, None, Channel.RELEASE),
            ("V0.19.1", "0.19.1", None, None, Channel.RELEASE),
            ("  v0.19.1\n", "0.19.1", None, None, Channel.RELEASE),
            ("v0.19", "0.19.0", None, None, Channel.RELEASE),
            ("0.20rc1+cpu", "0.20.0rc1", None, "cpu", Channel.CANDIDATE),
            ("0.11.0.post1", "0.11.0.post1", None, None, Channel.RELEASE),
            ("0.20.0rc1", "0.20.0rc1", None, None, Channel.CANDIDATE),
            ("v0.20.0-rc.1", "0.20.0rc1", None, None, Channel.CANDIDATE),
            ("0.19.0+cpu", "0.19.0", None, "cpu", Channel.RELEASE),
            ("0.23.1rc1.dev1403+g4080263bb", "0.23.1rc1.dev1403", "4080263bb", None, Channel.NIGHTLY),
            ("0.23.1rc1.dev1403+g4080263bb.cu129", "0.23.1rc1.dev1403", "4080263bb", "cu129", Channel.NIGHTLY),
            ("0.23.1.dev7+cu129.g4080263bb.d20260724", "0.23.1.dev7", "4080263bb", "cu129", Channel.NIGHTLY),
            ("commit:4080263bb", None, "4080263bb", None, Channel.COMMIT),
            ("COMMIT:4080263BB", None, "4080263bb", None, Channel.COMMIT),
            ("commit:" + "a" * 40, None, "a" * 40, None, Channel.COMMIT),
            ("commit:4080263bb+cpu", None, "4080263bb", "cpu", Channel.COMMIT),
        ],
    )
    def test_a_version_is_read_as_number_commit_and_variant(self, text, number, commit, variant, channel):
        version = Version.parse(text)
        assert (version.number, version.commit, version.variant) == (number, commit, variant)
        assert version.channel is channel

    @pytest.mark.parametrize(
        ("text", "kind"),
        [
            ("v0.19.1", RefKind.VERSION),
            ("0.20.0rc1", RefKind.VERSION),
            ("commit:4080263bb", RefKind.VERSION),
            ("nightly", RefKind.NIGHTLY),
            ("Nightly", RefKind.NIGHTLY),
            ("pinned", RefKind.PINNED),
            (" latest ", RefKind.LATEST),
        ],
    )
    def test_a_ref_is_read_as_its_kind(self, text, kind):
        ref = Ref.parse(text)
        assert ref.kind is kind
        assert (ref.version is not None) == (kind is RefKind.VERSION)
        assert str(ref) == text

    def test_a_nightly_of_a_day_and_a_run_carry_their_number(self):
        assert Ref.parse("nightly@2026-07-24").day == date(2026, 7, 24)
        assert Ref.parse("run:17").run == 17

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "   ",
            "vllm",
            "0.19.x",
            "0.19.1 0.20.0",
            "commit:",
            "commit:123456",
            "commit:" + "a" * 41,
            "commit:notahash",
            "commit:4080263bb+",
            "commit:4080263bb+c p u",
            "nightly@",
            "nightly@yesterday",
            "nightly@2026-13-01",
            "run:",
            "run:-1",
            "run:1.5",
            "run:१७",
            "run:" + "9" * 5000,
            "1" * 5000,
            "0." * 3000 + "1",
            "0.19.1\x1b[31m",
            "0.19.1\0",
            "../../etc/passwd",
            "0.19.1; rm -rf /",
            "\udcff",
        ],
    )
    def test_anything_else_is_an_input_error(self, text):
        with pytest.raises(InputError):
            Ref.parse(text)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "vllm",
                (
                    "'vllm' is not a vLLM version; write a release (v0.19.1), a candidate (0.20.0rc1), a development "
                    "build or commit:<sha>"
                ),
            ),
            (
                "commit:4080263bb+",
                "'commit:4080263bb+' is not a vLLM version; write commit:<sha>+<variant>",
            ),
            (
                "commit:123456",
                "'commit:123456' does not name a commit; write commit: and 7 to 40 hexadecimal digits",
            ),
            ("nightly@2026-13-01", "'nightly@2026-13-01' has no valid date; write nightly@YYYY-MM-DD"),
            ("run:1.5", "'run:1.5' does not name a run; write run: and the number `baseline show` gives"),
            ("1" * 5000, f"'{'1' * 40}'… is too long for a version"),
        ],
    )
    def test_a_refusal_says_what_is_wrong_and_what_to_write(self, text, message):
        with pytest.raises(InputError) as refused:
            Ref.parse(text)
        assert str(refused.value) == message

    @pytest.mark.parametrize(
        ("longest", "too_long"),
        [
            ("0.19.1+" + "a" * 193, "0.19.1+" + "a" * 194),
            ("run:" + "9" * 18, "run:" + "9" * 19),
            ("commit:" + "a" * 40, "commit:" + "a" * 41),
        ],
    )
    def test_the_longest_text_is_read_and_one_more_character_is_refused(self, longest, too_long):
        assert str(Ref.parse(longest)) == longest
        with pytest.raises(InputError):
            Ref.parse(too_long)

    @given(st.text())
    def test_no_text_raises_anything_else(self, text):
        for parse in (Version.parse, Ref.parse):
            with suppress(InputError):
                parse(text)

    @given(VERSIONS)
    def test_what_is_written_is_read_back_the_same(self, version):
        assert Version.parse(str(version)) == version
        assert Version.parse("v" + str(version)) == version if version.number else True

    @given(VERSIONS)
    def test_a_ref_to_a_version_is_that_version(self, version):
        assert Ref.parse(str(version)).version == version


class TestOrder:
    def test_releases_and_candidates_are_ordered_by_pep_440(self):
        ordered = ["0.9.2", "0.10.0rc1", "0.10.0rc2", "0.10.0", "0.10.0.post1", "0.19.0", "0.19.1", "0.24.0", "1.0"]
        versions = [Version.parse(text) for text in ordered]
        assert sorted(set(versions), key=lambda version: version.order_key) == versions
        for earlier, later in pairwise(versions):
            assert earlier.is_before(later) is True
            assert later.is_before(earlier) is False

    @pytest.mark.parametrize("nightly", ["0.23.1rc1.dev1403+g4080263bb", "0.23.1.dev7", "commit:4080263bb"])
    @pytest.mark.parametrize("other", ["0.24.0", "0.22.0", "0.23.1rc1", "0.23.1rc1.dev1404"])
    def test_a_development_build_has_no_order_by_its_string(self, nightly, other):
        """vllm#49683: 0.23.1rc1.dev1403 was cut from main after 0.24.0 had been branched off."""
        nightly, other = Version.parse(nightly), Version.parse(other)
        assert nightly.is_before(other) is None
        assert other.is_before(nightly) is None

    def test_a_variant_does_not_change_the_order(self):
        assert Version.parse("0.19.0+cpu").is_before(Version.parse("0.19.1+cu129")) is True
        assert Version.parse("0.19.0+cpu").is_before(Version.parse("0.19.0+cu129")) is False

    @given(VERSIONS, VERSIONS)
    def test_never_both_before_each_other(self, one, other):
        assert (one.is_before(other), other.is_before(one)) != (True, True)
        assert (one.is_before(other) is None) == (other.is_before(one) is None)


class TestMatches:
    @pytest.mark.parametrize(
        ("held", "wanted", "may_be"),
        [
            ("0.19.0+cpu", "0.19.0", True),
            ("0.19.0+cpu", "0.19.0+cpu", True),
            ("0.19.0+cpu", "0.19.0+cu129", False),
            ("0.19.0", "0.19.0+cpu", False),
            ("0.19.0", "0.19.1", False),
            ("0.23.1.dev7+g4080263bb", "commit:4080263bbcafe", True),
            ("0.23.1.dev7+g4080263bb", "commit:4080263", True),
            ("0.23.1.dev7+g4080263bb", "commit:5080263", False),
            ("0.23.1.dev7", "commit:4080263bb", False),
            ("commit:4080263bb", "0.23.1.dev7", False),
        ],
    )
    def test_open_parts_match_anything_and_given_parts_must_agree(self, held, wanted, may_be):
        assert Version.parse(held).matches(Version.parse(wanted)) is may_be

    @given(VERSIONS)
    def test_a_version_is_one_that_it_may_mean(self, version):
        assert version.matches(version)
