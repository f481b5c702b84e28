"""`issues new`: what the diff of the fixing pull request proposes for the `code` of a record."""

from collections.abc import Iterator

import pytest

from regress_gate.model.documents import parse_yaml
from tests.cli.conftest import Gate
from tests.fake_github.server import REPO, GitHub, closed, named_by, serving

URL = f"https://github.com/{REPO}/issues/41306"
MERGED = "2026-06-02T10:00:00Z"
PATCH = """@@ -10,4 +10,6 @@ def choose_backend():
     shared_name = other_name
-    slow_default = FLASHINFER_FIRST  # forgotten_comment
-    shared_name = slow_default
+    if is_hopper_device():
+        move_to_back(FLASHINFER_FIRST)
+def is_hopper_device() -> bool: ...
+    return True  # explained_comment
"""


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    with serving(GitHub()) as server:
        monkeypatch.setenv("REGRESS_GATE_GITHUB_API", server.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.delenv("GITHUB_TOKEN", raising=False)
        yield server


def fixed_by(github: GitHub, *files: dict[str, str | None]) -> None:
    fixing = named_by(44220, merged=MERGED, body=f"Fixes {URL}")
    github.issue(41306, fixing, closed(MERGED), state="closed", closed_at=MERGED)
    github.pull(44220, merged=MERGED)
    github.resources[f"/repos/{REPO}/pulls/44220/files"] = [{"status": "modified", **file} for file in files]


def proposed(text: str) -> list[str]:
    """The lines of the draft that propose code, without the comment signs."""
    lines = text.splitlines()
    start = next((place for place, line in enumerate(lines) if line.startswith("# code:")), len(lines))
    return [line.removeprefix("#   ") for line in lines[start + 1 :] if line.startswith("#   - ")]


def test_identifiers_that_the_fix_removes_or_brings_are_proposed(gate: Gate, github: GitHub) -> None:
    fixed_by(
        github,
        {"filename": "vllm/moe.py", "patch": PATCH},
        {"filename": "tests/test_moe.py", "patch": "+    only_in_tests = 1\n"},
        {"filename": "vllm/images/large.png", "patch": None},
    )
    done = gate("issues", "new", URL)
    assert (done.code, done.err) == (0, "")
    assert f"by the diff of {REPO}#44220" in done.out
    assert proposed(done.out) == [
        "- {file: vllm/moe.py, present: slow_default}",
        "- {file: vllm/moe.py, absent: is_hopper_device}",
        "- {file: vllm/moe.py, absent: move_to_back}",
    ]


def test_the_proposals_are_valid_conditions_without_their_comment_signs(gate: Gate, github: GitHub) -> None:
    fixed_by(github, {"filename": "vllm/moe.py", "patch": PATCH})
    text = gate("issues", "new", URL).out.replace("# code:", "code:").replace("\n#   - ", "\n  - ")
    assert len(parse_yaml(text, "draft").data["code"]) == len(proposed(gate("issues", "new", URL).out)) > 0


def test_a_pull_request_is_taken_for_the_fix_itself(gate: Gate, github: GitHub) -> None:
    fixed_by(github, {"filename": "vllm/moe.py", "patch": PATCH})
    done = gate("issues", "new", f"https://github.com/{REPO}/pull/44220")
    assert "- {file: vllm/moe.py, present: slow_default}" in proposed(done.out)


def test_hostile_names_of_files_and_texts_propose_nothing(gate: Gate, github: GitHub) -> None:
    fixed_by(
        github,
        {"filename": "vllm/a}: !!python/x.py", "patch": PATCH},
        {"filename": "vllm/../../etc/passwd.py", "patch": PATCH},
        {"filename": "vllm/moe.py", "patch": "+\x1b[31m'}: \u202e\n"},
    )
    done = gate("issues", "new", URL)
    assert proposed(done.out) == []
    assert done.err == f"regress-gate: note: no code is proposed: {REPO}#44220 changes no Python file of the package\n"


def test_without_a_fix_the_draft_has_no_code_and_a_note_says_why(gate: Gate, github: GitHub) -> None:
    github.issue(41306)
    done = gate("issues", "new", URL)
    assert done.code == 0
    assert "# code:" not in done.out
    assert "no merged pull request closes it" in done.err


def test_offline_nothing_is_asked(gate: Gate, github: GitHub) -> None:
    done = gate("issues", "new", URL, "--offline")
    assert (done.code, done.err, github.paths()) == (0, "", [])


def test_an_answer_that_fails_leaves_the_draft(gate: Gate, github: GitHub) -> None:
    github.gone["/repos/vllm-project/vllm/issues/41306"] = 451
    done = gate("issues", "new", URL)
    assert done.code == 0
    assert done.out.startswith("id: VLLM-41306\n")
    assert "no code is proposed" in done.err


POST = """### Your current environment
```text
GPU models and configuration: GPU 0: NVIDIA H200
vLLM Version                 : 0.20.0
[pip3] torch==2.11.0
```
### Describe the bug
```bash
$ VLLM_USE_V1=1 vllm serve openai/gpt-oss-120b \\
    --tensor-parallel-size 4 --quantization mxfp4 --max-num-seqs 64
```
"""


def test_the_draft_says_what_the_thread_says_of_version_deployment_and_state(gate: Gate, github: GitHub) -> None:
    github.issue(41306, closed(MERGED), body=POST, state="closed", state_reason="not_planned", closed_at=MERGED)
    text = gate("issues", "new", URL).out
    drafted = parse_yaml(text, "draft").data
    assert drafted["affected"][0]["ranges"][0]["events"] == [{"introduced": "0.20.0"}]
    assert drafted["scope"] == {
        "platform": ["cuda"],
        "accelerator": ["NVIDIA H200"],
        "model": ["openai/gpt-oss-120b"],
        "quantization": ["mxfp4"],
    }
    assert (drafted["tracker"]["state"], drafted["tracker"]["state_reason"]) == ("closed", "not_planned")
    assert '# parallel: {tensor: "4"}' in text
    assert '# engine_args: {"max_num_seqs": "64"} # of the launch line' in text


def test_a_development_build_is_named_and_is_no_event(gate: Gate, github: GitHub) -> None:
    github.issue(41306, body=POST.replace("0.20.0", "0.21.1rc1.dev315+g0b68f21e7"))
    text = gate("issues", "new", URL).out
    assert parse_yaml(text, "draft").data["affected"][0]["ranges"][0]["events"] == [{"introduced": "TODO"}]
    assert "# the author runs 0.21.1rc1.dev315+g0b68f21e7" in text


@pytest.mark.parametrize(
    "post",
    [
        "",
        "Words.",
        'vllm serve "unfinished',
        "vllm serve x\\",
        'vllm serve "a]}: !!python/object\\n- b" --served-model-name "{x: y}"',
        "GPU models and configuration: GPU 0: ]}: !!python/object {\nvLLM Version : 9\u202e9",
        "vllm serve " + "\\\n" * 50_000,
    ],
)
def test_whatever_a_post_holds_the_draft_is_one_document(gate: Gate, github: GitHub, post: str) -> None:
    github.issue(41306, body=post)
    done = gate("issues", "new", URL)
    assert done.code == 0
    drafted = parse_yaml(done.out, "draft").data
    assert drafted["id"] == "VLLM-41306"
    assert set(drafted["scope"]) <= {"platform", "accelerator", "model", "quantization"}
