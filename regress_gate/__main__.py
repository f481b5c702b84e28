"""`python -m regress_gate` is the same program as the `regress-gate` command."""

from regress_gate.cli.main import run

run()
