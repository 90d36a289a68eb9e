"""What of an object message is envelope, and so not counted."""

from __future__ import annotations

import numpy as np
import pytest

from ringside.mpi.pickling import packed
from ringside.network.gathering import _nbytes
from ringside.network.wire import ENVELOPE_BYTES, counted_of_object

RNG = np.random.default_rng(4)
HONEST = {
    "array": lambda n: RNG.standard_normal(n),
    "labelled": lambda n: (3, "shard", RNG.standard_normal(n)),
    "dict": lambda n: {"shard": 3, "data": RNG.standard_normal(n), "n": n},
    "seven": lambda n: {k: RNG.standard_normal(n // 7 + 1) for k in range(7)},
    "list": lambda n: RNG.standard_normal(n).tolist(),
    "integers": lambda n: RNG.integers(0, 2**62, n),
    "text": lambda n: RNG.bytes(n).hex(),
    "nothing": lambda n: None,
}


@pytest.mark.parametrize("kind", HONEST)
def test_honest_objects_count_as_what_they_hold(kind: str) -> None:
    for n in (1, 2, 11, 100, 700, 1000, 5003):
        body, claimed = packed(HONEST[kind](n))
        assert counted_of_object(len(body), claimed) == claimed


def test_at_most_an_envelope_of_a_message_is_free() -> None:
    assert ENVELOPE_BYTES == 1024, "the grading contract says so"
    assert counted_of_object(1024, 0) == 0
    assert counted_of_object(1025, 0) == 1025
    assert counted_of_object(2000, 976) == 976
    assert counted_of_object(2000, 975) == 2000
    assert counted_of_object(0, -1000) == 0, "nor does one weigh less than nothing"
    assert counted_of_object(3, -1) == counted_of_object(3, 4) == 3
    assert _nbytes(("object", 0, bytes(900))) == 0
    assert _nbytes(("object", 0, bytes(1900))) == 1900
