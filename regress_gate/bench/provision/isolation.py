"""The environment variables of an installer and of a server: the user's, without those that would inject other code.

Not for the variables of a scenario, which go over the result.
"""

import re
from collections.abc import Mapping
from pathlib import Path

_INJECTS_CODE = re.compile(
    r"PYTHON(PATH|HOME|STARTUP|USERBASE|SAFEPATH|PLATLIBDIR|PYCACHEPREFIX|NOUSERSITE)|VIRTUAL_ENV(_PROMPT)?"
    r"|__PYVENV_LAUNCHER__|CONDA_(PREFIX|DEFAULT_ENV|SHLVL|PROMPT_MODIFIER)(_\d+)?|POETRY_ACTIVE|PIPENV_ACTIVE"
)
_SLOWS_EXECUTION = frozenset(
    {"PYTHONDONTWRITEBYTECODE", "PYTHONDEVMODE", "PYTHONTRACEMALLOC", "PYTHONPROFILEIMPORTTIME"}
)
"""Without bytecode every start of vLLM takes twice the time, and that would be measured."""

_KEPT_INSTALLER_VARIABLES = re.compile(
    r"PIP_(INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|TRUSTED_HOST|CERT|CLIENT_CERT|PROXY|(DEFAULT_)?TIMEOUT"
    r"|RETRIES|CACHE_DIR|NO_CACHE_DIR|CONFIG_FILE|KEYRING_PROVIDER|DISABLE_PIP_VERSION_CHECK)"
    r"|UV_(DEFAULT_INDEX|INDEX|INDEX_URL|EXTRA_INDEX_URL|INDEX_\w+_(USERNAME|PASSWORD)|INDEX_STRATEGY|FIND_LINKS"
    r"|OFFLINE|CACHE_DIR|NO_CACHE|NATIVE_TLS|SYSTEM_CERTS|INSECURE_HOST|HTTP_TIMEOUT|HTTP_RETRIES"
    r"|KEYRING_PROVIDER|CONFIG_FILE|CONCURRENT_\w+|LINK_MODE)"
)
"""Package sources and network access. Any other setting of an installer (a target directory,
constraints, pre-releases…) would change what is installed or where."""

_KEPT_VLLM_VARIABLES = frozenset({"VLLM_CACHE_ROOT", "VLLM_CONFIG_ROOT"})


def installer_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of an installer: certificates, proxies and package sources stay."""
    return {
        name: value
        for name, value in environ.items()
        if not _is_foreign(name) and (not name.startswith(("PIP_", "UV_")) or _KEPT_INSTALLER_VARIABLES.fullmatch(name))
    }


def server_variables(environ: Mapping[str, str], venv: Path) -> dict[str, str]:
    """The environment of a server in `venv`.

    VLLM_* variables of the caller's shell are left out: they would change the deployment, and the suite would not show
    it.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if not _is_foreign(name)
        and not name.startswith(("PIP_", "UV_"))
        and (not name.startswith("VLLM_") or name in _KEPT_VLLM_VARIABLES)
    }
    path = environ.get("PATH", "")
    return kept | {
        "VIRTUAL_ENV": str(venv),
        "PATH": f"{venv / 'bin'}:{path}" if path else str(venv / "bin"),
        "PYTHONNOUSERSITE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }


def _is_foreign(name: str) -> bool:
    return name in _SLOWS_EXECUTION or bool(_INJECTS_CODE.fullmatch(name))
