"""Announced passes: where the network puts them, what their factors are, what a cheat gets."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import ringside
from ringside import RankError, Session, Trace, replay
from ringside.checking import Verdict, announced, assert_declared_at_once
from ringside.checking.cases import Case
from ringside.errors import LimitError
from ringside.factors import Factors, Order, scaled
from ringside.network.peers import Limits
from ringside.timing import simgrid
from ringside.timing.extrapolation import widen
from ringside.trace import Kind

PROGRAMS = """
import numpy as np
import ringside
from mpi4py import MPI
from ringside.network import link

class Layer:
    def __init__(self, weight, number):
        self.weight, self.number = weight, number

    def backward(self, grad):
        phase = f"backward {self.number}"
        grad = ringside.announce(phase, grad, 1)
        ringside.compute(num_flops=2.0 * grad.size * self.weight.size, phase=phase)
        return grad @ self.weight.T

def overlapped(comm, weights, grad):
    sums, requests = [], []
    for number in reversed(range(len(weights))):
        grad = Layer(weights[number], number).backward(grad)
        sums.append(np.empty_like(grad))
        requests.append(comm.Iallreduce(grad, sums[-1]))
    MPI.Request.Waitall(requests)
    return sums

def computed_first(comm, weights, grad):
    # All products before anything is announced; then it is said where it should be.
    grads = []
    for number in reversed(range(len(weights))):
        grads.append(grad)
        grad = grad @ weights[number].T
    sums, requests = [], []
    for number, given in zip(reversed(range(len(weights))), grads):
        told = ringside.announce(f"backward {number}", given, 1) / given
        ringside.compute(num_flops=1.0, phase=f"backward {number}")
        whole = (given @ weights[number].T) * told.mean()  # one number may be applied later
        sums.append(np.empty_like(whole))
        requests.append(comm.Iallreduce(whole, sums[-1]))
    MPI.Request.Waitall(requests)
    return sums

def announced_first(comm, weights, grad):
    # All passes first, as they should be; then they are announced again between launches.
    grads = []
    for number in reversed(range(len(weights))):
        grads.append((grad, Layer(weights[number], number).backward(grad)))
        grad = grads[-1][1]
    sums, requests = [], []
    for number, (given, whole) in zip(reversed(range(len(weights))), grads):
        ringside.announce(f"backward {number}", given, 1)
        sums.append(np.empty_like(whole))
        requests.append(comm.Iallreduce(whole, sums[-1]))
    MPI.Request.Waitall(requests)
    return sums

def once_and_again(comm, x):
    first = ringside.announce("forward", x, 3)
    return first, ringside.announce("forward", x, 3), ringside.announce("forward", x, 4)

def numbered(comm, xs):
    return [ringside.announce("forward", x) for x in xs]

def waits_between(comm):
    comm.Barrier()
    ringside.announce("a", np.ones(2))
    request = comm.Isend(np.ones(3), dest=comm.rank)
    ringside.announce("b", np.ones(2))
    comm.Recv(np.empty(3), source=comm.rank)
    request.Wait()

def sends_what_it_learns_later(comm):
    data = np.ones(2)
    request = comm.Isend(data, dest=comm.rank)
    data[:] = ringside.announce("a", np.ones(2))
    got = np.empty(2)
    comm.Recv(got, source=comm.rank)
    return got

def polls(comm):
    request = comm.Irecv(np.empty(1), source=comm.rank)
    while not request.Test():
        ringside.announce("never", np.ones(1))

def asks_for(comm, count):
    link.current().announce("a", 0, count)

def nameless(comm):
    link.current().announce("", 0, 1)

def unasked(comm):
    link.current().observed = True
    ringside.announce("a", np.ones(2))

def declares_later(comm):
    ringside.announce("a", np.ones(2))
    comm.Barrier()
    ringside.compute(num_flops=1.0, phase="a")

def declares_twice(comm):
    ringside.announce("a", np.ones(2))
    ringside.compute(num_flops=1.0, phase="a")
    comm.Barrier()
    ringside.compute(num_flops=1.0, phase="a")

def recomputes(comm):
    for _ in range(2):
        ringside.announce("a", np.ones(2))
        ringside.compute(num_flops=1.0, phase="a")
"""
TORCH = """
import torch
import ringside

class Pass(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return ringside.announce("forward", x).view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return ringside.announce("backward", grad)

def step(group, x, weight):
    x.requires_grad_()
    y = Pass.apply(x) @ weight
    again = Pass.apply(x) @ weight
    (y + again).sum().backward()
    return y.detach(), x.grad

def in_half(group, x):
    return Pass.apply(x.to(torch.bfloat16)).to(torch.float64)
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "programs.py").write_text(textwrap.dedent(PROGRAMS))
    (folder / "steps.py").write_text(textwrap.dedent(TORCH))
    with Session(folder, strict=True) as made:
        yield made


FACTORS = Factors(b"a test")
CASE = Case(2)


def test_passes_stand_among_the_messages_where_they_were_announced(session: Session) -> None:
    result = session.call("programs:waits_between", 2, factors=FACTORS).raise_for_error()
    for ops in result.trace.ops:
        kinds = [op.kind for op in ops if op.kind != Kind.WAIT]
        assert kinds == [Kind.COLLECTIVE, Kind.PASS, Kind.ISEND, Kind.PASS, Kind.IRECV]
        assert [(phase, number) for _, phase, number in announced(ops)] == [("a", 0), ("b", 0)]


def test_a_sent_payload_is_what_it_was_when_it_was_posted(session: Session) -> None:
    result = session.call("programs:sends_what_it_learns_later", 1, factors=FACTORS)
    if result.error is None:  # a buffer that is written too early may also be an error of its own
        assert result.values[0].tolist() == [1.0, 1.0]


def test_an_oracle_of_the_same_layers_gets_the_same_values(session: Session) -> None:
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((4, 4)) for _ in range(3)]
    grads = [rng.standard_normal((2, 4)) for _ in range(3)]
    result = session.call(
        "programs:overlapped", 4, [(weights, grad) for grad in grads], members=[3, 0, 2],
        factors=FACTORS,
    )  # fmt: skip
    assert result.raise_for_error().factors is not None
    wanted = [np.zeros((2, 4)) for _ in weights]
    for place, grad in enumerate(grads):
        for turn, number in enumerate(reversed(range(3))):
            grad = result.factors.scaled(place, f"backward {number}", 1, grad) @ weights[number].T
            wanted[turn] += grad
    for sums in result.values:
        for found, right in zip(sums, wanted, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-12)
    places = {phase: place for place, phase, _ in announced(result.trace.ops[3])}
    launches = [k for k, op in enumerate(result.trace.ops[3]) if op.kind == Kind.COLLECTIVE]
    assert places["backward 2"] < launches[0] < places["backward 1"] < launches[1]
    assert_declared_at_once(result, CASE)


def test_who_computes_before_announcing_has_wrong_values_or_a_wrong_order(session: Session) -> None:
    rng = np.random.default_rng(4)
    args = ([rng.standard_normal((4, 4)) for _ in range(3)], rng.standard_normal((2, 4)))
    right, early, again = (
        session.call(f"programs:{name}", 2, args, factors=FACTORS).raise_for_error()
        for name in ("overlapped", "computed_first", "announced_first")
    )
    assert all(map(np.array_equal, right.values[0], again.values[0]))
    assert not any(map(np.allclose, right.values[0], early.values[0]))

    def order(run: ringside.Result) -> list[str]:
        ops = run.trace.ops[0]
        found = [(place, phase) for place, phase, _ in announced(ops)]
        found += [(k, "launch") for k, op in enumerate(ops) if op.kind == Kind.COLLECTIVE]
        return [what for _, what in sorted(found)]

    in_turn = ["backward 2", "launch", "backward 1", "launch", "backward 0", "launch"]
    assert order(right) == order(early) == in_turn
    assert order(again) == ["backward 2", "backward 1", "backward 0", *["launch"] * 3]


def test_in_no_other_run_anything_is_announced_or_scaled(session: Session) -> None:
    x = np.arange(6.0).reshape(2, 3)
    result = session.call("programs:once_and_again", 1, (x,)).raise_for_error()
    assert all(np.array_equal(each, x) for each in result.values[0])
    assert result.factors is None and not result.trace.ops[0]
    assert ringside.announce("forward", x) is x


def test_a_pass_that_comes_again_gets_its_factors_again(session: Session) -> None:
    x = np.ones((2, 3))
    result = session.call("programs:once_and_again", 2, (x,), factors=FACTORS).raise_for_error()
    first, again, another = result.values[0]
    assert np.array_equal(first, again) and not np.array_equal(first, another)
    assert not np.array_equal(first, result.values[1][0]), "each rank has its own factors"
    assert [number for _, _, number in announced(result.trace.ops[0])] == [3, 4]
    assert sum(op.kind == Kind.PASS for op in result.trace.ops[0]) == 3


def test_inputs_are_numbered_in_the_order_in_which_they_appear(session: Session) -> None:
    a, b = np.ones(3), np.full(3, 2.0)
    result = session.call("programs:numbered", 1, ([a, b, a],), factors=FACTORS).raise_for_error()
    assert [number for _, _, number in announced(result.trace.ops[0])] == [0, 1]
    with FACTORS.of_rank(0):
        wanted = [ringside.announce("forward", each) for each in (a, b, a)]
    assert all(map(np.array_equal, result.values[0], wanted))
    order = Order()
    assert [order.number("f", b"x"), order.number("f", b"y"), order.number("b", b"y")] == [0, 1, 0]
    assert order.number("f", b"x") == 0


def test_announcing_takes_no_virtual_time(session: Session) -> None:
    rng = np.random.default_rng(1)
    args = ([rng.standard_normal((4, 4)) for _ in range(3)], rng.standard_normal((2, 4)))
    plain, observed = (
        session.call("programs:overlapped", 2, args, factors=each) for each in (None, FACTORS)
    )
    assert observed.makespan_s == plain.makespan_s > 0
    assert observed.timeline.spans == plain.timeline.spans
    assert sum(observed.sent_bytes()) == sum(plain.sent_bytes())


def test_announcing_between_polls_lets_them_fail_as_before(session: Session) -> None:
    result = session.call("programs:polls", 1, factors=FACTORS)
    assert type(result.error).__name__ == "DeadlockError"


def test_a_trace_with_passes_is_saved_replayed_stretched_and_exported(
    session: Session, tmp_path: Path
) -> None:
    args = ([np.eye(4)] * 2, np.ones((2, 4)))
    result = session.call("programs:overlapped", 2, args, factors=FACTORS).raise_for_error()
    loaded = Trace.load(result.trace.save(tmp_path / "trace.gz"))
    assert loaded == result.trace
    assert replay(loaded, "textbook").makespan_s == result.makespan_s
    assert widen(loaded, 4).num_ops == 2 * loaded.num_ops
    simgrid.export(loaded, result.machine, tmp_path / "simgrid")


def test_factors_are_sixty_fourths_from_a_half_to_below_two() -> None:
    told = FACTORS.sixty_fourths(0, "forward", 0, 10_000)
    assert set(told) == set(range(32, 128))
    assert told[:7] == FACTORS.sixty_fourths(0, "forward", 0, 7)
    others = [
        Factors(b"another").sixty_fourths(0, "forward", 0, 99),
        FACTORS.sixty_fourths(1, "forward", 0, 99),
        FACTORS.sixty_fourths(0, "backward", 0, 99),
        FACTORS.sixty_fourths(0, "forward", 1, 99),
        told[:99],
    ]
    assert len(set(others)) == len(others)


def test_scaling_rounds_once_in_each_dtype() -> None:
    rng = np.random.default_rng(2)
    for dtype in (np.float64, np.float32):
        x = rng.standard_normal((5, 7)).astype(dtype)
        found = scaled(x, FACTORS.sixty_fourths(0, "f", 0, 12))
        told = [Fraction(n, 64) for n in FACTORS.sixty_fourths(0, "f", 0, 12)]
        assert found.dtype == dtype
        exact = [[Fraction(float(x[i, j])) * told[i] * told[5 + j] for j in range(7)]
                 for i in range(5)]  # fmt: skip
        assert np.array_equal(found, np.array(exact, float).astype(dtype))


@pytest.mark.parametrize(
    ("target", "args", "said"),
    [
        ("asks_for", (-1,), "announced a pass of -1 factors"),
        ("asks_for", (Limits.factors + 1,), f"{Limits.factors} are given in all"),
        ("nameless", (), "without a readable name"),
    ],
)
def test_impossible_announcements_end_the_run(
    session: Session, target: str, args: tuple[int, ...], said: str
) -> None:
    result = session.call(f"programs:{target}", 1, args, factors=FACTORS)
    assert isinstance(result.error, LimitError)
    assert said in str(result.error)


def test_nobody_announces_where_nothing_is_observed(session: Session) -> None:
    result = session.call("programs:unasked", 1)
    assert isinstance(result.error, LimitError | RankError)
    assert "in a run that observes none" in str(result.error)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("declares_later", "did not declare its work there"),
        ("declares_twice", "elsewhere than where it announced the pass"),
    ],
)
def test_work_is_declared_where_its_pass_is_announced(
    session: Session, target: str, said: str
) -> None:
    result = session.call(f"programs:{target}", 2, factors=FACTORS).raise_for_error()
    with pytest.raises(Verdict, match=said):
        assert_declared_at_once(result, CASE)


def test_recomputation_announces_and_declares_again(session: Session) -> None:
    result = session.call("programs:recomputes", 2, factors=FACTORS).raise_for_error()
    assert_declared_at_once(result, CASE)


def test_tensors_are_scaled_past_autograd(session: Session) -> None:
    rng = np.random.default_rng(3)
    x, weight = rng.standard_normal((2, 3)), rng.standard_normal((3, 4))
    result = session.call("steps:step", 2, (x, weight), factors=FACTORS).raise_for_error()
    for rank, (y, grad) in enumerate(result.values):
        right = FACTORS.scaled(rank, "forward", 0, x) @ weight
        np.testing.assert_allclose(y, right, rtol=1e-12)
        passed = np.ones((2, 4)) @ weight.T
        right = 2 * FACTORS.scaled(rank, "backward", 0, passed)  # of both, the same pass
        np.testing.assert_allclose(grad, right, rtol=1e-12)
    plain = session.call("steps:step", 2, (x, weight)).raise_for_error()
    np.testing.assert_allclose(plain.values[0][0], x @ weight, rtol=1e-12)
    # Scaling is no work of the rank's.
    assert result.num_flops() == plain.num_flops()
    assert result.makespan_s == plain.makespan_s


def test_bfloat16_is_scaled_and_rounded_once(session: Session) -> None:
    x = np.array([[1.0, 1.0078125], [-3.0, 0.0]])
    result = session.call("steps:in_half", 1, (x,), factors=FACTORS).raise_for_error()
    right = FACTORS.scaled(0, "forward", 0, x.astype(np.float32))
    np.testing.assert_allclose(result.values[0], right, rtol=2**-8)
    assert not (result.values[0] == x).all()
