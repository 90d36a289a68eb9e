"""The reference solution of a10 in torch: against drawings and closed forms, and typed lines."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ringside import Machine, Session
from ringside.factors import Factors
from solutions.a10_pipedream import cases_torch as cases
from tests.solutions import typed_line

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = ROOT / "solutions" / "a10_pipedream"
FREE = Machine("free", alpha_s=0.0, beta_s_per_byte=0.0)
SLOW = Machine("slow wire", alpha_s=1e-3, beta_s_per_byte=3e-5)


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


def case_of(num_stages, count, **options):
    return cases.stash_torch_case(num_stages, (2,) * count, np.random.default_rng(1), **options)


def ran(session, case, **options):
    result = session.call(
        "callers_torch:stash_torch_trained", case.world_size, case.arguments_of_ranks(), **options
    ).raise_for_error()
    cases.assert_stash_torch(result, case)
    return result


def test_passes_and_versions_are_those_of_the_docstrings_drawing():
    case = case_of(2, 4)
    drawn = ("F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3")
    versions = ("v0 v0 v0 v1 v0 v2 v1 v2", "v0 v0 v1 v1 v2 v2 v3 v3")
    for stage in range(2):
        passes = case.passes(stage)
        assert " ".join(f"{letter}{m}" for letter, m in passes) == drawn[stage]
        assert " ".join(f"v{case.version(stage, m)}" for _, m in passes) == versions[stage]
        text = (SOLUTION / "stash_torch.py").read_text()
        row = next(line for line in text.splitlines() if line.startswith(f"    stage {stage} "))
        shown = row.partition("B: a backward")[0].replace(".", "").split()[2:]
        assert shown == drawn[stage].split()


@pytest.mark.parametrize("vertical_sync", [False, True])
def test_recursion_is_that_of_autograd(vertical_sync):
    case = case_of(3, 7, vertical_sync=vertical_sync, optimizer="momentum")
    params, [(inputs, targets)] = case.inputs()
    history = [[[torch.tensor(each) for each in own]] for own in params]
    speed = [[torch.zeros_like(each) for each in own[0]] for own in history]
    for m, (x, target) in enumerate(zip(inputs, targets, strict=True)):
        met = [own[case.version(s, m)] for s, own in enumerate(history)]
        met = [[each.clone().requires_grad_() for each in own] for own in met]
        y = torch.tensor(x)
        for w1, b1, w2, b2 in met:
            y = torch.tanh(torch.tanh(y @ w1.T + b1) @ w2.T + b2)
        (0.5 * ((y - torch.tensor(target)) ** 2).sum() / len(y)).backward()
        for s, own in enumerate(met):
            speed[s] = [0.6 * v + each.grad for v, each in zip(speed[s], own, strict=True)]
            newest = zip(history[s][-1], speed[s], strict=True)
            history[s].append([w - 0.1 * v for w, v in newest])
    newest, _ = cases.stash_torch_serial(case)
    for own, right in zip(history, newest, strict=True):
        for a, b in zip(own[-1], right, strict=True):
            np.testing.assert_allclose(a.numpy(), b, atol=1e-13)


def test_time_is_that_of_the_closed_form(session):
    costs = (1e-2, 2e-2)
    for num_stages, count in ((1, 3), (3, 5), (4, 2)):
        case = case_of(num_stages, count, costs=costs)
        bound_s = (count + num_stages - 1) * sum(costs)
        assert cases.stash_torch_reference_s(case, FREE) == pytest.approx(bound_s)
        assert ran(session, case, machine=FREE).makespan_s == pytest.approx(bound_s, rel=1e-4)
        slow_s = cases.stash_torch_reference_s(case, SLOW)
        assert ran(session, case, machine=SLOW).makespan_s == pytest.approx(slow_s, rel=1e-3)


def test_eight_stages_announce_their_passes_in_order(session):
    for vertical_sync in (False, True):
        case = case_of(8, 11, vertical_sync=vertical_sync)
        result = ran(session, case, factors=Factors.drawn(np.random.default_rng(2)))
        cases.assert_stash_torch_order(result, case)
        cases.assert_stash_torch_sent(result, case)


@pytest.mark.parametrize(
    "call",
    [
        case_of(2, 3),
        case_of(3, 4, vertical_sync=True, optimizer="momentum", num_calls=2),
        case_of(2, 3, ends=(4, 3), hidden=2, costs=(1e-3, 2e-3)),
        case_of(2, 3, memory=True).asking("torch_memory"),
        case_of(2, 3).asking("torch_losses", "torch_kept", "torch_sent", "factors", "torch_order"),
    ],
    ids=str,
)
def test_a_line_runs_what_the_suite_ran(call, capsys):
    typed_line.assert_runs(call, SOLUTION, capsys)
