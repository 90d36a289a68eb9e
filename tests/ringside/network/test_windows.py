"""Windows and the network: frames that no link of ours writes, and what is kept of accesses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ringside import Session
from ringside.errors import LimitError, RunError
from ringside.network import windows
from ringside.network.bounds import Limits

HOSTILE = """
import time
import numpy as np
from mpi4py import MPI
from ringside.network import codec, link
from ringside.network.wire import UP, Op

ONE = np.array([[0, 8]])
DATA = np.zeros(8, np.uint8)

def frame(op, comm, body=b"", flags=0, peer=0, request=1000, tag=0):
    return UP.pack(op, flags, 0, comm, peer, tag, request, 0, len(body)) + body

def access(comm, what="put", op="", kind="", runs=ONE, data=DATA, **fields):
    return frame(Op.ACCESS, comm, codec.encode((what, op, kind, runs, data)), **fields)

FRAMES = {
    "no window": lambda window: access(0),
    "stranger": lambda window: access(window + 5),
    "nobody": lambda window: access(window, peer=2),
    "below": lambda window: access(window, peer=-1),
    "what": lambda window: access(window, "steal"),
    "name": lambda window: access(window, "accumulate", "S" * 1000),
    "no text": lambda window: access(window, b"put"),
    "beyond": lambda window: access(window, runs=ONE + 80),
    "before": lambda window: access(window, runs=ONE - 8),
    "backwards": lambda window: access(window, runs=ONE[:, ::-1].copy()),
    "one end": lambda window: access(window, runs=ONE[:, :1].copy()),
    "floats": lambda window: access(window, runs=ONE.astype(float)),
    "no data": lambda window: access(window, data=b"12345678"),
    "too few": lambda window: access(window, data=DATA[:7]),
    "data of a get": lambda window: access(window, "get"),
    "half a swap": lambda window: access(window, "compare_and_swap"),
    "very much": lambda window: access(window, "get", runs=np.tile([0, 80], (1 << 16, 1))),
    "no value": lambda window: frame(Op.ACCESS, window, b"abc"),
    "few values": lambda window: frame(Op.ACCESS, window, codec.encode(("put", ""))),
    "request twice": lambda window: access(window) * 2,
    "served": lambda window: frame(Op.SERVED, window),
    "lock of no window": lambda window: frame(Op.LOCK, 0, peer=-1),
    "lock of nobody": lambda window: frame(Op.LOCK, window, peer=9),
}

def attack(comm, name):
    win = MPI.Win.Allocate(80, 8, comm=comm)
    if comm.rank == 1:
        link.current()._sock.sendall(FRAMES[name](win._window.number))
        time.sleep(60)
    comm.Barrier()

def after_free(comm):
    win = MPI.Win.Allocate(80, 8, comm=comm)
    number = win._window.number
    win.Free()
    if comm.rank == 1:
        link.current()._sock.sendall(access(number))
        time.sleep(60)
    comm.Barrier()

def lie(comm, answer):
    win = MPI.Win.Allocate(80, 8, comm=comm)
    got = np.zeros(1)
    if comm.rank == 1:
        def serve(body):
            if answer == "other frame":
                link.current()._sock.sendall(frame(Op.WTIME, 0))
                time.sleep(60)
            return bytes(answer)
        link.current().windows[win._window.number] = serve
    win.Fence()
    if comm.rank == 0:
        win.Get(got, 1)
    win.Fence()
    return got[0]

def never_unlocked(comm):
    win = MPI.Win.Allocate(80, 8, comm=comm)
    if comm.rank == 1:
        link.current().unlock(win._window.number, 0, call=("Unlock", ()))  # which it doesn't hold
    win.Lock(0)
    win.Unlock(0)
    win.Free()
    return True

def race(comm):
    win = MPI.Win.Allocate(80, 8, comm=comm)
    win.Fence()
    win.Put(np.full(2, float(comm.rank)), 0)
    win.Fence()
    win.Free()

def flood(comm):
    win = MPI.Win.Allocate(1 << 20, 1, comm=comm)
    win.Fence()
    for _ in range(100):
        win.Put(np.ones(1 << 17), 0)
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "hostile.py").write_text(HOSTILE)
    with Session(folder, limits=Limits(held_bytes=20 << 20, frame_bytes=4 << 20)) as session:
        yield session


NAMES = [line.split('"')[1] for line in HOSTILE.splitlines() if ": lambda window:" in line]


@pytest.mark.parametrize("name", NAMES)
def test_frames_that_no_link_writes_end_the_run_and_nothing_else(
    hostile: Session, name: str
) -> None:
    error = hostile.call("hostile:attack", 2, (name,), timeout_s=20).error
    assert isinstance(error, LimitError) and error.rank == 1, error


def test_a_window_that_was_freed_is_none(hostile: Session) -> None:
    error = hostile.call("hostile:after_free", 2, (), timeout_s=20).error
    assert isinstance(error, LimitError) and "used a window that doesn't exist" in str(error)


@pytest.mark.parametrize("answer", [0, 7, 9, "other frame"])
def test_an_owner_answers_the_bytes_that_were_asked_for_and_nothing_else(
    hostile: Session, answer: int | str
) -> None:
    error = hostile.call("hostile:lie", 2, (answer,), timeout_s=20).error
    assert isinstance(error, LimitError) and error.rank == 1, error


def test_a_lock_is_given_back_by_its_holder_alone(hostile: Session) -> None:
    assert hostile.call("hostile:never_unlocked", 2, (), timeout_s=20).values == [True, True]


def test_what_is_on_its_way_to_windows_is_bounded(hostile: Session) -> None:
    error = hostile.call("hostile:flood", 2, (), timeout_s=20).error
    assert isinstance(error, RunError) and "20 MiB of messages" in str(error)


def test_what_is_kept_of_landed_accesses_is_bounded(
    hostile: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "_MOST_KEPT_BYTES", 1)
    # The network forgets each access at the next one, so that it sees no race.
    assert hostile.call("hostile:race", 3, (), timeout_s=20).error is None
    monkeypatch.undo()
    assert "WindowRace" in str(hostile.call("hostile:race", 3, (), timeout_s=20).error)


def test_shared_bytes_are_those_of_a_plain_comparison() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        sides = []
        for _ in range(2):
            starts = rng.integers(0, 60, rng.integers(0, 5))
            sides.append(np.stack([starts, starts + rng.integers(0, 9, len(starts))], axis=1))
        one, other = (
            {b for start, end in side.tolist() for b in range(start, end)} for side in sides
        )
        shared = windows._shared_bytes(*sides)
        assert (shared is not None) == bool(one & other), sides
        assert shared is None or set(range(*shared)) <= one | other
