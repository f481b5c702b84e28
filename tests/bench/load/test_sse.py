import orjson
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.bench.load.responses import SseParser, StreamedResponse

payloads = st.lists(st.binary(min_size=1, max_size=40).filter(lambda data: not set(data) & set(b"\r\n")), max_size=8)


@st.composite
def cut(draw, stream: st.SearchStrategy[bytes]) -> list[bytes]:
    """A stream of bytes in pieces."""
    data = draw(stream)
    at = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return [data[start:end] for start, end in zip([0, *at], [*at, len(data)], strict=True)]


def events_of(pieces: list[bytes]) -> list[bytes]:
    parser = SseParser()
    return [event for piece in pieces for event in parser.feed(piece)]


@given(payloads, st.sampled_from([b"\n", b"\r\n"]), st.data())
def test_events_come_out_whole_wherever_the_bytes_were_cut(payloads, newline, data):
    stream = b"".join(b"data: " + payload + newline * 2 for payload in payloads)
    assert events_of(data.draw(cut(st.just(stream)))) == payloads


@given(cut(st.lists(st.sampled_from([b"data:", b"data", b":", b" ", b"\n", b"\r", b"{}", b"\xff"])).map(b"".join)))
def test_the_cuts_never_change_the_events(pieces):
    assert events_of(pieces) == events_of([b"".join(pieces)])


@given(st.lists(st.binary(max_size=60)))
def test_garbage_never_raises(pieces):
    answer = StreamedResponse(3)
    for piece in pieces:
        answer.receive(200, piece, 0.0)
    assert answer.failure(200) is not None


@given(
    st.lists(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["choices", "usage", "error", "finish_reason", "completion_tokens"]), inner
                )
            ),
        ),
        max_size=4,
    )
)
def test_json_of_any_shape_never_raises(documents):
    answer = StreamedResponse(3)
    for document in documents:
        try:
            text = orjson.dumps(document)
        except (orjson.JSONEncodeError, TypeError):
            continue
        answer.receive(200, b"data: " + text + b"\n\n", 0.0)
    answer.failure(200)


def test_lines_of_one_event_are_joined_and_comments_are_ignored():
    assert events_of([b": keep-alive\n\ndata: a\ndata:b\nid: 7\n\n"]) == [b"a\nb"]


def test_an_event_without_its_blank_line_is_not_returned():
    parser = SseParser()
    assert parser.feed(b"data: a\n") == []
    assert parser.pending == 1


def test_an_event_that_never_ends_is_garbage_and_not_kept_for_ever():
    answer = StreamedResponse(1)
    for _ in range(20):
        answer.receive(200, b"x" * 2**16, 0.0)
    assert "does not end" in str(answer.failure(200))
