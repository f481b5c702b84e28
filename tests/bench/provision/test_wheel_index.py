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
from regress_gate.bench.provision.recipe import find_wheel, make_recipe, newest_nightly
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
        ([entry(WHEEL)], "does not name the commit"),
        ([entry(f"../../{COMMIT}/{WHEEL}", version="?")], "does not name a vLLM version"),
        ([entry(f"../../{COMMIT}/{WHEEL}", version="1.0+gdeadbeef0")], "contradicts itself"),
        (
            [entry(f"../../{COMMIT}/{WHEEL}", "s390x")],
            "no wheel for .* in this variant .published: manylinux_2_28_s390x",
        ),
        ([1, {}, {"platform_tag": platform.machine(), "path": 3}], "no wheel for"),
    ],
)
def test_an_incomplete_index_is_an_error(tmp_path: Path, index: str, entries: list[Any], complaint: str) -> None:
    publish(tmp_path, "nightly", *entries)
    with pytest.raises(ProvisionError, match=complaint):
        newest_nightly(index)


def publish_rocm(folder: Path, place: str, *variants: str, number: str = NUMBER) -> None:
    """In the layout that vLLM's upload-rocm-wheels.sh makes: the project list names the variants."""
    links = "".join(f'    <a href="{name}/">{name}/</a><br/>\n' for name in variants)
    directory = folder / "rocm" / place
    directory.mkdir(parents=True)
    (directory / "index.html").write_text(f"<!DOCTYPE html>\n<html><body>\n{links}</body></html>\n")
    for variant in variants:
        wheel = f"vllm-{number}%2B{variant}-cp312-cp312-manylinux_2_35_{platform.machine()}.whl"
        publish(folder, f"rocm/{place}/{variant}", entry(f"../../../{COMMIT}/{wheel}", version=number))


class TestRocm:
    """ROCm builds are in a tree of their own."""

    @pytest.mark.parametrize("variant", ["rocm", "rocm721"])
    def test_a_release_is_found_by_any_and_by_its_own_rocm(self, tmp_path: Path, index: str, variant: str) -> None:
        publish_rocm(tmp_path, "0.19.1", "rocm721")
        wheel = find_wheel(index, "0.19.1", variant, Version.parse("0.19.1"))
        assert wheel.variant == "rocm721"
        assert wheel.url.startswith(f"{index}/rocm/{COMMIT}/vllm-{NUMBER}%2Brocm721-cp312")
        assert wheel.companion_index == f"{index}/rocm/0.19.1/rocm721/"

    def test_a_nightly_names_its_rocm(self, tmp_path: Path, index: str) -> None:
        publish_rocm(tmp_path, "nightly", "rocm722")
        assert newest_nightly(index, "rocm") == Version(NUMBER, COMMIT, "rocm722")

    def test_several_rocms_are_left_to_the_user(self, tmp_path: Path, index: str) -> None:
        publish_rocm(tmp_path, "0.19.1", "rocm700", "rocm721")
        with pytest.raises(ProvisionError, match="several rocm builds, rocm700 and rocm721: choose one with --variant"):
            find_wheel(index, "0.19.1", "rocm", Version.parse("0.19.1"))

    def test_a_release_without_rocm_is_an_error(self, tmp_path: Path, index: str) -> None:
        publish_rocm(tmp_path, "0.19.1")
        with pytest.raises(ProvisionError, match=r"no rocm wheels are published for 0\.19\.1"):
            find_wheel(index, "0.19.1", "rocm", Version.parse("0.19.1"))
        with pytest.raises(
            ProvisionError,
            match=r"no wheels are published for 0\.19\.2 .*; measure a container with --image, or .* --serve-command",
        ):
            find_wheel(index, "0.19.2", "rocm", Version.parse("0.19.2"))

    def test_its_recipe_has_the_builds_of_torch_beside_it(self, tmp_path: Path, index: str) -> None:
        publish_rocm(tmp_path, "0.19.1", "rocm721")
        recipe = make_recipe(Version.parse("0.19.1"), variant="rocm", wheel_index=index)
        assert recipe.wanted == Version("0.19.1", None, "rocm721")
        assert recipe.companion_index == f"{index}/rocm/0.19.1/rocm721/"

    def test_other_builds_are_in_the_root(self, tmp_path: Path, index: str) -> None:
        publish(tmp_path, f"{COMMIT}/cu129", entry(f"../../{WHEEL}"))
        wheel = find_wheel(index, COMMIT, "cu129", Version.parse(f"commit:{COMMIT}"))
        assert (wheel.url, wheel.companion_index) == (f"{index}/{COMMIT}/{WHEEL}", None)


def test_a_commit_without_wheels_is_an_error(index: str) -> None:
    with pytest.raises(ProvisionError, match=f"no wheels are published for commit:{COMMIT}"):
        find_wheel(index, COMMIT, None, Version.parse(f"commit:{COMMIT}"))


def test_an_index_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(ProvisionError, match="cannot be read"):
        newest_nightly("http://127.0.0.1:1")


@given(st.binary(max_size=60))
def test_any_answer_of_an_index_is_a_build_or_an_error(answer: bytes) -> None:
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
def test_any_listing_without_wheels_is_an_error(value: Any) -> None:
    with pytest.raises(ProvisionError):
        newest_nightly(get=lambda _: json.dumps(value).encode())
