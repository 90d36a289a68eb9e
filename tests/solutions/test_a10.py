"""The references of a10: the recursion by finite differences, drawings, closed forms, all plans."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from ringside import Session
from ringside.checking import case_files
from ringside.checking.suite import called
from solutions.a10_pipedream import partition as reference
from solutions.a10_pipedream.given.axonn_times import message_driven
from solutions.a10_pipedream.given.profiles import drawn, link
from solutions.a10_pipedream.hidden import plan_oracle

SOLUTION = Path(__file__).resolve().parents[2] / "solutions" / "a10_pipedream"


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


@pytest.fixture(scope="module")
def cases():
    return {kind.__name__: kind for kind in case_files.classes(SOLUTION)}


@pytest.fixture(scope="module")
def pipelines(cases):
    """What stands beside the classes of cases."""
    return cases["Train"].check.__globals__


# -- the recursion ---------------------------------------------------------------------------------


def output(params, x):
    """What a chain of stages makes of an input."""
    for own in params:
        for weight, bias in zip(own[::2], own[1::2], strict=True):
            x = np.tanh(x @ weight + bias)
    return x


@pytest.mark.parametrize(("vertical_sync", "delays"), [(False, [2, 1, 0]), (True, [2, 2, 2])])
def test_the_recursion_goes_along_the_gradient_where_the_versions_were(
    cases, pipelines, vertical_sync, delays
):
    descent, lags = pipelines["delayed_descent"], pipelines["lags"]
    assert lags(3, vertical_sync) == delays
    params, inputs, targets = cases["Train"](3, (2,) * 6, seed=2).drawn
    history = [descent(params, inputs[:t], targets[:t], 0.2, delays)[0] for t in range(7)]
    for t, stage in itertools.product(range(6), range(3)):
        used = [
            [np.array(param) for param in history[max(0, t - delay)][s]]
            for s, delay in enumerate(delays)
        ]

        def loss(used=used, t=t):
            return 0.5 * ((output(used, inputs[t]) - targets[t]) ** 2).sum() / len(inputs[t])

        weight, step = used[stage][0], 1e-6
        around = []
        for sign in (1, -1):
            weight[0, 1] += sign * step
            around.append(loss())
            weight[0, 1] -= sign * step
        moved = history[t + 1][stage][0][0, 1] - history[t][stage][0][0, 1]
        assert moved == pytest.approx(-0.2 * (around[0] - around[1]) / (2 * step), abs=1e-9)


@pytest.mark.parametrize("vertical_sync", [False, True])
def test_what_the_torch_module_must_give_is_what_autograd_gives(cases, pipelines, vertical_sync):
    torch = pytest.importorskip("torch")
    fields = {"vertical_sync": vertical_sync, "optimizer": "momentum"}
    case = cases["TrainTorch"](3, (2,) * 7, **fields)
    params, [(inputs, targets)] = case.drawn
    delays = pipelines["lags"](3, vertical_sync)
    history = [[[torch.tensor(param) for param in own]] for own in params]
    speed = [[torch.zeros_like(param) for param in own[0]] for own in history]
    for m, (x, target) in enumerate(zip(inputs, targets, strict=True)):
        met = [own[max(0, m - delay)] for own, delay in zip(history, delays, strict=True)]
        met = [[param.clone().requires_grad_() for param in own] for own in met]
        y = torch.tensor(x)
        for w1, b1, w2, b2 in met:
            y = torch.tanh(torch.tanh(y @ w1.T + b1) @ w2.T + b2)
        (0.5 * ((y - torch.tensor(target)) ** 2).sum() / len(y)).backward()
        for s, own in enumerate(met):
            speed[s] = [0.6 * v + param.grad for v, param in zip(speed[s], own, strict=True)]
            newest = zip(history[s][-1], speed[s], strict=True)
            history[s].append([w - 0.1 * v for w, v in newest])
    for own, right in zip(history, case.right(), strict=True):
        for a, b in zip(own[-1], right, strict=True):
            np.testing.assert_allclose(a.numpy(), b, atol=1e-13)


# -- order and time --------------------------------------------------------------------------------


def test_the_order_of_passes_is_the_docstrings_drawing(pipelines):
    def passes(*arguments):
        return " ".join(f"{kind}{m}" for kind, m in pipelines["one_f_one_b"](*arguments))

    rows = ["F0 F1 F2 B0 F3 B1 F4 B2", "F0 F1 B0 F2 B1 F3 B2 F4", "F0 B0 F1 B1 F2 B2 F3 B3"]
    for stage, row in enumerate(rows):
        assert passes(3, 9, stage).startswith(row)
    assert passes(4, 4, 2) == "F0 F1 B0 F2 B1 F3 B2 B3"
    assert passes(4, 2, 0) == "F0 F1 B0 B1"
    assert passes(2, 0, 0) == ""
    text = (SOLUTION / "stash_torch.py").read_text()
    for stage in range(2):
        row = next(line for line in text.splitlines() if line.startswith(f"    stage {stage} "))
        shown = row.partition("B: a backward")[0].replace(".", "").split()[2:]
        assert shown == passes(2, 4, stage).split()


@pytest.mark.parametrize("name", ["Train", "TrainTorch"])
def test_the_reference_takes_the_time_of_the_closed_form(session, cases, pipelines, name):
    if name == "TrainTorch":
        pytest.importorskip("torch")
    costs = (1e-3, 2e-3)
    for p, count, vertical_sync in ((1, 3, False), (2, 5, True), (4, 2, False), (5, 9, True)):
        case = cases[name](p, (2,) * count, costs=costs, vertical_sync=vertical_sync)
        case = case.with_(machine="free", announced=True)
        run = called(session, case)
        case.check(run)
        bound_s = (count + p - 1) * sum(costs)
        assert pipelines["pipeline_s"](case) == pytest.approx(bound_s)
        assert run.makespan_s == pytest.approx(bound_s, rel=1e-4)
        slow = case.with_(machine="slow wire", announced=False)
        slow_s = pipelines["pipeline_s"](slow)
        assert called(session, slow).makespan_s == pytest.approx(slow_s, rel=0.01)


def test_stages_of_axonn_take_the_time_of_the_rule(session, cases):
    case = cases["Step"](3, (1,) * 12, limit=1, machine="free")  # nothing to choose from
    run = called(session, case)
    case.check(run)
    assert run.makespan_s == pytest.approx(message_driven(*case.times_s, 1), rel=1e-3)


# -- plans -----------------------------------------------------------------------------------------


def test_the_planner_finds_the_best_of_all_plans():
    rng = np.random.default_rng(3)
    for n, workers in ((1, 3), (4, 4), (6, 3)):
        for weights, outputs, rate in ((1.0, 1.0, 1e9), (0.1, 3.0, 1e9), (3.0, 0.1, 4e9)):
            profile = drawn(rng, n, weights, outputs)
            best_s = plan_oracle.shortest_s(profile, workers, rate)
            plan = reference.partition(profile, workers, link(rate))
            assert reference.plan_s(profile, plan, link(rate)) == pytest.approx(best_s)
            assert plan_oracle.time_s(profile, plan, rate) == pytest.approx(best_s)
            assert plan_oracle.shortest_of_long_s(profile, workers, rate) == pytest.approx(best_s)
            needed = max(plan_oracle.bytes_of(profile, plan))
            assert max(reference.plan_bytes(profile, plan)) == needed
