"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and communicators. A ``Call`` is what a verdict names; ``ranks.call`` runs something on simulated
ranks, through ``callers.py`` where it must be made or looked at inside a rank.
"""

from cases_torch import (
    assert_stash_torch,
    assert_stash_torch_kept,
    assert_stash_torch_losses,
    assert_stash_torch_memory,
    assert_stash_torch_order,
    assert_stash_torch_sent,
    stash_torch_case,
    stash_torch_reference_s,
)

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    assert_makespan,
    assert_ran,
    assert_requests_complete,
    rendezvous,
)
from ringside.checking.points import points
from ringside.factors import Factors

# -- stash_torch -----------------------------------------------------------------------------------


def stash_torch(ranks, rng, case, **options):
    """Train on stages whose passes are announced; parameters must be those of the recursion."""
    options.setdefault("factors", Factors.drawn(rng))
    world_size = options.pop("world_size", case.world_size)
    given = case.arguments_of_ranks()
    result = ranks.call("callers_torch:stash_torch_trained", world_size, given, **options)
    assert_ran(result, case)
    assert_stash_torch(result, case)
    return result


@points(15, "values", "stash_torch")
def test_stash_torch_delayed_recursion(ranks, rng):
    for num_stages, count in ((2, 4), (3, 6)):
        stash_torch(ranks, rng, stash_torch_case(num_stages, (2,) * count, rng))


@points(10, "values", "stash_torch")
def test_stash_torch_few_minibatches_and_one_stage(ranks, rng):
    for num_stages, count in ((3, 2), (4, 1), (1, 3)):
        stash_torch(ranks, rng, stash_torch_case(num_stages, (2,) * count, rng))


@points(10, "values", "stash_torch")
def test_stash_torch_vertical_sync(ranks, rng):
    stash_torch(ranks, rng, stash_torch_case(3, (2,) * 6, rng, vertical_sync=True))


@points(10, "values", "stash_torch")
def test_stash_torch_momentum_and_minibatches_of_any_length(ranks, rng):
    stash_torch(ranks, rng, stash_torch_case(2, (2,) * 5, rng, optimizer="momentum"))
    stash_torch(ranks, rng, stash_torch_case(2, (1, 3, 2, 4), rng))


@points(10, "values", "stash_torch")
def test_stash_torch_losses_and_second_call(ranks, rng):
    case = stash_torch_case(2, (2,) * 3, rng, num_calls=2)
    result = stash_torch(ranks, rng, case)
    assert_stash_torch_losses(result, case)
    assert_stash_torch_kept(result, case)


@points(10, "communication", "stash_torch")
def test_stash_torch_messages_in_any_group(ranks, rng):
    case = stash_torch_case(3, (2,) * 5, rng)
    result = stash_torch(ranks, rng, case)
    ranks.record(case, result, {"messages": [case.sent(stage)[0] for stage in range(3)]})
    assert_stash_torch_sent(result, case)
    stash_torch(ranks, rng, case, world_size=5, members=[3, 1, 4])


@points(10, "schedule", "stash_torch")
def test_stash_torch_order_of_1f1b(ranks, rng):
    case = stash_torch_case(3, (2,) * 5, rng)
    assert_stash_torch_order(stash_torch(ranks, rng, case), case)


@points(10, "safety", "stash_torch")
def test_stash_torch_sends_may_wait(ranks, rng):
    for seed in LATENCY_SEEDS[:2]:
        case = stash_torch_case(3, (2,) * 4, rng)
        result = stash_torch(ranks, rng, case, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, case)


@points(5, "memory", "stash_torch")
def test_stash_torch_keeps_few_versions(ranks, rng):
    case = stash_torch_case(2, (1,) * 10, rng, ends=(60, 60), hidden=60, memory=True)
    result = ranks.call("callers_torch:stash_torch_memory", 2, case.arguments_of_ranks())
    assert_ran(result, case)
    assert_stash_torch(result, case)
    assert_stash_torch_memory(result, case)


@points(10, "speed", "stash_torch")
def test_stash_torch_time(ranks, rng):
    free = Machine("free", alpha_s=0.0, beta_s_per_byte=0.0)
    case = stash_torch_case(3, (1,) * 5, rng, costs=(1e-2, 2e-2))
    assert_makespan(stash_torch(ranks, rng, case, machine=free), 7 * 3e-2, case)
    slow = Machine("slow wire", alpha_s=1e-3, beta_s_per_byte=3e-5)
    case = stash_torch_case(3, (1,) * 5, rng, costs=(1e-2, 2e-2), ends=(30, 30), hidden=2)
    result = stash_torch(ranks, rng, case, machine=slow)
    assert_makespan(result, stash_torch_reference_s(case, slow), case)
