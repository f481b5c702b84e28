"""Secrets in text are masked here, and only here, before the text is shown, logged, reported or stored.

`redact` masks by form: the secret parts of URLs, and well-known forms of tokens. It is called at the borders: by
`text.sanitise` for everything that people read, by the base class of all errors, and by the JSON report. `mask` also
masks given values, such as those of a server's environment. Not for control sequences, which `text` removes.

Of a URL these parts are masked: user and password; path segments that are not made of plain words, except on hosts
with public addresses; values in the query; the fragment. A secret that is a plain word in a path cannot be recognised.
"""

import re
from collections.abc import Mapping
from urllib.parse import unquote

MASK = "***"
_MIN_LENGTH = 6
"""Characters. A shorter value (`1`, `true`) would be found all over a log, and is no real secret."""

_SECRET_NAME = re.compile(
    r"(?:^|[^A-Z])(?:KEY|AUTHORIZATION|AUTH|COOKIE|PASS|PASSPHRASE|CREDENTIALS?|CREDS|BEARER|JWT|DSN)(?:[^A-Z]|$)"
    r"|(?:TOKEN|SECRETS?|PASSWORD|PASSWD|APIKEY)(?:[^A-Z]|$)"
)
_SECRET_FORMS = re.compile(
    r"\b(?:hf_(?!(?:overrides|processor|tokenizer|transfer)(?![A-Za-z0-9]))[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{8,}"
    r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
    r"|xox[abprs]-[A-Za-z0-9-]{10,}|pypi-[\w-]{16,}|nvapi-[\w-]{16,}|A[KS]IA[A-Z0-9]{16}"
    r"|eyJ[\w-]{8,4000}\.[\w-]{8,}(?:\.[\w-]+)?)"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{8,}"
    r"|(?<=api_key=)'[^']{0,4000}'|(?<=api_key': )(?:'[^']{0,4000}'|\[[^\]]{0,4000}\])"
    r"|(?<=hf_token=)'[^']{0,4000}'|(?<=hf_token': )'[^']{0,4000}'"
    r"|(?<=api-key=)\S+|(?<=hf-token=)\S+|(?<=\bpassword=)[^\s&'\"]*[^\s&'\":,;]"
)
"""After `password=`, a last `:`, `,` or `;` is taken for that of the sentence. `hf_overrides` is an argument of vLLM,
and the others with it are names in its logs."""
_HINT = re.compile(
    r"://|hf_|sk-|gh[pousr]_|github_pat_|glpat-|xox|pypi-|nvapi-|A[KS]IA|eyJ|earer |api[_-]key|hf[_-]token|password="
)
"""In every text with something to mask. Most texts have none of it, and this search is all they cost."""

_URL = re.compile(r"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]{0,30})://([^\s\"'<>`\\…]+)")
_TAIL = ".,;:!?)]}"
"""What follows a URL in a sentence."""
_PARTS = re.compile(r"([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
_HOST_AND_PORT = re.compile(r"(?:\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[^:\[\]]*)(?::(?:\d{0,5}|PORT|\$?\{?port\}?|\*{3}))?")
_WEB = ("http", "https", "ws", "wss")
_DATABASES = ("postgresql", "postgres", "mysql", "mariadb", "mssql", "oracle", "redis", "rediss", "mongodb", "amqp")
_PLACEHOLDER_USERS = ("USER", "USER:PASSWORD", "git", MASK)
_PUBLIC_HOSTS = (
    "github.com", "githubusercontent.com", "vllm.ai", "huggingface.co", "pytorch.org",
    "nvidia.com", "python.org", "doi.org", "osv.dev", "w3.org",
)  # fmt: skip
"""Hosts, with their subdomains, whose paths are public: `github.com/vllm-project/vllm/issues/1`."""
_HARMLESS_KEYS = frozenset(
    (
        "application_name", "cache", "channel_binding", "client_encoding", "connect_timeout", "dbname", "gssencmode",
        "host", "hostaddr", "keepalives", "mode", "page", "per_page", "port", "sslmode", "target_session_attrs",
        "timeout", "uri",
    )
)  # fmt: skip
_SECRET_WORD = re.compile(r"secret|passw|passphrase|api_?key|credential|bearer|token(?!iz)", re.IGNORECASE)
_NOT_A_WORD = re.compile(r"[^A-Za-z0-9]+")
_WORD = re.compile(
    r"[A-Za-z]{0,3}|\d{1,12}|[A-Z]{1,10}\d{0,4}|(?:[A-Z]?[a-z]{2,20})(?:[A-Z][a-z]{2,20}){0,3}\d{0,4}|[a-z]\d{1,4}"
    r"|\d{1,4}[A-Za-z]{1,3}"
)
"""`simple`, `DeepSeek`, `H100`, `cp312`, `70b`; not `s3cr3t` and not `aB3dE9`."""
_COMMENT = re.compile(r"#issuecomment-\d{1,20}")
"""Of a page of GitHub, also on a server of a company: a number that is no secret."""
_LONGEST_SEGMENT = 120


def names_secret(name: str) -> bool:
    """Whether a variable or argument of this name holds a secret: HF_TOKEN does, MAX_TOKENS does not."""
    return bool(_SECRET_NAME.search(name.upper()))


def secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Secret values in an environment, the longest first. A value with several lines counts line by line."""
    values = {line.strip() for name, value in environ.items() if names_secret(name) for line in value.split("\n")}
    return tuple(sorted((value for value in values if len(value) >= _MIN_LENGTH), key=len, reverse=True))


def mask(text: str, secrets: tuple[str, ...] = ()) -> str:
    """Mask these values, in the order of `secret_values`, and what `redact` masks."""
    return redact(mask_values(text, secrets))


def mask_values(text: str, secrets: tuple[str, ...]) -> str:
    """Mask these values, which must be in the order of `secret_values`."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def redact(text: str) -> str:
    """The text with the secret parts of its URLs and well-known forms of tokens masked. Masking twice changes nothing.

    A whole log of a server takes seconds; call it for single lines.
    """
    if _HINT.search(text) is None:
        return text
    return _SECRET_FORMS.sub(MASK, _URL.sub(_redacted_match, text))


def redact_url(url: str) -> str:
    """A text that is one URL, as a whole: also one with blanks or quotes in its password, or without a scheme."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        user, at, host = url.rpartition("@")
        return redact(f"{MASK}@{host}" if at and user else url)
    if len(rest.split()) > 1 or any(sign in rest for sign in "\"'<>`\\…"):
        _, at, rest = rest.rpartition("@")
        parts = re.split(r"([/?#:])", rest)
        rest = "".join(_NOT_A_WORD.sub("-", part) if part[:1].isalnum() else part for part in parts)
        return _redacted(scheme, f"{MASK}@{rest}" if at else MASK)
    return _SECRET_FORMS.sub(MASK, _redacted(scheme, rest))


def url_secrets(url: str) -> tuple[str, ...]:
    """The values of a URL that a library's message may quote without it, the longest first: for `mask_values`."""
    parts = _parts_of(*_scheme_and_rest(url))
    if parts is None:
        return ()
    user, _, _, query, fragment = parts
    name, _, password = user.partition(":")
    values = {name, password, fragment.removeprefix("#"), *_secret_query_values(query)}
    values |= {unquote(value) for value in values}
    return tuple(sorted((value for value in values if len(value) > 1 and value != MASK), key=len, reverse=True))


def _redacted_match(match: re.Match[str]) -> str:
    scheme, rest = match.groups()
    url = rest.rstrip(_TAIL)
    return _redacted(scheme, url) + rest[len(url) :]


def _redacted(scheme: str, rest: str) -> str:
    parts = _parts_of(scheme, rest)
    if parts is None:
        return f"{scheme}://{MASK}"
    user, host, path, query, fragment = parts
    is_public = _is_public(host)
    begin = f"{user if user in _PLACEHOLDER_USERS else MASK}@" if user else ""
    if _is_web(scheme) and not is_public:
        path = _redacted_path(path)
    if query:
        query = "?" + re.sub(r"[^&;]+", lambda pair: _redacted_pair(pair[0], is_public=is_public), query[1:])
    if fragment and not (is_public and _is_plain(fragment)) and not _COMMENT.fullmatch(fragment):
        fragment = f"#{MASK}"
    return f"{scheme}://{begin}{host}{path}{query}{fragment}"


def _scheme_and_rest(url: str) -> tuple[str, str]:
    scheme, _, rest = url.partition("://")
    return scheme, rest


def _parts_of(scheme: str, rest: str) -> tuple[str, str, str, str, str] | None:
    """User with password, host with port, path, query and fragment; None if a password may be the host.

    A password may contain `/`, `?` and `#` where somebody forgot to encode it.
    """
    found = _PARTS.fullmatch(rest)
    authority = found[1] if found else ""
    user, at, host = authority.rpartition("@")
    hidden = rest.rfind("@")
    is_database = scheme.split("+")[0].lower() in _DATABASES
    in_path = hidden >= 0 and not at and "?" not in rest[:hidden] and "#" not in rest[:hidden]
    is_broken = _HOST_AND_PORT.fullmatch(host) is None
    if hidden >= len(authority) and (is_database or is_broken or not (at or in_path or _is_public(host))):
        user, rest = rest[:hidden], rest[hidden + 1 :]
        found = _PARTS.fullmatch(rest)
        host = found[1] if found else ""
    if found is None or _HOST_AND_PORT.fullmatch(host) is None:
        return None
    return user, host, found[2], found[3] or "", found[4] or ""


def _is_web(scheme: str) -> bool:
    return scheme.lower().rpartition("+")[2] in _WEB


def _is_public(host: str) -> bool:
    name = host.partition(":")[0].lower()
    return any(name == public or name.endswith(f".{public}") for public in _PUBLIC_HOSTS)


def _redacted_path(path: str) -> str:
    segments = path.split("/")
    return "/".join(
        segment if _is_plain(segment) and not (place and _SECRET_WORD.fullmatch(segments[place - 1])) else MASK
        for place, segment in enumerate(segments)
    )


def _redacted_pair(pair: str, *, is_public: bool) -> str:
    """One `key=value` of a query."""
    key, equals, value = pair.partition("=")
    if not equals:
        return pair if is_public and _is_plain(key) else MASK
    if not _is_plain(key, names=True):
        return MASK
    is_kept = not value or value == MASK or key.lower() in _HARMLESS_KEYS
    return pair if is_kept or (is_public and not names_secret(key) and _is_plain(value)) else f"{key}={MASK}"


def _secret_query_values(query: str) -> set[str]:
    pairs = [pair.partition("=") for pair in re.split("[&;]", query.removeprefix("?"))]
    values = {value or key for key, _, value in pairs if key.lower() not in _HARMLESS_KEYS}
    return values | {key for key, _, _ in pairs if not _is_plain(key, names=True)}


def _is_plain(segment: str, *, names: bool = False) -> bool:
    """Whether a part of a path is made of words and numbers. `names`: words such as `token` are names, no secrets."""
    if segment == MASK:
        return True
    if len(segment) > _LONGEST_SEGMENT:
        return False
    text = unquote(segment)
    if not names and _SECRET_WORD.search(text):
        return False
    return all(map(_WORD.fullmatch, _NOT_A_WORD.split(text)))
