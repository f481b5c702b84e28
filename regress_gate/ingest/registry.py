"""The formats that are read, in the order in which they are tried. One line per reader."""

from regress_gate.ingest.interface import Reader
from regress_gate.ingest.vllm_serve import VllmServe
from regress_gate.ingest.vllm_serve_console import VllmServeConsole
from regress_gate.ingest.vllm_sweep import VllmSweepSummary

READERS: tuple[Reader, ...] = (
    VllmServe(),
    VllmSweepSummary(),
    VllmServeConsole(),
)
