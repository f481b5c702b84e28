"""Masking secrets in text from a server's log. The log itself stays as the server wrote it.

In two ways, because neither is enough: by the values in the server's environment, and by the form of well-known tokens.
Not for control sequences, which `log_lines` removes.
"""

import re
from collections.abc import Mapping

MASK = "***"
_MIN_LENGTH = 6
"""Characters. A shorter value (`1`, `true`) would be found all over a log, and is no real secret."""

_SECRET_NAME = re.compile(
    r"(?:^|[^A-Z])(?:TOKEN|SECRETS?|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|KEY|APIKEY|AUTHORIZATION|COOKIE)(?:[^A-Z]|$)"
)
_SECRET_FORMS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{8,}|gh[pousr]_[A-Za-z0-9]{16,}|AKIA[A-Z0-9]{16})"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{8,}"
    r"|(?<=api_key=)'[^']*'|(?<=api_key': )(?:'[^']*'|\[[^\]]*\])|(?<=hf_token=)'[^']*'|(?<=hf_token': )'[^']*'"
    r"|(?<=api-key=)\S+|(?<=hf-token=)\S+|(?<=://)[^/@\s]+(?=@)"
)


def names_secret(name: str) -> bool:
    """Whether a variable or argument of this name holds a secret: HF_TOKEN does, MAX_TOKENS does not."""
    return bool(_SECRET_NAME.search(name.upper()))


def secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Secret values in an environment, the longest first. A value with several lines counts line by line."""
    values = {line.strip() for name, value in environ.items() if names_secret(name) for line in value.split("\n")}
    return tuple(sorted((value for value in values if len(value) >= _MIN_LENGTH), key=len, reverse=True))


def mask(text: str, secrets: tuple[str, ...] = ()) -> str:
    """Mask in both ways. For single lines: a whole log would take seconds."""
    return _SECRET_FORMS.sub(MASK, mask_values(text, secrets))


def mask_values(text: str, secrets: tuple[str, ...]) -> str:
    """Mask these values, which must be in the order of `secret_values`."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def mask_url_credentials(text: str) -> str:
    """Mask user and password in URLs."""
    return re.sub(r"(?<=://)[^/@\s]+@", "***@", text)
