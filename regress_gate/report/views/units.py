"""Numbers for people: milliseconds, tokens per second, GiB, percent. The store has seconds, bytes and fractions.

Rounding here is for display only; decisions use the unrounded numbers.
"""

from collections.abc import Iterable

from regress_gate.model.metric import CAPACITY, Scale

_TOKEN_RATES = ("output_throughput", "total_throughput")
_REQUEST_RATES = ("request_throughput", "goodput", CAPACITY)
_SECONDS_FROM = 10.0
UNKNOWN = "n/a"


def values(means: tuple[float | None, float | None], unit: str, metric: str) -> tuple[str, str]:
    """Both sides of a series in one unit: `("123.4 ms", "151.0 ms")`."""
    factor, sign = _shown_in(unit, metric, max((abs(mean) for mean in means if mean is not None), default=0.0))
    first, second = (UNKNOWN if mean is None else f"{number(mean * factor)}{sign}" for mean in means)
    return first, second


def both_values(means: tuple[float | None, float | None], unit: str, metric: str) -> str:
    """`123.4 → 151.0 ms`."""
    factor, sign = _shown_in(unit, metric, max((abs(mean) for mean in means if mean is not None), default=0.0))
    first, second = (UNKNOWN if mean is None else number(mean * factor) for mean in means)
    return f"{first} → {second}{sign}"


def axis_unit(values: Iterable[float | None], unit: str, metric: str) -> tuple[float, str]:
    """A factor for all these values, and the unit that they then have: `(1000.0, "ms")`."""
    factor, sign = _shown_in(unit, metric, max((abs(value) for value in values if value is not None), default=0.0))
    return factor, sign.strip()


def _shown_in(unit: str, metric: str, largest: float) -> tuple[float, str]:
    if unit == "s":
        return (1.0, " s") if largest >= _SECONDS_FROM else (1e3, " ms")
    if unit == "bytes":
        return 1 / 2**30, " GiB"
    if unit == "fraction":
        return 100.0, "%"
    if unit == "tokens":
        return 1.0, " tok"
    if unit == "1/s" and metric in _TOKEN_RATES:
        return 1.0, " tok/s"
    if unit == "1/s" and metric in _REQUEST_RATES:
        return 1.0, " req/s"
    return 1.0, f" {unit}"


def number(value: float) -> str:
    """Four significant digits; thousands as `k` and `M`, so that a column stays narrow."""
    size = abs(value)
    if value == 0:
        return "0"
    if size < 1e-3 or size >= 1e9:
        return f"{value:.2e}"
    for factor, suffix in ((1e6, "M"), (1e3, "k")):
        if size >= factor * 10:
            return f"{_four_digits(value / factor)}{suffix}"
    return _four_digits(value)


def _four_digits(value: float) -> str:
    size = abs(value)
    decimals = next((digits for bound, digits in ((1000, 0), (100, 1), (10, 2)) if size >= bound), 3)
    return f"{value:.{decimals}f}"


def spread(cv: float | None, runs: int) -> str:
    """The spread of the runs of one side, and their number: `±2.1% n=5`."""
    if cv is None:
        return f"±? n={runs}"
    return f"±{_plain_percent(cv)} n={runs}"


def spreads(cvs: tuple[float | None, float | None], runs: tuple[int, int]) -> str:
    """The spreads of both sides: `±2.1%, ±1.8%, n=5`."""
    if runs[0] != runs[1]:
        return ", ".join(spread(cv, count) for cv, count in zip(cvs, runs, strict=True))
    return ", ".join([*("±?" if cv is None else f"±{_plain_percent(cv)}" for cv in cvs), f"n={runs[0]}"])


def change(fraction: float | None, scale: Scale) -> str:
    return UNKNOWN if fraction is None else f"{_signed(fraction)}{_percent_sign(scale)}"


def interval(bounds: tuple[float | None, float | None] | None) -> str:
    """In percent or percentage points, as the change beside it. An open end is `?`."""
    if bounds is None:
        return "no interval"
    low, high = ("?" if bound is None else _signed(bound) for bound in bounds)
    return f"[{low}, {high}]"


def margin(loss: float, scale: Scale) -> str:
    return f"{_shortest(loss * 100)}{_percent_sign(scale)}"


def percent(share: float) -> str:
    return f"{_shortest(share * 100)}%"


def _percent_sign(scale: Scale) -> str:
    # A difference of two percentages is not a percentage of either.
    return "%" if scale is Scale.RATIO else " pp"


def _signed(fraction: float) -> str:
    percent = fraction * 100
    if abs(percent) >= 1e5:
        text = f"{percent:+.1e}"
    elif abs(percent) >= 99.95:
        text = f"{percent:+.0f}"
    else:
        text = f"{percent:+.1f}"
    if float(text) == 0:
        return "0.0"
    return text.replace("-", "−", 1) if text.startswith("-") else text


def _plain_percent(fraction: float) -> str:
    percent = fraction * 100
    if percent >= 1e5:
        return f"{percent:.0e}%"
    return f"{percent:.0f}%" if percent >= 9.95 else f"{percent:.1f}%"


def _shortest(value: float) -> str:
    return f"{value:.4g}"
