"""Choose which series of a gate are judged as one family, and make the family.

A family needs all its series in all its runs, and history helps only as far as all its series have one. Not for the
tests of a family (`multiplicity`), nor for the series that are left out (`comparison`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regress_gate.model.metric import Scale
from regress_gate.stats.contrasts import Measurements
from regress_gate.stats.estimate import SeriesData
from regress_gate.stats.multiplicity import Family
from regress_gate.stats.sequential import InterimStage

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MeasurementDesign:
    """How the runs of all series were measured."""

    paired: bool = False
    """Value i of either side was measured in the same block."""
    apart: bool = False
    """The sides were measured in different sessions."""
    earlier: tuple[tuple[Floats, ...], ...] = ()
    """Earlier sessions of one version each; each holds, for every series in order, values of shape (runs,), NaN where
    there is none. For paired measurements: logarithms of the ratio of the two sides of earlier blocks."""
    interim: InterimStage | None = None
    """None: the data are analysed once, at the end."""


def family_members(series: Sequence[SeriesData]) -> list[int]:
    """Ratio metrics that every run of both sides has, at least two a side; the commonest shape where they differ."""
    whole = [
        index
        for index, data in enumerate(series)
        if data.scale is Scale.RATIO
        and min(len(data.baseline), len(data.candidate)) > 1
        and _has_logarithm(np.concatenate([data.baseline, data.candidate])).all()
    ]
    shapes = [(len(series[index].baseline), len(series[index].candidate)) for index in whole]
    if not shapes:
        return []
    commonest = max(shapes, key=lambda shape: (shapes.count(shape), shape))
    return [index for index, shape in zip(whole, shapes, strict=True) if shape == commonest]


def with_history(places: Sequence[int], design: MeasurementDesign) -> list[bool]:
    """For each of the series at `places` whether it is one of those that use history best: the most values in rows
    that have all of them.

    So a new metric, or a scenario that earlier runs lacked, does not cost the others their history. All of them, if
    there is no history.
    """
    rows = [_rows(session, places, design) for session in design.earlier if places]
    usable = np.vstack([np.isfinite(each) for each in rows]) if rows else np.zeros((0, len(places)), dtype=bool)
    patterns = np.unique(usable[usable.any(axis=1)], axis=0)
    if not len(patterns):
        return [True] * len(places)
    best = max(patterns, key=lambda each: (each.sum() * usable[:, each].all(axis=1).sum(), each.sum()))
    return [bool(kept) for kept in best]


def make_family(series: Sequence[SeriesData], places: Sequence[int], design: MeasurementDesign) -> Family:
    """Of series that `family_members` accepts together; `places`: their positions among all series of the gate."""
    signs = np.array([data.sign for data in series])
    sides = [
        signs * np.log(np.column_stack([getattr(data, side) for data in series])) for side in ("baseline", "candidate")
    ]
    earlier = []
    for session in design.earlier:
        values = _rows(session, places, design)
        whole = values[np.isfinite(values).all(axis=1)]
        if len(whole):
            earlier.append(signs * whole)
    found = Measurements(sides[0], sides[1], design.paired, design.apart, tuple(earlier))
    metrics = [data.metric or f"#{index}" for index, data in enumerate(series)]
    scenarios = [data.scenario for data in series]
    named = [name for name in dict.fromkeys(scenarios) if name is not None]
    return Family(
        found,
        np.array([-1 if name is None else named.index(name) for name in scenarios]),
        np.array([list(dict.fromkeys(metrics)).index(name) for name in metrics]),
        np.array([data.min_cv**2 for data in series]),
    )


def _has_logarithm(values: Floats) -> npt.NDArray[np.bool_]:
    return np.isfinite(values) & (values > 0)


def _rows(session: tuple[Floats, ...], places: Sequence[int], design: MeasurementDesign) -> Floats:
    """Shape (runs, places): an earlier session in logarithms, on the scale of one run; NaN where there is none."""
    values = np.column_stack([session[place] for place in places])
    if design.paired:
        logs = np.where(np.isfinite(values), values, np.nan) / np.sqrt(2)
    else:
        known = _has_logarithm(values)
        logs = np.where(known, np.log(np.where(known, values, 1.0)), np.nan)
    return np.asarray(logs)
