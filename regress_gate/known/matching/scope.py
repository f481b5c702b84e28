"""Compares each key of a record's scope with the facts of a deployment: holds, does not hold, or a fact is missing.

Every result has its reason, in the same words for all keys. Not for: what the results mean together (`findings`).
"""

import csv
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from regress_gate.accelerators.registry import accelerator_matches, gpu_level, identify
from regress_gate.known.matching import names
from regress_gate.known.matching.facts import (
    ENGINE_DEFAULTS,
    FEATURE_ARGS,
    NEVER_CHOSEN,
    OFTEN_SET,
    OPT_IN_FEATURES,
    UNSET_BY_DEFAULT,
    ScopeFacts,
)
from regress_gate.model.deployment import ArgValue
from regress_gate.model.issue import BackendScope, IssueKind, KnownIssue, ParallelScope, Scope, WorkloadRegion
from regress_gate.vllm.build_config import COMPUTED
from regress_gate.vllm.release_tables import argument_defaults, env_defaults

if TYPE_CHECKING:
    from regress_gate.model.suite import Workload


@dataclass(frozen=True, slots=True)
class KeyMatch:
    """One scope key compared with the deployment. `holds` is None if a fact is missing."""

    holds: bool | None
    why: str
    """Both values, or the fact that is missing with the flag that gives it."""
    flag: str | None = None
    """The flag that gives a missing fact: `--model`, `--engine-arg kv_cache_dtype`."""
    opt_in: str | None = None
    """What has to be switched on for the key to hold, if that is the missing fact."""


def missing_fact(what: str, flags: str, *, opt_in: str | None = None) -> KeyMatch:
    """The result for a fact that is not given. `flags`: how to give it, the simplest first: `--gpu-arch or
    --accelerator`."""
    return KeyMatch(None, f"{what} ({flags})", re.split(r" or |=", flags)[0], opt_in)


def match_name(
    what: str,
    given: str | None,
    patterns: Sequence[str],
    flag: str,
    matches: Callable[[str, str], bool | None],
    noun: str | None = None,
) -> KeyMatch:
    """A name compared with patterns. If it is missing, `flag` says how to give it and `noun` what to call it."""
    if given is None:
        return missing_fact(f"the {noun or what} is not known", flag)
    holds = any_match(matches(pattern, given) for pattern in patterns)
    if holds is None:
        return missing_fact(f"{what} {given} does not say whether it is {join_or(patterns)}", flag)
    return KeyMatch(holds, match_text(what, given, patterns, holds))


def match_text(what: str, given: str, wanted: Sequence[str], holds: bool) -> str:
    """`accelerator H200`, `accelerator H200 is not B200 or GB200`."""
    return f"{what} {given}" if holds else f"{what} {given} is not {join_or(wanted)}"


def join_or(values: Iterable[str]) -> str:
    return " or ".join(values)


def value_text(value: ArgValue) -> str:
    """An argument's value as it is typed."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def any_match(verdicts: Iterable[bool | None]) -> bool | None:
    """True if one is, else None if one is unknown, else False."""
    seen = set(verdicts)
    return True if True in seen else None if None in seen else False


# Hardware keys: an accelerator has one GPU level, a level leaves the accelerator open, and a platform excludes the
# accelerators of all others.


def _platform(wanted: Sequence[str], facts: ScopeFacts) -> Iterator[KeyMatch]:
    yield match_name("platform", facts.platform, wanted, "--accelerator or --platform", str.__eq__)


def _accelerator(patterns: list[str], facts: ScopeFacts) -> Iterator[KeyMatch]:
    given = facts.accelerator
    if given is None:
        if facts.platform is not None and not any(_may_be_part(pattern, facts) for pattern in patterns):
            yield KeyMatch(False, f"{facts.gpu_arch or facts.platform} is not the level of {join_or(patterns)}")
        else:
            is_rare = facts.platform == "cpu" and all(p.casefold().startswith(_RARE_CPUS) for p in patterns)
            opt_in = f"a machine of {join_or(patterns)}" if is_rare else None
            yield missing_fact("the accelerator is not known", "--accelerator", opt_in=opt_in)
        return
    holds = any_match(_part_matches(pattern, given, facts) for pattern in patterns)
    if holds is None:
        yield missing_fact(f"{given} does not say whether it is {join_or(patterns)}", "--accelerator")
    else:
        yield KeyMatch(holds, match_text("accelerator", given, patterns, holds))


_RARE_CPUS = ("apple", "s390x", "z1", "telum", "power", "ppc64")
"""How the names begin of those on which vLLM's builds for CPUs seldom run. Who serves on one names it."""


def _part_matches(pattern: str, given: str, facts: ScopeFacts) -> bool | None:
    """A level (`SM120`) means every accelerator of that level; None if the deployment gives only its level.

    An unknown name may be a typing error: it excludes only what its platform and level exclude.
    """
    if accelerator_matches(pattern, given):
        return True
    if level := gpu_level(pattern):
        return None if facts.gpu_arch is None and _may_be_part(pattern, facts) else level == facts.gpu_arch
    if identify(given).platform is None:
        return None if _may_be_part(pattern, facts) else False
    return None if gpu_level(given) and gpu_level(given) == identify(pattern).gpu_arch else False


def _may_be_part(pattern: str, facts: ScopeFacts) -> bool:
    """Whether the known platform and level allow the accelerator that the pattern means."""
    meant = identify(pattern)
    if meant.platform is not None and facts.platform is not None and meant.platform != facts.platform:
        return False
    return meant.gpu_arch is None or facts.gpu_arch is None or meant.gpu_arch == facts.gpu_arch


def _gpu_arch(patterns: list[str], facts: ScopeFacts) -> Iterator[KeyMatch]:
    if facts.gpu_arch is None and facts.platform is not None:
        gpus = {"sm_": "cuda", "gfx": "rocm"}
        if all(gpus[pattern[:3]] != facts.platform for pattern in patterns):
            yield KeyMatch(False, f"platform {facts.platform} has no {join_or(patterns)}")
            return
    yield match_name("GPU level", facts.gpu_arch, patterns, "--accelerator or --gpu-arch", names.text_matches)


_OPERATORS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "==": operator.eq}


def match_keys(scope: Scope, facts: ScopeFacts, workloads: "Sequence[Workload]" = ()) -> Iterator[KeyMatch]:
    """One result for each key of the scope."""
    for name, wanted in scope:
        if wanted:
            yield from _KEY_MATCHERS[name](wanted, facts) if name != "workload" else [_workload(wanted, workloads)]


def in_region(region: WorkloadRegion, workload: "Workload") -> bool:
    """Whether the workload lies in the region. A number that the workload does not give may have any value."""
    for field, condition in region:
        given = getattr(workload, field)
        if condition is not None and given is not None and not _meets_condition(condition, given):
            return False
    return True


def _model(patterns: list[str], facts: ScopeFacts) -> Iterator[KeyMatch]:
    given = facts.model
    if given is None:
        yield missing_fact("the model is not known", "--model")
        return
    holds = any_match(names.model_matches(pattern, given) for pattern in patterns)
    if holds is None:
        what = f"model {given} may be {join_or(patterns)}, but its publisher is another or not given"
        yield missing_fact(what, "--model")
    else:
        yield KeyMatch(holds, match_text("model", given, patterns, holds))


def _architecture(patterns: list[str], facts: ScopeFacts) -> Iterator[KeyMatch]:
    yield match_name("architecture", facts.architecture, patterns, "--architecture", names.text_matches)


def _features(wanted: Sequence[str], facts: ScopeFacts) -> Iterator[KeyMatch]:
    known = {name: used for name, used in facts.features.items() if name in wanted}
    used = [name for name in wanted if known.get(name)]
    if used:
        yield KeyMatch(True, f"{used[0]} is in use")
    elif len(known) == len(set(wanted)):
        yield KeyMatch(False, f"{join_or(wanted)} is not in use")
    else:
        open_ = [name for name in wanted if name not in known]
        yield missing_fact(
            f"whether {join_or(open_)} is in use is not known",
            f"--feature {open_[0]}=true or =false",
            opt_in=join_or(open_) if set(open_) <= set(OPT_IN_FEATURES) and not _may_be_on(open_, facts) else None,
        )


def _all_features(wanted: Sequence[str], facts: ScopeFacts) -> Iterator[KeyMatch]:
    for name in wanted:
        yield from _features([name], facts)


def _may_be_on(features: Iterable[str], facts: ScopeFacts) -> bool:
    """Whether an argument that switches one of the features on is set to an unknown value."""
    return any(key in facts.open_args for feature in features for key in FEATURE_ARGS.get(feature, ()))


def _quantization(patterns: list[str], facts: ScopeFacts) -> Iterator[KeyMatch]:
    """The deployment's own quantization and vLLM's argument are both facts; one match is enough."""
    if not facts.quantizations:
        yield missing_fact("the quantization is not known", "--quantization")
        return
    shown = " / ".join(dict.fromkeys(facts.quantizations))
    holds = any_match(names.quantization_matches(p, fact) for fact in facts.quantizations for p in patterns)
    stated = facts.quantizations[0]
    if holds is None and len(facts.quantizations) > 1 and names.quantization_is_clear(stated):
        holds = False  # the argument names a container format, the deployment says what it contains
    if holds is None:
        yield missing_fact(f"quantization {shown} does not say whether it is {join_or(patterns)}", "--quantization")
    else:
        yield KeyMatch(holds, match_text("quantization", shown, patterns, holds))


def _kv_cache_dtype(patterns: list[str], facts: ScopeFacts) -> Iterator[KeyMatch]:
    given = facts.kv_cache_dtype
    # `auto`: the checkpoint decides, and only a checkpoint in a container format can ask for another type.
    open_ = not facts.quantizations or not all(names.quantization_is_clear(name) for name in facts.quantizations)
    if given == "auto" and open_ and not any(names.text_matches(pattern, given) for pattern in patterns):
        yield missing_fact("the checkpoint decides the type of the KV cache", "--engine-arg kv_cache_dtype=…")
        return
    flag = "--engine-arg kv_cache_dtype=…"
    yield match_name("KV cache of type", given, patterns, flag, names.text_matches, "type of the KV cache")


def _moe_quantization(patterns: list[str], facts: ScopeFacts) -> Iterator[KeyMatch]:
    given = facts.moe_quantization
    if given is None and facts.features.get("moe") is False:
        yield KeyMatch(False, "the model has no experts")
    else:
        what = "quantization of the experts"
        yield match_name(what, given, patterns, "--moe-quantization", names.quantization_matches)


def _parallel(wanted: ParallelScope, facts: ScopeFacts) -> Iterator[KeyMatch]:
    for size, condition in wanted:
        if size == "expert":
            if condition is not None:
                yield _engine_arg("enable_expert_parallel", [condition], facts)
        elif condition is not None:
            given = facts.sizes.get(size)
            if isinstance(given, bool) or not isinstance(given, int | float):
                # The size of the tensor parallel group is no opt-in: most models of several cards set it.
                is_off = size in ("pipeline", "data") and not _meets_condition(condition, 1)
                yield missing_fact(
                    f"the {size} parallel size is not known",
                    f"--engine-arg {size}_parallel_size=…",
                    opt_in=f"{size} parallelism" if is_off and f"{size}_parallel_size" not in facts.open_args else None,
                )
            else:
                holds = _meets_condition(condition, given)
                yield KeyMatch(holds, f"{size} parallel size {given} is {'' if holds else 'not '}{condition}")


def _backends(wanted: BackendScope, facts: ScopeFacts) -> Iterator[KeyMatch]:
    for part, patterns in wanted:
        if patterns:
            if part == "moe" and facts.features.get("moe") is False:
                yield KeyMatch(False, "the model has no experts")
                continue
            flag = f"--server-log or --backend {part}=…"
            yield match_name(f"{part} backend", facts.backends.get(part), patterns, flag, names.backend_matches)


def _dependencies(wanted: Mapping[str, str], facts: ScopeFacts) -> Iterator[KeyMatch]:
    for name, specifiers in wanted.items():
        given = facts.dependencies.get(canonicalize_name(name))
        if given is None:
            is_off = specifiers == names.ANY_RELEASE or _is_other_package(name)
            opt_in = f"package {name}" if is_off else None
            flags = f"--collect-env or --dependency {name}=…"
            yield missing_fact(f"the version of {name} is not known", flags, opt_in=opt_in)
            continue
        try:
            holds = SpecifierSet(specifiers).contains(Version(given), prereleases=True)
        except InvalidVersion:
            yield missing_fact(f"{name} {given} is not a version that can be compared", f"--dependency {name}=…")
            continue
        yield KeyMatch(holds, f"{name} {given} is {'' if holds else 'not '}{specifiers}")


@cache
def _other_programs(column: str) -> Mapping[str, str]:
    """Of the programs that run vLLM inside of them or on it, which no `vllm serve` starts: by what the names of their
    images and projects hold (`in_names`), or by the package that neither vLLM nor its images bring (`package`), which
    parts of vLLM they may have of their own.

    vLLM-Omni is started by `vllm serve --omni`, too.
    """
    text = (resources.files(__package__) / "other_programs.csv").read_text(encoding="utf-8")
    return {row[column]: row["brings"] for row in csv.DictReader(text.splitlines()) if row[column]}


_SERVER_FILES = "vllm/entrypoints/"
_MODEL_FILES = "vllm/model_executor/models/"


def match_program(issue: KnownIssue, facts: ScopeFacts) -> Iterator[KeyMatch]:
    """A missing fact where another program runs vLLM inside of it and may bring the issue's part itself.

    Such a program sets options of its own in the place of vLLM's defaults, and answers requests by a server of its own.
    """
    name = "vllm-omni" if "omni" in facts.args else (facts.distribution or "").casefold()
    programs = _other_programs("in_names")
    # `llmisvc` holds `lmi`, too: the longest name is the one that is meant.
    program = max((program for program in programs if program in name), key=len, default="")
    brings = programs.get(program)
    if not brings or issue.scope.distribution or any(map(_is_other_package, issue.scope.dependencies or ())):
        return
    files = [condition.file or "" for condition in issue.code]
    is_of_server = issue.kind is IssueKind.DEFAULT_CHANGE or any(file.startswith(_SERVER_FILES) for file in files)
    is_of_model = "models" in brings and any(file.startswith(_MODEL_FILES) for file in files)
    if is_of_server or is_of_model:
        yield KeyMatch(None, f"{program} may differ here")


def _is_other_package(name: str) -> bool:
    return canonicalize_name(name) in _other_programs("package")


def _distribution(patterns: list[str], facts: ScopeFacts) -> Iterator[KeyMatch]:
    is_other = all(any(name in pattern for name in _other_programs("in_names")) for pattern in patterns)
    if facts.distribution is not None or not is_other:
        yield match_name("distribution", facts.distribution, patterns, "--distribution", names.text_matches)
    elif facts.complete and "omni" not in facts.args:
        yield KeyMatch(False, f"the launch line is vLLM's own, not that of {join_or(patterns)}")
    else:
        flags = "--distribution" if facts.complete else "--serve-command or --distribution"
        yield missing_fact("the distribution is not known", flags, opt_in=f"the server of {join_or(patterns)}")


def _engine_args(wanted: Mapping[str, ArgValue | list[ArgValue]], facts: ScopeFacts) -> Iterator[KeyMatch]:
    for key, value in wanted.items():
        yield _engine_arg(key, value if isinstance(value, list) else [value], facts)


def _engine_arg(key: str, wanted: Sequence[ArgValue], facts: ScopeFacts) -> KeyMatch:
    given = facts.args.get(key)
    if list(wanted) == [names.ANY_VALUE]:
        if key in facts.set_args or key.partition(".")[0] in facts.open_args:
            return KeyMatch(True, f"engine argument {key} is set")
        if facts.complete:
            return KeyMatch(False, f"engine argument {key} is not set")
        what, opt_in = f"whether engine argument {key} is set is not known", None if key in OFTEN_SET else key
        return missing_fact(what, f"--engine-arg {key}=…", opt_in=opt_in)
    if given is None:
        whole = key.partition(".")[0]
        if whole in facts.unused:
            return KeyMatch(False, f"engine argument {whole} is not set")
        if facts.complete and whole not in facts.open_args and _needs_setting(key, wanted):
            return KeyMatch(False, f"engine argument {key} is not set, and by default not {_values_text(wanted)}")
        is_off = (
            (ENGINE_DEFAULTS.get(key) is False and list(wanted) == [True])
            or (whole in UNSET_BY_DEFAULT and not any(name.partition(".")[0] == whole for name in facts.args))
            or (key == "distributed_executor_backend" and list(wanted) == ["ray"])
        )
        is_off &= whole not in facts.open_args
        return missing_fact(
            f"the engine argument {key} is not known", f"--engine-arg {key}=…", opt_in=key if is_off else None
        )
    holds = any(names.same_value(given, value) for value in wanted)
    return KeyMatch(
        holds, match_text(f"engine argument {key}", value_text(given), [value_text(value) for value in wanted], holds)
    )


def _values_text(wanted: Sequence[ArgValue]) -> str:
    return join_or(map(value_text, wanted))


def _needs_setting(key: str, wanted: Sequence[ArgValue]) -> bool:
    """Whether an argument has one of the values only where it is set, in every release."""
    if all(value in NEVER_CHOSEN.get(key, ()) for value in wanted):
        return True
    defaults = argument_defaults(key)
    is_default = any(names.same_value(str(default), value) for default in defaults for value in wanted)
    return _are_fixed(defaults) and not is_default


def _are_fixed(defaults: Sequence[object]) -> bool:
    """Whether the defaults are known and vLLM takes them as they are. What is null or `auto` it fills in, and
    `<platform>` depends on where it runs."""
    filled = (default in (None, "auto") or str(default).startswith("<") for default in defaults)
    return bool(defaults) and not any(filled)


_ON_IN_SOME_RELEASES = ("VLLM_USE_V1", "VLLM_USE_DEEP_GEMM", "VLLM_USE_FLASHINFER_SAMPLER")
_SET_BY_IMAGES = "VLLM_ROCM_USE_AITER"
"""How the variables begin that images for ROCm set: they switch AITER on."""
_FORMER_ENGINE = ("VLLM_USE_V1", "0")
"""The engine before the present one. Who still asks for it names the variable with the launch line."""


def _env(wanted: Mapping[str, str | list[str]], facts: ScopeFacts) -> Iterator[KeyMatch]:
    for key, value in wanted.items():
        allowed = value if isinstance(value, list) else [value]
        given = facts.env.get(key)
        if allowed == [names.ANY_VALUE]:
            yield _any_env(key, facts)
        elif given is None and _is_unset(key, allowed, facts):
            yield KeyMatch(False, f"variable {key} is not set")
        elif given is None:
            is_off = _is_opt_in(key, allowed) and key not in facts.unknown_env
            yield missing_fact(
                f"the variable {key} is not known", f"--env {key}=…", opt_in=f"variable {key}" if is_off else None
            )
        else:
            holds = any(names.same_env_value(given, one) for one in allowed)
            yield KeyMatch(holds, match_text(f"variable {key}", given, allowed, holds))


def _any_env(variable: str, facts: ScopeFacts) -> KeyMatch:
    """Whether the variable is set, to whatever value."""
    if variable in facts.env or variable in facts.unknown_env:
        return KeyMatch(True, f"variable {variable} is set")
    what = f"variable {variable} is not set"
    return KeyMatch(False, what) if facts.complete_env else missing_fact(what, f"--env {variable}=…", opt_in=variable)


def _is_opt_in(variable: str, allowed: Sequence[str]) -> bool:
    """Whether the variable has such a value only for those who set it.

    More than one value, with a default among them, means in a record: whoever sets it.
    """
    if variable in _ON_IN_SOME_RELEASES or variable.startswith(_SET_BY_IMAGES):
        return False
    if all(names.same_env_value(one, "1") for one in allowed) or {"0", "1"} <= set(allowed):
        return True
    return _are_fixed(env_defaults(variable)) and (len(allowed) > 1 or not _is_default(variable, allowed))


def _is_unset(variable: str, allowed: Sequence[str], facts: ScopeFacts) -> bool:
    """Whether the variable is known not to be set, and its default in every release is another value."""
    if variable in facts.unknown_env or variable.startswith(_SET_BY_IMAGES):
        return False
    if not facts.complete_env and not (facts.complete and (variable, *allowed) == _FORMER_ENGINE):
        return False
    return bool(env_defaults(variable)) and not _is_default(variable, allowed)


def _is_default(variable: str, allowed: Sequence[str]) -> bool:
    """Whether one of the values is, or may be, the default of a release."""
    return any(
        default == COMPUTED or names.same_env_value(str(default), one)
        for default in env_defaults(variable)
        for one in allowed
    )


def _unless(exceptions: Sequence[Scope], facts: ScopeFacts) -> Iterator[KeyMatch]:
    """An exception excludes a deployment if all of its keys hold.

    An opt-in that nothing mentions excludes nothing: the record stays in force. Any other fact that an exception lacks
    is a missing fact.
    """
    for exception in exceptions:
        keys = list(match_keys(exception, facts))
        if any(key.holds is False or key.opt_in for key in keys):
            continue
        missing = [key for key in keys if key.holds is None]
        yield from missing
        if not missing:
            yield KeyMatch(False, f"not with {' and '.join(key.why for key in keys)}")


def _workload(region: WorkloadRegion, workloads: "Sequence[Workload]") -> KeyMatch:
    limits = ", ".join(f"{field} {condition}" for field, condition in region if condition is not None)
    if not workloads:
        return KeyMatch(True, f"affects workloads with {limits}; no workload is given")
    holds = any(in_region(region, workload) for workload in workloads)
    return KeyMatch(holds, f"affects workloads with {limits}, as {'one' if holds else 'none'} of the given ones")


_KEY_MATCHERS: dict[str, Callable[..., Iterator[KeyMatch]]] = {
    "platform": _platform,
    "accelerator": _accelerator,
    "gpu_arch": _gpu_arch,
    "model": _model,
    "architecture": _architecture,
    "features": _features,
    "all_features": _all_features,
    "quantization": _quantization,
    "kv_cache_dtype": _kv_cache_dtype,
    "moe_quantization": _moe_quantization,
    "parallel": _parallel,
    "backends": _backends,
    "dependencies": _dependencies,
    "distribution": _distribution,
    "engine_args": _engine_args,
    "env": _env,
    "unless": _unless,
}


def _meets_condition(condition: str, given: float) -> bool:
    match = re.fullmatch(r"(<=|>=|<|>|==)?\s*(\d+(?:\.\d+)?)", condition.strip())
    if match is None:
        raise ValueError(f"{condition!r} is not a condition on a number")
    return bool(_OPERATORS[match[1] or "=="](given, float(match[2])))
