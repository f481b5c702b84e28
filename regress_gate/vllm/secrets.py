"""Keeping secrets out of what is taken from a server's log. The log itself stays as the server wrote it.

Two ways, because neither is enough: by the values that were handed to the server in its environment, and by their
looks. Not for control sequences, which `log_lines` takes out.
"""

import re
from collections.abc import Mapping

MASK = "***"
_SHORTEST = 6
"""Characters. A shorter value (`1`, `true`) would be found all over a log, and is no secret worth the name."""

_NAME = re.compile(
    r"(?:^|[^A-Z])(?:TOKEN|SECRETS?|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|KEY|APIKEY|AUTHORIZATION|COOKIE)(?:[^A-Z]|$)"
)
_LOOKS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{8,}|gh[pousr]_[A-Za-z0-9]{16,}|AKIA[A-Z0-9]{16})"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{8,}"
    r"|(?<=api_key=)'[^']*'|(?<=api_key': )(?:'[^']*'|\[[^\]]*\])|(?<=hf_token=)'[^']*'|(?<=hf_token': )'[^']*'"
    r"|(?<=api-key=)\S+|(?<=hf-token=)\S+|(?<=://)[^/@\s]+(?=@)"
)


def names_secret(name: str) -> bool:
    """Whether a variable or argument of this name holds a secret: HF_TOKEN does, MAX_TOKENS does not."""
    return bool(_NAME.search(name.upper()))


def secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Values in an environment that are not to be shown, the longest first. Of one with many lines, each line."""
    values = {line.strip() for name, value in environ.items() if names_secret(name) for line in value.split("\n")}
    return tuple(sorted((value for value in values if len(value) >= _SHORTEST), key=len, reverse=True))


def mask(text: str, secrets: tuple[str, ...] = ()) -> str:
    """Both ways. For single lines: over a whole log it would take seconds."""
    return _LOOKS.sub(MASK, mask_values(text, secrets))


def mask_values(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def mask_url_credentials(text: str) -> str:
    """Without the user and password that URLs may hold."""
    return re.sub(r"(?<=://)[^/@\s]+@", "***@", text)
