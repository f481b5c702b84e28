"""Change points in one series over versions, nightlies or commits: `detect` is all that others need.

Pure functions of arrays. `segmentation` proposes, locates and tests boundaries, `elimination` decides which stay and
separates ramps from steps, `detection` puts them together. See docs/history.md.
"""

from regress_gate.stats.changepoints.detection import detect
from regress_gate.stats.changepoints.series import ChangePoint

__all__ = ["ChangePoint", "detect"]
