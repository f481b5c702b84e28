"""Puts anything in the place of any value of a JSON document, for tests that a reader takes nothing for granted."""

import copy
from typing import Any

from hypothesis import strategies as st

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 10**400, 1e308, -0.0, 5e-324, float("inf"), float("nan"), 2**63]),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)


@st.composite
def spoilt(draw: st.DrawFn, document: Any) -> Any:
    """The document with one to three of its values, at any depth, replaced or taken out."""
    made = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        place = made
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and place[key] and draw(st.integers(0, 5)):
                place = place[key]
            elif draw(st.booleans()):
                place[key] = draw(JUNK)
                break
            else:
                del place[key]
                break
    return made
