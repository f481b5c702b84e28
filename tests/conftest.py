"""What holds for all tests: hypothesis has no deadline, for a busy machine is no bug.

By hand it seeks new examples each time. In CI it tries the same ones, so that a red run is the doing of the change.
"""

import os

from hypothesis import settings

settings.register_profile("regress-gate", deadline=None)
settings.register_profile("regress-gate-ci", deadline=None, derandomize=True)
settings.load_profile("regress-gate-ci" if os.environ.get("CI") else "regress-gate")
