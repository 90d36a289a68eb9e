"""Bits that are flipped in messages: which one, who sees it, and what can't be hit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ringside import Failures, Flip, Kill, Session, TargetError

PROGRAM = """
import numpy as np
import ringside
from mpi4py import MPI

def ring(comm):
    got = []
    for turn in range(3):
        x, y = np.full(2, 1.0 + comm.rank), np.empty(2)
        comm.Sendrecv(x, (comm.rank + 1) % comm.size, 0, y, (comm.rank - 1) % comm.size, 0)
        got.append(y.tolist())
        assert x.tolist() == [1.0 + comm.rank] * 2
    return got, comm.allreduce(comm.rank)
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "program.py").write_text(PROGRAM)
    with Session(folder) as session:
        yield session


def test_one_bit_of_one_message_arrives_wrong(session: Session) -> None:
    result = session.call("program:ring", 3, failures=Failures(Flip(1, 2, 62)))
    result.raise_for_error()
    whole = [[[1.0 + (rank - 1) % 3] * 2] * 3 for rank in range(3)]
    bits = np.array(2.0).view(np.uint64) ^ np.uint64(1 << 62)
    whole[2] = [[2.0, 2.0], [float(bits.view(np.float64)), 2.0], [2.0, 2.0]]
    assert result.values == [(whole[rank], 3) for rank in range(3)]
    assert "Bit 62 of the 2nd message that rank 1 sent was flipped." in result.notes.values()
    assert session.call("program:ring", 3).values[2] == ([[2.0, 2.0]] * 3, 3)


def test_with_a_death_the_flip_is_the_same(session: Session) -> None:
    failures = Failures(Flip(1, 2, 63), Kill(0, op=8))
    result = session.call("program:ring", 3, failures=failures)
    assert len(result.deaths) == 1
    assert "Bit 63 of the 2nd message that rank 1 sent was flipped." in result.notes.values()


@pytest.mark.parametrize(
    ("flip", "says"),
    [
        (Flip(3, 1, 0), "there is no rank 3 among 3"),
        (Flip(1, 4, 0), "rank 1 sends 3 messages in this run"),
        (Flip(1, 3, 128), "that message has 128 bits"),
    ],
)
def test_a_flip_of_nothing_is_an_error(session: Session, flip: Flip, says: str) -> None:
    with pytest.raises(TargetError, match=says):
        session.call("program:ring", 3, failures=Failures(flip))


def test_a_flip_is_read_as_it_is_written() -> None:
    flip = Flip.parse("2#5:bit62")
    assert (flip, str(flip)) == (Flip(2, 5, 62), "2#5:bit62")
    for text in ("2@5:bit62", "2#0:bit1", "x"):
        with pytest.raises(TargetError):
            Flip.parse(text)
    with pytest.raises(TargetError, match="one bit of a message"):
        Failures(Flip(0, 1, 2), Flip(0, 1, 3))
    asked = Failures.asked(None, False, flips=["0#1:bit2"])
    assert asked is not None
    assert asked.flips == {(0, 1): 2}
