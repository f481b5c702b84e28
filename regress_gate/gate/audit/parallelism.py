"""Rules on how the model is divided among accelerators."""

from regress_gate.gate.audit.observations import NEEDS_MODEL, Evidence, MissingFact, Observations, argument_evidence
from regress_gate.gate.audit.rule import FindingSeverity, Outcome, Rule, clear, fires


def _indivisible_heads(seen: Observations) -> Outcome:
    size = seen.whole_number("tensor_parallel_size") or 1
    if size == 1:
        return clear("the model is not divided", argument_evidence("tensor_parallel_size", size))
    model = seen.sizes()
    parts = {"attention heads": model.heads, "hidden size": model.hidden_size}
    if model.heads is None:
        raise MissingFact("the model's configuration does not say its attention heads", NEEDS_MODEL)
    given = argument_evidence("tensor_parallel_size", size)
    for name, value in parts.items():
        if value is not None and value % size:
            return fires(
                f"{value} {name} cannot be divided among {size} accelerators",
                given,
                Evidence("model", f"{name} {value}"),
            )
    return clear(f"{size} divides {model.heads} attention heads and the hidden size", given)


RULES: tuple[Rule, ...] = (
    Rule(
        id="TP002",
        title="Tensor parallelism does not divide the model",
        severity=FindingSeverity.HIGH,
        why="vLLM refuses to start where the attention heads cannot be divided; other sizes are padded or kept whole "
        "on every accelerator, which wastes memory and time.",
        remedy="choose a --tensor-parallel-size that divides the attention heads and the hidden size; use "
        "--pipeline-parallel-size or --data-parallel-size for the rest",
        cost="another division of the model, to be measured again",
        url="https://docs.vllm.ai/en/latest/serving/parallelism_scaling.html",
        check=_indivisible_heads,
    ),
)
