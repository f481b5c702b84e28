"""Samples as blobs: nothing but the part of a time below a microsecond is lost, and damage is noticed."""

import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.errors import InputError
from regress_gate.model.samples import Samples
from regress_gate.store import sample_codec
from tests.factories.stored_runs import make_samples, plain_samples, request_samples


@given(request_samples())
def test_decoding_gives_what_was_encoded_with_times_in_whole_microseconds(samples: Samples) -> None:
    assert plain_samples(sample_codec.decode(sample_codec.encode(samples))) == plain_samples(samples)


@given(request_samples())
def test_decoded_samples_encode_to_the_same_blob(samples: Samples) -> None:
    blob = sample_codec.encode(samples)
    assert sample_codec.encode(sample_codec.decode(blob)) == blob


@given(st.integers(-(2**50), 2**50))
def test_every_whole_microsecond_in_range_survives(time: int) -> None:
    assert sample_codec.microseconds(sample_codec.seconds(np.array([time]))).tolist() == [time]


def test_a_trial_without_requests_has_samples_too() -> None:
    decoded = sample_codec.decode(sample_codec.encode(make_samples([], start=True)))
    assert len(decoded) == 0
    assert decoded.start is not None


def test_a_time_that_was_not_measured_stays_not_measured() -> None:
    samples = replace(make_samples(), ttft=np.array([np.nan, 0.25]))
    assert np.isnan(sample_codec.decode(sample_codec.encode(samples)).ttft).tolist() == [True, False]


@pytest.mark.parametrize("other", [0.1, np.nan])
@pytest.mark.parametrize("time", [np.inf, -np.inf, 1e12, -1e12])
def test_a_time_that_no_client_can_have_measured_is_refused(time: float, other: float) -> None:
    with pytest.raises(InputError, match="time is out of range"):
        sample_codec.encode(replace(make_samples(), ttft=np.array([other, time])))


@pytest.mark.parametrize("count", [2**60, -(2**63)])
def test_a_token_count_out_of_range_is_refused(count: int) -> None:
    with pytest.raises(InputError, match="token count"):
        sample_codec.encode(replace(make_samples(), input_tokens=np.array([1, count])))


def test_the_widest_range_that_is_kept_is_kept_exactly() -> None:
    counts, times = np.array([-(2**50), 2**50 - 1, 2**50]), np.array([-(2**50), 2**50, sample_codec.UNKNOWN])
    samples = replace(make_samples([[], [], []]), ttft=sample_codec.seconds(times), input_tokens=counts)
    decoded = sample_codec.decode(sample_codec.encode(samples))
    assert sample_codec.microseconds(decoded.ttft).tolist() == times.tolist()
    assert decoded.input_tokens.tolist() == counts.tolist()


@pytest.mark.parametrize("span", [255, 256, 2**16 - 1, 2**16])
def test_times_whose_range_ends_where_another_byte_begins_survive(span: int) -> None:
    for times in ([7, 7 + span], [7, 7 + span, sample_codec.UNKNOWN]):
        samples = replace(make_samples([[]] * len(times)), ttft=sample_codec.seconds(np.array(times)))
        assert sample_codec.microseconds(sample_codec.decode(sample_codec.encode(samples)).ttft).tolist() == times


def test_a_blob_is_laid_out_as_those_that_are_stored_already() -> None:
    samples = Samples(
        ttft=np.array([0.1, np.nan]),
        itl=np.array([0.01, 0.0103, 0.5]),
        itl_start=np.array([0, 2, 3]),
        input_tokens=np.array([128, 384]),
        output_tokens=np.array([3, 2]),
        ok=np.array([True, False]),
        start=np.array([np.nan, np.nan]),
    )
    columns = [
        # Values, smallest, bytes of each, whether some are unknown; then what is above the smallest, by planes.
        (2, 100_000, 1, True, "01 00"),
        (2, 1, 1, False, "01 00"),
        (3, 10_000, 3, False, "00 01 7a  00 00 07"),
        (2, 128, 2, False, "00 01"),
        (2, 2, 1, False, "01 00"),
        (2, 0, 1, False, "01 00"),
        (2, 0, 1, True, "00 00"),
    ]
    blob = sample_codec.encode(samples)
    version, length = struct.unpack_from("<BI", blob)
    assert version == 1
    expected = [struct.pack("<QqB?", *header) + bytes.fromhex(planes) for *header, planes in columns]
    assert zlib.decompress(blob[5 : 5 + length], -15) == b"".join(expected)
    assert blob[5 + length :] == bytes.fromhex("00 2c 10  00 00")  # the lowest planes of gaps and input tokens


def test_arrays_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="different lengths"):
        sample_codec.encode(replace(make_samples(), ok=np.array([True])))
    with pytest.raises(ValueError, match="divide"):
        sample_codec.encode(replace(make_samples(), itl_start=np.array([0, 2, 2])))
    with pytest.raises(ValueError, match="divide"):
        sample_codec.encode(replace(make_samples(), itl_start=np.array([0, 4, 3])))


def test_a_detailed_trial_takes_a_fraction_of_its_json() -> None:
    noise = np.random.default_rng(7)
    gaps = np.round(np.abs(noise.normal(0.0157, 0.003, (200, 127))), 6)
    blob = sample_codec.encode(make_samples(gaps.tolist()))
    assert len(blob) < 0.4 * sum(len(f"{gap}, ") for gap in gaps.ravel().tolist())


@given(request_samples(), st.data())
def test_a_blob_that_was_cut_short_is_noticed(samples: Samples, data: st.DataObject) -> None:
    blob = sample_codec.encode(samples)
    with pytest.raises(ValueError, match="samples"):
        sample_codec.decode(blob[: data.draw(st.integers(0, len(blob) - 1))])


@given(st.binary(max_size=200))
def test_bytes_that_are_no_samples_are_an_error_and_nothing_worse(blob: bytes) -> None:
    with pytest.raises(ValueError, match="samples"):
        sample_codec.decode(blob)
