"""Nightly images: which is the newest, by commit and digest, of Docker Hub and of other registries, on loopback."""

import hashlib
import json
from datetime import UTC, datetime, timedelta

import pytest

from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.errors import InputError
from regress_gate.model.config import WatchConfig
from regress_gate.model.version import Channel, Version
from regress_gate.watch import image_registry
from regress_gate.watch.builds import find_builds, staleness
from regress_gate.watch.image_registry import newest_nightly_image
from regress_gate.watch.index_pages import IndexPages
from tests.factories.loopback_files import FileServer, serving_files

OLD, NEW = "a" * 40, "b" * 40
TAGS = "v2/repositories/vllm/vllm-openai/tags?name=nightly&ordering=last_updated&page_size=100"
NOW = datetime(2026, 11, 23, 4, tzinfo=UTC)


def digest(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def hub_tag(name, days_ago, **changes):
    pushed = (NOW - timedelta(days=days_ago)).isoformat().replace("+00:00", "Z")
    return {"name": name, "last_updated": pushed, "digest": digest(name.encode()), **changes}


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving_files(FileServer()) as server:
        monkeypatch.setattr(image_registry, "DOCKER_HUB", server.url)
        yield server


@pytest.fixture
def pages(tmp_path):
    pages = IndexPages(tmp_path / "pages")
    yield pages
    pages.close()


def hub(server, *tags):
    server.files[TAGS] = json.dumps({"count": len(tags), "results": tags}).encode()


def registry(server, new=NEW, *, made="2026-11-21T02:00:00.123456789Z"):
    """A registry with two nightly builds, of which the newer one is `nightly`; the name of the image and its digest.

    `made`: when, as registries write it. Whoever looks at it at the time of the test gives that.
    """
    config = json.dumps({"created": made}).encode()
    image = json.dumps({"config": {"digest": digest(config)}}).encode()
    indexes = {name: json.dumps({"manifests": [{"digest": digest(image)}], "is": name}).encode() for name in (OLD, new)}
    place = "v2/mirror/vllm/"
    server.files |= {
        f"{place}tags/list?n=1000": json.dumps({"tags": [f"nightly-{OLD}", "v0.33.0", f"nightly-{'c' * 39}"]}).encode(),
        f"{place}tags/list?last=x": json.dumps({"tags": [f"nightly-{new}"]}).encode(),
        f"{place}manifests/nightly": indexes[new],
        f"{place}manifests/nightly-{OLD}": indexes[OLD],
        f"{place}manifests/nightly-{new}": indexes[new],
        f"{place}manifests/{digest(image)}": image,
        f"{place}blobs/{digest(config)}": config,
    }
    server.headers[f"{place}tags/list?n=1000"] = {"Link": '</v2/mirror/vllm/tags/list?last=x>; rel="next"'}
    return server.url.removeprefix("http://") + "mirror/vllm", digest(indexes[new])


class TestDockerHub:
    def test_the_newest_tag_with_a_commit_is_named_with_its_digest_and_day(self, server, pages):
        hub(server, hub_tag(f"nightly-{OLD}", 3), hub_tag(f"nightly-{NEW}", 1), hub_tag("nightly", 0),
            hub_tag(f"cu129-nightly-{OLD}", 0), hub_tag("nightly-x86_64", 0))  # fmt: skip
        found = newest_nightly_image("vllm/vllm-openai", "nightly", pages)
        assert (found.commit, found.published) == (NEW, NOW - timedelta(days=1))
        assert str(found) == f"vllm/vllm-openai:nightly-{NEW}@{digest(f'nightly-{NEW}'.encode())}"
        assert newest_nightly_image("docker.io/vllm/vllm-openai", "cu129-nightly", pages).commit == OLD

    def test_an_answer_that_did_not_change_is_not_sent_again(self, server, pages):
        hub(server, hub_tag(f"nightly-{NEW}", 1))
        first = newest_nightly_image("vllm/vllm-openai", "nightly", pages)
        assert newest_nightly_image("vllm/vllm-openai", "nightly", pages) == first
        assert [status for _, status in server.asked] == [200, 304]

    @pytest.mark.parametrize(
        "tag",
        [
            hub_tag(f"nightly-{NEW}", 1, digest="sha256:../../etc"),
            hub_tag(f"nightly-{NEW}", 1, last_updated="yesterday"),
            hub_tag(f"nightly-{NEW}\n", 1),
            hub_tag(f"nightly-{NEW[:9]}", 1),
            "no object",
        ],
    )
    def test_a_tag_that_cannot_be_trusted_is_none(self, server, pages, tag):
        hub(server, tag)
        with pytest.raises(ProvisionError, match="has no tag of a nightly build"):
            newest_nightly_image("vllm/vllm-openai", "nightly", pages)

    @pytest.mark.parametrize(("status", "content"), [(429, b"{}"), (200, b"<html>"), (200, b"[]")])
    def test_a_registry_that_does_not_answer_is_named(self, server, pages, status, content):
        server.files[TAGS], server.status[TAGS] = content, status
        with pytest.raises(ProvisionError, match=r"answers with status 429|does not answer as a registry does"):
            newest_nightly_image("vllm/vllm-openai", "nightly", pages)


class TestOtherRegistries:
    @pytest.mark.parametrize("token", [None, "for-anybody"])
    def test_the_tag_with_the_content_of_nightly_is_the_newest(self, server, pages, token):
        image, wanted = registry(server)
        server.token = token
        server.files["token?service=here&scope=repository:x:pull"] = json.dumps({"token": token}).encode()
        found = newest_nightly_image(image, "nightly", pages)
        assert (found.commit, found.digest) == (NEW, wanted)
        assert found.published is not None
        assert found.published.date().isoformat() == "2026-11-21"

    def test_a_registry_for_members_only_is_named(self, server, pages):
        image, _ = registry(server)
        server.token = "for-members"
        with pytest.raises(ProvisionError, match="answers with status 404"):
            newest_nightly_image(image, "nightly", pages)
        server.files["token?service=here&scope=repository:x:pull"] = b'{"token": "of somebody else"}'
        with pytest.raises(ProvisionError, match="answers with status 401"):
            newest_nightly_image(image, "nightly", pages)

    def test_a_nightly_without_a_tag_of_its_commit_is_said(self, server, pages):
        image, _ = registry(server)
        server.files["v2/mirror/vllm/manifests/nightly"] = b'{"another": "content"}'
        with pytest.raises(ProvisionError, match=r"none of 2 tags .* is what nightly is: sha256:"):
            newest_nightly_image(image, "nightly", pages)

    def test_an_image_that_does_not_say_when_it_was_made_has_no_day(self, server, pages):
        image, _ = registry(server, made="long ago")
        assert newest_nightly_image(image, "nightly", pages).published is None


class TestBuilds:
    def find(self, server, pages, variant=None):
        found = find_builds(
            [Channel.NIGHTLY],
            variant=variant,
            wheel_index=server.url,
            environ={},
            pages=pages,
            image="vllm/vllm-openai",
        )
        return found.builds, found.problems

    def test_the_nightly_is_that_of_the_registry_with_the_number_of_its_wheel(self, server, pages):
        hub(server, hub_tag(f"nightly-{NEW}", 1), hub_tag(f"cu129-nightly-{OLD}", 1))
        entry = {
            "version": f"0.33.1rc1.dev7+g{NEW[:9]}",
            "platform_tag": "x86_64 aarch64",
            "path": f"../../{NEW}/x.whl",
        }
        server.files[f"{NEW}/vllm/metadata.json"] = json.dumps([entry]).encode()
        ((build,), problems) = self.find(server, pages)
        assert (build.version, problems) == (Version("0.33.1rc1.dev7", NEW), ())
        assert build.image == f"vllm/vllm-openai:nightly-{NEW}@{digest(f'nightly-{NEW}'.encode())}"
        ((other,), _) = self.find(server, pages, "cu129")
        assert other.version == Version(None, OLD, "cu129"), "without a wheel, its commit is all that is known"

    def test_a_tag_that_is_no_longer_pushed_is_stale(self, server, pages):
        hub(server, hub_tag(f"nightly-{NEW}", 5))
        ((build,), _) = self.find(server, pages)
        alarm = staleness(build, None, NOW, timedelta(days=3))
        assert alarm is not None
        assert "is 5 days old" in alarm.text
        assert staleness(build, None, NOW, timedelta(days=6)) is None

    def test_a_registry_that_is_silent_is_a_problem_and_no_answer(self, server, pages):
        builds, problems = self.find(server, pages)
        assert builds == ()
        assert problems[0].startswith("the nightly is not known: ")
        assert "status 404" in problems[0]


@pytest.mark.parametrize("image", ["vllm", "vllm/vllm-openai:nightly", "https://host/x", "host:port/x", "a b/c"])
def test_what_is_no_repository_of_containers_is_refused(image):
    with pytest.raises((InputError, ValueError), match="image"):
        WatchConfig.model_validate({"image": image})
