"""What the network notices of messages, and what a wrong value resembles: hints beside verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ringside.checking import (
    Verdict,
    assert_array,
    assert_ran,
    cut,
    magnitude,
    noted,
    run_report,
    total,
)
from ringside.checking.cases import Case
from ringside.errors import DeadlockError
from ringside.session.session import Session

PROGRAMS = '''
import numpy as np
from mpi4py import MPI


def narrow(comm, x):
    """Half as many bytes come as are waited for, and they are of another type."""
    if comm.rank == 0:
        comm.Send(x.astype(np.float32), 1)
    elif comm.rank == 1:
        into = np.zeros_like(x)
        comm.Recv(into, 0)
        return into


def narrow_exchange(comm, x):
    into = np.zeros(x.size, np.int64)
    comm.Sendrecv(x, 1 - comm.rank, recvbuf=into, source=1 - comm.rank)
    return into


def narrow_started(comm, x):
    into = np.zeros(x.size, np.int64)
    request = comm.Irecv(into, 1 - comm.rank)
    comm.Isend(x, 1 - comm.rank).Wait()
    request.Wait()
    return into


def object_into_buffer(comm, x):
    if comm.rank == 0:
        comm.send(x, 1)
    else:
        comm.Recv(np.empty(100), 0)
        return np.empty(3)


def buffer_into_object(comm, x):
    if comm.rank == 0:
        comm.Send(x, 1)
    else:
        comm.recv(source=0)


def short(comm, x):
    into = np.zeros_like(x)
    comm.Sendrecv(x[:2], 1 - comm.rank, recvbuf=into, source=1 - comm.rank)
    return into


def bcast(comm, x):
    into = x.view(np.int64) if comm.rank else x
    comm.Bcast(into, 0)
    return into


def hangs(comm, x):
    narrow(comm, x)
    comm.Recv(x, 1 - comm.rank)


def one_receive_too_many(comm, x):
    into = np.empty_like(x)
    request = comm.Isend(x, 1 - comm.rank)
    comm.Recv(into, 1 - comm.rank)
    request.Wait()
    comm.Recv(into, 1 - comm.rank)


def receives_first(comm, x):
    comm.Recv(np.empty_like(x), 1 - comm.rank)
    comm.Send(x, 1 - comm.rank)


def alone(comm, x):
    comm.Recv(x, 0)


def empty_pickle(comm, x):
    __import__("pickle").loads(b"")


def keyboard(comm, x):
    input()


def as_bytes(comm, x):
    into = np.zeros_like(x)
    raw = [x, MPI.BYTE] if comm.rank else x.view(np.uint8)
    comm.Sendrecv(raw, 1 - comm.rank, recvbuf=into, source=1 - comm.rank)
    return into


def fits(comm, x):
    into = np.zeros_like(x)
    comm.Sendrecv(x, 1 - comm.rank, recvbuf=into, source=1 - comm.rank)
    return comm.sendrecv(into, 1 - comm.rank, source=1 - comm.rank)
'''


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("misfits")
    (folder / "a.py").write_text(PROGRAMS)
    with Session(folder) as session:
        yield session


def run(session: Session, function: str) -> Any:
    return session.call(f"a:{function}", 2, [(np.arange(3.0) + rank,) for rank in range(2)])


@pytest.mark.parametrize(
    ("function", "note"),
    [
        (
            "narrow",
            "rank 0's Send(dest=1, tag=0) at a.py:9 sent float32, rank 1's Recv(source=0, "
            "tag=ANY_TAG) at a.py:12 took its bytes for float64. Give both arrays the same dtype.",
        ),
        ("narrow_exchange", "at a.py:18 sent float64, rank "),
        ("narrow_started", "at a.py:25 sent float64, rank "),
        ("object_into_buffer", "sent a pickled object, rank 1's Recv(source=0, tag=ANY_TAG)"),
        ("buffer_into_object", "sent float64, rank 1's recv(source=0, tag=ANY_TAG) at a.py:42"),
        (
            "bcast",
            "rank 0's Bcast(root=0) at a.py:53 has an array of float64, rank 1's Bcast(root=0) at "
            "a.py:53 has an array of int64. Give all ranks' arrays the same dtype.",
        ),
        ("hangs", "sent float32"),
    ],
)
def test_a_message_of_another_kind_than_its_buffer_is_noted(
    session: Session, function: str, note: str
) -> None:
    result = run(session, function)
    assert note in result.notes["kind"]
    assert result.notes["kind"] in run_report.text(result, f"a.py:{function}", "wrong", None)


def test_a_message_shorter_than_its_buffer_is_noted(session: Session) -> None:
    note = run(session, "short").notes["length"]
    assert note.startswith("rank 1's Sendrecv(dest=0, source=0) at a.py:")
    assert "sent 16 bytes, rank 0's Sendrecv" in note
    assert note.endswith("has a buffer of 24: the rest of it stayed as it was.")


@pytest.mark.parametrize("function", ["fits", "as_bytes"])
def test_nothing_is_noted_of_messages_that_fit(session: Session, function: str) -> None:
    result = run(session, function)
    assert (result.error, result.notes) == (None, {})


def test_notes_stand_beside_a_failure_and_not_beside_what_is_right(session: Session) -> None:
    case = Case(2)
    with pytest.raises(Verdict, match="sent float32") as caught:
        assert_ran(run(session, "hangs"), case)
    assert caught.value.sentence.endswith("2 ranks are blocked and no message is in flight.")
    hung = run(session, "hangs")
    assert hung.error.__notes__ == list(hung.notes.values())  # a traceback shows them
    short = run(session, "short")
    assert noted("", [short]) == short.notes["length"]
    assert noted(short.notes["length"], [short, short]) == short.notes["length"]
    for values in ("right", "not compared"):
        assert "stayed as it was" not in run_report.text(short, "a.py:short", values, None)


def test_a_cycle_of_receives_is_told_by_what_was_sent_before(session: Session) -> None:
    assert (
        "Every rank of the cycle receives before it sends."
        in run(session, "receives_first").error.cure
    )
    cure = run(session, "one_receive_too_many").error.cure
    assert "receives before it sends" not in cure
    assert (
        "Rank 0 has received the message that rank 1 has sent it, and waits for one more." in cure
    )


def test_one_rank_is_no_plural(session: Session) -> None:
    error = session.call("a:alone", 1, [(np.zeros(1),)]).error
    assert isinstance(error, DeadlockError)
    assert error.headline == "the only rank is blocked and no message is in flight."
    assert "first" not in error.cure and "cycle" not in error.cure
    assert "The only rank receives from itself, and nobody sends it a message." in error.cure


def test_only_a_missing_keyboard_is_told_as_one(session: Session) -> None:
    assert "keyboard" in run(session, "keyboard").error.hint
    error = run(session, "empty_pickle").error
    assert (error.type_name, error.hint) == ("EOFError", "")


SUMMANDS = [np.array([1.0, 4.0, 9.0]), np.array([2.0, 3.0, 5.0]), np.array([7.0, 0.5, 6.0])]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (SUMMANDS[1], "Each wrong element is rank 1's own part alone."),
        (SUMMANDS[0] + SUMMANDS[2], "Each wrong element is the sum without rank 1's part."),
        (total(SUMMANDS) + SUMMANDS[2], "Each wrong element is the sum with rank 2's part twice."),
        (2 * total(SUMMANDS), "Each wrong element is twice the right value."),
        (3 * total(SUMMANDS), "Each wrong element is the right value times 3."),
        (total(SUMMANDS) / 3, "Each wrong element is the right value divided by 3."),
        (total(SUMMANDS) * [1, 1, 2], "The wrong element is twice the right value."),
        (total(SUMMANDS) * [1, 2, 3], "element 1 is 15.0; it must be 7.5."),
        (total(SUMMANDS) * np.nan, "element 0 is nan; it must be 10.0."),
    ],
)
def test_a_wrong_sum_is_told_what_it_is_instead(wrong: np.ndarray, said: str) -> None:
    right = total(SUMMANDS)
    with pytest.raises(Verdict) as caught:
        assert_array(wrong, right, magnitude(SUMMANDS), Case(3), "it", SUMMANDS)
    assert caught.value.sentence.endswith(said)


def test_a_wrong_shard_is_compared_with_the_parts_of_its_sum() -> None:
    shard, parts = total(SUMMANDS)[1:2], [vector[1:2] for vector in SUMMANDS]
    with pytest.raises(Verdict, match="The wrong element is the sum without rank 2's part"):
        assert_array(shard - parts[2], shard, magnitude(parts), Case(3), "it", parts)


def test_texts_are_cut_behind_a_word() -> None:
    text = "rank 1 received nothing from rank 0"
    assert cut(text, 40) == text
    assert cut(text, 26) == "rank 1 received ..."
    assert cut("x" * 50, 20) == "x" * 17 + "..."
    assert all(len(cut(text, limit)) <= limit for limit in range(8, 40))
