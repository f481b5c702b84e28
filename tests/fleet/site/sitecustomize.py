"""For the Python processes of a test's hosts: a worker finds its machine idle, and measures in virtual time."""

import os
import sys

if any("block_worker" in word for word in sys.orig_argv):
    from tests.cli.measuring.unguarded import SIMULATED_VARIABLE, simulate_load
    from tests.fake_vllm.idle_machine import pretend_idle
    from tests.fake_vllm.quick_starts import shorten_waits

    pretend_idle(setattr)
    shorten_waits(setattr)
    if SIMULATED_VARIABLE in os.environ:
        simulate_load(float(os.environ[SIMULATED_VARIABLE]))
