"""What is asserted of a run, in sentences."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import ringside
from ringside import Machine, Trace, checking
from ringside.checking import Verdict, assertions, public_tests
from ringside.checking.cases import Vectors
from ringside.network.wire import FIRST_INTERNAL_TAG
from ringside.trace import CallSite, Kind, Op

CASE = Vectors(3)


def test_one_of_something_is_no_plural():
    run = SimpleNamespace(sent_messages=lambda: [2, 1, 0], seed=None)
    with pytest.raises(Verdict, match="rank 0 sent 2 messages; at most 1 is allowed"):
        checking.assert_messages(run, [1, 1, 1], CASE)
    with pytest.raises(Verdict, match="rank 1 sent 1 message; at most 0 are allowed"):
        checking.assert_messages(run, [2, 0, 0], CASE)
    machine = Machine.load("textbook")
    slow = SimpleNamespace(makespan_s=3e-6, comm_calls=[], collectives=[], seed=None)
    slow.machine = machine
    with pytest.raises(Verdict, match=r"1\.50 times 2\.0 µs; at most that is asked for"):
        checking.assert_makespan(slow, 2e-6, CASE, full=1.0, half=1.0)
    with pytest.raises(Verdict, match=r"at most 1\.05 times that is asked for \(half the points\)"):
        checking.assert_makespan(slow, 2e-6, CASE)


def test_what_collectives_send_is_counted_in_no_messages():
    entry = {"case": "mean", "sent_bytes": [480], "makespan_s": 1e-6, "allowed": {}}
    report = public_tests.Report(Path(), [], [entry | {"sent_messages": [0]}])
    assert "mean: 480 bytes in its library collectives, 1.0 µs" in public_tests.text(report)
    report = public_tests.Report(Path(), [], [entry | {"sent_messages": [1]}])
    assert "mean: 480 bytes in 1 message sent, 1.0 µs" in public_tests.text(report)


@pytest.mark.parametrize(
    ("dtype", "bits"), [("float64", 0x7FF << 52 | 1), ("float32", 0xFF << 23 | 1)]
)
def test_a_signaling_nan_is_a_wrong_element_and_no_warning(dtype, bits):
    signaling = np.full(3, bits, dtype=f"u{np.dtype(dtype).itemsize}").view(dtype)
    with pytest.raises(Verdict, match="is wrong in 3 of 3 elements: element 0 is nan"):
        checking.assert_array(signaling, np.ones(3, dtype), None, CASE, "rank 0's result")


NEWBORN = """
import numpy as np
from mpi4py import MPI


def swap(comm, early):
    incoming = np.empty(100)
    made, birth = comm.Idup() if early else (None, MPI.REQUEST_NULL)
    receiving = comm.Irecv(incoming, 1 - comm.rank)
    MPI.Request.Waitall([birth, receiving, comm.Isend(np.ones(100), 1 - comm.rank)])
    return incoming.sum()
"""


def test_one_wait_for_a_communicator_and_for_messages_is_timed_as_the_messages(tmp_path):
    (tmp_path / "newborn.py").write_text(NEWBORN)
    with ringside.Session(tmp_path) as session:
        both, alone = (session.call("newborn:swap", 2, (early,)) for early in (True, False))
    assert both.values == alone.values == [100, 100]
    assert both.comm_calls and not alone.comm_calls
    assert assertions.message_time_s(both) == alone.makespan_s > 0


def test_an_access_to_a_window_is_no_message_of_ones_own():
    op = Op(Kind.ACCESS, 1, nbytes=8, request=1, message=0, detail=(-1,), site=0)
    trace = Trace(2, [[op], []], [CallSite("Put(target_rank=1)", "ring.py", 3)])
    run = SimpleNamespace(trace=trace, collectives=[], seed=None, world_size=2, notes={})
    with pytest.raises(Verdict, match="the library's Put was called; only point-to-point"):
        checking.assert_own_messages(run, CASE)


def test_a_message_that_no_call_is_known_of_is_told_without_one():
    op = Op(Kind.ISEND, 0, FIRST_INTERNAL_TAG, request=1, message=0)
    for sites in ([], [CallSite("Send(dest=0)", "ring.py", 3)]):
        trace = Trace(1, [[op]], sites)
        run = SimpleNamespace(trace=trace, collectives=[], seed=None, world_size=1, notes={})
        with pytest.raises(Verdict, match="the library's collective among neighbours was called"):
            checking.assert_own_messages(run, CASE)
        said = "no rank hangs, but rank 0 returned before a call was complete"
        assert said in checking.open_request(run)
