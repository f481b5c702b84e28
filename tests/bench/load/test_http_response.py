from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.bench.load.http_transport import InvalidHttpError, ResponseParser

from .test_sse import cut

HEAD = b"HTTP/1.1 200 OK\r\nserver: x\r\n"


def chunked(pieces: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def read(pieces: list[bytes]) -> tuple[ResponseParser, bytes]:
    parser = ResponseParser()
    return parser, b"".join([parser.feed(piece) for piece in pieces])


@given(st.lists(st.binary(min_size=1, max_size=50)), st.data())
def test_a_chunked_body_comes_out_whole_wherever_the_bytes_were_cut(body, data):
    response = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(body)
    parser, found = read(data.draw(cut(st.just(response))))
    assert (parser.status, parser.complete, parser.keep_alive, found) == (200, True, True, b"".join(body))


@given(st.binary(max_size=50), st.data())
def test_a_body_with_a_length_comes_out_whole_wherever_the_bytes_were_cut(body, data):
    response = HEAD + b"content-length: %d\r\n\r\n" % len(body) + body
    parser, found = read(data.draw(cut(st.just(response))))
    assert (parser.complete, found) == (True, body)


@given(st.lists(st.binary(max_size=60)), st.sampled_from([b"", HEAD, HEAD + b"transfer-encoding: chunked\r\n\r\n"]))
def test_garbage_is_refused_by_name_or_waited_for(pieces, head):
    parser = ResponseParser()
    with suppress(InvalidHttpError):
        for piece in (head, *pieces):
            parser.feed(piece)


def test_a_body_without_length_ends_with_the_connection():
    parser, found = read([HEAD + b"\r\nabc"])
    assert (found, parser.complete, parser.keep_alive) == (b"abc", False, False)
    assert parser.closed()


def test_a_body_that_was_cut_is_not_complete():
    parser, _ = read([HEAD + b"content-length: 5\r\n\r\nabc"])
    assert not parser.closed()


def test_a_connection_that_says_more_than_was_asked_is_not_used_again():
    parser, _ = read([HEAD + b"content-length: 1\r\n\r\na", b"HTTP/1.1 200 OK\r\n"])
    assert parser.complete
    assert not parser.keep_alive


def test_a_server_that_closes_says_so():
    parser, _ = read([HEAD + b"Connection: Close\r\ncontent-length: 1\r\n\r\na"])
    assert not parser.keep_alive


@pytest.mark.parametrize(
    "response",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 twenty\r\n\r\n",
        HEAD + b"content-length: many\r\n\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\n1\r\nab\r\n",
        HEAD + b"x" * 2**17,
    ],
)
def test_what_is_not_http_is_refused(response):
    with pytest.raises(InvalidHttpError):
        read([response])
