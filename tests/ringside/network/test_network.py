"""Ranks on the network: delivery, counting, the deadlock doctor, wildcards and polls, limits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ringside
from ringside import DeadlineError, DeadlockError, RankError, Session, TargetError
from ringside.errors import LimitError
from ringside.network.bounds import Limits
from ringside.timing import rails
from ringside.trace import Kind

PROGRAMS = """
import os, random, ringside, sys, time
import numpy as np
from mpi4py import MPI

def ring_sum(comm, x):
    total, passed, got = x.copy(), x.copy(), np.empty_like(x)
    for _ in range(comm.size - 1):
        comm.Sendrecv(passed, dest=(comm.rank + 1) % comm.size, recvbuf=got,
                      source=(comm.rank - 1) % comm.size)
        total += got
        passed = got.copy()
    return total

def ssend_ring(comm):
    comm.Ssend(np.zeros(4), dest=(comm.rank + 1) % comm.size)
    comm.Recv(np.zeros(4), source=(comm.rank - 1) % comm.size)

def send_ring(comm, n):
    comm.Send(np.zeros(n), dest=(comm.rank + 1) % comm.size)
    comm.Recv(np.zeros(n), source=(comm.rank - 1) % comm.size)
    return "done"

def wrong_source(comm):
    if comm.rank == 0:
        comm.Recv(np.zeros(1), source=2)
    elif comm.rank == 1:
        comm.Send(np.zeros(1), dest=0)

def wrong_tag(comm):
    if comm.rank == 0:
        comm.Recv(np.zeros(1), source=1, tag=7)
    elif comm.rank == 1:
        comm.Send(np.zeros(1), dest=0, tag=5)

def order(comm):
    if comm.rank == 0:
        comm.Barrier()
        comm.Allreduce(np.zeros(1), np.zeros(1))
    else:
        comm.Allreduce(np.zeros(1), np.zeros(1))
        comm.Barrier()

def roots(comm):
    comm.Bcast(np.zeros(3), root=1 if comm.rank == 2 else 0)

def counts(comm):
    n = 5 if comm.rank == 1 else 4
    comm.Allreduce(np.zeros(n), np.zeros(n))

def sums(comm, n):
    total = np.zeros(n)
    if comm.rank == 3:
        ringside.compute(seconds=1e-3)
    comm.Allreduce(np.ones(n), total)
    total += comm.allreduce(1)
    return float(total[0])

def left_early(comm):
    if comm.rank != 1:
        comm.Barrier()

def raised(comm):
    if comm.rank == 1:
        raise ValueError("no gradient")
    comm.Barrier()

def misspelt(comm):
    comm.SendRecv(1)

def asks(comm):
    input()

def two_parameters(comm, x):
    return x

def polls_for_ever(comm):
    if comm.rank == 0:
        request = comm.Irecv(np.zeros(1), source=1, tag=3)
        while not request.Test():
            pass

def wildcards(comm, seconds):
    got = np.zeros(1)
    order = []
    if comm.rank == 0:
        status = MPI.Status()
        for _ in range(comm.size - 1):
            comm.Recv(got, source=MPI.ANY_SOURCE, status=status)
            order.append((status.Get_source(), float(got[0])))
        return order
    time.sleep(seconds[comm.rank])
    comm.Send(np.full(1, comm.rank * 10.0), dest=0)
    return MPI.Wtime()

def exchange(comm, by_name):
    dests = [(comm.rank + step) % comm.size for step in range(1, comm.size)]
    got = [np.empty(50_000) for _ in dests]
    sources = [(comm.rank - step) % comm.size for step in range(1, comm.size)]
    receives = [
        comm.Irecv(buffer, source if by_name else MPI.ANY_SOURCE)
        for buffer, source in zip(got, sources)
    ]
    sends = [comm.Isend(np.full(50_000, float(comm.rank)), dest) for dest in dests]
    MPI.Request.Waitall(receives + sends)
    seconds = MPI.Wtime()
    return sorted(buffer[0] for buffer in got), seconds

def polls(comm, seconds):
    time.sleep(seconds[comm.rank])
    if comm.rank == 0:
        buffers = [np.zeros(2000) for _ in range(comm.size - 1)]
        requests = [comm.Irecv(b, source=i + 1) for i, b in enumerate(buffers)]
        order, count = [], 0
        while requests:
            for request in list(requests):
                count += 1
                if request.Test():
                    order.append(requests.index(request))
                    requests.remove(request)
            if comm.Iprobe(source=MPI.ANY_SOURCE, tag=99):
                break
        return order, count, MPI.Wtime()
    comm.Send(np.zeros(2000 // comm.rank), dest=0)

def polls_by_name(comm):
    import ringside
    if comm.rank == 0:
        time.sleep(0.1)  # the sender is ahead
        while True:
            for source in (2, 1):
                if comm.Iprobe(source=source):
                    comm.Recv(np.zeros(1), source=source)
                    seconds = MPI.Wtime()
                    comm.Recv(np.zeros(1), source=source)
                    return source, seconds
    sends = []
    for _ in range(2 if comm.rank == 1 else 0):
        ringside.compute(seconds=1e-3)
        sends.append(comm.Isend(np.zeros(1), dest=0))
        comm.Iprobe(source=2)  # and waits there until rank 0 has come so far
    MPI.Request.Waitall(sends)

def computes(comm, seconds):
    if comm.rank == 0:
        time.sleep(seconds)
    comm.Barrier()
    return "done"

def endless(comm):
    comm.Barrier()
    while comm.rank == 0:
        pass

def dies(comm):
    if comm.rank == 1:
        os._exit(3)
    comm.Barrier()

def chatter(comm):
    print("hello from", comm.rank)
    print("x" * 200000)

def writes(comm):
    open("left_behind.txt", "w").write("x")

def world(comm):
    return MPI.COMM_WORLD.rank, comm.rank, comm.size

def floods(comm):
    for _ in range(3000):
        comm.Isend(np.zeros(1), dest=0)

def beside_neighbours(comm):
    ring = comm.Create_cart([2], periods=[True])
    if ring.rank == 0:
        ring.neighbor_alltoall([1, 2])
    else:
        ring.recv(source=0, tag=5)

def object_value(comm):
    return object()

def many_kinds(comm):
    return {"a": [1, 2.5, None, True, "text", b"bytes", (1, 2)], "b": np.arange(3, dtype=np.int32)}

def forgotten(comm):
    if comm.rank == 0:
        comm.Isend(np.zeros(7), dest=1, tag=4)

class Stepper:
    def __call__(self, comm):
        return comm.rank
stepper = Stepper()
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("student")
    (folder / "programs.py").write_text(textwrap.dedent(PROGRAMS))
    with Session(folder) as session:
        yield session


def flat(text: str) -> str:
    """The cure is wrapped for reading: one line for comparing."""
    return text.replace("\n  ", "\n").replace("\n", " ")


def verdict(session: Session, function: str, world_size: int, args: object = ()) -> str:
    error = session.call(f"programs:{function}", world_size, args).error
    assert isinstance(error, DeadlockError), error
    return flat(str(error))


@pytest.mark.parametrize("p", [1, 2, 3, 4, 7])
def test_every_rank_gets_its_own_input_and_all_get_the_sum(session: Session, p: int) -> None:
    xs = [np.arange(11.0) * (rank + 1) for rank in range(p)]
    result = session.call("programs:ring_sum", p, [(x,) for x in xs]).raise_for_error()
    for value in result.values:
        np.testing.assert_array_equal(value, sum(xs))
    assert result.sent_bytes() == [(p - 1) * 88] * p
    assert result.sent_messages() == result.received_messages() == [p - 1] * p
    assert result.inputs_changed == [False] * p
    assert result.makespan_s == pytest.approx((p - 1) * (1e-6 + 88e-9))


def test_communicator_of_some_ranks_in_another_order(session: Session) -> None:
    result = session.call("programs:world", 5, (), members=[4, 0, 2]).raise_for_error()
    assert result.values == [(4, 0, 3), (0, 1, 3), (2, 2, 3)]


def test_ring_of_synchronous_sends_is_a_cycle(session: Session) -> None:
    text = verdict(session, "ssend_ring", 4)
    assert text.startswith("all 4 ranks are blocked and no message is in flight.")
    assert "rank 2  Ssend(dest=3, tag=0)  programs.py:16" in text
    assert "cycle 0 -> 1 -> 2 -> 3 -> 0. Let one rank receive first, or use Sendrecv." in text


def test_sends_that_work_below_the_eager_threshold_only(session: Session) -> None:
    text = verdict(session, "send_ring", 3, (8,))
    assert "works only while messages of 64 bytes stay below the eager threshold" in text
    machine = ringside.Machine.load("textbook").with_(eager_threshold_bytes=65)
    result = session.call("programs:send_ring", 3, (8,), machine=machine)
    assert result.values == ["done"] * 3


def test_receive_from_the_wrong_rank(session: Session) -> None:
    text = verdict(session, "wrong_source", 3)
    assert (
        "Rank 0 receives from rank 2, which sends it nothing, while a message from rank 1" in text
    )


def test_tag_mismatch_names_both_tags(session: Session) -> None:
    text = verdict(session, "wrong_tag", 2)
    assert "Rank 0 waits for tag 7 from rank 1, which sent tag 5." in text


def test_tags_of_our_own_are_no_numbers_in_a_verdict(session: Session) -> None:
    told = verdict(session, "beside_neighbours", 2)
    assert (
        "Rank 1 waits for tag 5 from rank 0, which sent the tag of a collective among neighbours. "
        "Let both sides make the same calls."
    ) in told


def test_collectives_in_different_order(session: Session) -> None:
    assert "rank 1 calls allreduce where rank 0 calls barrier" in verdict(session, "order", 3)


def test_collectives_with_different_roots_and_counts(session: Session) -> None:
    assert "in bcast, rank 2 gives root 1 and rank 0 root 0" in verdict(session, "roots", 3)
    assert "in allreduce, rank 1 gives count 5 and rank 0 count 4" in verdict(session, "counts", 3)


def test_rank_that_left_early_is_named(session: Session) -> None:
    text = verdict(session, "left_early", 3)
    assert "2 of 3 ranks are blocked, the other has returned" in text
    assert "Rank 1 never calls barrier" in text


def test_rank_that_raised_is_the_error_with_its_line(session: Session) -> None:
    error = session.call("programs:raised", 3).error
    assert isinstance(error, RankError)
    assert (error.rank, error.type_name, error.message) == (1, "ValueError", "no gradient")
    assert error.frames[-1].function == "raised"
    assert error.where.startswith("programs.py:")


def test_what_an_exception_does_not_say_itself_is_hinted_at(session: Session) -> None:
    for function, hint in (("misspelt", "Did you mean 'Sendrecv'?"), ("asks", "no keyboard")):
        error = session.call(f"programs:{function}", 1).error
        assert isinstance(error, RankError) and hint in error.hint


def test_arguments_that_do_not_fit_name_the_line_of_the_function(session: Session) -> None:
    error = session.call("programs:two_parameters", 1, (1, 2)).error
    assert isinstance(error, RankError)
    assert error.frames[-1].text == "def two_parameters(comm, x):"
    assert "takes 2 positional arguments but 3 were given" in error.headline


def test_polling_for_a_message_that_nobody_sends_is_a_deadlock(session: Session) -> None:
    text = verdict(session, "polls_for_ever", 2)
    assert "Rank 0 polls for a message from rank 1 with tag 3 that nobody sends." in text


def test_computing_is_no_deadlock(session: Session) -> None:
    assert session.call("programs:computes", 2, (1.5,)).values == ["done", "done"]


@pytest.mark.parametrize("function", ["wildcards", "polls"])
def test_calls_that_observe_time_give_one_trace_whatever_the_load(session, function) -> None:
    rng = np.random.default_rng(1)
    seen = []
    for _ in range(4):
        seconds = [float(s) for s in rng.uniform(0, 0.05, size=5)]
        result = session.call(f"programs:{function}", 5, (seconds,)).raise_for_error()
        seen.append((result.values, result.trace, result.timeline.makespan_ps))
    assert all(other == seen[0] for other in seen[1:])


def test_poll_that_names_one_rank_sees_when_another_one_sent(session: Session) -> None:
    source, seconds = session.call("programs:polls_by_name", 3).raise_for_error().values[0]
    assert source == 1
    assert seconds == pytest.approx(1e-3, rel=0.01)


def test_wildcards_take_messages_in_order_of_virtual_time(session: Session) -> None:
    result = session.call("programs:wildcards", 4, ([0.0, 0.03, 0.01, 0.0],)).raise_for_error()
    assert result.values[0] == [(1, 10.0), (2, 20.0), (3, 30.0)]


def test_seeds_permute_wildcards_repeatably(session: Session) -> None:
    def order(seed: int) -> tuple[int, ...]:
        result = session.call("programs:wildcards", 6, ([0.0] * 6,), seed=seed).raise_for_error()
        return tuple(source for source, _ in result.values[0])

    orders = [order(seed) for seed in range(8)]
    assert len(set(orders)) > 2
    assert orders == [order(seed) for seed in range(8)]


def test_large_messages_leave_as_they_were_posted_whoever_takes_them(session: Session) -> None:
    """Everybody's first receive is answered before anything leaves, or all would send to rank 0."""
    named = session.call("programs:exchange", 7, (True,)).raise_for_error()
    anybody = session.call("programs:exchange", 7, (False,)).raise_for_error()
    assert [values for values, _ in anybody.values] == [values for values, _ in named.values]
    assert anybody.timeline.makespan_ps == named.timeline.makespan_ps
    assert max(clock for _, clock in anybody.values) == max(clock for _, clock in named.values)


def test_run_that_takes_too_long_says_who_is_where(session: Session) -> None:
    error = session.call("programs:endless", 3, timeout_s=1.0).error
    assert isinstance(error, DeadlineError)
    loop = PROGRAMS.splitlines().index("    while comm.rank == 0:") + 1
    assert any(
        f"rank 0 is computing at programs.py:{line} (in endless), after Barrier() at "
        f"programs.py:{loop - 1}" in str(error)
        for line in (loop, loop + 1)
    )
    assert "rank 1 has returned" in str(error)


def test_process_that_ends_is_an_error_of_its_rank(session: Session) -> None:
    error = session.call("programs:dies", 2).error
    assert isinstance(error, RankError)
    assert error.type_name == "ProcessEnded" and error.rank == 1


def test_session_goes_on_after_a_failure(session: Session) -> None:
    session.call("programs:dies", 2)
    assert session.call("programs:world", 2).values == [(0, 0, 2), (1, 1, 2)]


def test_output_is_kept_by_rank_and_bounded(session: Session) -> None:
    result = session.call("programs:chatter", 2).raise_for_error()
    assert result.output[1].startswith("hello from 1\n")
    assert len(result.output[1]) < 70_000
    assert "bytes more]" in result.output[1]


def test_ranks_may_not_write_files_where_they_are_checked(session: Session) -> None:
    with Session(session.folder, confined=True) as checked:
        error = checked.call("programs:writes", 1).error
    assert isinstance(error, RankError) and error.type_name == "PermissionError"
    assert "return the value instead" in str(error)


def test_limits_end_the_run(session: Session) -> None:
    session.limits = Limits(operations=1000)
    try:
        error = session.call("programs:floods", 1).error
    finally:
        session.limits = Limits()
    assert isinstance(error, LimitError)
    assert "more than 1,000 operations" in str(error)


def test_values_travel_without_pickle(session: Session) -> None:
    value = session.call("programs:many_kinds", 1).raise_for_error().values[0]
    assert value["a"] == [1, 2.5, None, True, "text", b"bytes", (1, 2)]
    assert value["b"].dtype == np.int32
    error = session.call("programs:object_value", 1).error
    assert isinstance(error, RankError) and "builtins.object can't travel" in error.message
    assert error.frames[-1].function == "object_value"


def test_callable_objects_are_functions_too(session: Session) -> None:
    assert session.call("programs:stepper", 3).values == [0, 1, 2]


def test_messages_that_nobody_receives_are_listed(session: Session) -> None:
    result = session.call("programs:forgotten", 2).raise_for_error()
    assert result.unreceived == ["rank 0 sent 56 bytes with tag 4 to rank 1"]


def test_missing_files_and_functions_are_clear_errors(session: Session) -> None:
    with pytest.raises(TargetError, match=r"there is no file .*nothing\.py"):
        session.call("nothing:f", 1)
    with pytest.raises(TargetError, match="args has 2 entries for 3 ranks"):
        session.call("programs:world", 3, [(), ()])
    error = session.call("programs:nothing", 1).error
    assert isinstance(error, RankError)
    assert error.headline == "rank 0 raised AttributeError: programs.py has no function 'nothing'"


def test_function_of_a_notebook_is_refused_with_the_cure() -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    exec("def f(comm): pass", namespace)
    with pytest.raises(TargetError, match=r"%%module.*%%ranks"):
        ringside.run(namespace["f"], 2)  # type: ignore[arg-type]


def test_script_runs_as_under_mpiexec(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import sys\nfrom mpi4py import MPI\n"
        "comm = MPI.COMM_WORLD\nprint(comm.allreduce(comm.rank), sys.argv[1:], __name__)\n"
    )
    result = ringside.run(str(tmp_path / "script.py"), 3, ["--n", "5"])
    assert result.output == ["3 ['--n', '5'] __main__\n"] * 3


def test_replay_of_a_saved_trace_gives_the_same_times(session: Session, tmp_path: Path) -> None:
    xs = [(np.arange(1000.0),)] * 4
    result = session.call("programs:ring_sum", 4, xs).raise_for_error()
    path = result.trace.save(tmp_path / "ring.trace.gz")
    assert ringside.Trace.load(path) == result.trace
    assert ringside.replay(path, "textbook").makespan_ps == result.timeline.makespan_ps
    slower = ringside.Machine.load("textbook").with_(alpha_s=2e-6)
    assert ringside.replay(path, slower).makespan_s == pytest.approx(3 * (2e-6 + 8e-6))


def test_no_process_survives_a_session(tmp_path: Path) -> None:
    (tmp_path / "loops.py").write_text("def f(comm):\n    while comm.size == 2: pass\n")
    with Session(tmp_path) as session:
        begin = time.monotonic()
        assert session.call("loops:f", 3).error is None
        assert isinstance(session.call("loops:f", 2, timeout_s=0.5).error, DeadlineError)
        pid = session._nursery.pid
        assert children_of(pid)
    assert time.monotonic() - begin < 20
    assert not children_of(pid)


def children_of(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()


def test_the_next_run_starts_where_the_last_one_left_no_trace(tmp_path: Path) -> None:
    """The process that starts ranks stays; modules, ranks and errors of a run don't."""
    (tmp_path / "keeps.py").write_text(
        "import builtins, sys\n"
        "def f(comm):\n"
        "    builtins.kept = getattr(builtins, 'kept', 0) + 1\n"
        "    return builtins.kept, 'torch' in sys.modules\n"
    )
    with Session(tmp_path) as session:
        pid = session._nursery.pid
        assert session.call("keeps:f", 2).values == [(1, False)] * 2
        session._nursery.preload(["torch"])
    with Session(tmp_path) as session:
        assert session._nursery.pid == pid
        assert session.call("keeps:f", 2).values == [(1, True)] * 2
        os.kill(pid, signal.SIGKILL)
        session._nursery._process.wait()
    with Session(tmp_path) as session:
        assert session._nursery.pid != pid
        assert session.call("keeps:f", 2).values == [(1, False)] * 2


def test_the_process_that_starts_ranks_ends_with_the_one_that_runs_them(tmp_path: Path) -> None:
    (tmp_path / "nothing.py").write_text("def f(comm): pass\n")
    program = f"""
import os
import ringside
from ringside.ranks import nursery
ringside.run({str(tmp_path / "nothing.py:f")!r}, 2)
print(nursery._idle[os.getpid()].pid)
"""
    kit = Path(ringside.__file__).parent.parent
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        check=True, capture_output=True, text=True, cwd=kit,
    )  # fmt: skip
    assert ended.stderr == ""
    assert not Path(f"/proc/{int(ended.stdout)}").exists()


def test_large_results_are_the_callers_own_and_not_copied(tmp_path: Path) -> None:
    (tmp_path / "large.py").write_text(
        "import numpy as np\n"
        "def f(comm, n):\n"
        "    return np.arange(n) + comm.rank, np.full(n, 1.5), np.full(3, 2j), np.ones(5, bool)\n"
    )
    results = ringside.run(tmp_path / "large.py:f", 2, (100_000,)).values
    for rank, (numbers, halves, imaginary, truths) in enumerate(results):
        np.testing.assert_array_equal(numbers, np.arange(100_000) + rank)
        assert (halves == 1.5).all() and (imaginary == 2j).all() and truths.all()
        for array in (numbers, halves, imaginary, truths):
            assert array.flags.writeable and array.flags.aligned
        assert not numbers.flags.owndata, "it was copied out of the frame"
        halves[:] = 0
        np.testing.assert_array_equal(numbers, np.arange(100_000) + rank)
    assert not np.may_share_memory(results[0][0], results[1][0])


LARGE_ARGUMENTS = """
import errno, os
import numpy as np

def total(comm, x, k):
    return float(x.sum()) + k

def writes(comm, x, k):
    x[-1] += comm.rank  # nothing changes on rank 0
    return x.flags.writeable and x.flags.aligned

def tries_files(comm, x, k):
    refused = set()
    for number in range(3, 64):
        try:
            os.pwrite(number, b"changed!" * 64, 0)
        except OSError as error:
            refused.add(error.errno)
    return refused <= {errno.EBADF, errno.EPERM, errno.ESPIPE}, float(x.sum())

def torch_writes(group, x, k):
    x[0] += group.rank()
    return x
"""


@pytest.mark.parametrize("by_file", [True, False])
def test_large_arguments_are_each_ranks_own(tmp_path: Path, monkeypatch, by_file: bool) -> None:
    if not by_file:  # as on other systems than Linux
        monkeypatch.delattr(os, "memfd_create", raising=False)
    (tmp_path / "large.py").write_text(LARGE_ARGUMENTS)
    n = 40_000
    args = [(np.full(n, float(rank + 1)), rank) for rank in range(3)]
    open_before = len(os.listdir("/proc/self/fd"))
    with Session(tmp_path) as session:
        for k in range(3):  # on the same ranks
            given = [(x * (k + 1), rank) for x, rank in args]
            result = session.call("large:total", 3, given).raise_for_error()
            assert result.values == [n * (rank + 1) * (k + 1) + rank for rank in range(3)]
            assert not any(result.inputs_changed)
        result = session.call("large:writes", 3, args).raise_for_error()
        assert all(result.values)
        assert result.inputs_changed == [False, True, True]
        assert args[2][0][-1] == 3, "what a rank writes is its own"
        result = session.call("large:tries_files", 3, args).raise_for_error()
        assert [value for value, _ in result.values] == [True] * 3
        assert [total for _, total in result.values] == [n * (rank + 1) for rank in range(3)]
        assert not any(result.inputs_changed)
        result = session.call("large:torch_writes", 3, args, front_end="torch").raise_for_error()
        assert result.inputs_changed == [False, True, True]
        assert [value[0] for value in result.values] == [1, 3, 5]
    assert len(os.listdir("/proc/self/fd")) <= open_before + 1  # the kept zygote's


def test_arguments_that_no_file_can_be_made_for_come_as_a_frame(tmp_path: Path, monkeypatch):
    def refused(*_: object) -> int:
        raise OSError(24, "Too many open files")

    (tmp_path / "large.py").write_text(LARGE_ARGUMENTS)
    monkeypatch.setattr(os, "memfd_create", refused)
    result = ringside.run(tmp_path / "large.py:total", 2, (np.ones(50_000), 7))
    assert result.values == [50_007, 50_007]


def test_exchanges_are_told_apart_by_line_partner_and_code(tmp_path: Path) -> None:
    (tmp_path / "lines.py").write_text(
        "import numpy as np\n"
        "def f(comm):\n"
        "    x, y = np.ones(2), np.ones(2)\n"
        "    for step in (1, 2, 1):\n"
        "        to, source = (comm.rank + step) % 4, (comm.rank - step) % 4\n"
        "        comm.Sendrecv(x, to, 0, y, source); comm.Sendrecv(x, to, 5, y, source)\n"
        "    to, source = (comm.rank + 1) % 4, (comm.rank - 1) % 4\n"
        "    for line in range(20):  # code that is gone when the next comes\n"
        "        text = '\\n' * line + 'comm.Sendrecv(x, to, recvbuf=y, source=source)'\n"
        "        exec(compile(text, f'made{line % 2}.py', 'exec'))\n"
    )
    trace = ringside.run(tmp_path / "lines.py:f", 4).trace
    for rank, ops in enumerate(trace.ops):
        sites = [trace.sites[op.site] for op in ops if op.kind == Kind.ISEND]
        assert [site.line for site in sites] == [6] * 6 + list(range(1, 21))
        assert [site.file for site in sites[6:]] == ["made0.py", "made1.py"] * 10
        near = f"Sendrecv(dest={(rank + 1) % 4}, source={(rank - 1) % 4})"
        far = f"Sendrecv(dest={(rank + 2) % 4}, source={(rank + 2) % 4})"
        assert [site.call for site in sites[:6]] == [near, near, far, far, near, near]
        assert {site.call for site in sites[6:]} == {near}
        assert len({op.site for op in ops}) == 2 + 20


HOSTILE = """
import socket, struct, time
import numpy as np
from ringside.network import codec, link
from ringside.network.wire import EXCHANGE, UP, Op

def frame(op, body=b"", flags=0, site=0, comm=0, peer=0, tag=0, request=0, extra=0, nbytes=None):
    return UP.pack(op, flags, site, comm, peer, tag, request, extra,
                   len(body) if nbytes is None else nbytes) + body

FRAMES = {
    "noise": bytes(range(256)) * 40,
    "unknown": frame(77),
    "huge": frame(Op.ISEND, nbytes=2**62),
    "stranger": frame(Op.ISEND, b"x", comm=9),
    "nobody": frame(Op.ISEND, b"x", peer=55),
    "mode": frame(Op.ISEND, b"x", flags=9),
    "request": frame(Op.WAIT, struct.pack("<I", 4)),
    "twice": frame(Op.IRECV, request=1) * 2,
    "short exchange": frame(Op.EXCHANGE, b"abc", request=1),
    "exchange with nobody": frame(Op.EXCHANGE, EXCHANGE.pack(9, 0, -1), request=1),
    "exchange numbered": frame(Op.EXCHANGE, EXCHANGE.pack(1, 0, -1), request=2**32 - 1),
    "odd": frame(Op.WAIT, b"abc"),
    "negative": frame(Op.COMPUTE, codec.encode((-1.0, 0.0, None, "x"))),
    "nan": frame(Op.COMPUTE, codec.encode((float("nan"), 0.0, None, "x"))),
    "eternity": frame(Op.COMPUTE, codec.encode((0.0, 0.0, 1e12, "x"))),
    "site": frame(Op.SITE, codec.encode(("a", "b", 3)), site=500),
    "spec": frame(Op.COLLECTIVE, codec.encode(("allreduce", ("SUM", None))), request=1),
    "name": frame(Op.COLLECTIVE, codec.encode(("evil", ())), request=1),
    "root": frame(Op.COLLECTIVE, codec.encode(("bcast", (7, b""))), request=1),
    "pickle": frame(Op.RESULT, b"\\x80\\x04N."),
    "turn": frame(Op.RESULT, codec.encode(1) + b"N" + struct.pack("<I", 1)) * 2,
    "fraction": frame(Op.RESULT, b"abc", nbytes=100),
    "far probe": frame(Op.PROBE, peer=99, flags=2),
    "test of nothing": frame(Op.TEST, flags=1),
    "test twice": frame(Op.IRECV, request=5) + frame(Op.TEST, struct.pack("<2I", 5, 5)),
    "wait how": frame(Op.IRECV, request=5) + frame(Op.IRECV, request=6)
    + frame(Op.WAIT, struct.pack("<2I", 5, 6), flags=77),
    "old number": frame(Op.ISEND, b"x", request=5) + frame(Op.IRECV, request=6, peer=1)
    + frame(Op.ISEND, b"x", peer=1, request=4),
    "counts": frame(Op.COLLECTIVE, codec.encode(("reduce_scatter", ("USER", b"abc", (0, 0)))),
                    request=1),
    "endless counts": frame(Op.COLLECTIVE, codec.encode(
        ("reduce_scatter", ("USER", b"abc", (2**8000, 0)))), request=1),
    "told": frame(Op.COLLECTIVE, codec.encode(("barrier", (), "b", (("n", 2**8000),))), request=1),
    "doubles": frame(Op.COLLECTIVE, codec.encode(("create", ((1, 1, 1),))), request=1),
}

def attack(comm, name):
    if comm.rank == 1:
        link.current()._sock.sendall(FRAMES[name])
        time.sleep(60)
    comm.Barrier()

def told(comm):
    link.current()._sock.sendall(
        frame(Op.SITE, codec.encode(("recv\\ud800", "a.py", 2**8000))) +
        frame(Op.COMPUTE, codec.encode((0.0, 0.0, 1.0, "\\udcff"))) +
        frame(Op.FAILURE, codec.encode(("E", "\\ud800", [("a.py", 2**8000, "f", "\\udcff")], "")))
    )
    time.sleep(60)

def unread(comm):
    sock = link.current()._sock
    for request in range(1, 100000, 2):
        sock.sendall(frame(Op.ISEND, bytes(1 << 20), request=request) +
                     frame(Op.IRECV, request=request + 1, extra=-1) +
                     frame(Op.WAIT, struct.pack("<2I", request, request + 1)))
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "hostile.py").write_text(HOSTILE)
    with Session(folder, limits=Limits(held_bytes=20 << 20)) as session:
        yield session


@pytest.mark.parametrize(
    "name",
    [
        "noise", "unknown", "huge", "stranger", "nobody", "mode", "request", "twice", "odd",
        "negative", "nan", "eternity", "site", "spec", "name", "root", "turn",
        "far probe", "test of nothing", "test twice", "wait how", "old number", "counts",
        "endless counts", "told", "doubles", "short exchange", "exchange with nobody",
        "exchange numbered",
    ],
)  # fmt: skip
def test_hostile_frames_end_the_run_and_nothing_else(hostile: Session, name: str) -> None:
    begin = time.monotonic()
    error = hostile.call("hostile:attack", 2, (name,), timeout_s=30).error
    assert isinstance(error, LimitError) and error.rank == 1, error
    assert time.monotonic() - begin < 20


def test_result_that_is_no_value_is_an_error_of_its_rank(hostile: Session) -> None:
    error = hostile.call("hostile:attack", 2, ("pickle",), timeout_s=3).error
    assert isinstance(error, (RankError, DeadlockError))


def test_half_a_frame_ends_with_the_deadline(hostile: Session) -> None:
    error = hostile.call("hostile:attack", 2, ("fraction",), timeout_s=1).error
    assert isinstance(error, DeadlineError)


def test_text_of_a_rank_can_be_written_down(hostile: Session) -> None:
    result = hostile.call("hostile:told", 1, timeout_s=30)
    assert isinstance(result.error, RankError)
    assert "\\ud800" in str(result.error).encode().decode()
    for site in result.trace.sites:
        assert site.where.encode() == b"a.py:2147483648"
    assert "\\udcff" in str(result.trace.ops[0][0].detail).encode().decode()


def test_rank_that_does_not_read_is_stopped(hostile: Session) -> None:
    error = hostile.call("hostile:unread", 1, timeout_s=60).error
    assert isinstance(error, LimitError), error


FORKED = """
import logging, random, threading
import numpy as np

def f(comm):
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(threading.get_ident())) for _ in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    logging.getLogger("ranks").warning("rank %d", comm.rank)
    alone = threading.active_count() == 1
    main = threading.current_thread() is threading.main_thread()
    return random.random(), float(np.random.rand()), len(seen) == 2 and alone and main
"""


@pytest.mark.parametrize("front_end", ["mpi", "torch"])
def test_forked_ranks_have_chance_and_threads_of_their_own(tmp_path: Path, front_end: str) -> None:
    (tmp_path / "forked.py").write_text(FORKED)
    target = tmp_path / "forked.py:f"
    if front_end == "torch":
        (tmp_path / "forked.py").write_text(FORKED.replace("comm.rank", "0"))
    results = [ringside.run(target, 3, front_end=front_end) for _ in range(2)]
    values = [value for result in results for value in result.values]
    for drawn in list(zip(*values, strict=True))[:2]:
        assert len(set(drawn)) == 6
    assert all(sound for *_, sound in values)
    assert all("rank" in text for result in results for text in result.output)


def test_ranks_started_by_exec_do_the_same_as_forked_ones(session: Session) -> None:
    xs = [(np.arange(5.0) + rank,) for rank in range(3)]
    forked = session.call("programs:ring_sum", 3, xs).raise_for_error()
    with Session(session.folder, spawn=True) as other:
        spawned = other.call("programs:ring_sum", 3, xs).raise_for_error()
        error = other.call("programs:raised", 2).error
    np.testing.assert_array_equal(spawned.values, forked.values)
    assert spawned.trace == forked.trace
    assert isinstance(error, RankError) and error.message == "no gradient"


def test_library_rings_over_nodes_are_timed_live_as_in_a_replay(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By messages on all ports of the nodes, and by the formula."""
    machine = ringside.Machine.load("dgx_a100,ranks_per_node=4")
    ends = []
    for most in (rails.MOST_MESSAGES, 10):
        monkeypatch.setattr(rails, "MOST_MESSAGES", most)
        result = session.call("programs:sums", 12, (2_000_000,), machine=machine)
        assert result.values == [24.0] * 12
        again = ringside.replay(result.trace, machine)
        assert again.makespan_ps == result.timeline.makespan_ps
        ends.append(again.makespan_s)
    assert ends[0] == pytest.approx(ends[1], rel=1e-3) and ends[0] > 1e-3


NESTED = """
def writes(comm, given):
    given["layers"][0][1][:] = comm.rank() if callable(comm.rank) else comm.rank  # 0 stays 0

def replaces(comm, given):
    weight, bias = given["layers"][0]
    given["layers"][0] = weight, bias + 0

def gives(comm, given):
    return {"bias": given["layers"][0][1]}
"""


@pytest.mark.parametrize("front_end", ["mpi", "torch"])
def test_inputs_are_looked_at_in_lists_tuples_and_dicts(tmp_path: Path, front_end: str) -> None:
    (tmp_path / "nested.py").write_text(NESTED)
    given = {"layers": [(np.zeros((2, 3)), np.zeros(3))], "rate": 0.5}
    with Session(tmp_path) as session:
        for function, changed, aliased in (
            ("writes", [False, True], [False, False]),
            ("replaces", [True, True], [False, False]),
            ("gives", [False, False], [True, True]),
        ):
            call = session.call(f"nested:{function}", 2, (given,), front_end=front_end)
            result = call.raise_for_error()
            assert (result.inputs_changed, result.aliased) == (changed, aliased), function
