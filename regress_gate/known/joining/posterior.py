"""The posterior probability of sets of causes, given measured losses.

Model. A unit is one measured loss. A cause is active or not. An active cause hits each unit that it claims with a given
probability. The true loss of a hit unit is exp(center + shared + own): `shared`, normal, is one number for all units of
the cause (this machine is not the machine of the report), and `own`, normal, is another for each unit (this workload is
not the workload of the report). So units that one cause explains alike are not independent evidence for it. The true
loss of a unit that is not hit is a small drift, or in rare cases a loss of its own. The measurement is the true loss
plus a normal error. If several active causes claim a unit, one of them is responsible for it, with a probability in
proportion to its probability of a hit.

All sums are exact up to grids: Gauss-Hermite for `shared`, an even grid in the logarithm of the loss for `own`. Limits:
all sets of up to two causes are evaluated, larger ones (up to four) only for the six likeliest causes. The effect of
more than four counts as a unit's own loss. Standard errors are taken as exact.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

DRIFT = 0.01
"""Standard deviation of the loss, in logarithms, between two builds of equal speed."""
_OWN_PROBABILITY = 0.02
"""Probability of a loss that no other unit shares; the same again for a gain."""
_OWN_CENTER, _OWN_SPREAD = math.log(0.1), 1.1
_NODES = 7
_LOG_SIZES = np.arange(math.log(1e-3), math.log(10.0), 0.01)
_EXHAUSTIVE_SET, _LARGEST_SET = 2, 4
_LIKELIEST = 6
"""Causes from which sets of more than two are formed."""
_NEGLIGIBLE = 1e-7
_SMALLEST_DENSITY = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class Cause:
    """Arrays have one entry per unit."""

    prior: float
    """Probability, between 0 and 1, that it is active."""
    hit: Floats
    """Probability that it hits a unit if it is active; 0 without a claim."""
    sign: Floats
    """1 for a loss, -1 for a gain, 0 for "no change"."""
    center: Floats
    """Logarithm of the claimed size."""
    own: Floats
    """Standard deviation of a unit's own part of the logarithm of the size."""
    shared: float
    """Standard deviation of the common part."""


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    made: Floats
    """Shape (causes, units): probability that the cause made the unit's loss."""
    made_any: Floats
    """Shape (causes,): probability that it made at least one of the losses in question (`asked`)."""


@dataclass(frozen=True, slots=True, eq=False)
class _WeighedCause:
    """A cause and the measurements, relative to "no hit"."""

    log_odds: float
    weights: Floats
    """Shape (nodes,): weights for the common part of the sizes."""
    hit: Floats
    """Shape (units,): as in the cause."""
    ratio: Floats
    """Shape (nodes, units): density of the measurement with the cause over that without it; 1 if unclaimed."""
    made: Floats
    """Shape (nodes, units): the part of `ratio` that comes from a hit."""


def cause_posterior(
    losses: Floats, errors: Floats, causes: Sequence[Cause], *, exclusive: int, asked: npt.NDArray[np.bool_]
) -> Posterior:
    """`losses` and their standard `errors`, shape (units,). The last `exclusive` causes exclude each other.

    `asked`, shape (units,): the units of which one is enough for `made_any`.
    """
    variance = errors**2 + DRIFT**2
    sizes = np.exp(_LOG_SIZES)
    worse, better = (
        _normal(sign * losses[:, None], sizes[None, :], variance[:, None]) for sign in (1.0, -1.0)
    )  # (units, sizes)
    still = _normal(losses, 0.0, variance)
    own = _size_weights(_OWN_CENTER, _OWN_SPREAD)
    nothing = (1 - 2 * _OWN_PROBABILITY) * still + _OWN_PROBABILITY * (worse @ own + better @ own)
    nothing = np.maximum(nothing, _SMALLEST_DENSITY)
    weighed = [_weigh(cause, worse, better, still, nothing) for cause in causes]
    is_exclusive = np.arange(len(causes)) >= len(causes) - exclusive
    evidence = _set_evidence(
        weighed, _cause_sets(range(len(causes)), range(_EXHAUSTIVE_SET + 1), is_exclusive), len(losses)
    )
    likeliest = sorted(
        int(index) for index in np.argsort(-_live_probability(evidence, len(causes)), kind="stable")[:_LIKELIEST]
    )
    evidence |= _set_evidence(
        weighed, _cause_sets(likeliest, range(_EXHAUSTIVE_SET + 1, _LARGEST_SET + 1), is_exclusive), len(losses)
    )
    made, made_any = np.zeros((len(causes), len(losses))), np.zeros(len(causes))
    for members, weights in _normalised(evidence).items():
        if not members or float(weights.sum()) < _NEGLIGIBLE:
            continue
        for index, shares in zip(members, _shares([weighed[index] for index in members]), strict=True):
            missed = np.prod(1 - shares[..., asked & (causes[index].hit > 0)], axis=-1)
            made[index] += np.tensordot(weights, shares, axes=weights.ndim)
            made_any[index] += float((weights * (1 - missed)).sum())
    return Posterior(made, made_any)


def _cause_sets(
    causes: Sequence[int], sizes: Sequence[int], is_exclusive: npt.NDArray[np.bool_]
) -> list[tuple[int, ...]]:
    every = [members for size in sizes for members in combinations(causes, size)]
    return [members for members in every if sum(bool(is_exclusive[index]) for index in members) <= 1]


def _set_evidence(
    weighed: Sequence[_WeighedCause], sets: Sequence[tuple[int, ...]], units: int
) -> dict[tuple[int, ...], Floats]:
    """The unnormalised log-posterior of each set, with one axis of nodes for each of its causes."""
    evidence = {}
    for members in sets:
        causes = [weighed[index] for index in members]
        log = np.log(np.maximum(_joint(causes, units), _SMALLEST_DENSITY)).sum(axis=-1)
        for axis, one in enumerate(causes):
            log = log + one.log_odds + _on_axis(axis, len(causes), np.log(one.weights))
        evidence[members] = np.asarray(log, dtype=np.float64)
    return evidence


def _normalised(evidence: dict[tuple[int, ...], Floats]) -> dict[tuple[int, ...], Floats]:
    top = max(float(each.max()) for each in evidence.values())
    total = sum(float(np.exp(each - top).sum()) for each in evidence.values())
    return {members: np.exp(each - top) / total for members, each in evidence.items()}


def _live_probability(evidence: dict[tuple[int, ...], Floats], causes: int) -> Floats:
    """Shape (causes,): probability that each cause is active, by these sets."""
    live = np.zeros(causes)
    for members, weights in _normalised(evidence).items():
        live[list(members)] += float(weights.sum())
    return live


def _weigh(cause: Cause, worse: Floats, better: Floats, still: Floats, nothing: Floats) -> _WeighedCause:
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    claims = cause.hit > 0
    density = np.zeros((_NODES, len(still)))
    for sign, center, own in sorted(set(zip(cause.sign[claims], cause.center[claims], cause.own[claims], strict=True))):
        units = claims & (cause.sign == sign) & (cause.center == center) & (cause.own == own)
        if sign == 0:
            density[:, units] = still[units]
            continue
        table = np.stack([_size_weights(center + cause.shared * node, own) for node in nodes], axis=1)
        density[:, units] = ((worse if sign > 0 else better)[units] @ table).T
    made = cause.hit * density / nothing
    ratio = made + 1 - cause.hit
    return _WeighedCause(math.log(cause.prior / (1 - cause.prior)), weights / weights.sum(), cause.hit, ratio, made)


def _joint(causes: Sequence[_WeighedCause], units: int) -> Floats:
    """Shape (nodes, …, units): density of each measurement relative to "no hit"."""
    joint = np.ones((1,) * len(causes) + (units,))
    if not causes:
        return joint
    up_to = _responsibility(causes)
    joint = joint * (up_to.sum(axis=0) == 0)
    for axis, one in enumerate(causes):
        joint = joint + _on_axis(axis, len(causes), up_to[axis] * one.ratio)
    return np.asarray(joint, dtype=np.float64)


def _shares(causes: Sequence[_WeighedCause]) -> list[Floats]:
    """For each cause, shape (nodes, …, units): probability that it made a unit's loss, if just these are active."""
    up_to = _responsibility(causes)
    joint = np.maximum(_joint(causes, up_to.shape[1]), _SMALLEST_DENSITY)
    return [_on_axis(axis, len(causes), up_to[axis] * one.made) / joint for axis, one in enumerate(causes)]


def _responsibility(causes: Sequence[_WeighedCause]) -> Floats:
    """Shape (causes, units): probability that the cause is responsible for the unit; 0 for unclaimed units."""
    hits = np.stack([one.hit for one in causes])
    total = hits.sum(axis=0)
    return np.asarray(hits / np.where(total > 0, total, 1.0), dtype=np.float64)


def _on_axis(axis: int, axes: int, values: Floats) -> Floats:
    """The values of one cause's nodes on that cause's axis; further axes stay last."""
    shape = [1] * axes
    shape[axis] = len(values)
    return values.reshape(*shape, *values.shape[1:])


def _size_weights(center: float, spread: float) -> Floats:
    """Shape (sizes,): probabilities of the grid's sizes under a log-normal distribution."""
    weights = np.exp(-0.5 * ((_LOG_SIZES - center) / spread) ** 2)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _normal(values: Floats, mean: Floats | float, variance: Floats) -> Floats:
    return np.asarray(np.exp(-0.5 * (values - mean) ** 2 / variance) / np.sqrt(2 * math.pi * variance), np.float64)
