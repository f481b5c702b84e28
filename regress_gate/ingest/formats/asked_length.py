"""A length that was asked for, as it goes into a workload: its mean and its spread. Not for measured lengths."""


def asked_length(name: str, mean: float | None, deviation: float | None) -> dict[str, float | int]:
    """`{"input_len": 128, "input_len_stddev": 16}`, in tokens; without a spread of 0, empty without a mean."""
    if mean is None or mean <= 0:
        return {}
    return {name: _plain(mean)} | ({f"{name}_stddev": _plain(deviation)} if deviation else {})


def _plain(value: float) -> float | int:
    """128 for 128.0, as it goes into a name."""
    return int(value) if value == int(value) else value
