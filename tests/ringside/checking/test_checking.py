"""What public tests and suites share beside the checks themselves: calls, contrasts, strangers."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import ringside
from ringside import Machine, Trace, checking
from ringside.checking import (
    Call,
    Case,
    Verdict,
    assert_strangers_idle,
    assertions,
    contrasted,
    members_of_world,
    on_members,
    public_tests,
    with_waiting_sends,
)
from ringside.network.wire import FIRST_INTERNAL_TAG
from ringside.trace import CallSite, Kind, Op

CASE = Case("ring:all_reduce", 3, 11)


def fails(sentence):
    raise Verdict(sentence, detail="a detail")


def test_what_is_right_there_is_given_back_and_not_run_here():
    runs = []
    assert contrasted(lambda **there: runs.append(there) or 7, {"seed": 1}, CASE, "Wrong.") == 7
    assert runs == [{"seed": 1}]


def test_what_is_wrong_only_there_is_told_with_its_detail():
    with pytest.raises(Verdict, match=r"n = 11, float64: wrong far away. There: 2 is 3") as found:
        contrasted(
            lambda far=False: fails("2 is 3") if far else 1,
            {"far": True},
            CASE,
            "wrong far away. There:",
        )
    assert found.value.detail == "a detail"


def test_what_is_wrong_here_too_is_told_as_it_is_here():
    with pytest.raises(Verdict, match=r"^near\n"):
        contrasted(lambda far=False: fails("far" if far else "near"), {"far": True}, CASE, "")


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


def test_what_was_not_run_is_said_so():
    with pytest.raises(Verdict, match=r"^not run: it hangs"):
        contrasted(lambda far=False: fails("not run: it hangs."), {"far": True}, CASE, "")


def test_waiting_sends_are_those_of_a_machine_that_buffers_nothing():
    def run(machine=None):
        if machine is not None and machine.eager_threshold_bytes == 0:
            fails("all are blocked")

    with pytest.raises(Verdict, match=r"stay below 65536 bytes, .* Above: all are blocked"):
        with_waiting_sends(run, CASE)


def test_members_are_out_of_order_and_leave_rank_0_out_where_there_are_strangers():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        members, whole = members_of_world(rng, 3)
        assert whole == 5 and 0 not in members and members != sorted(set(members))
        everyone, whole = members_of_world(rng, 3, 0)
        assert whole == 3 and sorted(everyone) == [0, 1, 2] != everyone


def test_what_is_wrong_on_some_ranks_of_the_world_is_run_again_on_them():
    def run(members=None, world_size=3):
        if members is not None:
            fails("it is wrong.")

    call = checking.Call("step:step", 3, 4, line="ringside run callers.py:try --ranks 3 -- --n 4")
    there = {"members": [4, 0, 2], "world_size": 5}
    for case, line in (
        (call, "ringside run callers.py:try --ranks 5 --members 4,0,2 -- --n 4"),
        (
            checking.Case("ring:all_reduce", 3, 10, "float32", where="--seed 1"),
            "ringside run ring.py:all_reduce --ranks 5 --members 4,0,2 --seed 1 -- --n 10 "
            "--dtype float32",
        ),
    ):
        with pytest.raises(Verdict) as caught:
            contrasted(run, there, case, "There:")
        assert caught.value.reproduce == line


@pytest.mark.parametrize(("peers", "collective"), [({2: {0}}, []), ({}, [(0, 2)])])
def test_a_stranger_that_took_part_is_named(peers, collective):
    result = SimpleNamespace(
        world_size=3,
        peers=lambda rank: peers.get(rank, set()),
        collectives=[SimpleNamespace(members=members) for members in collective],
    )
    with pytest.raises(
        Verdict, match="rank 2 of the world isn't in the group, and took part in its messages: take"
    ) as caught:
        assert_strangers_idle(result, [1, 0], CASE, "the group")
    assert "--ranks 3 --members 1,0 " in caught.value.reproduce
    assert_strangers_idle(result, [1, 0, 2], CASE)


@pytest.mark.parametrize(
    ("dtype", "bits"), [("float64", 0x7FF << 52 | 1), ("float32", 0xFF << 23 | 1)]
)
def test_a_signaling_nan_is_a_wrong_element_and_no_warning(dtype, bits):
    signaling = np.full(3, bits, dtype=f"u{np.dtype(dtype).itemsize}").view(dtype)
    with pytest.raises(Verdict, match="is wrong in 3 of 3 elements: element 0 is nan"):
        checking.assert_array(signaling, np.ones(3, dtype), None, CASE, "rank 0's result")


def test_a_call_is_named_and_run_where_it_was_made():
    class Stage(checking.Call):
        place = "stage"

    call = Call("step:step", 1, 4, about="widths 4, 6", line="ringside run callers.py:try -- --n 4")
    assert str(call) == "step on 1 rank, widths 4, 6"
    assert call.reproduce == "ringside run callers.py:try -- --n 4"
    there = call.on(Machine.load("textbook"), "--seed 1")
    assert there.reproduce == "ringside run callers.py:try --seed 1 -- --n 4"
    stages = dataclasses.replace(Stage("stage:run", 2, 4, about="gpipe"), world_size=3)
    assert str(stages) == "run on 3 stages, gpipe"


def test_who_sends_more_in_a_part_of_the_world_is_told_with_both_numbers(tmp_path):
    target = tmp_path / "talk.py"
    target.write_text(
        "from mpi4py import MPI\n"
        "def talk(comm, whole, part):\n"
        "    nbytes = whole if comm.size == MPI.COMM_WORLD.size else part\n"
        "    comm.Sendrecv(bytes(nbytes), dest=(comm.rank + 1) % comm.size,\n"
        "                  recvbuf=bytearray(nbytes), source=(comm.rank - 1) % comm.size)\n"
    )

    def check(whole, part):
        def run(world_size=3, **there):
            return ringside.run(f"{target}:talk", world_size, (whole, part), **there)

        return on_members(run, [4, 0, 2], 5, CASE, "Wrong on ranks 4, 0, 2. There:")

    assert check(1000, 1100).sent_bytes() == [1100, 0, 1100, 0, 1100]
    with pytest.raises(
        Verdict,
        match="There: a rank sent 1200 bytes; where comm is the whole world, none sent more than "
        "1000",
    ) as caught:
        check(1000, 1200)
    assert "--ranks 5 --members 4,0,2 " in caught.value.reproduce


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


def test_a_message_that_no_call_is_known_of_is_told_without_one():
    op = Op(Kind.ISEND, 0, FIRST_INTERNAL_TAG, request=1, message=0)
    for sites in ([], [CallSite("Send(dest=0)", "ring.py", 3)]):
        trace = Trace(1, [[op]], sites)
        run = SimpleNamespace(trace=trace, collectives=[], seed=None, world_size=1, notes={})
        with pytest.raises(Verdict, match="the library's collective among neighbours was called"):
            checking.assert_own_messages(run, CASE)
        assert "returned before a call was complete" in checking.open_request(run)
