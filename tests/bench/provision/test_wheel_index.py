"""An index of wheels by commit, over real HTTP on loopback: the wheel for this machine, and what `nightly` is now."""

import json
import platform
import threading
from collections.abc import Iterator
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.bench.provision.wheel_index import find_wheel, newest_nightly
from regress_gate.model.version import Version

COMMIT = "4080263bb1c0ffee4080263bb1c0ffee40802631"
NUMBER = "0.23.1rc1.dev1403"
WHEEL = f"vllm-{NUMBER}%2Bg{COMMIT[:9]}-cp38-abi3-manylinux_2_28_{platform.machine()}.whl"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def entry(path: str, machine: str = platform.machine(), version: str = f"{NUMBER}+g{COMMIT[:9]}") -> dict[str, Any]:
    return {"package_name": "vllm", "version": version, "platform_tag": f"manylinux_2_28_{machine}", "path": path}


def publish(folder: Path, place: str, *entries: Any) -> None:
    listing = folder / place / "vllm" / "metadata.json"
    listing.parent.mkdir(parents=True)
    listing.write_text(json.dumps(entries))


def test_nightly_is_a_build_with_number_and_whole_commit(tmp_path: Path, index: str) -> None:
    publish(tmp_path, "nightly", entry("x", "s390x"), entry(f"../../{COMMIT}/{WHEEL}"))
    assert newest_nightly(index) == Version(NUMBER, COMMIT)


def test_nightly_of_a_variant_is_that_variants(tmp_path: Path, index: str) -> None:
    publish(tmp_path, "nightly/cu129", entry(f"../../../{COMMIT}/{WHEEL}"))
    assert newest_nightly(index, "cu129") == Version(NUMBER, COMMIT, "cu129")


@pytest.mark.parametrize(
    ("entries", "complaint"),
    [
        ([entry(WHEEL)], "which commit"),
        ([entry(f"../../{COMMIT}/{WHEEL}", version="?")], "does not tell a vLLM version"),
        ([entry(f"../../{COMMIT}/{WHEEL}", version="1.0+gdeadbeef0")], "contradicts itself"),
        (
            [entry(f"../../{COMMIT}/{WHEEL}", "s390x")],
            "no wheel for .* in this variant .published: manylinux_2_28_s390x",
        ),
        ([1, {}, {"platform_tag": platform.machine(), "path": 3}], "no wheel for"),
    ],
)
def test_an_index_that_does_not_tell_is_not_guessed_at(
    tmp_path: Path, index: str, entries: list[Any], complaint: str
) -> None:
    publish(tmp_path, "nightly", *entries)
    with pytest.raises(ProvisionError, match=complaint):
        newest_nightly(index)


def test_a_commit_without_wheels_is_told(index: str) -> None:
    with pytest.raises(ProvisionError, match=f"no wheels are published for commit:{COMMIT}"):
        find_wheel(index, COMMIT, None, Version.parse(f"commit:{COMMIT}"))


def test_an_index_that_is_not_there_is_told() -> None:
    with pytest.raises(ProvisionError, match="cannot be read"):
        newest_nightly("http://127.0.0.1:1")


@given(st.binary(max_size=60))
def test_whatever_an_index_answers_is_an_error_of_ours_or_a_build(answer: bytes) -> None:
    with pytest.raises(ProvisionError):
        newest_nightly(get=lambda _: answer)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["platform_tag", "path", "version"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(json_values)
def test_whatever_an_index_lists_is_an_error_of_ours(value: Any) -> None:
    with pytest.raises(ProvisionError):
        newest_nightly(get=lambda _: json.dumps(value).encode())
