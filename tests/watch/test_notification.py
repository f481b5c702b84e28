"""What a web hook is told of a look, and that its address stays secret whatever goes wrong."""

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from regress_gate.errors import InputError
from regress_gate.watch import notification
from regress_gate.watch.notification import Webhook, WebhookForm, read_webhook, send_notification
from regress_gate.watch.tracking_issue import IssueAction
from tests.factories.results import an_issue
from tests.factories.watching import a_finding, a_look

SECRET = "T000-s3cr3t-B111"
HOSTILE = "<!channel> <@U123> *b* `x` https://user:hunter2hunter2@evil.example/x ::error::y \x1b[31m"


class Receiver:
    def __init__(self, *statuses: int):
        self.statuses = list(statuses)
        self.received: list[tuple[dict[str, str], Any]] = []
        self.url = ""


@contextmanager
def receiving(receiver: Receiver) -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            receiver.received.append(({name.lower(): value for name, value in self.headers.items()}, body))
            status = receiver.statuses.pop(0) if receiver.statuses else 200
            if status == 0:
                self.close_connection = True
                return
            self.send_response_only(status)
            self.send_header("Content-Length", "0")
            if 300 <= status < 400:
                self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/services/{SECRET}?key={SECRET}"
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notification.Retry, "sleep", lambda *_, **__: None)


def test_programs_get_all_numbers_and_the_links() -> None:
    finding = a_finding(known_issues=(an_issue(),))
    action = IssueAction(finding.key, finding.title, "created", "https://github.example/team/serving/issues/1", 1)
    look = a_look(0, finding, alarms=("The newest nightly is 5 days old.",))
    with receiving(Receiver()) as receiver:
        problem = send_notification(Webhook(receiver.url), look, issues=[action], dashboard="https://dash.example/")
    assert problem is None
    ((headers, message),) = receiver.received
    assert headers["content-type"] == "application/json; charset=utf-8"
    assert headers["idempotency-key"] == message["look"] == "2026-11-16-cu129"
    assert (message["decision"], message["alarms"]) == ("pass", ["The newest nightly is 5 days old."])
    (found,) = message["findings"]
    assert found["issue_url"] == action.url
    assert found["state"] == "seen"
    (series,) = found["series"]
    assert (series["change"], series["interval"], series["candidate"]["runs"]) == (0.09, [0.07, 0.11], 5)


def test_slack_gets_blocks_of_plain_text_in_which_nothing_is_a_mention() -> None:
    findings = [a_finding(number, title=HOSTILE * 40) for number in range(1, 40)]
    look = a_look(0, *findings, headline=HOSTILE, alarms=(HOSTILE,) * 30)
    action = IssueAction(findings[0].key, "", "created", "https://github.example/a/b/issues/1", 1)
    with receiving(Receiver()) as receiver:
        assert send_notification(Webhook(receiver.url, WebhookForm.SLACK), look, issues=[action]) is None
    ((_, message),) = receiver.received
    assert len(message["blocks"]) <= 50
    assert "<" not in message["text"]
    for block in message["blocks"]:
        limit = 150 if block["type"] == "header" else 3000
        assert 0 < len(block["text"]["text"]) <= limit
        if block["text"]["type"] == "mrkdwn":
            assert block["text"]["text"] == "<https://github.example/a/b/issues/1|tracking issue>"
    assert "hunter2" not in json.dumps(message)


@pytest.mark.parametrize("first", [0, 429, 503])
def test_what_may_pass_is_tried_again(first: int) -> None:
    with receiving(Receiver(first)) as receiver:
        assert send_notification(Webhook(receiver.url), a_look()) is None
    assert len(receiver.received) == 2


@pytest.mark.parametrize(
    ("statuses", "text"),
    [
        ((500,) * 9, "the webhook refuses (500)"),
        ((404,), "the webhook refuses (404)"),
        ((308,), "the webhook redirects (308), which is not followed; give its final address"),
        ((0,) * 9, "the webhook cannot be reached, or does not answer"),
    ],
)
def test_a_failure_is_one_line_without_the_address(
    statuses: tuple[int, ...], text: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with receiving(Receiver(*statuses)) as receiver:
        assert send_notification(Webhook(receiver.url), a_look()) == text
        assert len(receiver.received) <= 3
    assert SECRET not in caplog.text
    assert SECRET not in "".join(capfd.readouterr())


def test_nobody_listening_is_said_without_the_address(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    problem = send_notification(Webhook(f"http://127.0.0.1:9/{SECRET}"), a_look())
    assert problem == "the webhook cannot be reached, or does not answer"
    assert SECRET not in caplog.text


def test_a_receiver_that_never_ends_is_left_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notification, "TOTAL_TIMEOUT", 0.05)
    released = threading.Event()
    monkeypatch.setattr(notification, "_post", lambda *_: released.wait(30))
    assert send_notification(Webhook("https://hooks.example/x"), a_look()) == "the webhook did not answer within 0 s"
    released.set()


@pytest.mark.parametrize(
    "address",
    [
        f"http://hooks.example/{SECRET}",
        f"ftp://hooks.example/{SECRET}",
        f"{SECRET}",
        f"https:///{SECRET}",
        f"https://hooks.example/{SECRET} x",
        f"https://hooks.example:0/{SECRET}",
        f"https://[::1/{SECRET}",
        f"https://hooks.example/{SECRET}\n",
    ],
)
def test_an_address_that_cannot_be_used_is_not_quoted(address: str) -> None:
    with pytest.raises(InputError) as error:
        Webhook(address)
    assert SECRET not in str(error.value)


def test_the_address_comes_from_the_environment_and_is_not_shown() -> None:
    assert read_webhook({}) is None
    given = {"REGRESS_GATE_WEBHOOK": f"https://h.example/{SECRET}", "REGRESS_GATE_WEBHOOK_FORM": "slack"}
    webhook = read_webhook(given)
    assert webhook is not None
    assert webhook.form is WebhookForm.SLACK
    assert SECRET not in repr(webhook)
    with pytest.raises(InputError, match="did you mean 'slack'"):
        read_webhook(given | {"REGRESS_GATE_WEBHOOK_FORM": "slak"})
