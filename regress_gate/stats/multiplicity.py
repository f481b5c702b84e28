"""Adjusting p-values for the number of questions asked at once."""

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Family-wise adjusted p-values by the step-down rule of Holm (1979, Scand. J. Statist. 6:65-70).

    Valid under any dependence between the series. Same order and length as the input; each is in [0, 1].
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted
