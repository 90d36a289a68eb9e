"""Values as bytes: what goes in comes out, and nothing else gets in."""

from __future__ import annotations

import contextlib
import dataclasses
import pickle

import numpy as np
import pytest

from ringside.errors import CodecError
from ringside.network import codec


@codec.register
@dataclasses.dataclass(frozen=True)
class Stamped:
    microbatch: int


@dataclasses.dataclass(frozen=True)
class Unregistered:
    value: int


@pytest.mark.parametrize(
    "value",
    [
        None, True, False, 0, -1, 2**63 - 1, -(2**63), 2**200, -(2**200), 1.5, float("inf"), 2 + 3j,
        "", "äöü", "\ud800", b"", b"\x00\xff", (), (1, (2, [3])), [], {"a": {1: None}},
        Stamped(3), [Stamped(0), Stamped(1)],
    ],
)  # fmt: skip
def test_plain_values_come_back(value: object) -> None:
    back = codec.decode(codec.encode(value))
    assert back == value and type(back) is type(value)


@pytest.mark.parametrize("dtype", codec.DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 0, 3), (3, 4)])
def test_arrays_come_back(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    back = codec.decode(codec.encode(array))
    assert back.dtype == array.dtype and back.shape == array.shape
    np.testing.assert_array_equal(back, array)
    assert back.flags.writeable and back.flags.owndata


def test_strided_and_big_endian_arrays_travel_by_value() -> None:
    wide = np.arange(10.0)
    np.testing.assert_array_equal(codec.decode(codec.encode(wide[::2])), wide[::2])
    swapped = np.arange(3, dtype=">i4")
    np.testing.assert_array_equal(codec.decode(codec.encode(swapped)), [0, 1, 2])


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, lambda: None, np.array([object()]), np.array(["a"]), Unregistered(1)],
)
def test_other_types_are_refused(value: object) -> None:
    with pytest.raises(CodecError, match="can't travel"):
        codec.encode(value)


def test_depth_is_bounded_both_ways() -> None:
    value: list[object] = []
    for _ in range(60):
        value = [value]
    with pytest.raises(CodecError, match="24 deep"):
        codec.encode(value)
    with pytest.raises(CodecError, match="24 deep"):
        codec.decode(b"l\x01\x00\x00\x00" * 60 + b"N")


def test_cut_or_changed_bytes_are_an_error_and_never_a_crash() -> None:
    whole = codec.encode({"a": [1, 2.5, "text", np.arange(6).reshape(2, 3)], "b": Stamped(2)})
    for length in range(len(whole)):
        with pytest.raises(CodecError):
            codec.decode(whole[:length])
    rng = np.random.default_rng(0)
    for _ in range(3000):
        damaged = bytearray(whole)
        for position in rng.integers(0, len(whole), size=3):
            damaged[position] = rng.integers(0, 256)
        with contextlib.suppress(CodecError):
            codec.decode(bytes(damaged))


def test_huge_declared_sizes_allocate_nothing() -> None:
    array = bytearray(codec.encode(np.zeros(3)))
    array[3:11] = (2**60).to_bytes(8, "little")
    with pytest.raises(CodecError):
        codec.decode(bytes(array))
    with pytest.raises(CodecError):
        codec.decode(b"l" + (2**32 - 1).to_bytes(4, "little"))


def test_pickles_and_unknown_records_are_refused() -> None:
    with pytest.raises(CodecError):
        codec.decode(pickle.dumps([1]))
    with pytest.raises(CodecError, match="isn't registered"):
        codec.decode(codec.encode(Stamped(1)).replace(b"Stamped", b"Backwrd"))


def test_keys_with_equal_hashes_are_refused_before_they_cost_time() -> None:
    step = 2**61 - 1  # of whole numbers: all of its multiples have the hash 0
    with pytest.raises(CodecError, match="1000 keys"):
        codec.decode(codec.encode({number * step: None for number in range(1, 1100)}))
    plain = {number: str(number) for number in range(3000)}
    assert codec.decode(codec.encode(plain)) == plain


def test_integers_that_nobody_could_write_out_are_refused() -> None:
    with pytest.raises(CodecError, match="1024 at most"):
        codec.encode(10**5000)
    big = codec.encode(2**8000)
    with pytest.raises(CodecError, match="an integer of 2000 bytes"):
        codec.decode(big[:1] + (2000).to_bytes(8, "little") + bytes(2000))
    assert len(str(codec.decode(big))) == 2409


def test_a_string_of_numpys_travels_as_text() -> None:
    name = np.array(["ring", "star"])[1]
    assert isinstance(name, np.str_)
    arrived = codec.decode(codec.encode({"name": name}))
    assert arrived == {"name": "star"} and type(arrived["name"]) is str
