"""No secret of a URL and no well-known token survives redaction, and what is no secret stays readable."""

import time
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.errors import InputError, StoreError
from regress_gate.redaction import mask, names_secret, redact, redact_url, secret_values, url_secrets
from regress_gate.text import excerpt, one_line, sanitise


@pytest.mark.parametrize(
    "name",
    [
        *("HF_TOKEN", "VLLM_API_KEY", "AWS_SECRET_ACCESS_KEY", "api_key", "hf-token", "DB_PASSWORD", "S3_SECRETS"),
        *("HFTOKEN", "DBPASSWORD", "REDIS_PASS", "REGISTRY_AUTH", "SENTRY_DSN", "SERVICE_JWT"),
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("TOKENIZERS_PARALLELISM", "max_num_batched_tokens", "PATH", "MONKEY", "KEYBOARD", "tokenizer", "HOME"),
        *("PASSES", "BYPASS", "AUTHOR", "MAX_TOKENS"),
    ],
)
def test_names_of_no_secrets(name: str) -> None:
    assert not names_secret(name)


def test_values_are_masked_the_longest_first_and_short_ones_not() -> None:
    environ = {
        "HF_TOKEN": "abcdef",
        "A_SECRET": "abcdefghi",
        "B_KEY": "true",
        "C_KEY": "-----BEGIN-----\nMIIEpAIBAAK\n",
        "HOME": "/home/me",
    }
    secrets = secret_values(environ)
    assert secrets == ("-----BEGIN-----", "MIIEpAIBAAK", "abcdefghi", "abcdef")
    assert mask("abcdefghi abcdef true /home/me MIIEpAIBAAK", secrets) == "*** *** true /home/me ***"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Bearer eyJhbGciOi.x-y", "Bearer ***"),
        ("--api-key=abc --hf-token=def x", "--api-key=*** --hf-token=*** x"),
        ("{'api_key': ['one', 'two'], 'port': 1}", "{'api_key': ***, 'port': 1}"),
        ("https://me:pw@host/x and https://host/me@x", "https://***@host/x and https://host/me@x"),
        ("Looking in https://me:pw@host/simple, http://x", "Looking in https://***@host/simple, http://x"),
        ("ghp_abcdefghijklmnop AKIAABCDEFGHIJKLMNOP", "*** ***"),
        ("glpat-abcdefghijklmnop1234, github_pat_11ABCDEFG0abcdefgh", "***, ***"),
        ("host=db user=me password=hunter2 dbname=x", "host=db user=me password=*** dbname=x"),
        ("postgresql:///db?password=a:b,c: the store failed", "postgresql:///db?password=***: the store failed"),
        ("desk-top skill hf_x task-force", "desk-top skill hf_x task-force"),
        ("hf_overrides and hf_processor_mm_kwargs", "hf_overrides and hf_processor_mm_kwargs"),
        ("hf_overridesABCDEFGH and hf_transfers1", "*** and ***"),
    ],
)
def test_looks_of_secrets(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("https://user:pass@host:99/simple", "https://***@host:99/simple"),
        ("https://s3cr3tUser@host/simple", "https://***@host/simple"),
        ("https://user:pa/s?s#w@host/simple", "https://***@host/simple"),
        ("https://host/aB3dE9fG/simple/vllm/", "https://host/***/simple/vllm/"),
        ("https://host/token/abc/vllm/", "https://host/***/***/vllm/"),
        ("https://host/my%2Dsecret/x", "https://host/***/x"),
        ("https://host/simple?token=abc&page=2", "https://host/simple?token=***&page=2"),
        ("https://host/simple?abc", "https://host/simple?***"),
        ("https://host/simple#abc", "https://host/simple#***"),
        ("https://host/a/b/pull/7#issuecomment-abc", "https://host/a/b/pull/7#***"),
        ("https://user:cut-off-passwo", "https://***"),
        ("postgresql://SECRET@host/db", "postgresql://***@host/db"),
        ("postgresql+psycopg://u:p@host:5432/db", "postgresql+psycopg://***@host:5432/db"),
        ("postgresql://u:pa/ss@wo@host/db", "postgresql://***@host/db"),
        ("postgresql:///db?host=/tmp&password=x&user=me", "postgresql:///db?host=/tmp&password=***&user=***"),
        (
            "postgresql://host/db?options=-csearch_path=x&sslmode=require",
            "postgresql://host/db?options=***&sslmode=require",
        ),
        ("git+https://oauth:x@git.corp/a/b@v1", "git+https://***@git.corp/a/b@v1"),
    ],
)
def test_parts_of_urls(url: str, masked: str) -> None:
    assert redact(f"{url}; see there") == f"{masked}; see there"
    assert redact(f'{{"url": "{url}"}}') == f'{{"url": "{masked}"}}'


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/vllm-project/vllm/issues/28882#issuecomment-35012345",
        "https://wheels.vllm.ai/0123456789abcdef0123456789abcdef01234567/vllm/metadata.json",
        "https://api.github.com/repos/o/r/compare/v0.1...0123456789ab?per_page=1&page=2",
        "https://nexus.corp/repository/pypi-all/simple/vllm/vllm-0.19.1-cp38-abi3-manylinux1_x86_64.whl",
        "http://127.0.0.1:8000/v1/models",
        "http://[::1]:8000/health",
        "http://HOST:PORT",
        "postgresql://USER@HOST/DATABASE",
        "sqlite:////tmp/aB3dE9fG/store.db",
        "file:///srv/wheels/aB3dE9fG",
        "https://ghe.corp/org/repo/issues/12",
        "https://ghe.corp/org/repo/pull/7#issuecomment-3501234567",
    ],
)
def test_addresses_without_secrets_stay(url: str) -> None:
    assert redact(url) == url
    assert redact_url(url) == url


@pytest.mark.parametrize("password", ["my secret", 'quo"te', "back\\slash", "a'b", "<x>", "p@w", "a:b", "ü", "a/b?c#d"])
def test_a_password_with_any_sign_is_masked_where_the_text_is_known_to_be_a_url(password: str) -> None:
    for url in (f"postgresql://me:{password}@host:5432/db", f"https://me:{password}@host/simple"):
        masked = redact_url(url)
        assert masked.startswith(f"{url.partition(':')[0]}://***@host")
        assert redact(masked) == masked


def test_a_url_without_its_scheme_is_masked_where_the_text_is_known_to_be_one() -> None:
    assert redact_url("me:pw@host/db") == "***@host/db"


def test_values_that_a_library_quotes_one_by_one_are_known() -> None:
    secrets = url_secrets("postgresql://me:p%40w@host/db?options=-ckey%3Dabc&sslmode=require")
    quotes = 'FATAL: role "me" (password p@w) has no option -ckey=abc; sslmode require'
    assert mask(quotes, secrets) == 'FATAL: role "***" (password ***) has no option ***; sslmode require'
    assert url_secrets("postgresql://host/db") == ()
    assert url_secrets("postgresql://host/db?s3cr3tK3y=12") == ("s3cr3tK3y", "12")


secret = st.text("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", min_size=12, max_size=40).filter(
    lambda text: sum(a.isdigit() != b.isdigit() for a, b in pairwise(text)) > 2
)
around = st.text(st.characters(exclude_characters="…"), max_size=10)
places = st.sampled_from(
    [
        "https://{}@host/simple",
        "https://me:{}@host:80/simple",
        "https://{}:x-oauth@host/",
        "http://127.0.0.1:8000/{}/simple/",
        "http://127.0.0.1:8000/{}",
        "https://host/x?token={}",
        "https://host/x?a=1&key={}&b=2",
        "https://host/x?{}",
        "https://host/x#{}",
        "https://github.com/x?access_token={}",
        "postgresql://{}@host/db",
        "postgresql://me:{}@host/db",
        "postgresql://host/db?options=-c%20key%3D{}",
        "postgresql+psycopg://host/db?password={}",
    ]
)


@given(place=places, value=secret, before=around, after=around)
def test_a_secret_in_any_place_of_a_url_leaves_no_trace(place: str, value: str, before: str, after: str) -> None:
    text = f"{before} {place.format(quote(value))} {after}"
    assert value not in redact(text)
    assert value not in sanitise(text)
    assert value not in redact_url(place.format(value))
    assert value not in str(InputError(text, where=place.format(value), todo=text))
    assert value not in str(StoreError(text))


@given(place=places, value=secret, limit=st.integers(5, 120))
def test_cutting_a_text_leaves_no_part_of_a_secret(place: str, value: str, limit: int) -> None:
    cut = excerpt(f"see {place.format(value)} " + "x" * 200, limit)
    assert value[:6] not in cut


@given(st.lists(st.one_of(st.text(max_size=8), places.map(lambda place: place.format("a1b2c3d4")))).map("".join))
def test_masking_twice_changes_nothing(text: str) -> None:
    assert redact(redact(text)) == redact(text)
    assert one_line(one_line(text)) == one_line(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://" * 40_000,
        "http://" + "a" * 300_000,
        "http://h/" + ")." * 100_000 + "x",
        "eyJ-" * 80_000,
        "api_key='" * 20_000 + " api_key': [" * 20_000,
        "a" * 300_000 + "://",
        "http://" + "@" * 300_000,
        "http://h/?" + "&" * 300_000,
        "http://h" + "/" * 300_000,
    ],
    ids=range(9),
)
def test_hostile_text_takes_no_longer_than_its_length_asks_for(text: str) -> None:
    begin = time.process_time()
    redact(text)
    assert time.process_time() - begin < 5
