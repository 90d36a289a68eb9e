"""stash_torch.py: a pipeline that never drains, and versions of parameters that are kept."""

from itertools import combinations

import numpy as np

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_makespan,
    assert_own_messages,
    assert_ran,
    assert_requests_complete,
    buffered,
    on_three_members,
    rendezvous,
)
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from ringside.factors import Factors
from solutions.a10_pipedream.cases_torch import (
    assert_stash_torch,
    assert_stash_torch_kept,
    assert_stash_torch_losses,
    assert_stash_torch_memory,
    assert_stash_torch_order,
    assert_stash_torch_passed_on,
    assert_stash_torch_sent,
    stash_torch_case,
    stash_torch_reference_s,
    stash_torch_serial,
)

FREE = Machine("free", alpha_s=0.0, beta_s_per_byte=0.0)
SLOW = Machine("slow wire", alpha_s=1e-3, beta_s_per_byte=3e-5)

points = points_of("stash_torch")


class Inputs:
    """Factors that keep the input of each pass, by stage and phase."""

    def __init__(self, factors):
        self.factors, self.of = factors, {}

    def scaled(self, stage, phase, number, array):
        self.of.setdefault((stage, phase), []).append(array)
        return self.factors.scaled(stage, phase, number, array)


def passes_differ(case, factors):
    """Whether no two passes of a stage have the same input, by which the network numbers them.

    Where a tanh is saturated in two minibatches, both send back zeros: a right program would be
    given the factors of another pass than the oracle.
    """
    inputs = Inputs(factors)
    stash_torch_serial(case, inputs)
    return not any(
        one.shape == other.shape and np.abs(one - other).max() < 1e-12
        for arrays in inputs.of.values()
        for one, other in combinations(arrays, 2)
    )


def trained(ranks, rng, num_stages, batch_sizes, real=False, **options):
    """Train, and compare parameters with the recursion; returns case and result.

    On simulated ranks passes are announced. So each stage computed its own ones: who computes the
    whole model on every rank has other numbers.
    """
    known = ("vertical_sync", "optimizer", "num_calls", "ends", "hidden", "costs")
    told = {name: options.pop(name) for name in known if name in options}
    case = stash_torch_case(num_stages, batch_sizes, rng, **told)
    world_size = options.pop("world_size", num_stages)
    if not real:
        factors = Factors.drawn(rng)
        while not passes_differ(case, factors):
            case = stash_torch_case(num_stages, batch_sizes, rng, **told)
            factors = Factors.drawn(rng)
        options["factors"] = factors
        options.setdefault("machine", buffered())
    target, arguments = "callers_torch:stash_torch_trained", case.arguments_of_ranks()
    result = ranks.call(target, world_size, arguments, **options)
    assert_ran(result, case)
    assert_stash_torch(result, case)
    return case, result


# -- values ----------------------------------------------------------------------------------------


@points(14, "values")
def test_delayed_recursion_on_2_to_5_stages(ranks, rng):
    for num_stages, count in ((2, 5), (3, 7), (4, 8), (5, 7)):
        trained(ranks, rng, num_stages, (2,) * count)


@points(7, "values")
def test_fewer_minibatches_than_stages_and_one_stage(ranks, rng):
    def kind(asked):
        return "one stage" if asked[0] == 1 else "fewer minibatches than stages"

    # On several stages first: what has no messages shows little.
    trained(ranks, rng, 2, (2,) * 4)
    cases = ((3, 2), (4, 3), (5, 1), (1, 4))
    check_kinds(cases, kind, lambda asked: trained(ranks, rng, asked[0], (2,) * asked[1]))


@points(10, "values")
def test_vertical_sync(ranks, rng):
    for num_stages, count in ((2, 5), (3, 7), (4, 6)):
        trained(ranks, rng, num_stages, (2,) * count, vertical_sync=True)


@points(6, "values")
def test_minibatches_of_any_length_and_momentum(ranks, rng):
    def check(asked):
        num_stages, batch_sizes, options = asked
        trained(ranks, rng, num_stages, batch_sizes, **options)

    cases = [(2, (3, 1, 2, 4), {}), (3, (1, 2, 5, 1, 3, 2), {})]
    cases += [(num_stages, (2,) * 6, {"optimizer": "momentum"}) for num_stages in (2, 3)]
    check_kinds(cases, lambda asked: "momentum" if asked[2] else "minibatches of any length", check)


@points(4, "values")
def test_losses_of_the_last_stage(ranks, rng):
    for num_stages in (2, 3):
        case, result = trained(ranks, rng, num_stages, (2,) * 5)
        assert_stash_torch_losses(result, case)


@points(5, "values")
def test_second_call_goes_on(ranks, rng):
    for num_stages in (2, 3):
        case, result = trained(ranks, rng, num_stages, (2,) * 4, num_calls=2)
        assert_stash_torch_kept(result, case)


@points(4, "reality")
def test_real_gloo(gloo, rng):
    try:
        trained(gloo, rng, 3, (2,) * 6, real=True)
    except Verdict as verdict:
        raise Verdict(f"on gloo: {verdict.sentence}", detail=verdict.detail) from None


# -- communication and schedule --------------------------------------------------------------------


@points(5, "communication", essential=True)
def test_stages_compute_their_pieces_and_pass_tensors_on(ranks, rng):
    case = stash_torch_case(4, (2,) * 8, rng)
    given = case.arguments_of_ranks()
    result = ranks.call("callers_torch:stash_torch_trained", 4, given, machine=buffered())
    assert_ran(result, case)
    assert_stash_torch_passed_on(result, case)


@points(10, "communication")
def test_two_messages_for_each_minibatch_and_boundary(ranks, rng):
    for num_stages, count in ((2, 4), (3, 6), (4, 5), (5, 6), (12, 13), (18, 18)):
        case, result = trained(ranks, rng, num_stages, (30,) * count, ends=(4, 3), hidden=2)
        messages, nbytes = zip(*map(case.sent, range(num_stages)), strict=True)
        ranks.record(case, result, {"messages": list(messages), "bytes": list(nbytes)})
        assert_stash_torch_sent(result, case)


@points(6, "communication")
def test_no_collective_in_the_given_group(ranks, rng):
    def call(**there):
        return trained(ranks, rng, 3, (2,) * 5, **there)

    def check(part):
        if part:
            on_three_members(rng, call, comm="the group")
        else:
            for num_stages in (2, 4):
                case, result = trained(ranks, rng, num_stages, (2,) * 5)
                assert_own_messages(result, case.seen_in(result))

    check_kinds((False, True), lambda part: "a part of the world" if part else "the world", check)


@points(8, "schedule")
def test_passes_are_in_the_order_of_1f1b(ranks, rng):
    for num_stages, count in ((2, 5), (3, 6), (4, 7)):
        case, result = trained(ranks, rng, num_stages, (2,) * count)
        assert_stash_torch_order(result, case)


# -- safety, memory, speed -------------------------------------------------------------------------


@points(7, "safety")
def test_every_send_may_wait_for_its_receive(ranks, rng):
    for seed in LATENCY_SEEDS:
        case, result = trained(ranks, rng, 4, (2,) * 6, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, case)


@points(5, "memory")
def test_few_versions_are_kept(ranks, rng):
    for num_stages, count in ((3, 12), (2, 10)):
        widths = {"ends": (60, 60), "hidden": 60}
        case = stash_torch_case(num_stages, (1,) * count, rng, **widths, memory=True)
        arguments = case.arguments_of_ranks()
        result = ranks.call("callers_torch:stash_torch_memory", num_stages, arguments)
        assert_ran(result, case)
        assert_stash_torch(result, case)
        assert_stash_torch_memory(result, case)


@points(9, "speed")
def test_time_with_free_messages_and_on_a_slow_wire(ranks, rng):
    costs = (1e-2, 2e-2)

    def check(asked):
        num_stages, count, free = asked
        sizes = (1,) * count
        if free:
            case, result = trained(ranks, rng, num_stages, sizes, costs=costs, machine=FREE)
            assert_makespan(result, (count + num_stages - 1) * sum(costs), case)
            return
        options = {"costs": costs, "ends": (30, 30), "hidden": 2, "machine": SLOW}
        case, result = trained(ranks, rng, num_stages, sizes, **options)
        assert_makespan(result, stash_torch_reference_s(case, SLOW), case)

    cases = [(4, 7, True), (3, 9, True), (4, 8, False), (3, 9, False)]
    check_kinds(cases, lambda asked: "free messages" if asked[2] else "a slow wire", check)
