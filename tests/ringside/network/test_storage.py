"""Stores: they outlive ranks, take virtual time, and hold an array whole or not at all."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ringside
from ringside import Failures, Kill, LimitError, Machine, RankError, Session, Store, StoreError
from ringside.network import codec
from ringside.network.bounds import Limits
from ringside.network.storage import Stores
from ringside.timing import simgrid
from ringside.trace import Kind, Trace

PROGRAMS = """
import random, time
import numpy as np
from mpi4py import MPI
import ringside

def save(comm, value):
    store = ringside.Store("checkpoints")
    store.put(f"piece {comm.rank}", np.full(1000, float(value)))
    comm.Barrier()
    if comm.rank == 0:
        store.put("whole", np.array([value, comm.size]))

def look(comm):
    store = ringside.Store("checkpoints")
    return [(name, store.get(name, 0, 1)) for name in store.names()]

def watch(comm, seconds):
    store = ringside.Store("checkpoints")
    if comm.rank == 0:
        store.put("piece", np.zeros(1000, np.uint8))
        return MPI.Wtime()
    ringside.compute(seconds=seconds)
    return store.names()

def turns(comm, naps):
    store, chance = ringside.Store("checkpoints"), random.Random(naps * 100 + comm.rank)
    seen = []
    for turn in range(4):
        time.sleep(naps * chance.random() * 0.004)
        ringside.compute(seconds=1e-4 * (comm.rank * 7 % 3))
        store.put(f"turn {turn % 2}", np.full(10 * comm.rank + 1, comm.rank))
        seen.append(store.get("turn 0").tolist())
        if comm.rank == 2 and turn == 1:
            comm.Send(np.array([float(turn)]), 0)
        if comm.rank == 0 and turn == 3:
            got = np.empty(1)
            comm.Recv(got, MPI.ANY_SOURCE)
        seen.append(store.names())
    return seen

def slices(comm):
    store = ringside.Store("checkpoints")
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    store.put("table", table)
    table[:] = 0
    store.put("empty", np.zeros((0, 2), np.int16))
    return store.get("table"), store.get("table", 1, 3), store.get("table", 4), store.get("empty")

def changed(comm):
    store = ringside.Store("checkpoints")
    store.put("a", np.zeros(3))
    store.get("a")[:] = 7
    return store.get("a")

def wrongly(comm, how):
    store = ringside.Store("checkpoints")
    store.put("step 4", np.zeros(10))
    if how == "unknown":
        store.get("step 8")
    elif how == "remove":
        store.remove("step 8")
    elif how == "range":
        store.get("step 4", 8, 11)
    elif how == "number":
        store.put("n", 5)
    elif how == "dtype":
        store.put("text", np.array(["a"]))
    elif how == "name":
        store.put("x" * 81, np.zeros(1))

def fill(comm, count, size):
    store = ringside.Store("checkpoints")
    for number in range(count):
        store.put(f"{number}", np.zeros(size))

def many(comm, count):
    for number in range(count):
        ringside.Store(f"store {number}").names()

def again(comm, times):
    store = ringside.Store("checkpoints")
    for _ in range(times):
        store.put("same", np.zeros(1000))
    store.remove("same")
"""

ALPHA, BETA = 1e-3, 1e-9  # of "textbook"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stores")
    (path / "programs.py").write_text(textwrap.dedent(PROGRAMS))
    return path


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Session]:
    with Session(folder, confined=True) as session:
        yield session


def names(stores: Stores) -> list[str]:
    return [name for arrays in stores._arrays.values() for name in sorted(arrays)]


# -- what it holds ---------------------------------------------------------------------------------


def test_the_next_call_finds_it_on_another_number_of_ranks(session: Session) -> None:
    stores = Stores()
    session.call("programs:save", 4, (8,), stores=stores).raise_for_error()
    found = session.call("programs:look", 3, stores=stores).raise_for_error().values
    assert [name for name, _ in found[2]] == [f"piece {rank}" for rank in range(4)] + ["whole"]
    assert found[0][0][1].tolist() == [8.0] and found[0] == found[1] == found[2]


def test_parts_of_an_array_come_with_its_dtype_and_shape(session: Session) -> None:
    whole, two, none, empty = session.call("programs:slices", 1, stores=Stores()).values[0]
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    for value, right in ((whole, table), (two, table[1:3]), (none, table[4:])):
        assert value.dtype == right.dtype and np.array_equal(value, right)
    assert empty.dtype == np.int16 and empty.shape == (0, 2)


def test_what_a_rank_does_to_an_array_changes_no_store(session: Session) -> None:
    assert session.call("programs:changed", 1, stores=Stores()).values[0].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("unknown", "the store has no array 'step 8'; it holds 'step 4'."),
        ("remove", "the store has no array 'step 8'; it holds 'step 4'."),
        ("range", "get('step 4', 8, 11): the array has 10 elements, so that 0 <= start"),
        ("number", "put('n'): an array of numbers with at least one axis is stored"),
        ("dtype", "this has dtype <U1 and shape (1,)"),
        ("name", "the name of an array is a text of 1 to 80 printable characters."),
    ],
)
def test_an_error_says_what_is_wrong(session: Session, how: str, says: str) -> None:
    error = session.call("programs:wrongly", 1, (how,), stores=Stores()).error
    assert isinstance(error, RankError) and error.type_name == "StoreError"
    assert says in error.message and error.where.startswith("programs.py:")


# -- time ------------------------------------------------------------------------------------------


def test_ranks_write_at_once_and_each_byte_takes_its_time(session: Session, tmp_path: Path) -> None:
    result = session.call("programs:save", 4, (8,), stores=Stores())
    piece, whole = ALPHA + 8000 * BETA, ALPHA + 16 * BETA
    barrier = 2 * result.machine.alpha_s
    assert result.makespan_s == pytest.approx(piece + barrier + whole, rel=1e-9)
    assert result.put_bytes() == [8016, 8000, 8000, 8000] and result.got_bytes() == [0] * 4
    [first, *_] = result.timeline.spans[1]
    assert (first.kind, first.label) == ("communication", "put(name='piece 1')")
    assert result.sent_bytes() == [0] * 4
    loaded = Trace.load(result.trace.save(tmp_path / "stored.trace"))
    assert loaded == result.trace
    assert ringside.replay(loaded, "textbook").end_s == result.timeline.end_s
    slow = Machine.load("textbook,store_beta_s_per_byte=1e-6")
    replayed = ringside.replay(loaded, slow).makespan_s
    assert replayed == pytest.approx(result.makespan_s + 8016 * (1e-6 - BETA))


def test_an_array_is_there_when_its_last_byte_is_and_not_before(session: Session) -> None:
    done_s = ALPHA + 1000 * BETA
    for seconds, there in ((done_s - ALPHA - 1e-9, []), (done_s - ALPHA, ["piece"])):
        result = session.call("programs:watch", 2, (seconds,), stores=Stores()).raise_for_error()
        assert result.values == [pytest.approx(done_s), there]


def test_bytes_that_are_read_take_their_time(session: Session) -> None:
    result = session.call("programs:slices", 1, stores=Stores())
    assert result.makespan_s == pytest.approx(6 * ALPHA + (48 + 48 + 24) * BETA)
    assert result.put_bytes() == [48] and result.got_bytes() == [48 + 24]
    kinds = [op.detail for op in result.trace.ops[0] if op.kind == Kind.STORE]
    assert kinds[:3] == [("put", "table"), ("put", "empty"), ("get", "table")]


def test_real_arrival_decides_nothing(session: Session) -> None:
    runs = [session.call("programs:turns", 4, (naps,), stores=Stores()) for naps in (0, 1, 2, 3)]
    first, *others = [(run.trace.ops, run.values, run.timeline.end_s) for run in runs]
    assert runs[0].error is None and all(other == first for other in others)


def test_simgrid_sleeps_as_long(session: Session, tmp_path: Path) -> None:
    result = session.call("programs:slices", 1, stores=Stores())
    simgrid.export(result.trace, result.machine, tmp_path)
    lines = [line for path in tmp_path.iterdir() for line in path.read_text().splitlines()]
    assert "0 sleep 0.001000048" in lines


# -- deaths ----------------------------------------------------------------------------------------


def test_a_rank_dies_before_it_puts_or_when_all_is_there(session: Session) -> None:
    for op, there in ((1, ["piece 0", "piece 2"]), (2, ["piece 0", "piece 1", "piece 2"])):
        stores = Stores()
        failures = Failures(Kill(1, op=op), collectives="none")
        result = session.call("programs:save", 3, (8,), failures=failures, stores=stores)
        assert [death.rank for death in result.deaths] == [1]
        assert names(stores) == there


def test_a_death_in_the_middle_of_a_put_undoes_it(session: Session) -> None:
    stores = Stores()
    failures = Failures(Kill(0, at_s=ALPHA + 7999 * BETA), collectives="none")
    result = session.call("programs:save", 2, (8,), failures=failures, stores=stores)
    assert names(stores) == ["piece 1"] and result.deaths[0].op == 0


def test_the_run_that_finds_the_moment_of_a_death_leaves_nothing(session: Session) -> None:
    stores = Stores()
    session.call("programs:save", 2, (8,), stores=stores)
    failures = Failures(Kill(0, op=3), collectives="all")
    session.call("programs:save", 2, (9,), failures=failures, stores=stores)
    found = dict(session.call("programs:look", 1, stores=stores).values[0])
    assert found["piece 0"] == 9 and found["whole"] == 8


def test_who_should_die_later_than_the_run_fails_leaves_what_was_put(session: Session) -> None:
    stores = Stores()
    failures = Failures(Kill(0, at_s=1.0))
    result = session.call("programs:wrongly", 1, ("range",), failures=failures, stores=stores)
    assert isinstance(result.error, RankError) and not result.deaths
    assert names(stores) == ["step 4"]


# -- bounds ----------------------------------------------------------------------------------------


def test_where_modules_are_checked_only_a_test_gives_a_store(session: Session) -> None:
    error = session.call("programs:look", 2).error
    assert isinstance(error, LimitError) and "only tests of checkpoints" in str(error)


def test_a_store_holds_so_many_bytes_and_arrays(folder: Path) -> None:
    limits = Limits(held_bytes=100_000, stored=20)
    with Session(folder, confined=True, limits=limits) as session:
        error = session.call("programs:fill", 1, (13, 1000), stores=Stores()).error
        assert isinstance(error, LimitError) and "hold more than 97.7 KiB" in str(error)
        stores = Stores()
        session.call("programs:fill", 1, (12, 1000), stores=stores).raise_for_error()
        error = session.call("programs:again", 1, (3,), stores=stores).error
        assert isinstance(error, LimitError)
        session.call("programs:again", 1, (30,), stores=Stores()).raise_for_error()
        session.call("programs:many", 1, (64,), stores=Stores()).raise_for_error()
        error = session.call("programs:many", 1, (65,), stores=Stores()).error
        assert isinstance(error, RankError) and "there are 64 stores" in error.message
        error = session.call("programs:fill", 1, (21, 1), stores=Stores()).error
        assert isinstance(error, RankError) and "the store holds 20 arrays" in error.message


# -- folders ---------------------------------------------------------------------------------------


def test_a_store_of_ones_own_is_a_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = f"{folder}/programs.py:save"
    ringside.run(program, 4, (8,))
    killed = ringside.run(program, 2, (9,), failures=Failures(Kill(0, op=3)), check=False)
    assert [death.rank for death in killed.deaths] == [0]
    store = Store("checkpoints")
    assert store.names() == [f"piece {rank}" for rank in range(4)] + ["whole"]
    assert [store.get(f"piece {rank}", 0, 1)[0] for rank in range(4)] == [9, 9, 8, 8]
    assert store.get("whole").tolist() == [8, 4]
    store.remove("whole")
    store.put("extra", np.arange(5))
    [found] = ringside.run(f"{folder}/programs.py:look", 1).values
    assert [name for name, _ in found] == ["extra"] + [f"piece {rank}" for rank in range(4)]


def test_a_folder_says_what_is_wrong(tmp_path: Path) -> None:
    store = Store(tmp_path / "new")
    assert store.names() == []
    with pytest.raises(StoreError, match=r"has no array 'a/b'; it is empty\."):
        store.remove("a/b")
    store.put("a/b", np.arange(4))
    with pytest.raises(StoreError, match="has no array 'c'; it holds 'a/b'"):
        store.get("c")
    with pytest.raises(StoreError, match="the array has 4 elements"):
        store.get("a/b", 3, 2)
    [file] = (tmp_path / "new").iterdir()
    file.write_bytes(b"torn")
    with pytest.raises(StoreError, match=r"a%2Fb\.npy can't be read"):
        store.get("a/b")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="can't be put into"):
        Store(tmp_path / "file").put("x", np.zeros(1))


@pytest.mark.parametrize("dtype", codec.DTYPES)
def test_a_folder_keeps_every_dtype_and_shape(tmp_path: Path, dtype: str) -> None:
    store = Store(tmp_path)
    for shape in ((0,), (3,), (2, 0), (2, 3)):
        store.put("x", np.ones(shape, dtype))
        assert store.get("x").dtype == dtype and store.get("x").shape == shape
