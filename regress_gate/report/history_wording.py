"""Words that `detect` and `history` share. Numbers of other kinds are told by `units`."""

from regress_gate.model.metric import Direction

BETTER = {Direction.LOWER: "lower is better", Direction.HIGHER: "higher is better"}


def kind(of: str) -> str:
    """Of a change point, in words."""
    return "change of scatter" if of == "variance" else of


def probability(share: float) -> str:
    """`0.93`, and never a certainty that two decimals would only seem to show."""
    return ">0.99" if share >= 0.995 else f"{share:.2f}"


def improvements_not_told(count: int) -> str:
    told = "change for the better is" if count == 1 else "changes for the better are"
    return f"{count} {told} not told; --improvements tells"
