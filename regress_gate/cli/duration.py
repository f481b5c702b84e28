"""Durations as people type them: `45m`, `1h30m`, `90s`, `30d`."""

import re

import click

_PARTS = re.compile(r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
_SECONDS = (86400.0, 3600.0, 60.0, 1.0)


class Duration(click.ParamType[float]):
    """Seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, context: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = _PARTS.fullmatch(str(value).strip().lower())
        if not found or not any(found.groups()):
            self.fail(f"{str(value)[:40]!r} is no duration; write 45m, 1h30m or 90s", param, context)
        seconds = sum(float(part) * unit for part, unit in zip(found.groups(), _SECONDS, strict=True) if part)
        if not 0 < seconds < 1e8:
            self.fail(f"{str(value)[:40]!r} must be longer than nothing and shorter than three years", param, context)
        return seconds


def in_words(seconds: float) -> str:
    """`40 s`, `12 min`, `1 h 05 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
