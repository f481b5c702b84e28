"""What changed besides speed, and what of it matters to one deployment."""

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import pytest

from regress_gate.gate.config_changes import ChangeRelevance, ConfigChange, ConfigChangeKind, compare_configs
from regress_gate.model.deployment import Deployment
from regress_gate.model.version import Version
from regress_gate.store.combined import ShippedBuilds
from regress_gate.vllm.build_config import Argument, BuildConfig

B, A, I = ChangeRelevance.BLOCKS, ChangeRelevance.AFFECTS, ChangeRelevance.INFORMS  # noqa: E741


def argument(*flags: str, default: Any = None, **facts: Any) -> Argument:
    return Argument(flags=flags, default=default, **facts)


def build(version: str = "0.19.1", *, env: Any = None, packages: Any = None, **arguments: Argument) -> BuildConfig:
    named = {name.replace("__", "."): value for name, value in arguments.items()}
    return BuildConfig(version=Version.parse(version), arguments=named, env=env or {}, packages=packages or {})


def compared(
    old: BuildConfig, new: BuildConfig, *, env: dict[str, str] | None = None, **engine_args: Any
) -> Sequence[ConfigChange]:
    return compare_configs(old, new, deployment=Deployment(engine_args=engine_args, env=env or {}))


def brief(changes: Sequence[ConfigChange]) -> list[tuple[str, str, Any, Any, ChangeRelevance]]:
    return [(change.kind.value, change.name, change.before, change.after, change.matters) for change in changes]


SEQS = argument("--max-num-seqs", default=256)


def test_equal_builds_have_no_changes() -> None:
    same = build(max_num_seqs=SEQS, env={"VLLM_X": 1}, packages={"torch": "2"})
    assert compared(same, same, max_num_seqs=3) == []


def test_a_default_that_the_user_has_not_set_affects_and_one_that_is_set_informs() -> None:
    old, new = build(max_num_seqs=SEQS), build("0.20.0", max_num_seqs=argument("--max-num-seqs", default=1024))
    assert brief(compared(old, new)) == [("default_changed", "--max-num-seqs", 256, 1024, A)]
    assert brief(compared(old, new, max_num_seqs=256)) == [("default_changed", "--max-num-seqs", 256, 1024, I)]


def test_a_removed_flag_blocks_who_uses_it_and_informs_everybody_else() -> None:
    old, new = build(max_num_seqs=SEQS), build("0.20.0", seed=argument("--seed"))
    assert brief(compared(old, new))[:1] == [("flag_removed", "--max-num-seqs", 256, None, I)]
    changes = compared(old, new, max_num_seqs=8)
    assert brief(changes)[:1] == [("flag_removed", "--max-num-seqs", 8, None, B)]
    assert changes[0].why == "0.20.0 has no --max-num-seqs"
    assert [change.kind for change in changes] == [ConfigChangeKind.FLAG_REMOVED, ConfigChangeKind.FLAG_ADDED], (
        "told once"
    )


def test_a_rename_is_reported_only_where_vllm_said_it() -> None:
    said = argument("--old-name", deprecated="Deprecated. Use --new-name instead.")
    new = build("0.20.0", new_name=argument("--new-name"))
    assert ("flag_renamed", "--old-name", None, "--new-name", I) in brief(compared(build(old_name=said), new))
    blocking = compared(build(old_name=said), new, old_name=1)[0]
    assert (blocking.kind, blocking.after, blocking.matters) == (ConfigChangeKind.FLAG_RENAMED, "--new-name", B)
    silent = compared(build(old_name=argument("--old-name")), new)
    assert [change.kind for change in silent] == [ConfigChangeKind.FLAG_REMOVED, ConfigChangeKind.FLAG_ADDED]


def test_an_argument_that_goes_by_another_name_but_takes_the_old_flag_is_not_removed() -> None:
    old, new = build(task=argument("--task")), build("0.20.0", runner=argument("--runner", "--task"))
    assert compared(old, new, task="x") == []


def test_a_lost_alias_is_a_removed_flag() -> None:
    old = build(size=argument("--size", "-sz"))
    new = build("0.20.0", size=argument("--size"))
    assert brief(compared(old, new)) == [("flag_removed", "-sz", None, None, I)]
    assert compared(old, new, sz=1)[0].matters is B


def test_a_choice_that_is_gone_blocks_who_uses_it() -> None:
    old = build(backend=argument("--backend", choices=("a", "b")))
    new = build("0.20.0", backend=argument("--backend", choices=("b", "c")))
    assert brief(compared(old, new, backend="b")) == [("choices_changed", "--backend", ["a"], ["c"], I)]
    assert [change.matters for change in compared(old, new, backend="a")] == [B]


def test_a_switch_that_takes_a_value_now_blocks_who_uses_it() -> None:
    old = build(quick=argument("--quick", values="none"))
    new = build("0.20.0", quick=argument("--quick"))
    assert brief(compared(old, new)) == [("value_changed", "--quick", "none", "one", I)]
    assert brief(compared(old, new, quick=True)) == [("value_changed", "--quick", True, None, B)]


def test_what_the_baseline_does_not_take_either_is_no_change() -> None:
    change = compared(build(max_num_seqs=SEQS), build("0.20.0", max_num_seqs=SEQS), max_num_seqss=4)[0]
    assert (change.kind, change.matters) == (ConfigChangeKind.LAUNCH_REFUSED, I)
    assert (
        change.why
        == "0.20.0 has no --max-num-seqss (did you mean --max-num-seqs?); the baseline does not accept it either"
    )


def test_without_a_known_baseline_a_refusal_is_reported_and_does_not_block() -> None:
    (change,) = compare_configs(None, build(max_num_seqs=SEQS), deployment=Deployment(engine_args={"gone": 1}))
    assert (change.kind, change.matters) == (ConfigChangeKind.LAUNCH_REFUSED, ChangeRelevance.AFFECTS)
    assert compare_configs(build(), None) == []


def test_keys_of_a_group_are_arguments_of_their_own() -> None:
    group = argument("--cc", default="<group>")
    old = build(cc=group, cc__mode=argument("--cc.mode", default=0), cc__gone=argument("--cc.gone"))
    new = build("0.20.0", cc=group, cc__mode=argument("--cc.mode", default=3))
    assert brief(compared(old, new)) == [
        ("default_changed", "--cc.mode", 0, 3, A),
        ("flag_removed", "--cc.gone", None, None, I),
    ]
    assert [change.matters for change in compared(old, new, cc='{"mode": 1}')] == [I, I]
    assert brief(compared(old, new, cc='{"gone": 1}'))[0] == ("flag_removed", "--cc.gone", None, None, B)


def test_a_group_whose_keys_only_one_build_states_is_not_compared() -> None:
    old = build(cc=argument("--cc"), cc__mode=argument("--cc.mode", default=0))
    assert compared(old, build("0.20.0", cc=argument("--cc")), **{"cc.mode": 1}) == []


def test_defaults_within_a_group_that_is_off_only_inform() -> None:
    def with_level(default: int) -> BuildConfig:
        return build(spec=argument("--spec"), spec__level=argument("--spec.level", default=default))

    assert [change.matters for change in compared(with_level(1), with_level(2))] == [I]
    assert [change.matters for change in compared(with_level(1), with_level(2), spec="{}")] == [A]


def test_variables() -> None:
    old = build(env={"VLLM_GONE": 1, "VLLM_MOVED": False, "VLLM_MAIN_CUDA_VERSION": "12.9"})
    new = build("0.20.0", env={"VLLM_MOVED": True, "VLLM_NEW": 0, "VLLM_MAIN_CUDA_VERSION": "13.0"})
    assert brief(compared(old, new)) == [
        ("env_default_changed", "VLLM_MOVED", False, True, A),
        ("env_removed", "VLLM_GONE", 1, None, I),
        ("env_default_changed", "VLLM_MAIN_CUDA_VERSION", "12.9", "13.0", I),
        ("env_added", "VLLM_NEW", None, 0, I),
    ]
    using = {change.name: change for change in compared(old, new, env={"VLLM_GONE": "1", "VLLM_MOVED": "0"})}
    assert using["VLLM_GONE"].matters is B, "it starts, and the setting does nothing any more"
    assert using["VLLM_MOVED"].matters is I


def test_dependencies_come_in_the_order_of_their_weight() -> None:
    old = build(packages={"aiohttp": "3", "torch": "2.10", "transformers": "5", "vllm": "1", "gone": "1"})
    new = build("0.20.0", packages={"aiohttp": "4", "torch": "2.13", "transformers": "6", "vllm": "2", "new": "1"})
    assert [(change.name, change.before, change.after) for change in compared(old, new)] == [
        ("torch", "2.10", "2.13"),
        ("transformers", "5", "6"),
        ("aiohttp", "3", "4"),
        ("gone", "1", None),
        ("new", None, "1"),
    ]


def a_server(backend: str, mode: str = "0", **arguments: Any) -> dict[str, Any]:
    return {
        "backends": {"attention": backend},
        "config": {"dtype": "auto", "compilation_config": f"{{'mode': <Mode.X: {mode}>, 'sizes': [1, 2]}}"},
        "non_default_args": {"port": 8000 + crc32(backend.encode()) % 1000, "max_num_seqs": 4, **arguments},
    }


def test_servers_that_were_started_alike_and_resolved_otherwise() -> None:
    changes = compare_configs(None, None, [a_server("FLASH_ATTN")], [a_server("FLASHINFER", "3")])
    assert brief(changes) == [
        ("resolved_changed", "attention backend", "FLASH_ATTN", "FLASHINFER", A),
        ("resolved_changed", "compilation_config.mode", "<Mode.X: 0>", "<Mode.X: 3>", A),
    ]


def test_servers_that_were_started_otherwise_or_stated_less_are_not_compared() -> None:
    assert compare_configs(None, None, [a_server("A", seed=1)], [a_server("B")]) == []
    silent = {"non_default_args": {"max_num_seqs": 4}}
    assert compare_configs(None, None, [a_server("A")], [silent, {}]) == []


def test_what_one_side_has_not_settled_on_is_no_change() -> None:
    assert compare_configs(None, None, [a_server("A"), a_server("B")], [a_server("B")]) == []


@pytest.mark.parametrize(
    ("engine_args", "blocked"),
    [
        ({"max_num_partial_prefills": 2}, ["--max-num-partial-prefills"]),
        ({"all2all_backend": "mori"}, ["--all2all-backend"]),
        ({"max_model_len": 1024, "enforce_eager": True, "enable_prefix_caching": False}, []),
    ],
)
def test_two_real_builds(engine_args: dict[str, Any], blocked: list[str]) -> None:
    old, new = (ShippedBuilds().build_configs(Version.parse(version))[0] for version in ("0.19.1", "0.32.0"))
    changes = compared(old, new, **engine_args)
    assert [change.name for change in changes if change.matters is B] == blocked
    assert ("default_changed", "--gpu-memory-utilization", 0.9, 0.92, A) in brief(changes)
    assert ("env_default_changed", "VLLM_USE_FLASHINFER_SAMPLER", None, True, A) in brief(changes)


def test_a_server_that_started_with_an_argument_knows_better_than_what_was_read() -> None:
    old, new = build(max_num_seqs=SEQS), build("0.20.0", seed=argument("--seed"))
    deployment = Deployment(engine_args={"max_num_seqs": 8})
    assert compare_configs(old, new, deployment=deployment)[0].matters is ChangeRelevance.BLOCKS
    served = [{"non_default_args": {"max_num_seqs": 8}}]
    changes = compare_configs(old, new, candidate_servers=served, deployment=deployment)
    assert not any(change.matters is ChangeRelevance.BLOCKS for change in changes)
