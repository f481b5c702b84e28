"""`python -m tests.cli.measuring.unguarded …`: the program with short waits, without limits on the client's business.

Those limits are tested with the guards; where a whole experiment is the matter, a busy machine must not decide.
"""

import sys

from regress_gate.bench.load import client_guards
from regress_gate.cli.main import run
from tests.fake_vllm.quick_starts import shorten_waits

LIMITS = ("LAG_FLOOR", "MEDIAN_LAG_FLOOR", "MAX_CPU_SHARE", "LATENESS_FLOOR")

if __name__ == "__main__":
    for limit in LIMITS:
        setattr(client_guards, limit, 1e9)
    shorten_waits(setattr)
    run(sys.argv[1:])
