"""Change points in one series over versions, nightlies or commits: `detect` is all that others need.

Pure functions of arrays. One method a module: `candidates` proposes, `segments` chooses, `evidence` and `tail` judge,
`shape` tells ramps from steps, `position` says where, `variance` looks at the spread. See docs/history.md.
"""

from regress_gate.stats.changepoints.detection import detect
from regress_gate.stats.changepoints.series import ChangePoint

__all__ = ["ChangePoint", "detect"]
