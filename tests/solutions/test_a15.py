"""The reference of a15: the numbers of its docstring."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ringside import Failures, Kill, Session

SOLUTION = Path(__file__).resolve().parents[2] / "solutions" / "a15_failures"
OURS = (
    *("checks", "checks.cases", "checks.cases_checkpoint", "checks.cases_neighbour"),
    *("checks.cases_checked", "checks.cases_heal_torch", "checked", "interval"),
    *("given", "given.model", "given.training"),
)


def test_bytes_of_the_docstring(module):
    case = module("checks.cases").Elastic(4, n=11, num_steps=1)
    assert case.nbytes(0) == 144 + 16


def test_the_gradient_is_that_of_the_loss(module):
    rng = np.random.default_rng(0)
    params, samples = rng.standard_normal(3), rng.standard_normal((5, 4))

    def loss(at):
        return ((samples[:, :-1] @ at - samples[:, -1]) ** 2).sum() / 2

    slopes = [(loss(params + d) - loss(params - d)) / 2e-6 for d in 1e-6 * np.eye(3)]
    found = module("given.model").gradient(params, samples, 0, 0)
    np.testing.assert_allclose(found, slopes, rtol=1e-6)


def test_bytes_of_a_checkpoint(module):
    cases = module("checks.cases_checkpoint")
    save = cases.Save(4, length=11)
    assert [save.shard_nbytes(rank) for rank in range(4)] == [24, 24, 24, 16]
    assert cases.Load(3, length=11).shard_nbytes(1) == 32
    assert save.room == 2 * (88 + 1024)


def test_a_checkpoint_of_two_steps_is_told(module):
    from ringside.checking import Verdict

    case = module("checks.cases_checkpoint").Load(2, dies="1@op2")
    new, old = ([case.shard(step, rank, 2) for rank in range(2)] for step in (8, 4))
    run = SimpleNamespace(error=None, values=[(8, new[0]), (8, old[1])])
    with pytest.raises(Verdict, match="6 elements are those of step 8, and 5 those of step 4"):
        case.check(run)
    run.values = [(8, new[0]), (4, old[1])]
    with pytest.raises(Verdict, match="rank 0 returned step 8, and rank 1 step 4"):
        case.check(run)
    run.values = [None, None]
    with pytest.raises(Verdict, match="Step 4 must stay until step 8 is whole"):
        case.check(run)
    run.values = [(4, old[0]), (4, old[1])]
    case.check(run)


def test_keepers_are_those_that_the_docstring_draws(module):
    case = module("checks.cases_neighbour").Copies(10, 2)
    assert [case.keeper(rank) for rank in range(10)] == [2, 3, 0, 1, 6, 7, 8, 9, 4, 5]
    assert [case.ward(case.keeper(rank)) for rank in range(10)] == list(range(10))


def test_the_examples_of_interval(module):
    interval = module("interval")
    assert interval.lost_share(1000, 30, 300, 10_000) == pytest.approx(0.1055, abs=5e-5)
    assert interval.best_interval(5, 15) == pytest.approx(9.167, abs=5e-4)
    assert interval.walk(100, 10, 30, [250], 400) == 310


def test_bytes_of_checked(module):
    sum_of = module("checks.cases_checked").Sum(4, n=11)
    assert sum_of.most == 240
    assert sum_of.with_(flip="1#2:bit3").most == 480


def test_an_element_that_was_not_mended_is_told(module):
    from ringside.checking import Verdict

    case = module("checks.cases_checked").Products(1, count=1)
    ((a, b),) = case.factors_of(0)
    c, calls = a @ b, [(*a.shape, b.shape[1])]
    wrong = c.copy()
    wrong[0, 1] += 1
    for answer, says in (
        ((c, c, None, calls, (0, 1)), "place is \\(0, 1\\); no element was wrong"),
        ((wrong, c, (0, 1), calls, (0, 1)), "element \\(0, 1\\) was wrong, and is"),
        ((wrong, c, None, calls, None), "isn't the one that mul gave"),
        ((c, c, None, calls * 2, None), "called mul 2 times"),
    ):
        run = SimpleNamespace(error=None, values=[[answer]])
        with pytest.raises(Verdict, match=says):
            case.check(run)
            case.check_places(run)


def test_states_that_heal(module):
    cases = module("checks.cases_heal_torch")
    assert cases.Healing(6, n=1000).copy_nbytes == 24_008
    case = cases.Healing(6, new=(1,), behind=(0,))
    assert (case.healthy, case.joining) == ([2], [0, 1])
    assert [case.state(rank)["step"] for rank in range(6)] == [4, 4, -1, -1, 6, 6]
    assert np.isnan(case.state(2)["w"][0])


def test_a_replica_that_died_may_be_in_its_last_step(module):
    from ringside.trace import Kind, Op, Trace

    case = module("checks.cases_heal_torch").Healing(3, 1, new=(1,), dying=(0,))
    passes = {0: [6], 1: [7], 2: [6, 7]}
    ops = [[Op(Kind.PASS, detail=("gradient", step, 0)) for step in passes[r]] for r in range(3)]
    state = {"w": 0, "m": 0, "v": 0, "step": 8}
    run = SimpleNamespace(
        trace=Trace(3, ops, [[]] * 3, ""), values=[None, state, state],
        deaths=[SimpleNamespace(rank=0)],
    )  # fmt: skip
    assert case.who_computed(run) == [[[0, 2], [1, 2]], [[2], [1, 2]]]


def test_a_replica_that_died_comes_back_in_the_next_run(module):
    pytest.importorskip("torch")
    case = module("checks.cases_heal_torch").Healing(3, 1, new=())
    with Session(SOLUTION) as session:
        call = partial(session.call, case.through, machine="textbook")
        arguments = [case.inputs(rank) for rank in range(3)]
        first = call(3, arguments, failures=Failures(Kill(1, op=3))).raise_for_error()
        states = [first.values[rank] or case.state(rank) | {"step": -1} for rank in range(3)]
        assert [state["step"] for state in states] == [8, -1, 8]
        then = [
            (state | {"newest": 8}, *given[1:])
            for state, given in zip(states, arguments, strict=True)
        ]
        last = call(3, then).raise_for_error().values
    for state in last:
        assert state["step"] == 10
        assert all(np.array_equal(state[part], last[0][part]) for part in "wmv")
