"""`audit` reads what it is given, says what it cannot tell, and exits by the severity of what it finds."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from regress_gate.app import audit
from regress_gate.errors import ExitCode
from tests.factories.audits import a_scrape, statistics_line

BUSY = {"vllm:kv_cache_usage_perc": 0.99, "vllm:request_success_total": 10.0, "vllm:num_preemptions_total": 2.0}
LATER = {"vllm:kv_cache_usage_perc": 0.99, "vllm:request_success_total": 90.0, "vllm:num_preemptions_total": 40.0}


@pytest.fixture
def start_log(tmp_path: Path) -> Path:
    file = tmp_path / "server.log"
    lines = ["INFO 11-21 02:11:13 [utils.py:299] vLLM API server version 0.24.0", "non-default args: {'model': 'm'}"]
    file.write_text("\n".join([*lines, *[statistics_line(usage=99.0, preemptions=4)] * 6]))
    return file


def test_a_log_is_enough_for_a_severe_finding(gate, start_log):
    done = gate("audit", "--server-log", start_log, "--format", "json")
    assert done.code == ExitCode.FAIL
    result = json.loads(done.out)
    (found,) = [one for one in result["audit"] if one["id"] == "KV003"]
    assert (found["answer"], found["blocks"], found["evidence"][0]["line"]) == ("fires", True, 3)
    assert result["version"] == "0.24.0"
    assert gate("audit", "--server-log", start_log, "--report-only").code == ExitCode.PASS


def test_without_any_fact_it_is_inconclusive_and_says_what_it_needs(gate):
    done = gate("audit")
    assert done.code == ExitCode.INCONCLUSIVE
    assert "0 of" in done.out
    assert "--server-log FILE" in done.out


def test_two_scrapes_make_a_window_and_one_does_not(gate, tmp_path):
    for name, samples in (("first", BUSY), ("second", LATER)):
        (tmp_path / name).write_text(a_scrape(samples))
    both = gate("audit", "v0.24.0", "--metrics", tmp_path / "first", "--metrics", tmp_path / "second")
    assert both.code == ExitCode.FAIL
    assert "38 preemptions, 80 finished requests" in both.out
    once = gate("audit", "v0.24.0", "--metrics", tmp_path / "second", "--format", "json")
    (unknown,) = [one for one in json.loads(once.out)["audit"] if one["id"] == "KV003"]
    assert unknown["needs"] == ["--metrics twice, some time apart and under load"]


@pytest.fixture
def metrics_url():
    """A server that has finished 80 more requests, with 38 preemptions, when it is asked again."""
    pages = iter([a_scrape(BUSY), a_scrape(LATER)])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            page = next(pages).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/metrics"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("window", "seconds"), [((), 15.0), (("--window", "2m"), 120.0)])
def test_an_address_that_is_given_twice_is_read_twice_a_window_apart(gate, monkeypatch, metrics_url, window, seconds):
    waited = []
    clock = SimpleNamespace(monotonic=lambda: sum(waited), sleep=waited.append)
    monkeypatch.setattr(audit, "time", clock)
    done = gate("audit", "v0.24.0", "--metrics", metrics_url, "--metrics", metrics_url, *window, "--format", "json")
    assert waited == [seconds]
    assert f"waiting {seconds:.0f} s between two scrapes" in done.err
    (found,) = [one for one in json.loads(done.out)["audit"] if one["id"] == "KV003"]
    text = f"38 preemptions, 80 finished requests, KV cache 99% between both scrapes ({seconds:.0f} s)"
    assert found["evidence"] == [{"source": "metrics", "text": text, "line": None}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--metrics", "none.txt"), "none.txt: cannot be read"),
        (("--metrics", "http://127.0.0.1:9/metrics"), "is the server up?"),
        (("--metrics", "page.html"), "page.html: is not the text of /metrics"),
        (("--metrics", "other.txt"), "other.txt: has no metrics of vLLM"),
        (("--model-config", "."), "has no config.json"),
        (("nightly-ish",), "nightly-ish"),
    ],
)
def test_what_cannot_be_read_is_an_error(gate, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.html").write_text("<html>{broken")
    (tmp_path / "other.txt").write_text("process_cpu_seconds_total 7.0\n")
    done = gate("audit", *arguments)
    assert done.code == ExitCode.USAGE
    assert message in done.error


def test_the_servers_of_a_file_are_audited_each_and_the_worst_decides(gate, tmp_path):
    file = tmp_path / "compose.yaml"
    server = '  {}:\n    image: vllm/vllm-openai:v0.24.0\n    command: ["--model", "m", {}]\n'
    file.write_text("services:\n" + server.format("good", '"-tp", "1"') + server.format("bad", '"--swap-space", "4"'))
    done = gate("audit", "--deployment", file, "--format", "json")
    assert done.code == ExitCode.FAIL
    assert [one["decision"] for one in json.loads(done.out)["deployments"]] == ["pass", "fail"]
    shown = gate("audit", "--deployment", file).out
    assert "FAIL: 1 finding in 2 servers; " in shown
    assert "answers could be given" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("variable", "became"),
    [("VLLM_USE_V1", "removed in 0.11.1"), ("VLLM_ATTENTION_BACKEND", "now --attention-backend")],
)
def test_a_variable_of_older_releases_is_told_with_what_became_of_it(gate, variable, became):
    done = gate("audit", "v0.29.0", "--env", f"{variable}=1", "--format", "json")
    (found,) = [one for one in json.loads(done.out)["audit"] if one["id"] == "ENV001"]
    assert found["why"] == f"0.29.0 does not read the variable {variable} ({became})"
    assert found["remedy"] == "correct or remove it; if it has a successor, regress-gate check names it"


def start_of(version: str, size: int) -> list[str]:
    return [
        f"INFO 11-21 02:11:13 [utils.py:299] vLLM API server version {version}",
        f"INFO 11-21 02:11:13 [utils.py:233] non-default args: {{'model': 'm', 'tensor_parallel_size': {size}}}",
        *["x"] * 100,
    ]


UNTUNED = "WARNING 11-21 02:11:45 [x.py:1] Using default MoE config. Performance might be sub-optimal! Config file not "
UNTUNED += "found at /x/E=8,N=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8.json"


def test_version_and_arguments_are_those_of_the_last_start_as_its_lines_are(gate, tmp_path):
    log = tmp_path / "server.log"
    log.write_text("\n".join([*start_of("0.19.1", 1), *start_of("0.32.0", 8), UNTUNED]))
    result = gate("audit", "--server-log", log, "--format", "json").json
    assert result["version"] == "0.32.0"
    (found,) = [one for one in result["audit"] if one["id"] == "MOE001"]
    assert "--tp-size 8 --dtype fp8_w8a8 --tune" in found["remedy"]
    assert "on NVIDIA H200, for m (E=8, N=7168, dtype=fp8_w8a8): " in found["remedy"]


def test_a_log_from_a_collector_is_read_as_the_server_printed_it(gate, tmp_path):
    log = tmp_path / "server.log"
    log.write_text("".join(f"vllm-1  | {line}\n" for line in [*start_of("0.32.0", 8), UNTUNED]))
    result = gate("audit", "--server-log", log, "--format", "json").json
    assert result["version"] == "0.32.0"
    assert result["audit"][0]["id"] == "MOE001"


def test_a_part_of_a_log_is_audited_and_what_it_lacks_is_not_clear(gate, tmp_path):
    log = tmp_path / "tail.log"
    log.write_text(UNTUNED)
    done = gate("audit", "v0.32.0", "--server-log", log, "--format", "json")
    assert f"{log}: no start of a server found" in done.err
    answers = {one["id"]: one["answer"] for one in done.json["audit"]}
    assert (answers["MOE001"], answers["CG002"]) == ("fires", "cannot_tell")


def test_a_file_that_is_no_log_of_vllm_is_an_error(gate, tmp_path):
    log = tmp_path / "other.log"
    log.write_text("hello\nworld\n")
    done = gate("audit", "--server-log", log)
    assert done.code == ExitCode.USAGE
    assert f"{log}: no vLLM server start found" in done.error


def test_a_version_that_was_never_released_is_refused_with_the_nearest(gate):
    done = gate("audit", "v0.29.7")
    assert (done.code, done.error) == (2, "vLLM 0.29.7 was never released; the nearest release is 0.29.0")
    assert gate("audit", "0.29.7+acme").code == 3
