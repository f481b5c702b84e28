"""How often a simulation is drawn: few times by default, as often as its promise needs in the slow tests."""

import pytest


def simulated(name: str, *, quick: int, full: int) -> pytest.MarkDecorator:
    """A parameter `name` with the number of draws. Both use the same seed, so the quick one draws the first of them."""
    return pytest.mark.parametrize(name, [quick, pytest.param(full, marks=pytest.mark.slow)])
