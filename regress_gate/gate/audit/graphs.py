"""Rules on CUDA graphs and compilation."""

from regress_gate.gate.audit.observations import (
    NEEDS_LOG,
    NEEDS_SECOND_START,
    NEEDS_VERSION,
    NEEDS_WINDOW,
    Evidence,
    MissingFact,
    Observations,
    argument_evidence,
    log_evidence,
)
from regress_gate.gate.audit.rule import FindingSeverity, Outcome, Rule, clear, fires, not_applicable

_GRAPHS = "https://docs.vllm.ai/en/latest/design/cuda_graphs.html"
_COMPILE = "https://docs.vllm.ai/en/latest/design/torch_compile.html"
_SIZES = ("cudagraph_capture_sizes", "max_cudagraph_capture_size", "compilation_config", "optimization_level")
_LIMIT = 512
"""Requests: the largest graph by default, as `_set_cudagraph_sizes` of vLLM's configuration has it since 0.11."""
_LIMIT_OF_LARGE_BLACKWELL = 1024
_LARGER_LIMIT_SINCE = ">=0.28"
_LARGE_BLACKWELL = frozenset({"sm_100", "sm_103"})
_LONG_COMPILATION = 10.0
"""Seconds."""
_FEWER_GRAPHS = ("graph_mode_overridden", "capture_skipped", "encoder_capture_skipped")
_NO_GRAPHS = ("cpu", "tpu")
"""Platforms whose servers have no graphs to lose."""


def _without_graphs(seen: Observations) -> str | None:
    platform = seen.facts.platform
    return f"{platform} has no CUDA graphs" if platform in _NO_GRAPHS else None


def _eager(seen: Observations) -> Outcome:
    if why := _without_graphs(seen):
        return not_applicable(why)
    if seen.arguments.get("enforce_eager") is True:
        return fires("the launch line switches graphs and compilation off", argument_evidence("enforce_eager", ""))
    if seen.log is not None and (lines := [*seen.log.found("eager"), *seen.log.found("graphs_off")]):
        return fires("the server runs in eager mode", *log_evidence(lines))
    if seen.is_on("enforce_eager"):
        return fires("the server runs in eager mode", argument_evidence("enforce_eager", "true"))
    return clear("eager mode is not set")


def _overridden(seen: Observations) -> Outcome:
    if why := _without_graphs(seen):
        return not_applicable(why)
    mode = str(seen.arguments.get("compilation_config.cudagraph_mode", "")).upper()
    if mode == "NONE":
        return fires(
            "the launch line switches the graphs off", argument_evidence("compilation_config.cudagraph_mode", mode)
        )
    if lines := seen.lines(*_FEWER_GRAPHS):
        return fires("vLLM captures fewer graphs than were asked for; its line says why", *log_evidence(lines))
    return clear("vLLM did not change the mode of the graphs")


def _largest_captured(seen: Observations) -> tuple[int, Evidence]:
    """The largest batch with a graph: as printed, as given, or the default of the release."""
    for name in ("max_cudagraph_capture_size", "compilation_config.max_cudagraph_capture_size"):
        given = seen.arguments.get(name)
        if isinstance(given, int) and not isinstance(given, bool):
            return given, argument_evidence(name, given)
    if seen.start is not None and (printed := seen.start.max_capture_size) is not None:
        return printed, Evidence("log", f"max_cudagraph_capture_size: {printed}")
    return _default_largest(seen)


def _default_largest(seen: Observations) -> tuple[int, Evidence]:
    """Where nothing sets the sizes: twice --max-num-seqs, which more requests than that never exceed, and at most the
    release's limit. What runs is so compared with the limit alone."""
    if seen.platform() not in ("cuda", "rocm"):
        raise MissingFact("the default sizes of this platform are not known", NEEDS_LOG)
    if any(seen.given(name) is not None for name in _SIZES) or any(
        name.startswith("compilation_config.") for name in seen.arguments
    ):
        raise MissingFact("the largest of the sizes that are set is not known", NEEDS_LOG)
    if seen.facts.features.get("speculative_decoding") is not False:
        raise MissingFact("graphs count the tokens of drafts too", NEEDS_LOG)
    if seen.version is None or seen.version.number is None:
        raise MissingFact("the version of vLLM, and so its default, is not known", NEEDS_VERSION)
    limit = _LIMIT
    if seen.platform() == "cuda" and seen.is_release(_LARGER_LIMIT_SINCE):
        limit = _LIMIT_OF_LARGE_BLACKWELL if seen.gpu_level() in _LARGE_BLACKWELL else _LIMIT
    return limit, Evidence("argument", f"the sizes are not set; vLLM {seen.version} captures at most {limit}")


def _beyond_graphs(seen: Observations) -> Outcome:
    if why := _without_graphs(seen):
        return not_applicable(why)
    if seen.arguments.get("enforce_eager") is True:
        return not_applicable("there are no graphs")
    largest, source = _largest_captured(seen)
    if seen.metrics is not None:
        running = int(seen.metrics.largest("vllm:num_requests_running"))
        evidence = seen.metrics.evidence(f"{running} requests running in one engine")
    else:
        statistics = seen.statistics()
        running = statistics.peak_running
        evidence = Evidence("log", f"at most {running} requests running")
    if running > largest:
        return fires(f"{running} requests run at once, and the largest graph holds {largest}", source, evidence)
    if not running:
        raise MissingFact("no request runs in the scrapes", NEEDS_WINDOW)
    return clear(f"graphs reach {largest} requests, and {running} run", source, evidence)


def _capped(seen: Observations) -> Outcome:
    if lines := seen.lines("capture_capped"):
        first, to = lines[0].groups
        return fires(f"graphs reach batches of {to} instead of {first}", *log_evidence(lines))
    return clear("vLLM did not limit the sizes")


def _cold_compilation(seen: Observations) -> Outcome:
    architecture = seen.facts.architecture or ""
    if architecture.startswith("Llama4"):
        return not_applicable("vLLM's recipe for Llama 4 switches the cache off on purpose")
    if seen.arguments.get("enforce_eager") is True:
        return not_applicable("nothing is compiled")
    disabled = seen.facts.env.get("VLLM_DISABLE_COMPILE_CACHE")
    if disabled not in (None, "", "0"):
        variable = Evidence("environment", f"VLLM_DISABLE_COMPILE_CACHE={disabled}")
        return fires("the cache of compiled graphs is switched off", variable)
    if hits := seen.lines("compile_cache_hit"):
        return clear("compiled graphs were loaded from the cache", *log_evidence(hits, 1))
    long = [line for line in seen.lines("compiled") if float(line.groups[0]) > _LONG_COMPILATION]
    if long and seen.log is not None and not seen.log.compiled_before:
        raise MissingFact("this start compiled all graphs, as the first one has to", NEEDS_SECOND_START)
    if long:
        return fires("this start compiled all graphs anew, and an earlier one had them", *log_evidence(long))
    return clear("this start compiled nothing for long")


RULES: tuple[Rule, ...] = (
    Rule(
        id="CG001",
        title="Eager mode",
        severity=FindingSeverity.MEDIUM,
        why="Every kernel is started by the CPU one by one, and nothing is fused: decoding of small batches is often "
        "bound by the CPU.",
        remedy="leave --enforce-eager out; to save start-up time or memory only, capture fewer sizes "
        "(cudagraph_capture_sizes in --compilation-config)",
        cost="start-up time and some GiB of memory",
        url=_GRAPHS,
        check=_eager,
        signals=("eager", "graphs_off"),
    ),
    Rule(
        id="CG002",
        title="CUDA graphs are off or reduced",
        severity=FindingSeverity.MEDIUM,
        why="Parts of each step, or all of it, are started by the CPU kernel by kernel, which lengthens ITL.",
        remedy="drop what is incompatible with full graphs (the line names it), or choose an attention backend that "
        "supports them",
        cost="what the incompatible feature gives",
        url=_GRAPHS,
        check=_overridden,
        signals=_FEWER_GRAPHS,
    ),
    Rule(
        id="CG003",
        title="Batches beyond the captured graphs",
        severity=FindingSeverity.MEDIUM,
        why="A step with more requests than the largest graph holds runs without one: ITL jumps at that batch.",
        remedy="raise --max-cudagraph-capture-size to the requests that run at once, or limit --max-num-seqs to the "
        "largest graph",
        cost="start-up time and memory for the larger graphs",
        url=_GRAPHS,
        check=_beyond_graphs,
        versions=">=0.12",
        metrics=("vllm:num_requests_running",),
    ),
    Rule(
        id="CG004",
        title="Graph sizes are limited by the Mamba cache",
        severity=FindingSeverity.MEDIUM,
        why="There are fewer state blocks than requests in the largest graph, so that larger batches run without one.",
        remedy="lower --max-num-seqs, or give the cache more memory",
        cost="fewer requests at once, or memory",
        url=_GRAPHS,
        check=_capped,
        versions=">=0.18,<0.20",
        signals=("capture_capped",),
    ),
    Rule(
        id="COMP001",
        title="Graphs are compiled at every start",
        severity=FindingSeverity.LOW,
        why="Compilation takes from half a minute to several; a container without a lasting cache pays it at "
        "every start "
        "and every scale-up.",
        remedy="keep ~/.cache/vllm (VLLM_CACHE_ROOT) on a volume, and leave VLLM_DISABLE_COMPILE_CACHE out",
        cost="a volume; its content belongs to one version, model and accelerator",
        url=_COMPILE,
        check=_cold_compilation,
        signals=("compiled", "compile_cache_hit"),
    ),
)
