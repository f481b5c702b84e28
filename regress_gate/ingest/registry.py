"""The formats that are read; every file is shown to all of them. One line per reader."""

from regress_gate.ingest.formats.vllm_serve import VllmServe
from regress_gate.ingest.formats.vllm_serve_console import VllmServeConsole
from regress_gate.ingest.formats.vllm_sweep import VllmSweepSummary
from regress_gate.ingest.interface import Reader

READERS: tuple[Reader, ...] = (
    VllmServe(),
    VllmSweepSummary(),
    VllmServeConsole(),
)
