"""Random programs with wildcards, probes and polls: they end, nothing is lost, and traces repeat.

A plan says who sends what to whom. Messages of one tag are received either all by named receives or
all by wildcards, so that whatever a wildcard takes, every receive gets a message in the end.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import numpy as np
import pytest

from ringside import Machine, Session

PROGRAM = '''
import time
import numpy as np
from mpi4py import MPI

def play(comm, steps, sleeps):
    """Run one rank's steps; returns the sorted numbers of the messages that it got."""
    pending, got, buffers = [], [], {}
    rng = np.random.default_rng(sleeps)
    status = MPI.Status()

    def take(request):
        if id(request) in buffers:
            got.append(int(buffers.pop(id(request))[0]))

    for kind, *rest in steps:
        if sleeps and rng.random() < 0.2:
            time.sleep(rng.random() * 0.004)
        if kind in ("Isend", "Issend"):
            dest, tag, number, size = rest
            request = getattr(comm, kind)(np.full(size, float(number)), dest=dest, tag=tag)
            pending.append(request)
        elif kind == "Irecv":
            source, tag, size = rest
            buffer = np.empty(size)
            source = MPI.ANY_SOURCE if source < 0 else source
            request = comm.Irecv(buffer, source=source, tag=tag)
            buffers[id(request)] = buffer
            pending.append(request)
        elif kind == "Test" and pending:
            request = pending[rest[0] % len(pending)]
            if request.Test():
                pending.remove(request)
                take(request)
        elif kind == "Iprobe":
            comm.Iprobe(source=MPI.ANY_SOURCE, tag=rest[0])
        elif kind == "Wtime":
            MPI.Wtime()
    while pending:
        index = MPI.Request.Waitany(pending, status)
        take(pending.pop(index))
    comm.Barrier()
    return sorted(got)
'''


def plan(seed: int) -> tuple[int, list[list[tuple[object, ...]]], list[list[int]]]:
    """World size, every rank's steps, and the messages that every rank must get."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, 6))
    wild = [bool(rng.integers(2)) for _ in range(3)]  # tag -> received by wildcards
    steps: list[list[tuple[object, ...]]] = [[] for _ in range(p)]
    expected: list[list[int]] = [[] for _ in range(p)]
    for number in range(int(rng.integers(5, 40))):
        source, dest = (int(r) for r in rng.integers(0, p, size=2))
        tag, size = int(rng.integers(3)), int(rng.choice([1, 100, 3000]))
        kind = str(rng.choice(["Isend", "Isend", "Issend"]))
        steps[source].append((kind, dest, tag, number, size))
        # Every receive has room for the largest: which message it gets isn't known.
        steps[dest].append(("Irecv", -1 if wild[tag] else source, tag, 3000))
        expected[dest].append(number)
    for mine in steps:
        for _ in range(int(rng.integers(0, 8))):
            kind = str(rng.choice(["Test", "Iprobe", "Wtime"]))
            mine.append((kind, int(rng.integers(3))))
        rng.shuffle(mine)  # type: ignore[arg-type]
    return p, steps, expected


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("random")
    (folder / "program.py").write_text(textwrap.dedent(PROGRAM))
    with Session(folder) as session:
        yield session


@pytest.mark.parametrize("seed", range(40))
def test_random_program_ends_loses_nothing_and_repeats(session: Session, seed: int) -> None:
    p, steps, expected = plan(seed)
    textbook = Machine.load("textbook")
    machine = [textbook, textbook.with_(eager_threshold_bytes=1000), Machine.load("zaratan")][
        seed % 3
    ]
    runs = []
    for sleeps in (0, 1 + seed):
        args = [(steps[rank], sleeps * (rank + 1)) for rank in range(p)]
        result = session.call("program:play", p, args, machine=machine).raise_for_error()
        assert result.values == [sorted(numbers) for numbers in expected]
        assert result.timeline.unfinished == []
        runs.append((result.trace, result.timeline.makespan_ps))
    assert runs[0] == runs[1]
    assert sum(result.sent_messages()) == sum(result.received_messages()) == sum(map(len, expected))


@pytest.mark.parametrize("seed", range(12))
def test_random_program_ends_under_permuted_latencies(session: Session, seed: int) -> None:
    p, steps, expected = plan(seed)
    args = [(steps[rank], 0) for rank in range(p)]
    for draw in (1, 2, 3):
        result = session.call("program:play", p, args, seed=draw).raise_for_error()
        assert result.values == [sorted(numbers) for numbers in expected]
