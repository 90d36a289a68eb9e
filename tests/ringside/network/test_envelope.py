"""What of an object message is envelope: honest ones are free, payload in disguise counts."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from ringside.mpi.pickling import packed
from ringside.network.envelope import Envelopes, counted_alone
from ringside.network.gathering import _nbytes

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
    envelopes = Envelopes()
    for n in (1, 2, 11, 100, 700, 1000, 5003) * 4:
        body, claimed = packed(HONEST[kind](n))
        assert envelopes.counted(body, claimed) == claimed
        assert counted_alone(body, claimed) == claimed


def test_payload_that_is_called_envelope_counts_whole() -> None:
    envelopes = Envelopes()
    counted = [envelopes.counted(RNG.bytes(1024), 0) for _ in range(100)]
    assert counted[:2] == [0, 0]  # names, for all that one can know
    assert counted[3:] == [1024] * 97
    assert Envelopes().counted(bytes(2000), 10) == 2000  # more than an envelope
    assert Envelopes().counted(b"", -1000) == 0  # nor does one weigh less than nothing
    assert counted_alone(b"abc", -1) == 3
    assert counted_alone(RNG.bytes(1024), 0) == 1024
    assert _nbytes(("object", 0, RNG.bytes(900))) == 900


def test_a_class_that_hides_what_it_holds_counts_in_the_end() -> None:
    envelopes = Envelopes()
    total = 0
    for _ in range(50):
        body = pickle.dumps(("name", RNG.bytes(900)))
        total += envelopes.counted(body, len(body) - 920)
    assert total > 40 * 900
