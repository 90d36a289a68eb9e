"""The engine against closed forms, to the picosecond; programs are written down as traces."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest

from ringside.errors import TraceError
from ringside.timing.collectives import ALGORITHMS
from ringside.timing.machine import Machine
from ringside.timing.replay import replay, time_trace
from ringside.trace import Kind, Mode, Op, Trace

ALPHA_PS, BETA_PS = 1_000_000, 1000  # the textbook machine
SIZES = [1, 2, 3, 4, 5, 7, 8, 16]


class Program:
    """A trace under construction: the calls of every rank, with messages numbered by pair."""

    def __init__(self, world_size: int) -> None:
        self.ops: list[list[Op]] = [[] for _ in range(world_size)]
        self._requests = [0] * world_size
        self._sent: dict[tuple[int, int], int] = {}
        self._received: dict[tuple[int, int], int] = {}

    def _number(self, counts: dict[tuple[int, int], int], source: int, dest: int) -> int:
        count = counts[source, dest] = counts.get((source, dest), -1) + 1
        return (count * len(self.ops) + source) * len(self.ops) + dest

    def isend(self, rank: int, dest: int, nbytes: int, mode: Mode = Mode.STANDARD) -> int:
        self._requests[rank] += 1
        number = self._number(self._sent, rank, dest)
        self.ops[rank].append(
            Op(Kind.ISEND, dest, 0, nbytes, "world", self._requests[rank], number, (int(mode),))
        )
        return self._requests[rank]

    def irecv(self, rank: int, source: int) -> int:
        self._requests[rank] += 1
        number = self._number(self._received, source, rank)
        self.ops[rank].append(
            Op(Kind.IRECV, source, 0, 0, "world", self._requests[rank], number, (source, 0))
        )
        return self._requests[rank]

    def wait(self, rank: int, *requests: int) -> None:
        self.ops[rank].append(Op(Kind.WAIT, detail=requests))

    def send(self, rank: int, dest: int, nbytes: int) -> None:
        self.wait(rank, self.isend(rank, dest, nbytes))

    def recv(self, rank: int, source: int) -> None:
        self.wait(rank, self.irecv(rank, source))

    def sendrecv(self, rank: int, dest: int, nbytes: int, source: int) -> None:
        self.wait(rank, self.isend(rank, dest, nbytes), self.irecv(rank, source))

    def compute(self, rank: int, seconds: float) -> None:
        self.ops[rank].append(Op(Kind.COMPUTE, detail=(0.0, 0.0, round(seconds * 1e12), "work")))

    def collective(self, name: str, sizes: tuple[int, ...], root: int = 0) -> None:
        members = tuple(range(len(self.ops)))
        for rank in members:
            self._requests[rank] += 1
            sequence = sum(op.kind == Kind.COLLECTIVE for op in self.ops[rank])
            detail = (name, sequence, root, members, sizes)
            self.ops[rank].append(Op(Kind.COLLECTIVE, request=self._requests[rank], detail=detail))
            self.wait(rank, self._requests[rank])

    def makespan_ps(self, machine: Machine) -> int:
        return replay(Trace(len(self.ops), self.ops), machine).makespan_ps


@pytest.fixture
def textbook() -> Machine:
    return Machine.load("textbook")


@pytest.mark.parametrize("p", SIZES)
def test_blocking_star_takes_its_closed_form(p: int, textbook: Machine) -> None:
    n, program = 12345, Program(p)
    for rank in range(1, p):
        program.send(rank, 0, n)
        program.recv(0, rank)
    for rank in range(1, p):
        program.send(0, rank, n)
        program.recv(rank, 0)
    assert program.makespan_ps(textbook) == 2 * (p - 1) * (ALPHA_PS + n * BETA_PS)


@pytest.mark.parametrize("p", SIZES)
def test_star_with_all_receives_posted_overlaps_its_latencies(p: int, textbook: Machine) -> None:
    n, program = 1000, Program(p)
    program.wait(0, *[program.irecv(0, rank) for rank in range(1, p)])
    for rank in range(1, p):
        program.send(rank, 0, n)
    expected = ALPHA_PS + (p - 1) * n * BETA_PS if p > 1 else 0
    assert program.makespan_ps(textbook) == expected


@pytest.mark.parametrize("p", SIZES)
def test_sharded_server_in_rotated_order_is_free_of_contention(p: int, textbook: Machine) -> None:
    share, program = 5000, Program(p)
    for _ in range(2):
        for rank in range(p):
            receives = [program.irecv(rank, (rank - k) % p) for k in range(1, p)]
            sends = [program.isend(rank, (rank + k) % p, share) for k in range(1, p)]
            program.wait(rank, *receives, *sends)
    expected = 2 * (ALPHA_PS + (p - 1) * share * BETA_PS) if p > 1 else 0
    assert program.makespan_ps(textbook) == expected


@pytest.mark.parametrize("p", SIZES)
def test_ring_takes_its_closed_form(p: int, textbook: Machine) -> None:
    share, program = 4096, Program(p)
    for _ in range(2 * (p - 1)):
        for rank in range(p):
            program.sendrecv(rank, (rank + 1) % p, share, (rank - 1) % p)
    assert program.makespan_ps(textbook) == 2 * (p - 1) * (ALPHA_PS + share * BETA_PS)


def _doubling_ps(p: int, n: int) -> int:
    power = 1 << (p.bit_length() - 1)
    rounds = power.bit_length() - 1 + (2 if p > power else 0)
    return rounds * (ALPHA_PS + n * BETA_PS)


def _halving_ps(p: int, n: int) -> int:
    power = 1 << (p.bit_length() - 1)
    steps = power.bit_length() - 1
    inner = 2 * steps * ALPHA_PS + 2 * n * BETA_PS * (power - 1) // power
    return inner + (2 * (ALPHA_PS + n * BETA_PS) if p > power else 0)


@pytest.mark.parametrize("p", [*SIZES, 6, 12, 31, 64])
@pytest.mark.parametrize(
    ("algorithm", "closed_form"),
    [("recursive_doubling", _doubling_ps), ("halving_doubling", _halving_ps)],
)
def test_recursive_algorithms_take_their_closed_forms(p, algorithm, closed_form, textbook) -> None:
    n, program = 64 * 1024, Program(p)
    program.collective("allreduce", (n,))
    machine = textbook.with_(collectives={"allreduce": algorithm})
    assert program.makespan_ps(machine) == closed_form(p, n)


@pytest.mark.parametrize("p", [2, 3, 4, 8])
@pytest.mark.parametrize("chunks", [1, 2, 5, 40])
def test_pipelined_chain_broadcast_takes_its_closed_form(
    p: int, chunks: int, textbook: Machine
) -> None:
    """With receives posted ahead, a chunk's latency overlaps the chunks before it."""
    piece, program = 1000, Program(p)
    program.wait(0, *[program.isend(0, 1, piece) for _ in range(chunks)])
    for rank in range(1, p):
        receives = [program.irecv(rank, rank - 1) for _ in range(chunks)]
        sends = []
        for receive in receives:
            program.wait(rank, receive)
            if rank < p - 1:
                sends.append(program.isend(rank, rank + 1, piece))
        program.wait(rank, *sends)
    expected = (p - 1) * (ALPHA_PS + piece * BETA_PS) + (chunks - 1) * piece * BETA_PS
    assert program.makespan_ps(textbook) == expected


@pytest.mark.parametrize(("ports", "factor"), [("rank", 2), ("peer", 1)])
def test_halo_exchange_on_single_and_per_peer_ports(
    ports: str, factor: int, textbook: Machine
) -> None:
    p, n, program = 6, 3000, Program(6)
    for rank in range(p):
        sides = ((rank - 1) % p, (rank + 1) % p)
        receives = [program.irecv(rank, side) for side in sides]
        program.wait(rank, *receives, *[program.isend(rank, side, n) for side in sides])
    expected = ALPHA_PS + factor * n * BETA_PS
    assert program.makespan_ps(textbook.with_(ports=ports)) == expected


@pytest.mark.parametrize("work_us", [0.0, 1.0, 3.0, 5.0, 50.0])
def test_overlapped_computing_hides_the_message(work_us: float, textbook: Machine) -> None:
    n, program = 4000, Program(2)
    request = program.isend(0, 1, n)
    program.compute(0, work_us * 1e-6)
    program.wait(0, request)
    program.recv(1, 0)
    assert program.makespan_ps(textbook) == max(round(work_us * 1e6), ALPHA_PS + n * BETA_PS)


def test_blocking_message_after_computing_adds_up(textbook: Machine) -> None:
    program = Program(2)
    program.compute(0, 7e-6)
    program.send(0, 1, 500)
    program.recv(1, 0)
    timeline = replay(Trace(2, program.ops), textbook)
    assert timeline.makespan_ps == 7_000_000 + ALPHA_PS + 500 * BETA_PS
    kinds = [(span.kind, span.end_s) for span in timeline.spans[1]]
    assert kinds == [("idle", pytest.approx(7e-6)), ("communication", pytest.approx(8.5e-6))]


def test_eager_send_returns_when_the_message_has_left_the_port(textbook: Machine) -> None:
    program = Program(2)
    program.send(0, 1, 100)
    program.compute(1, 1e-3)
    program.recv(1, 0)
    eager = time_trace(Trace(2, program.ops), textbook.with_(eager_threshold_bytes=101))
    rendezvous = time_trace(Trace(2, program.ops), textbook.with_(eager_threshold_bytes=100))
    assert eager.end_s[0] == pytest.approx(100e-9)
    assert eager.makespan_s == pytest.approx(1e-3)
    assert rendezvous.end_s[0] == pytest.approx(1e-3 + 1e-6 + 100e-9)


def test_ring_of_sends_hangs_with_rendezvous_and_not_with_eager(textbook: Machine) -> None:
    program = Program(3)
    for rank in range(3):
        program.send(rank, (rank + 1) % 3, 8)
        program.recv(rank, (rank - 1) % 3)
    trace = Trace(3, program.ops)
    with pytest.raises(TraceError, match="never sent"):
        replay(trace, textbook)
    assert (
        replay(trace, textbook.with_(eager_threshold_bytes=9)).makespan_ps == ALPHA_PS + 8 * BETA_PS
    )


def test_nodes_have_two_kinds_of_link_and_may_share_a_port(textbook: Machine) -> None:
    machine = textbook.with_(ranks_per_node=2, intra_alpha_s=1e-7, intra_beta_s_per_byte=1e-10)
    inside, between, shared = Program(4), Program(4), Program(4)
    inside.send(0, 1, 1000)
    inside.recv(1, 0)
    assert inside.makespan_ps(machine) == 100_000 + 1000 * 100
    for program in (between, shared):
        for rank in (0, 1):
            program.send(rank, rank + 2, 1000)
            program.recv(rank + 2, rank)
    assert between.makespan_ps(machine) == ALPHA_PS + 1000 * BETA_PS
    assert shared.makespan_ps(machine.with_(gpus_per_nic=2)) == ALPHA_PS + 2 * 1000 * BETA_PS


@pytest.mark.parametrize(
    ("name", "p"), [(name, p) for name in sorted(ALGORITHMS) for p in (1, 2, 3, 5, 8)]
)
def test_lowered_collectives_end_and_move_what_they_must(
    name: str, p: int, textbook: Machine
) -> None:
    program = Program(p)
    n = 960
    sizes = {"alltoall": (n,) * (p * p)}.get(name) or (
        (n,) * p if name in ("allgather", "gather", "scatter", "reduce_scatter") else (n,)
    )
    program.collective(name, (0,) if name == "barrier" else sizes)
    timeline = replay(Trace(p, program.ops), textbook)
    moved = int(timeline.bytes_matrix.sum())
    least = {
        "allgather": p * (p - 1) * n, "allreduce": 2 * (p - 1) * n, "alltoall": p * (p - 1) * n,
        "barrier": 0, "reduce_scatter": p * (p - 1) * n,
    }.get(name, (p - 1) * n)  # fmt: skip
    assert moved == least
    assert timeline.unfinished == []


@pytest.mark.parametrize("p", [2, 4, 7])
def test_critical_path_explains_the_whole_makespan(p: int, textbook: Machine) -> None:
    program = Program(p)
    for rank in range(1, p):
        program.compute(rank, rank * 1e-6)
        program.send(rank, 0, 1000 * rank)
        program.recv(0, rank)
    timeline = replay(Trace(p, program.ops), textbook)
    path = timeline.critical_path
    assert path[0].start_s == pytest.approx(0)
    assert path[-1].end_s == pytest.approx(timeline.makespan_s)
    for before, after in itertools.pairwise(path):
        assert before.end_s == pytest.approx(after.start_s)


@pytest.mark.parametrize("name", ["allreduce", "allgather", "bcast"])
def test_critical_path_goes_through_the_rounds_of_collectives(name: str, textbook: Machine) -> None:
    program = Program(4)
    for straggler in (2, 1):
        for rank in range(4):
            program.compute(rank, 20e-6 if rank == straggler else 10e-6)
        program.collective(name, (960,) * 4 if name == "allgather" else (960,))
    timeline = replay(Trace(4, program.ops), textbook)
    path = timeline.critical_path
    assert sum(span.end_s - span.start_s for span in path) == pytest.approx(timeline.makespan_s)
    assert (path[0].rank, path[0].kind) == (2, "compute")
    for before, after in itertools.pairwise(path):
        assert before.end_s == pytest.approx(after.start_s)


def test_critical_path_never_goes_back_in_time(textbook: Machine) -> None:
    # Rank 1's message to 2 leaves its port early, and then queues at rank 2's behind that of rank
    # 0; the message after it, to rank 3, waited for the port alone.
    program = Program(4)
    program.isend(0, 2, 9000)
    program.isend(1, 2, 2000)
    program.isend(1, 3, 30_000)
    program.wait(2, program.irecv(2, 0), program.irecv(2, 1))
    program.recv(3, 1)
    timeline = replay(Trace(4, program.ops), textbook)
    assert timeline.makespan_s == pytest.approx(33e-6)
    path = [(span.start_s * 1e6, span.end_s * 1e6) for span in timeline.critical_path]
    assert path == [pytest.approx((0, 2)), pytest.approx((2, 33))]


def test_fractional_bandwidths_round_once_a_message(textbook: Machine) -> None:
    machine = textbook.with_(beta_s_per_byte=1 / 300e9)
    program = Program(2)
    program.send(0, 1, 10**9)
    program.recv(1, 0)
    exact = ALPHA_PS + Fraction(10**9, 300 * 10**9) * 10**12
    assert abs(program.makespan_ps(machine) - exact) <= math.ceil(10**9 * 0.5e-6)
