"""Ranks that are killed: what dies with them, what survivors see, and that it's always the same."""

from __future__ import annotations

import random
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ringside
from ringside import DeadlockError, Failures, Kill, RankError, Session, TargetError
from ringside.errors import LimitError
from ringside.mpi import constants
from ringside.network import wire
from ringside.session.session import Result
from ringside.trace import Kind, Trace

PROGRAMS = """
import random, time
import numpy as np
from mpi4py import MPI

FAILED = MPI.ERR_PROC_FAILED, MPI.ERR_REVOKED

def gradient(w, x):
    return x.T @ (x @ w - 1)

def ring(comm, x):
    p, r = comm.size, comm.rank
    shards = np.zeros((p, -(-len(x) // p)))
    shards.reshape(-1)[:len(x)] = x
    got = np.empty(shards.shape[1])
    for step in range(2 * p - 2):
        first = r - step if step < p - 1 else r + p - step
        comm.Sendrecv(shards[first % p].copy(), (r + 1) % p, 0, got, (r - 1) % p, 0)
        if step < p - 1:
            shards[(first - 1) % p] += got
        else:
            shards[(first - 1) % p] = got
    return shards.reshape(-1)[:len(x)].copy()

def library(comm, x):
    total = np.empty_like(x)
    comm.Allreduce(x, total)
    return total

def server(comm, x):
    total = x.copy()
    if comm.rank:
        comm.Send(x, 0)
        comm.Recv(total, 0)
        return total
    got = np.empty_like(x)
    for _ in range(comm.size - 1):
        comm.Recv(got)
        total += got
    for rank in range(1, comm.size):
        comm.Send(total, rank)
    return total

def posted(comm, x):
    got = [np.empty_like(x) for _ in range(comm.size)]
    requests = [comm.Irecv(got[r], r) for r in range(comm.size) if r != comm.rank]
    requests += [comm.Isend(x, r) for r in range(comm.size) if r != comm.rank]
    try:
        MPI.Request.Waitall(requests)
    except MPI.Exception as error:
        if error.Get_error_class() != MPI.ERR_IN_STATUS:
            raise
        raise MPI.Exception(MPI.ERR_PROC_FAILED)
    got[comm.rank] = x
    return sum(got)

SUMS = {"ring": ring, "library": library, "server": server, "posted": posted}

def train(comm, how, w, samples, batch, num_steps, agree=True, revoke=True, naps=None):
    if naps is not None:
        chance = random.Random(naps * 100 + comm.rank)
    t = 0
    while t < num_steps:
        if naps is not None:
            time.sleep(chance.random() * 0.004)
        p, r = comm.size, comm.rank
        mine = samples[t * batch + batch * r // p : t * batch + batch * (r + 1) // p]
        total, ok = None, 1
        try:
            total = SUMS[how](comm, gradient(w, mine))
        except MPI.Exception as error:
            if error.Get_error_class() not in FAILED:
                raise
            if revoke:
                comm.Revoke()
            ok = 0
        if agree:
            try:
                ok = comm.Agree(ok)
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_PROC_FAILED
                ok = 0
        if not ok:
            comm = comm.Shrink()
            continue
        w = w - 0.01 * total / batch
        t += 1
    return w

def from_the_dead(comm):
    got = np.full(4, 7.0)
    if comm.rank == 1:
        comm.Send(np.arange(4.0), 0)
        comm.Recv(got, 2)
    if comm.rank == 0:
        try:
            comm.Recv(got, 1)
            comm.Recv(got, 1)
        except MPI.Exception as error:
            return error.Get_error_class() == MPI.ERR_PROC_FAILED, str(error), got.tolist()

def to_the_dead(comm):
    ends = []
    if comm.rank == 0:
        comm.Recv(np.empty(1), 1)
        for send in (comm.Bsend, comm.Send, comm.Ssend):
            if send == comm.Bsend:
                MPI.Attach_buffer(bytearray(1000))
            try:
                send(np.zeros(1), 1)
                ends.append("sent")
            except MPI.Exception as error:
                ends.append(error.Get_error_class() == MPI.ERR_PROC_FAILED)
    if comm.rank == 1:
        comm.Send(np.zeros(1), 0)
        comm.Barrier()
    return ends

def from_anybody(comm):
    got, ends = np.zeros(1), []
    if comm.rank == 0:
        requests = [comm.Irecv(got)]
        while requests:
            try:
                requests[0].Wait()
                ends.append(got[0])
                if got[0] == 2:
                    break
                requests = [comm.Irecv(got)]
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_PROC_FAILED_PENDING
                ends.append(comm.Ack_failed())
                ends.append(comm.Get_failed().Translate_ranks([0], comm.group))
        try:
            comm.Recv(got, 1)
        except MPI.Exception as error:
            ends.append(error.Get_error_class() == MPI.ERR_PROC_FAILED)
    if comm.rank == 1:
        comm.Send(np.ones(1), 0)
        comm.Send(np.ones(1), 2)
    if comm.rank == 2:
        while True:
            try:
                comm.Probe(1)
                comm.Recv(got, 1)
            except MPI.Exception:
                break
        comm.Send(np.full(1, 2.0), 0)
    return ends

def known(comm):
    before = comm.Get_failed().size, comm.Is_revoked()
    if comm.rank == 1:
        comm.Recv(np.empty(1), 0)
    try:
        comm.Barrier()
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_PROC_FAILED
    failed = comm.Get_failed()
    acked = comm.Ack_failed(0), comm.Ack_failed()
    agreed = comm.Agree(6 if comm.rank else 3)
    if comm.rank == 0:
        comm.Revoke()
    smaller = comm.Shrink()
    try:
        comm.Isend(np.zeros(1), comm.rank).Wait()
        sent = "sent"
    except MPI.Exception as error:
        sent = error.Get_error_class() == MPI.ERR_REVOKED
    return before, failed.size, acked, agreed, smaller.size, smaller.rank, sent, comm.Is_revoked()

def gone_alone(comm):
    if comm.rank == 2:
        comm.Barrier()
    if comm.rank == 0:
        try:
            comm.Recv(np.empty(1), 2)
        except MPI.Exception:
            comm.Shrink()

def keeps_the_old_one(comm):
    for _ in range(150):
        try:
            comm.Barrier()
        except MPI.Exception:
            comm.Revoke()
            comm.Shrink()

def catches_all(comm):
    try:
        comm.Recv(np.empty(1), (comm.rank + 1) % 2)
    except BaseException:
        print("I live")
        while comm.rank == 0:
            pass
    finally:
        print("still")

def window(comm):
    MPI.Win.Create(np.zeros(2), comm=comm)
    comm.Barrier()

def computes(comm):
    import ringside
    ringside.compute(seconds=0.5)
    comm.Barrier()
"""
SAMPLES = np.random.default_rng(1).normal(size=(24, 5))
NUM_STEPS, BATCH = 2, 12
WAYS = ("ring", "library", "server", "posted")


def serial() -> np.ndarray:
    w = np.zeros(5)
    for t in range(NUM_STEPS):
        x = SAMPLES[t * BATCH : (t + 1) * BATCH]
        w = w - 0.01 * x.T @ (x @ w - 1) / BATCH
    return w


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "programs.py").write_text(textwrap.dedent(PROGRAMS))
    with Session(folder) as running:
        yield running


def train(
    session: Session, how: str, world_size: int, failures: Failures | None, **options: object
) -> Result:
    args = how, np.zeros(5), SAMPLES, BATCH, NUM_STEPS
    return session.call(
        "programs:train", world_size, args, kwargs=options, failures=failures, timeout_s=30
    )


def every_kill(result: Result, *ranks: int) -> Iterator[Kill]:
    for rank in ranks:
        for op in range(1, len(result.trace.ops[rank]) + 2):
            yield Kill(rank, op=op)


def assert_survived(result: Result, *dead: int) -> None:
    assert result.error is None, result.error
    assert [death.rank for death in result.deaths] == sorted(dead)
    values = {rank: value for rank, value in enumerate(result.values) if rank not in dead}
    assert all(result.values[rank] is None for rank in dead)
    first = next(iter(values.values()))
    assert np.abs(first - serial()).max() < 1e-12
    assert all(value.tobytes() == first.tobytes() for value in values.values())


# -- every moment --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", WAYS)
def test_survivors_train_on_wherever_a_rank_dies(session: Session, how: str) -> None:
    whole = train(session, how, 3, None)
    for number, kill in enumerate(every_kill(whole, 0, 2)):
        in_flight = ("delivered", "lost")[number % 2]
        result = train(session, how, 3, Failures(kill, in_flight=in_flight, seed=number))
        assert_survived(result, kill.rank)
        assert result.timeline.unfinished == []


@pytest.mark.parametrize("collectives", ["all", "none", "split"])
def test_a_second_one_may_die_while_the_others_recover(session: Session, collectives: str) -> None:
    first = Kill(1, op=2)
    once = train(session, "library", 4, Failures(first, collectives=collectives))
    for kill in every_kill(once, 3):
        result = train(session, "library", 4, Failures(first, kill, collectives=collectives))
        assert_survived(result, 1, 3)


def test_without_an_agreement_some_take_a_step_that_others_do_not(session: Session) -> None:
    whole = train(session, "library", 4, None, agree=False)
    wrong = [
        kill
        for kill in every_kill(whole, 0, 1)
        if train(session, "library", 4, Failures(kill), agree=False).error is not None
    ]
    assert wrong
    # All get the sum or none: nothing is seen.
    for kill in wrong:
        result = train(session, "library", 4, Failures(kill, collectives="none"), agree=False)
        assert_survived(result, kill.rank)


def test_without_a_revocation_others_wait_for_ranks_that_are_alive(session: Session) -> None:
    result = train(session, "ring", 6, Failures(Kill(2, op=17)), revoke=False)
    assert isinstance(result.error, DeadlockError)
    assert result.error.cure.startswith(
        "Rank 2 was killed at 5.04 µs, in its 17th operation (Sendrecv(dest=3, source=1) at "
    )
    assert "which is in Agree by now. Let whoever meets a failure call comm.Revoke()" in (
        result.error.cure
    )
    assert [entry.rank for entry in result.error.blocked] == [0, 1, 3, 4, 5]


def test_a_shrink_needs_all_who_are_alive(session: Session) -> None:
    result = session.call("programs:gone_alone", 3, failures=Failures(Kill(2, op=1)))
    assert isinstance(result.error, DeadlockError)
    assert "Shrink needs all ranks of its communicator that are alive, and rank 1 has returned" in (
        result.error.cure
    )


@pytest.mark.parametrize("how", WAYS)
def test_the_real_order_of_arrival_changes_nothing(session: Session, how: str) -> None:
    drawn = random.Random(how)
    whole = train(session, how, 4, None)
    for kill in drawn.sample(list(every_kill(whole, 1)), 3):
        failures = Failures(kill, in_flight="lost", seed=5)
        results = [train(session, how, 4, failures, naps=naps) for naps in (None, 1, 2)]
        first, *others = [(result.trace.ops, result.makespan_s) for result in results]
        assert all(other == first for other in others)
        assert [result.values[0].tobytes() for result in results] == 3 * [
            results[0].values[0].tobytes()
        ]


def test_a_replay_of_a_trace_with_deaths_has_the_same_times(
    session: Session, tmp_path: Path
) -> None:
    result = train(session, "library", 4, Failures(Kill(2, op=3)))
    loaded = Trace.load(result.trace.save(tmp_path / "dead.trace"))
    assert loaded == result.trace
    assert ringside.replay(loaded, "textbook").end_s == result.timeline.end_s
    assert result.timeline.deaths_s == {2: result.deaths[0].time_ps / 1e12}


# -- what survivors see --------------------------------------------------------------------------


def test_what_was_sent_before_a_death_arrives_and_then_an_error(session: Session) -> None:
    result = session.call("programs:from_the_dead", 3, failures=Failures(Kill(1, op=4)))
    failed, text, got = result.raise_for_error().values[0]
    assert failed and text.endswith(
        "in its 4th operation (Recv(source=2, tag=ANY_TAG) at programs.py:94)"
    )
    assert got == [0.0, 1.0, 2.0, 3.0]
    assert result.timeline.end_s[0] == pytest.approx(1.03e-6 + 1e-3, rel=1e-3)


def test_what_is_lost_never_arrives(session: Session) -> None:
    failures = Failures(Kill(1, at_s=0.5e-6), in_flight="lost", detect_s=0.25)
    result = session.call("programs:from_the_dead", 3, failures=failures)
    failed, _, got = result.raise_for_error().values[0]
    assert failed and got == [7.0] * 4
    assert result.timeline.end_s[0] == 0.2500005


def test_a_buffered_send_to_the_dead_succeeds_and_one_that_waits_fails(session: Session) -> None:
    result = session.call("programs:to_the_dead", 2, failures=Failures(Kill(1, op=3)))
    assert result.raise_for_error().values[0] == ["sent", True, True]


def test_a_receive_from_anybody_stays_open_until_the_death_is_acknowledged(
    session: Session,
) -> None:
    result = session.call("programs:from_anybody", 3, failures=Failures(Kill(1, op=5)))
    assert result.raise_for_error().values[0] == [1.0, 1, [1], 2.0, True]


def test_what_a_rank_knows_of_failures(session: Session) -> None:
    result = session.call("programs:known", 3, failures=Failures(Kill(1, op=3)))
    told = result.raise_for_error().values
    for rank, smaller in ((0, 0), (2, 1)):
        assert told[rank] == ((0, False), 1, (0, 1), 2, 2, smaller, True, True)


def test_an_error_that_nobody_catches_says_what_to_do(session: Session) -> None:
    result = session.call(
        "programs:ring", 4, (np.ones(8),), failures=Failures(Kill(2, op=7), detect_s=1e-6)
    )
    assert isinstance(result.error, RankError)
    assert result.error.message.startswith(
        "A process has failed: rank 2 was killed at 2.03 µs, in its 7th operation (Sendrecv("
    )
    assert result.error.hint.endswith("call comm.Revoke() and comm.Shrink().")


def test_who_keeps_the_revoked_communicator_is_told_so(session: Session) -> None:
    result = session.call("programs:keeps_the_old_one", 3, failures=Failures(Kill(1, op=3)))
    assert isinstance(result.error, LimitError)
    assert "calls on a communicator that it knows to be revoked. Shrink returns" in str(
        result.error
    )


def test_a_dead_rank_runs_no_line_more(session: Session) -> None:
    result = session.call("programs:catches_all", 2, failures=Failures(Kill(0, op=2)))
    assert result.output[0] == ""


# -- kills that are asked for --------------------------------------------------------------------


def test_a_time_means_what_the_rank_does_then(session: Session) -> None:
    result = session.call("programs:computes", 2, failures=Failures(Kill(1, at_s=0.2)))
    [death] = result.deaths
    assert (death.op, death.time_ps) == (0, 2 * 10**11)
    assert [op.kind for op in result.trace.ops[1]] == [Kind.DEATH]


def test_all_ranks_of_a_node_die_together(session: Session) -> None:
    machine = ringside.Machine.load("ranks_per_node=2")
    whole = session.call("programs:computes", 6, machine=machine)
    assert whole.error is None
    result = session.call(
        "programs:computes", 6, machine=machine, failures=Failures(Kill(node=1, at_s=0.1))
    )
    assert [death.rank for death in result.deaths] == [2, 3]


@pytest.mark.parametrize(
    ("text", "kill"),
    [
        ("3@1.2ms", Kill(3, at_s=1.2e-3)),
        ("0@5us", Kill(0, at_s=5e-6)),
        ("node1@2s", Kill(node=1, at_s=2.0)),
        ("2@op17", Kill(2, op=17)),
    ],
)
def test_kills_in_words(text: str, kill: Kill) -> None:
    asked = Failures.asked([text], lost=True)
    assert asked is not None and asked.in_flight == "lost"
    [read] = asked.kills
    assert (read.rank, read.node, read.op) == (kill.rank, kill.node, kill.op)
    assert read.at_s == pytest.approx(kill.at_s)
    assert Kill.parse(str(kill)) == kill


@pytest.mark.parametrize("text", ["3", "3@", "3@op0", "x@1s", "3@1h", "node1@op3", "3@-1s"])
def test_what_is_no_kill_is_refused(text: str) -> None:
    with pytest.raises(TargetError):
        Kill.parse(text)


def test_a_kill_of_nobody_is_refused(session: Session) -> None:
    for kill, words in (
        (Kill(7, op=1), "no such rank among 2"),
        (Kill(1, op=99), "rank 1 has 3 operations"),
        (Kill(1, at_s=9.0), "rank 1 had returned at"),
    ):
        with pytest.raises(TargetError, match=words):
            session.call("programs:computes", 2, failures=Failures(kill))


def test_a_run_that_fails_before_a_kill_shows_its_own_error(session: Session) -> None:
    failures = Failures(Kill(1, op=5))
    result = session.call("programs:ring", 3, (np.ones((2, 2)),), failures=failures)
    assert isinstance(result.error, RankError) and result.error.type_name == "ValueError"


def test_windows_of_the_dead_are_refused(session: Session) -> None:
    result = session.call("programs:window", 2, failures=Failures(Kill(1, op=3)))
    assert isinstance(result.error, LimitError)
    assert str(result.error) == "rank 1: can't be killed while there are windows: use messages"


def test_errors_have_the_same_numbers_on_the_wire() -> None:
    assert constants.ERR_PROC_FAILED == wire.PROC_FAILED
    assert constants.ERR_REVOKED == wire.REVOKED


# -- hostile ranks -------------------------------------------------------------------------------

HOSTILE = """
import numpy as np
from mpi4py import MPI
from ringside.network.link import current
from ringside.network.wire import Frame, Op

def post(comm, about, number):
    if comm.rank == 0:
        link = current()
        link._post(Frame(Op.FAILURES, about, 0, comm._id if number else 77, extra=number))
        link._answer()
    comm.Barrier()

def bits(comm, x):
    flags = np.array([comm.Agree(int(x[0]) if rank == comm.rank else -1) for rank in range(4)])
    return float(flags.sum())

def revokes(comm):
    comm.Revoke()
    return comm.Shrink().size
"""


@pytest.mark.parametrize(("about", "number"), [(9, 1), (255, 1), (0, 0)])
def test_what_no_front_end_asks_ends_the_run(tmp_path: Path, about: int, number: int) -> None:
    (tmp_path / "hostile.py").write_text(HOSTILE)
    with Session(tmp_path) as hostile:
        result = hostile.call("hostile:post", 2, (about, number), timeout_s=20)
    assert isinstance(result.error, LimitError)


def test_an_agreement_counts_as_a_collective_of_the_library(tmp_path: Path) -> None:
    (tmp_path / "hostile.py").write_text(HOSTILE)
    with Session(tmp_path) as hostile:
        result = hostile.call("hostile:bits", 4, [(np.array([float(r)]),) for r in range(4)])
        assert result.raise_for_error().values == 4 * [6.0]
        assert [record.name for record in result.collectives] == 4 * ["agree"]
        revoked = hostile.call("hostile:revokes", 3)
        assert revoked.raise_for_error().values == [3, 3, 3]
        assert revoked.comm_calls == 3 * ["shrink"]
