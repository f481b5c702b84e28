"""regress-gate: may I move my vLLM deployment from X to Y?

The Python API is described in docs/python.md. Its names are loaded on first use, so that `import regress_gate` and the
command line start fast.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # as in typing, which would have to be imported

if TYPE_CHECKING:
    from regress_gate.app.api import (
        AuditResult,
        DetectionResult,
        GateResult,
        Store,
        audit,
        check,
        compare,
        detect,
        open_store,
    )
    from regress_gate.errors import InputError, NoDataError, RegressGateError, StoreError

__all__ = [
    "AuditResult",
    "DetectionResult",
    "GateResult",
    "InputError",
    "NoDataError",
    "RegressGateError",
    "Store",
    "StoreError",
    "__version__",
    "audit",
    "check",
    "compare",
    "detect",
    "open_store",
]

_ERRORS = {"InputError", "NoDataError", "RegressGateError", "StoreError"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # here and not at the top: the package must import nothing

    value = getattr(import_module("regress_gate.errors" if name in _ERRORS else "regress_gate.app.api"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
