"""What holds for all tests: hypothesis has no deadline, for a busy machine is no bug."""

from hypothesis import settings

settings.register_profile("regress-gate", deadline=None)
settings.load_profile("regress-gate")
