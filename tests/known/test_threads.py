"""References in the texts of threads and commits: closing, duplicating, reverting, and a commit's own number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.known.threads import (
    ThreadRef,
    carries,
    closing_references,
    duplicate_references,
    published_kind,
    reverted_references,
    shown_address,
    subject_effect,
)

REPO = "vllm-project/vllm"


@pytest.mark.parametrize(
    ("url", "key", "kind"),
    [
        ("https://github.com/vllm-project/vllm/issues/28882", "vllm-project/vllm#28882", "issues"),
        ("https://github.com/vLLM-project/vLLM/pull/7", "vllm-project/vllm#7", "pull"),
        ("https://github.com/ROCm/aiter/issues/3909#issuecomment-1", "rocm/aiter#3909", "issues"),
        ("https://git.example.org:8443/a/b/issues/1", "a/b#1", "issues"),
    ],
)
def test_a_thread_is_known_by_its_address(url: str, key: str, kind: str) -> None:
    found = ThreadRef.parse(url)
    assert found is not None
    assert (found.key, found.kind) == (key, kind)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "https://github.com/vllm-project/vllm",
        "https://github.com/vllm-project/vllm/issues/0",
        "https://github.com/vllm-project/vllm/issues/1234567890",
        "http://github.com/vllm-project/vllm/issues/1",
        "https://discuss.vllm.ai/t/1",
    ],
)
def test_other_addresses_are_no_threads(url: str) -> None:
    assert ThreadRef.parse(url) is None


FILE = "https://github.com/vllm-project/vllm/blob/v0.24.0/vllm/config/vllm.py"
NOTES = "https://github.com/vllm-project/vllm/releases/tag/v0.24.0"


@pytest.mark.parametrize(
    ("url", "kind", "shown"),
    [
        (f"{FILE}#REL-0240-91", "source", FILE),
        (f"{FILE}#ErnieModel", "source", FILE),
        (f"{FILE}#L438", "source", f"{FILE}#L438"),
        (f"{FILE}#L4-L12", "source", f"{FILE}#L4-L12"),
        (f"{NOTES}#REL-0240-301", "release notes", NOTES),
        (f"{NOTES}#new-models", "release notes", f"{NOTES}#new-models"),
        (f"https://github.com/{REPO}/issues/1#Comment", None, f"https://github.com/{REPO}/issues/1#Comment"),
        ("https://jira.example.org/browse/SITE-7", None, "https://jira.example.org/browse/SITE-7"),
    ],
)
def test_an_anchor_that_only_tells_records_apart_is_not_shown(url: str, kind: str | None, shown: str) -> None:
    assert (published_kind(url), shown_address(url)) == (kind, shown)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Fixes #12", [f"{REPO}#12"]),
        ("fix: #12, resolves #13\nCLOSED #14.", [f"{REPO}#12", f"{REPO}#13", f"{REPO}#14"]),
        ("Closes https://github.com/ROCm/aiter/issues/3", ["rocm/aiter#3"]),
        ("closes ROCm/aiter#3 and mentions #4", ["rocm/aiter#3"]),
        ("Related to #12; prefixes #13", []),
        ("This fixes the bug of #12", []),
        ("fixes #0, fixes #", []),
    ],
)
def test_what_a_pull_request_closes(text: str, found: list[str]) -> None:
    assert closing_references(text, REPO) == found


def test_a_duplicate_is_said_at_the_start_of_a_line() -> None:
    assert duplicate_references("Thanks!\nDuplicate of #12", REPO) == [f"{REPO}#12"]
    assert duplicate_references("I wonder if this is a duplicate of #12", REPO) == []


def test_a_revert_is_known_by_its_text_or_else_by_its_title() -> None:
    assert reverted_references("Take it back", "Reverts vllm-project/vllm#12", REPO) == [f"{REPO}#12"]
    assert reverted_references('Revert "[Kernel] Faster (#12)"', "It broke.", REPO) == [f"{REPO}#12"]
    assert reverted_references("Faster, after #12", "See (#12)", REPO) == []


@pytest.mark.parametrize(
    ("subject", "effect"),
    [
        ("[Kernel] Faster (#12)", True),
        ("[Kernel] Faster (#12) (#40)", True),
        ('Revert "[Kernel] Faster (#12)"', False),
        ('Revert "[Kernel] Faster (#12)" (#15)', False),
        ('[Bugfix] Revert "[Kernel] Faster (#12)" (#15)', False),
        ('Revert "Revert "[Kernel] Faster (#12)" (#15)" (#16)', True),
        ('Reapply "[Kernel] Faster (#12)" (#16)', True),
        ('Revert "What broke it (#3)" (#12)', True),
        ("[Kernel] Faster (#120)", None),
        ("[Kernel] Faster #12", None),
    ],
)
def test_what_a_commit_does_to_pull_request_12(subject: str, effect: bool | None) -> None:
    assert subject_effect(subject, 12) is effect


def test_a_commit_is_a_pull_requests_own_only_outside_of_what_it_reverts() -> None:
    assert carries('Revert "Faster (#12)" (#15)', 15)
    assert not carries('Revert "Faster (#12)" (#15)', 12)


@given(st.text(max_size=300), st.text(max_size=80))
def test_any_text_is_read_to_references_that_name_a_thread(text: str, title: str) -> None:
    for found in (
        closing_references(text, REPO),
        duplicate_references(text, REPO),
        reverted_references(title, text, REPO),
    ):
        for key in found:
            repo, _, number = key.rpartition("#")
            assert repo.count("/") == 1
            assert int(number) > 0


@given(st.integers(1, 10**8), st.text(st.characters(exclude_characters="(#"), max_size=40), st.integers(0, 5))
def test_an_even_number_of_reverts_is_none(number: int, text: str, times: int) -> None:
    subject = f"x{text} (#{number})"
    for _ in range(times):
        subject = f'Revert "{subject}"'
    assert subject_effect(subject, number) is (times % 2 == 0)
