"""What the network adds to mpi4py: guarded buffers, errors that name the cure, virtual time."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ringside import DeadlockError, Machine, RankError, Session
from ringside.mpi.pickling import packed, payload_bytes


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(Path(__file__).parent) as session:
        yield session


def _values(
    session: Session, function: str, world_size: int = 2, args: Any = (), **options: Any
) -> list[Any]:
    result = session.call(f"ours.py:{function}", world_size, args, timeout_s=30.0, **options)
    assert result.error is None, str(result.error)
    return result.values


def test_a_changed_send_buffer_is_named_with_its_call_and_the_cure(session: Session) -> None:
    for rank, (kind, text) in enumerate(_values(session, "race_isend")):
        assert kind == "BufferRaceError"
        assert f"Isend(dest={1 - rank}, tag=2)" in text
        assert "Wait for the request before you write to the buffer" in text


def test_a_race_in_waitall_is_reported_as_a_race(session: Session) -> None:
    for (kind, text), got in _values(session, "race_in_waitall"):
        assert kind == "BufferRaceError" and "Isend" in text
        assert got == [0, 0, 0, 0]  # what stood in the buffer at the post


def test_a_persistent_send_is_guarded_from_each_start(session: Session) -> None:
    for first, second, got in _values(session, "race_persistent"):
        assert first[0] == "BufferRaceError" and "Send_init" in first[1]
        assert second is None and got == [1, 0, 0, 0]


def test_a_changed_buffer_of_an_i_collective_is_a_race(session: Session) -> None:
    for kind, text in _values(session, "race_iallreduce", 3):
        assert kind == "BufferRaceError" and "Iallreduce" in text


def test_an_unchanged_buffer_is_no_race(session: Session) -> None:
    assert _values(session, "no_race_when_the_buffer_is_put_back") == [None, None]


def test_receive_buffers_are_poisoned_until_the_message_is_there(session: Session) -> None:
    for seen in _values(session, "poison"):
        for code in ("f4", "f8", "c16"):
            assert seen[code].count("nan") == (6 if code == "c16" else 3)
        for code in ("i2", "i8"):
            assert seen[code] == str(np.full(3, np.iinfo(code).min, code))
        assert seen["u1"] == str(np.full(3, 0xCD, "u1"))


def test_receive_buffers_of_i_collectives_are_poisoned(session: Session) -> None:
    for rank, (early, late) in enumerate(_values(session, "poison_collectives")):
        assert early[0] == "[nan nan]" and early[1].count("nan") == 4
        assert early[2] == ("[nan nan]" if rank else "[0. 0.]")  # the root of a Bcast sends
        assert (late[0] == 2).all() and (late[1] == 1).all() and (late[2] == 0).all()


def test_a_buffer_that_is_written_before_its_data_come_is_a_race(session: Session) -> None:
    for (kind, text), (of_total, total) in _values(session, "written_early"):
        assert kind == of_total == "BufferRaceError"
        assert re.search(
            r"Irecv\(source=\d, .*\) at ours.py:\d+ was written into .*, at ours.py", text
        )
        assert "Iallreduce(op=SUM) at ours.py" in total


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
@pytest.mark.parametrize("compute", ["sum", "product", "in a dict", "narrowed"])
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_what_is_computed_from_a_buffer_too_early_names_it(
    session: Session, dtype: str, compute: str
) -> None:
    result = session.call("ours.py:read_early", 2, (dtype, compute))
    assert isinstance(result.error, RankError) and result.error.type_name == "EarlyUseError"
    assert re.search(r"Irecv\(.*\) at ours.py:\d+ was read before its data", str(result.error))


def test_a_nan_of_the_programs_own_is_none_of_a_buffers(session: Session) -> None:
    assert np.isnan(_values(session, "read_early", args=("float64", "own"))).all()


def test_a_buffer_given_to_many_receives_is_filled_by_them(session: Session) -> None:
    assert all((into == 1).all() for into in _values(session, "one_buffer_for_many"))


def test_a_communicator_may_be_subclassed_and_memory_takes_bytes(session: Session) -> None:
    assert _values(session, "subclassed") == [6, 6]
    assert _values(session, "bytes_into_memory") == [b"a\0\0d"] * 2


def test_who_prints_nan_is_told_which_buffers_hold_it(session: Session) -> None:
    notes = session.call("ours.py:printed_early", 2).notes
    assert notes["nan"].startswith("rank 0 printed nan. The buffer of Irecv(source=1")


def test_a_receive_from_nobody_leaves_the_buffer(session: Session) -> None:
    for x in _values(session, "no_poison_in_blocking_calls_and_null_receives"):
        assert (x == 3).all()


def test_what_is_not_offered_is_named(session: Session) -> None:
    for name, (kind, text) in _values(session, "not_offered", 1)[0].items():
        assert name in text.replace("Intracomm", "Comm"), text
        assert "is not offered on Ringside's network" in text
        assert kind == ("ImportError" if name.startswith("mpi4py") else "NotOfferedError")


def test_a_misspelt_name_is_an_ordinary_attribute_error(session: Session) -> None:
    for kind, text in _values(session, "misspelt", 1)[0]:
        assert kind == "AttributeError" and "has no attribute" in text and "not offered" not in text


def test_minus_one_is_no_rank_and_the_cure_is_named(session: Session) -> None:
    for send, receive in _values(session, "minus_one"):
        assert "Send(dest=-1, tag=0), but MPI_COMM_WORLD has the ranks 0 to 1" in send[1]
        assert "For no partner write MPI.PROC_NULL" in send[1]
        assert "Recv(source=2, tag=ANY_TAG)" in receive[1]


def test_truncation_names_both_lengths(session: Session) -> None:
    for rank, (_, text) in enumerate(_values(session, "truncated")):
        assert f"from rank {rank} (tag 3) has 80 bytes" in text and "has 40" in text


def test_a_count_beyond_the_buffer_is_an_error_here(session: Session) -> None:
    kind, text = _values(session, "too_short_a_buffer", 1)[0]
    assert kind == "ValueError" and "on: 32 bytes, and the buffer has 24" in text


def test_a_broadcast_of_unequal_lengths_is_an_error(session: Session) -> None:
    longer, shorter = _values(session, "bcast_of_unequal_lengths")[1]
    assert "sends 24 bytes, the place for them has 16" in longer[1]
    assert "sends 24 bytes, this rank expects 32" in shorter[1]


def test_mixing_lower_and_upper_case_forms_is_an_error(session: Session) -> None:
    kind, text = _values(session, "mixed_cases")[1]
    assert kind == "Exception" and "Use the same on all ranks" in text


def test_wtime_is_virtual_and_exact(session: Session) -> None:
    link = session.machine.link(0, 1)
    for start, end, tick in _values(session, "clock"):
        assert start == 0 and tick == 1e-12
        assert end == pytest.approx(link.alpha_s + 8000 * link.beta_s_per_byte, rel=1e-9)


def test_objects_count_their_arrays_and_numbers(session: Session) -> None:
    result = session.call("ours.py:counted_objects", 2, ())
    assert result.error is None
    assert result.sent_bytes()[0] == 8000 + 8000 + 4000


def test_payload_of_objects_is_what_an_array_would_take() -> None:
    assert payload_bytes(np.zeros((3, 4), "f4")) == 48
    assert payload_bytes([1, 2.0, (3j, True)]) == 8 + 8 + 16 + 1
    assert payload_bytes({"ab": b"cde"}) == 5
    assert payload_bytes(None) == 0


def test_a_few_labels_beside_arrays_are_envelope() -> None:
    x = np.zeros(100)
    assert payload_bytes((3, x)) == 800
    assert payload_bytes((3, x[:0])) == 0
    assert payload_bytes({"owner": 3, "shard": x}) == 800
    assert payload_bytes((x, [1.0] * 100)) == 800 + 800 - 64


def test_numbers_count_wherever_they_are_put() -> None:
    x = np.arange(100.0)
    assert payload_bytes(int.from_bytes(x.tobytes(), "little")) == 800
    assert payload_bytes(tuple(map(slice, x.tolist()))) == 800
    assert payload_bytes(ValueError(x.tolist())) == 800
    assert payload_bytes(np.array([2**200] * 3, dtype=object)) == 3 * 26
    assert payload_bytes(frozenset(x.tolist())) == 800
    assert payload_bytes(deque(x.tolist())) >= 800
    turns: list[Any] = [1]
    turns.append(turns)
    assert payload_bytes(turns) < 1000


def test_hidden_payload_counts_beyond_the_envelope() -> None:
    _, claimed = packed({0: {1: np.ones(1000)}})
    assert claimed == 8000

    class Hidden:
        def __reduce__(self) -> tuple[Any, ...]:
            return bytes, (b"x" * 5000,)

    _, claimed = packed(Hidden())
    assert claimed == 5000


def test_a_group_is_not_the_world(session: Session) -> None:
    members = [2, 0]
    result = session.call("ours.py:spare_world", 3, (), members=members)
    assert result.error is None
    for rank, value in enumerate(result.values):
        assert value == (False, rank, 2, members[rank], 3)


def test_finalize_ends_mpi_for_one_call_only(session: Session) -> None:
    for finalized, error in _values(session, "finalize"):
        assert finalized is True and "COMM_NULL" in error[1]
    assert _values(session, "is_fresh") == [(False, True, [1]), (False, True, [1])]


def test_a_deadlock_shows_the_call_with_its_arguments(session: Session) -> None:
    result = session.call("ours.py:without_partner", 3, ())
    assert isinstance(result.error, DeadlockError)
    assert "Ssend(dest=1, tag=4)" in str(result.error) and "ours.py:" in str(result.error)


def test_a_halo_exchange_counts_a_message_an_edge(session: Session) -> None:
    result = session.call("ours.py:halo", 3, ())
    assert result.error is None, str(result.error)
    assert result.values == [[-1, 1], [0, 2], [1, -1]]
    assert result.sent_messages() == [1, 2, 1] and result.sent_bytes() == [32, 64, 32]
    assert result.makespan_s > 0


def test_a_neighbour_that_does_not_come_is_named(session: Session) -> None:
    result = session.call("ours.py:missing_neighbour", 2, ())
    assert isinstance(result.error, DeadlockError)
    assert "Neighbor_alltoall" in str(result.error)


def test_an_array_on_a_gpu_is_refused_with_the_cure(session: Session) -> None:
    kind, text = _values(session, "on_a_gpu", 1)[0]
    assert kind == "NotOfferedError" and "send x.cpu()" in text


def test_cancel_is_not_offered_and_says_what_to_do_instead(session: Session) -> None:
    kind, text = _values(session, "cancel", 1)[0]
    assert kind == "NotOfferedError" and "end a wait by a message" in text


def test_free_leaves_constants_alone(session: Session) -> None:
    assert _values(session, "constants_stay", 1) == [True]


def test_the_machine_says_which_ranks_share_a_node(session: Session) -> None:
    pairs = Machine.load("textbook").with_(ranks_per_node=2)
    in_pairs = [("node0", 0, 2), ("node0", 1, 2), ("node1", 0, 2), ("node1", 1, 2), ("node2", 0, 1)]
    assert _values(session, "node", 5, machine=pairs) == in_pairs
    assert _values(session, "node", 2) == [("node0", 0, 1), ("node1", 0, 1)]
    mixed = [("node1", 0, 2), ("node0", 0, 1), ("node1", 1, 2)]
    assert _values(session, "node", 5, machine=pairs, members=[3, 1, 2]) == mixed
