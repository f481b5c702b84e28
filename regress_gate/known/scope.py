"""Each key of a record's scope held against the facts of a deployment: holds, does not hold, or a fact is missing."""

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from regress_gate.known import names
from regress_gate.known.facts import Facts
from regress_gate.known.key import Key, any_holds, any_of, listed_or_missing, missing, said, shown
from regress_gate.known.scope_hardware import accelerator, gpu_arch, platform
from regress_gate.model.deployment import ArgValue
from regress_gate.model.scope import BackendScope, ParallelScope, Scope, WorkloadRegion

if TYPE_CHECKING:
    from regress_gate.model.suite import Workload

_COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "==": operator.eq}


def keys(scope: Scope, facts: Facts, workloads: "Sequence[Workload]" = ()) -> Iterator[Key]:
    """All keys of the scope, one after the other."""
    for name, wanted in scope:
        if wanted:
            yield from _HOLD[name](wanted, facts) if name != "workload" else [_workload(wanted, workloads)]


def in_region(region: WorkloadRegion, workload: "Workload") -> bool:
    """Whether the workload lies in the region; a number that the workload does not give may be any."""
    for field, condition in region:
        given = getattr(workload, field)
        if condition is not None and given is not None and not _meets(condition, given):
            return False
    return True


def _model(patterns: list[str], facts: Facts) -> Iterator[Key]:
    given = facts.model
    if given is None:
        yield missing("the model is not known", "--model")
        return
    holds = any_holds(names.model_matches(pattern, given) for pattern in patterns)
    if holds is None:
        yield missing(f"model {given} has the name of {any_of(patterns)} but another publisher", "--model")
    else:
        yield Key(holds, said("model", given, patterns, holds))


def _architecture(patterns: list[str], facts: Facts) -> Iterator[Key]:
    yield listed_or_missing("architecture", facts.architecture, patterns, "--architecture", names.text_matches)


def _features(wanted: Sequence[str], facts: Facts) -> Iterator[Key]:
    known = {name: used for name, used in facts.features.items() if name in wanted}
    used = [name for name in wanted if known.get(name)]
    if used:
        yield Key(True, f"{used[0]} is in use")
    elif len(known) == len(set(wanted)):
        yield Key(False, f"{any_of(wanted)} is not in use")
    else:
        open_ = [name for name in wanted if name not in known]
        yield missing(f"whether {any_of(open_)} is in use is not known", f"--feature {open_[0]}=true or =false")


def _quantization(patterns: list[str], facts: Facts) -> Iterator[Key]:
    """Both the deployment's own word and vLLM's argument are facts; one that fits is enough."""
    if not facts.quantizations:
        yield missing("the quantization is not known", "--quantization")
        return
    shown = " / ".join(dict.fromkeys(facts.quantizations))
    holds = any_holds(names.quantization_matches(p, fact) for fact in facts.quantizations for p in patterns)
    stated = facts.quantizations[0]
    if holds is None and len(facts.quantizations) > 1 and names.quantization_is_clear(stated):
        holds = False  # the argument names a container, the deployment says what is in it
    if holds is None:
        yield missing(f"quantization {shown} does not say whether it is {any_of(patterns)}", "--quantization")
    else:
        yield Key(holds, said("quantization", shown, patterns, holds))


def _kv_cache_dtype(patterns: list[str], facts: Facts) -> Iterator[Key]:
    given = facts.kv_cache_dtype
    # The checkpoint decides then, and only one in a container format can ask for another type than the model's.
    open_ = not facts.quantizations or not all(names.quantization_is_clear(name) for name in facts.quantizations)
    if given == "auto" and open_ and not any(names.text_matches(pattern, given) for pattern in patterns):
        yield missing("the checkpoint decides the type of the KV cache", "--engine-arg kv_cache_dtype=…")
        return
    flag = "--engine-arg kv_cache_dtype=…"
    yield listed_or_missing("KV cache of type", given, patterns, flag, names.text_matches, "type of the KV cache")


def _moe_quantization(patterns: list[str], facts: Facts) -> Iterator[Key]:
    given = facts.moe_quantization
    if given is None and facts.features.get("moe") is False:
        yield Key(False, "the model has no experts")
    else:
        what = "quantization of the experts"
        yield listed_or_missing(what, given, patterns, "--moe-quantization", names.quantization_matches)


def _parallel(wanted: ParallelScope, facts: Facts) -> Iterator[Key]:
    for size, condition in wanted:
        if size == "expert":
            if condition is not None:
                yield _engine_arg("enable_expert_parallel", [condition], facts)
        elif condition is not None:
            given = facts.sizes.get(size)
            if isinstance(given, bool) or not isinstance(given, int | float):
                yield missing(f"the {size} parallel size is not known", f"--engine-arg {size}_parallel_size=…")
            else:
                holds = _meets(condition, given)
                yield Key(holds, f"{size} parallel size {given} is {'' if holds else 'not '}{condition}")


def _backends(wanted: BackendScope, facts: Facts) -> Iterator[Key]:
    for part, patterns in wanted:
        if patterns:
            if part == "moe" and facts.features.get("moe") is False:
                yield Key(False, "the model has no experts")
                continue
            flag = f"--server-log or --backend {part}=…"
            yield listed_or_missing(f"{part} backend", facts.backends.get(part), patterns, flag, names.backend_matches)


def _dependencies(wanted: Mapping[str, str], facts: Facts) -> Iterator[Key]:
    for name, specifiers in wanted.items():
        given = facts.dependencies.get(canonicalize_name(name))
        if given is None:
            yield missing(f"the version of {name} is not known", f"--collect-env or --dependency {name}=…")
            continue
        try:
            holds = SpecifierSet(specifiers).contains(Version(given), prereleases=True)
        except InvalidVersion:
            yield missing(f"{name} {given} is no version that can be compared", f"--dependency {name}=…")
            continue
        yield Key(holds, f"{name} {given} is {'' if holds else 'not '}{specifiers}")


def _distribution(patterns: list[str], facts: Facts) -> Iterator[Key]:
    yield listed_or_missing("distribution", facts.distribution, patterns, "--distribution", names.text_matches)


def _engine_args(wanted: Mapping[str, ArgValue | list[ArgValue]], facts: Facts) -> Iterator[Key]:
    for key, value in wanted.items():
        yield _engine_arg(key, value if isinstance(value, list) else [value], facts)


def _engine_arg(key: str, wanted: Sequence[ArgValue], facts: Facts) -> Key:
    given = facts.args.get(key)
    if given is None:
        if key in facts.unused:
            return Key(False, f"engine argument {key} is not set")
        return missing(f"the engine argument {key} is not known", f"--engine-arg {key}=…")
    holds = any(names.same_value(given, value) for value in wanted)
    return Key(holds, said(f"engine argument {key}", shown(given), [shown(value) for value in wanted], holds))


def _env(wanted: Mapping[str, str | list[str]], facts: Facts) -> Iterator[Key]:
    for key, value in wanted.items():
        allowed = value if isinstance(value, list) else [value]
        given = facts.env.get(key)
        if given is None:
            yield missing(f"the variable {key} is not known", f"--env {key}=…")
        else:
            holds = any(names.same_variable(given, one) for one in allowed)
            yield Key(holds, said(f"variable {key}", given, allowed, holds))


def _workload(region: WorkloadRegion, workloads: "Sequence[Workload]") -> Key:
    bites = ", ".join(f"{field} {condition}" for field, condition in region if condition is not None)
    if not workloads:
        return Key(True, f"bites at {bites}; no workload given, so it may")
    holds = any(in_region(region, workload) for workload in workloads)
    return Key(holds, f"bites at {bites}, {'where a workload is' if holds else 'where no workload is'}")


_HOLD: dict[str, Callable[..., Iterator[Key]]] = {
    "platform": platform,
    "accelerator": accelerator,
    "gpu_arch": gpu_arch,
    "model": _model,
    "architecture": _architecture,
    "features": _features,
    "quantization": _quantization,
    "kv_cache_dtype": _kv_cache_dtype,
    "moe_quantization": _moe_quantization,
    "parallel": _parallel,
    "backends": _backends,
    "dependencies": _dependencies,
    "distribution": _distribution,
    "engine_args": _engine_args,
    "env": _env,
}


def _meets(condition: str, given: float) -> bool:
    found = re.fullmatch(r"(<=|>=|<|>|==)?\s*(\d+(?:\.\d+)?)", condition.strip())
    if found is None:
        raise ValueError(f"{condition!r} is no condition on a number")
    return bool(_COMPARE[found[1] or "=="](given, float(found[2])))
