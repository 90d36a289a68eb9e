"""The reference solutions of a04 against serial training; what counts and stretches their runs."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from ringside import Machine, Session, replay
from ringside.checking import case_files
from ringside.checking.ring_bytes import received_as_ring, sent_as_ring
from ringside.checking.suite import called
from ringside.commands import cli
from ringside.errors import TraceError
from ringside.timing.extrapolation import widen
from ringside.trace import Kind
from solutions.a04_data_parallel.given import digits, model

SOLUTION = Path(__file__).resolve().parents[2] / "solutions" / "a04_data_parallel"
WIDTHS = (64, 16, 10)
ON_PURPOSE = """
from mpi4py import MPI
import numpy as np
from ringside import compute

def collectives(comm, n):
    compute(num_flops=1e6, phase="work")
    x, y = np.arange(float(n)), np.empty(n)
    comm.Allreduce(x, y)
    comm.Bcast(x, root=comm.size - 1)
    comm.allgather(float(comm.rank))

def reductions(comm, n):
    comm.allreduce(np.zeros(n if comm.rank else 1))

def neighbours(comm, n):
    comm.Sendrecv(np.zeros(n), (comm.rank + 1) % comm.size, recvbuf=np.empty(n))
"""


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


@pytest.fixture(scope="module")
def cases():
    return {kind.__name__: kind for kind in case_files.classes(SOLUTION)}


@pytest.fixture(scope="module")
def odd_ones(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    (folder / "odd.py").write_text(ON_PURPOSE)
    with Session(folder) as session:
        yield session


def test_gradients_are_those_of_finite_differences():
    rng = np.random.default_rng(1)
    params = model.init_params((5, 7, 6, 4), 2)
    x, y = rng.standard_normal((9, 5)), rng.integers(4, size=9)
    _, gradients = model.loss_and_gradients(params, x, y)
    for p, g in zip(params, gradients, strict=True):
        for at in [tuple(rng.integers(size) for size in p.shape) for _ in range(5)]:
            kept, step = p[at], 1e-6
            p[at] = kept + step
            above = model.loss_and_gradients(params, x, y)[0]
            p[at] = kept - step
            below = model.loss_and_gradients(params, x, y)[0]
            p[at] = kept
            assert g[at] == pytest.approx((above - below) / (2 * step), rel=1e-5, abs=1e-8)


def test_the_model_declares_the_operations_that_it_counts(session):
    params = model.init_params(WIDTHS, 0)
    args = (params, params, np.zeros((6, 64)), np.zeros(6, int), 0.1, 0.9)
    result = session.call("step:train_step", 1, args).raise_for_error()
    work = [op.detail for op in result.trace.ops[0] if op.kind == Kind.COMPUTE]
    assert sum(flops for flops, *_ in work) == model.num_flops(params, 6)
    phases = [phase for *_, phase in work]
    assert phases == ["forward 1", "forward 2", "backward 2", "backward 2", "backward 1"]


@pytest.mark.parametrize("world_size", [2, 3, 5, 8])
def test_an_epoch_of_digits_is_the_serial_one(session, world_size):
    (x, y), _ = digits.load()
    x, y, local = x[:301], y[:301], 24 // world_size
    lrs = [0.1] * -(-301 // (local * world_size))
    runs = {}
    for p, b in ((1, local * world_size), (world_size, local)):
        args = [(model.init_params(WIDTHS, rank), x, y, b, lrs, 0.9) for rank in range(p)]
        runs[p] = session.call("given/train.py:train", p, args).raise_for_error().values
    losses, history = runs[1][0]
    np.testing.assert_allclose(runs[world_size][-1][0], losses, rtol=1e-12)
    for got, right in zip(runs[world_size][0][1][-1], history[-1], strict=True):
        np.testing.assert_allclose(got, right, rtol=0, atol=1e-12)


def test_step_takes_the_time_of_its_bound(session, cases):
    case = cases["Steps"](8, 128, widths=(64, 32, 10), machine="slow_cores")
    result = called(session, case)
    case.check(result)
    bound_s = case.time_s(result.machine)
    assert 0.98 * bound_s < result.makespan_s < 1.001 * bound_s


@pytest.mark.parametrize("world_size", [3, 8, 16])
def test_a_stretched_trace_takes_the_time_of_a_run(odd_ones, world_size):
    for collective in ("ring", "halving_doubling", "recursive_doubling"):
        machine = Machine.load("textbook").with_(collectives={"allreduce": collective})
        few = odd_ones.call("odd:collectives", 3, (1000,), machine=machine).raise_for_error()
        many = odd_ones.call("odd:collectives", world_size, (1000,), machine=machine)
        stretched = widen(few.trace, world_size)
        assert replay(stretched, machine).makespan_s == many.raise_for_error().makespan_s


def test_what_names_its_partners_is_not_stretched(odd_ones):
    trace = odd_ones.call("odd:neighbours", 3, (10,)).raise_for_error().trace
    with pytest.raises(TraceError, match=r"Sendrecv.*names a partner"):
        widen(trace, 8)
    with pytest.raises(TraceError, match=r"world_size \(2\) must be at least that of the trace"):
        widen(trace, 2)


def test_collectives_count_as_a_rings_messages(odd_ones):
    result = odd_ones.call("odd:collectives", 4, (1000,)).raise_for_error()
    # Allreduce 2 * 3/4 and Bcast 1 of 8000 bytes, and three quarters of four numbers.
    assert sent_as_ring(result) == received_as_ring(result) == [12_000 + 8000 + 24] * 4
    result = odd_ones.call("odd:neighbours", 4, (1000,)).raise_for_error()
    assert sent_as_ring(result) == [8000] * 4


def test_reduced_objects_count_as_handed_to_everybody(odd_ones):
    result = odd_ones.call("odd:reductions", 4, (1000,)).raise_for_error()
    (record,) = result.collectives
    assert record.by_members and record.nbytes == 8000  # the largest part, not rank 0's
    assert sent_as_ring(result) == [3 * 8000] * 4


def test_a_run_takes_the_options_of_its_case(capsys):
    words = [f"{SOLUTION}/step.py:train_step", "--ranks", "3", "--"]
    assert cli.main(["run", *words, "--sizes", "4,0,7", "--widths", "12,9,5"]) == 0
    said = capsys.readouterr().out
    assert "n = 11" in said and "values: right" in said
    assert cli.main(["run", *words, "--sises", "4,0,7"]) == 2
    assert "has no option 'sises'" in capsys.readouterr().err
    assert cli.main(["run", *words, "--sizes", "4,7"]) == 2
    assert "sizes names 2 ranks, and there are 3" in capsys.readouterr().err


def test_a_run_finds_a_wrong_step(tmp_path, capsys):
    shutil.copytree(SOLUTION, tmp_path, dirs_exist_ok=True)
    source = (tmp_path / "step.py").read_text()
    (tmp_path / "step.py").write_text(source.replace("flat *= len(x)", "flat *= 1"))
    words = [f"{tmp_path}/step.py:train_step", "--ranks", "2", "--", "--sizes", "1,5"]
    assert cli.main(["run", *words]) == 1
    assert "rank 0's parameter 0 is wrong" in capsys.readouterr().out
