"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and communicators. ``ranks.call`` runs something on simulated ranks, through ``callers.py`` where it
must be made or looked at inside a rank.
"""

import math
import sys
from pathlib import Path

import conv_cases
import examples
import halo_cases
import numpy as np
import ring_cases_torch as ring_cases
import ring_observed_torch as ring_observed
from cases import RING_ATTENTION_REFUSALS, ring_attention_case, ring_attention_refusal
from cases_torch import (
    CONV_TORCH_REFUSALS,
    ULYSSES_TORCH_REFUSALS,
    assert_conv_torch,
    assert_conv_torch_peers,
    assert_ulysses_torch,
    assert_ulysses_torch_work,
    conv_torch_case,
    conv_torch_refusal,
    ulysses_torch_case,
    ulysses_torch_refusal,
)
from conv_cases import conv_case, convolved
from conv_sizes import Layer, halving
from halo_cases import bytes_to, exchanged, grid_case, halo_case

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Case,
    Verdict,
    assert_bytes,
    assert_declared_at_once,
    assert_inputs_kept,
    assert_makespan,
    assert_messages,
    assert_moved,
    assert_own_messages,
    assert_pairs,
    assert_ran,
    assert_real_run,
    assert_requests_complete,
    buffered,
    long_wire,
    on_three_members,
    one_line,
    rendezvous,
    short_wire,
    with_waiting_sends,
)
from ringside.checking.points import points
from ringside.checking.ring_bytes import sent_as_ring
from ringside.factors import Factors
from ringside.trace import Kind

TEXTBOOK = Machine.load("textbook")
BUFFERED_WIRE = short_wire().with_(name="buffered wire", eager_threshold_bytes=4096)


# -- halo ------------------------------------------------------------------------------------------


@points(12, "values", "halo")
def test_one_row_of_each_neighbour(ranks, rng):
    for p in (2, 4):
        exchanged(ranks, halo_case((3,) * p, 1, (1, 2, 4), rng))


@points(10, "values", "halo")
def test_halo_of_parts_that_differ_in_height(ranks, rng):
    exchanged(ranks, halo_case((2, 5, 1), 1, (1, 2, 3), rng))


@points(8, "values", "halo")
def test_halo_of_two_rows_and_float32(ranks, rng):
    exchanged(ranks, halo_case((3, 3, 3), 2, (2, 2, 3), rng))
    exchanged(ranks, halo_case((2, 2), 1, (2, 1, 1), rng, "float32"))


@points(5, "values", "halo")
def test_halo_of_no_rows_and_one_rank_alone(ranks, rng):
    for heights, halo_width in (((3, 3), 0), ((4,), 1)):
        case = halo_case(heights, halo_width, (1, 2, 4), rng)
        assert_messages(exchanged(ranks, case), [0] * len(heights), case)


@points(12, "values", "halo")
def test_halo_on_a_grid_with_corners(ranks, rng):
    exchanged(ranks, grid_case((3, 2), (4, 3), 1, (1, 2), rng))
    exchanged(ranks, grid_case((3, 3, 3), (3, 4, 3), 2, (1, 1), rng))


REAL_HALO = """
from mpi4py import MPI
from ringside.jobs.real.watch import watched
import halo, halo_cases, numpy as np
comm = watched(MPI.COMM_WORLD, 20.0)
case = halo_cases.halo_case((3, 2, 4), 1, (1, 2, 3), np.random.default_rng(4))
given = case.arguments_of_ranks()[comm.rank]
assert np.array_equal(halo.exchange(comm, *given), case.rights()[comm.rank])
"""


@points(4, "reality", "halo")
def test_halo_under_mpiexec(ranks, rng, mpiexec):
    exchanged(ranks, halo_case((3, 2, 4), 1, (1, 2, 3), rng))
    words = [mpiexec, "-n", "3", sys.executable, "-c", REAL_HALO]
    assert_real_run(words, Path(__file__).parent, "exchange under mpiexec")


@points(10, "communication", "halo")
def test_halo_to_the_byte_in_one_message(ranks, rng):
    for p, shape in ((2, (2, 3, 5)), (4, (1, 2, 50))):
        case = halo_case((3,) * p, 1, shape, rng)
        result, neighbours = exchanged(ranks, case), case.neighbours()
        sent = [sum(own.values()) for own in neighbours]
        ranks.record(case, result, {"sent_bytes": sent})
        assert_pairs(result, bytes_to(case, neighbours), case)
        assert_bytes(result, sent, case)
        assert_messages(result, [len(own) for own in neighbours], case)


@points(8, "communication", "halo")
def test_grid_sends_nothing_across_corners(ranks, rng):
    case = grid_case((3, 3, 3), (4, 4), 1, (1, 2), rng)
    result, neighbours = exchanged(ranks, case), case.neighbours()
    assert_pairs(result, bytes_to(case, neighbours), case)
    assert_messages(result, [len(own) for own in neighbours], case)


@points(5, "communication", "halo")
def test_halo_on_some_ranks_of_the_world(ranks, rng):
    case = halo_case((3, 3, 3), 1, (1, 2, 4), rng)
    exchanged(ranks, case, world_size=5, members=[3, 1, 4])


@points(6, "safety", "halo")
def test_halo_where_sends_wait_and_messages_come_in_any_order(ranks, rng):
    case = halo_case((3,) * 4, 1, (1, 2, 4), rng)
    with_waiting_sends(lambda **there: exchanged(ranks, case, **there), case)
    for seed in LATENCY_SEEDS[:2]:
        assert_requests_complete(exchanged(ranks, case, seed=seed), case)


@points(4, "safety", "halo")
def test_halo_leaves_its_input(ranks, rng):
    case = halo_case((3, 3), 1, (2, 2, 4), rng)
    given, case = case.arguments_of_ranks(), case.via("halo_looked_at", ", called twice")
    result = ranks.call("callers:halo_looked_at", 2, given, machine=buffered())
    assert_ran(result, case)
    for rank, (value, right) in enumerate(zip(result.values, case.rights(), strict=True)):
        examples.halo_assert_looked_at(value, right, rank, case.seen_in(result))


@points(4, "safety", "halo")
def test_halo_refuses_parts_that_are_too_low(ranks, rng):
    for heights, halo_width in (((3, 3, 1, 3, 3), 2), ((3, 3), -1)):
        case = halo_cases.low_case(heights, halo_width, rng)
        rights = case.rights() if halo_width > 0 else [np.zeros(1)] * len(heights)
        given = [(*own, r) for own, r in zip(case.arguments_of_ranks(), rights, strict=True)]
        result = ranks.call("callers:halo_refused", len(heights), given)
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            halo_cases.assert_low(value, rank, case, case.seen_in(result))


@points(12, "speed", "halo")
def test_halo_is_sent_both_ways_at_once(ranks, rng):
    for width, machine in ((20, BUFFERED_WIRE), (10_000, long_wire())):
        case = halo_case((2,) * 5, 1, (1, 1, width), rng)
        result = exchanged(ranks, case, machine=machine)
        nbytes = max(sum(own.values()) for own in case.neighbours())
        assert_makespan(result, machine.alpha_s + nbytes * machine.beta_s_per_byte, case)


# -- conv ------------------------------------------------------------------------------------------


@points(10, "values", "conv")
def test_conv_forward(ranks, rng):
    for p in (2, 4):
        convolved(ranks, conv_case((4,) * p, rng), caller="conv_forward")


@points(10, "values", "conv")
def test_conv_gradient_of_the_images(ranks, rng):
    for p in (2, 4):
        convolved(ranks, conv_case((4,) * p, rng), parts=["dx"])


@points(8, "values", "conv")
def test_conv_gradients_of_filters_and_biases(ranks, rng):
    for p in (2, 3):
        convolved(ranks, conv_case((4,) * p, rng), parts=["dw", "db"])


@points(8, "values", "conv")
def test_conv_of_other_kernels(ranks, rng):
    convolved(ranks, conv_case((5, 5, 5), rng, 5))
    case, result = convolved(ranks, conv_case((3, 3), rng, 1))
    assert_pairs(result, bytes_to(case, case.halo_bytes()), case)


@points(6, "values", "conv")
def test_conv_of_parts_that_differ_in_height(ranks, rng):
    for heights in ((2, 5, 3), (1, 3, 1)):
        convolved(ranks, conv_case(heights, rng))


@points(6, "values", "conv")
def test_conv_with_stride_2(ranks, rng):
    for heights in ((4, 4), (3, 5, 4), (1, 2, 1)):
        convolved(ranks, conv_case(heights, rng, 3, 2))


@points(2, "values", "conv")
def test_conv_in_float32(ranks, rng):
    convolved(ranks, conv_case((3, 3), rng, dtype="float32"))


REAL_CONV = """
from mpi4py import MPI
from ringside.jobs.real.watch import watched
import callers, conv_cases, numpy as np
comm = watched(MPI.COMM_WORLD, 20.0)
case = conv_cases.conv_case((4, 4, 4), np.random.default_rng(4))
found = callers.conv_both(comm, *case.arguments_of_ranks()[comm.rank])
conv_cases.check_convolved(found, conv_cases.serial(case)[comm.rank], comm.rank, case)
"""


@points(4, "reality", "conv")
def test_conv_under_mpiexec(ranks, rng, mpiexec):
    convolved(ranks, conv_case((4, 4, 4), rng))
    words = [mpiexec, "-n", "3", sys.executable, "-c", REAL_CONV]
    assert_real_run(words, Path(__file__).parent, "both passes under mpiexec")


@points(8, "communication", "conv")
def test_conv_sends_its_halos_and_no_more(ranks, rng):
    for p, shape in ((2, (2, 3, 2, 5)), (4, (1, 2, 3, 20))):
        case, result = convolved(ranks, conv_case((4,) * p, rng, shape=shape))
        neighbours = case.halo_bytes()
        ranks.record(case, result, {"sent_bytes": case.allowed_bytes})
        assert_pairs(result, bytes_to(case, neighbours), case)


@points(5, "communication", "conv")
def test_conv_makes_one_all_reduce(ranks, rng):
    case, result = convolved(ranks, conv_case((3,) * 3, rng), parts=["dw", "db"])
    conv_cases.assert_one_all_reduce(result, case)
    halo = max(sum(own.values()) for own in case.halo_bytes())
    assert_moved(result, halo + 4 / 3 * case.num_weights * case.itemsize, case)


@points(4, "communication", "conv")
def test_conv_on_some_ranks_of_the_world(ranks, rng):
    convolved(ranks, conv_case((4,) * 3, rng), world_size=5, members=[3, 1, 4])


@points(8, "schedule", "conv")
def test_conv_begins_rows_without_halo_at_once(ranks, rng):
    case, result = convolved(ranks, conv_case((6,) * 3, rng), rng, "conv_forward")
    conv_cases.assert_interior_first(result, case, [case.interior(rank) for rank in range(3)])


@points(5, "safety", "conv")
def test_conv_where_sends_wait_and_messages_come_in_any_order(ranks, rng):
    case = conv_case((4,) * 3, rng)

    def run(**options):
        seen, result = convolved(ranks, case, **options)
        assert_requests_complete(result, seen, [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE])

    with_waiting_sends(run, case.via("conv_both"))
    for seed in LATENCY_SEEDS[:2]:
        run(machine=rendezvous(), seed=seed)


@points(4, "safety", "conv")
def test_conv_leaves_its_inputs(ranks, rng):
    case = conv_case((4, 4), rng)
    given, case = case.arguments_of_ranks(), case.via("conv_looked_at", ", called twice")
    result = ranks.call("callers:conv_looked_at", 2, given, machine=buffered())
    assert_ran(result, case)
    for rank, value in enumerate(result.values):
        examples.conv_check_value("conv_looked_at", value, rank, case, case.seen_in(result))


def conv_on(rng, p, halo_s):
    """A case, and a machine on which a pass of all its rows takes 1 ms and a halo ``halo_s``."""
    case = conv_case((24,) * p, rng, shape=(1, 2, 2, 6))
    one_s = conv_cases.rows_s(case, TEXTBOOK, 24)
    flop_per_s = TEXTBOOK.flop_per_s * one_s / 1e-3
    return case, TEXTBOOK.with_(name="slow wire", flop_per_s=flop_per_s, alpha_s=halo_s)


@points(6, "speed", "conv")
def test_conv_forward_hides_the_halo(ranks, rng):
    case, machine = conv_on(rng, 4, 0.6e-3)
    case, result = convolved(ranks, case, rng, "conv_forward", machine=machine)
    assert_makespan(result, conv_cases.forward_s(case, machine), case)


@points(6, "speed", "conv")
def test_conv_backward_hides_halo_and_all_reduce(ranks, rng):
    case, machine = conv_on(rng, 5, 0.1e-3)
    _, forward = convolved(ranks, case, rng, "conv_forward", machine=machine)
    case, result = convolved(ranks, case, rng, machine=machine)
    assert_makespan(result, forward.makespan_s + conv_cases.backward_s(case, machine), case)


# -- cost ------------------------------------------------------------------------------------------
ONE = [Layer(8, 8, 2, 4)]  # the docstring's example
TWO = [Layer(8, 16, 2, 8), Layer(8, 8, 8, 4, 5, 1)]


def cost_check(ranks, function, call, right):
    """A function of cost.py gives the right answer."""
    layers, *others = call
    given = [([tuple(layer) for layer in layers], *others)]
    result = ranks.call("callers:cost_numbers", 1, [(f"cost:{function}", given)])
    assert_ran(result, Case(f"cost:{function}", 1, 0))
    (value,) = result.values[0]
    value = value.item() if isinstance(value, np.ndarray) and not value.ndim else value
    same = value == right
    if isinstance(right, float):
        same = type(value) in (int, float) and math.isclose(value, right, rel_tol=1e-9)
    if not same:
        shown = ", ".join(
            f"Machine.load({each!r})" if isinstance(each, str) else repr(each) for each in others
        )
        words = f"{function}([{', '.join(f'Layer{tuple(each)}' for each in layers)}], {shown})"
        head = "from cost import *; from conv_sizes import Layer; from ringside import Machine"
        raise Verdict(
            f"{words} is {one_line(repr(value), 60)}; it must be {right!r}.",
            reproduce=f'python -c "{head}; print({words})"',
        )


@points(10, "values", "cost")
def test_cost_of_the_example(ranks):
    for function, right in (("data", 1728), ("filter", 9216), ("domain", 1728 + 1152)):
        cost_check(ranks, f"{function}_bytes", (ONE, 3, 4), right)


@points(15, "values", "cost")
def test_cost_of_two_layers_in_bytes(ranks):
    cost_check(ranks, "data_bytes", (TWO, 3, 5), 8 * (144 + 160) * 4)
    cost_check(ranks, "filter_bytes", (TWO, 3, 5), 4 * 3 * (1024 + 256 + 512) * 4)
    halos = 3 * (2 * 16 + 8 * 8 * 2 + 4 * 8 * 2)  # the second layer has 5 rows and 1 column
    cost_check(ranks, "domain_bytes", (TWO, 3, 5), 8 * (halos + 144 + 160) * 4)


@points(5, "values", "cost")
def test_cost_of_other_elements_and_of_one_rank(ranks):
    for function, right in (("data", 3456), ("filter", 18432), ("domain", 5760)):
        cost_check(ranks, f"{function}_bytes", (ONE, 3, 4, 8), right)
        cost_check(ranks, f"{function}_bytes", (ONE, 3, 1), 0)


@points(20, "values", "cost")
def test_cost_in_seconds(ranks):
    alpha, beta = TEXTBOOK.alpha_s, TEXTBOOK.beta_s_per_byte
    data_s = 6 * (alpha + 72 * beta)
    cost_check(ranks, "data_s", (ONE, 3, 4, "textbook"), data_s)
    cost_check(ranks, "filter_s", (ONE, 3, 4, "textbook"), 3 * (alpha + 768 * beta))
    cost_check(ranks, "domain_s", (ONE, 3, 4, "textbook"), data_s + alpha + 2 * 192 * beta)
    data_s = 2 * (alpha + 144 * beta)
    cost_check(ranks, "domain_s", (ONE, 3, 2, "textbook"), data_s + alpha + 192 * beta)
    cost_check(ranks, "domain_s", ([Layer(8, 8, 2, 4, 1, 1)], 3, 1, "textbook"), 0.0)


@points(25, "communication", "cost")
def test_cost_is_what_the_network_counts(ranks):
    for way in ("data", "filter", "domain"):
        arguments = ([tuple(layer) for layer in TWO], 2)
        target = f"traffic:{way}_parallel"
        result = ranks.call(target, 4, [arguments] * 4, machine=TEXTBOOK)
        assert_ran(result, Case(target, 4, 2))
        cost_check(ranks, f"{way}_bytes", (TWO, 2, 4), round(sum(sent_as_ring(result))))
        cost_check(ranks, f"{way}_s", (TWO, 2, 4, "textbook"), result.makespan_s)


@points(25, "speed", "cost")
def test_cost_of_the_best_way(ranks):
    images = halving(2048, (3, 16, 32, 64))
    cost_check(ranks, "best", (images, 1, 8, "textbook"), "domain")
    cost_check(ranks, "best", (images, 64, 8, "textbook"), "data")
    wide = [Layer(4, 4, 64, 512), Layer(4, 4, 512, 512)]
    cost_check(ranks, "best", (wide, 1, 4, "textbook"), "filter")
    few = [Layer(1, 1, 2048, 12)]  # two filters on the busiest of 8 ranks
    cost_check(ranks, "best", (few, 8, 8, "textbook,flop_per_s=1e8"), "data")
    cost_check(ranks, "best", (few, 8, 8, "textbook"), "filter")
    cost_check(ranks, "best", (halving(16, (3, 8, 8)), 4, 16, "textbook"), "ValueError")


# -- ring_attention --------------------------------------------------------------------------------


def attended(ranks, case, *, observed=None, **options):
    """``attention`` on all ranks; checks values, and that the ranks' own messages made them.

    ``observed``: a generator; blocks are announced, and their queries scaled.
    """
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", case.world_size)
    if observed is not None:
        options["factors"] = Factors.drawn(observed)
    given = case.arguments_of_ranks()
    result = ranks.call("ring_attention:attention", world_size, given, **options)
    assert_ran(result, case)
    whole = list(case.lengths), case.causal, case.inputs(), result.factors
    for rank, right in enumerate(examples.ring_attention_serial(*whole)):
        seen = case.seen_in(result)
        examples.assert_near(result.values[rank], right, seen, f"rank {rank}'s result")
    assert_own_messages(result, case)
    return result


@points(10, "values", "ring_attention")
def test_ring_attention_of_equal_parts(ranks, rng):
    for p, n, batch, heads in ((2, 4, 1, 2), (3, 5, 2, 1), (4, 3, 1, 3)):
        attended(ranks, ring_attention_case([n] * p, rng, batch=batch, heads=heads, width=5))


@points(10, "values", "ring_attention")
def test_ring_attention_causal(ranks, rng):
    for p, n in ((2, 4), (4, 3)):
        attended(ranks, ring_attention_case([n] * p, rng, batch=2, causal=True))


@points(10, "values", "ring_attention")
def test_ring_attention_of_scores_of_thousands(ranks, rng):
    for p, n in ((2, 5), (4, 4)):
        attended(ranks, ring_attention_case([n] * p, rng, kind="thousands"))


@points(5, "values", "ring_attention")
def test_ring_attention_of_uneven_parts(ranks, rng):
    for causal in (False, True):
        for lengths in ((5, 2), (4, 1, 6)):
            attended(ranks, ring_attention_case(lengths, rng, causal=causal))


@points(5, "values", "ring_attention")
def test_ring_attention_with_fewer_kv_heads(ranks, rng):
    for p, heads, kv_heads in ((2, 4, 2), (3, 6, 2)):
        case = ring_attention_case([3] * p, rng, heads=heads, kv_heads=kv_heads)
        assert_bytes(attended(ranks, case), [case.allowed_bytes] * p, case)


@points(5, "values", "ring_attention")
def test_ring_attention_float32_nan_and_one_rank(ranks, rng):
    attended(ranks, ring_attention_case([4] * 3, rng, dtype="float32"))
    attended(ranks, ring_attention_case([3] * 3, rng, nan_of=1))
    attended(ranks, ring_attention_case([5], rng))
    attended(ranks, ring_attention_case([1, 1], rng))


@points(5, "values", "ring_attention")
def test_ring_attention_keeps_its_inputs(ranks, rng):
    case = ring_attention_case([3] * 3, rng)
    assert_inputs_kept(attended(ranks, case), case)
    given = case.arguments_of_ranks()
    result = ranks.call("callers:ring_attention_looked_at", 3, given, machine=buffered())
    assert_ran(result, case.looked_at())
    for rank, right in enumerate(
        examples.ring_attention_serial(list(case.lengths), False, case.inputs())
    ):
        compare, seen = examples.assert_near, case.looked_at()
        examples.assert_looked_at(result.values[rank], right, compare, seen, rank, "result")


@points(5, "values", "ring_attention")
def test_ring_attention_wrong_arguments_are_refused(ranks, rng):
    attended(ranks, ring_attention_case([2, 2], rng))
    for what in RING_ATTENTION_REFUSALS:
        case = ring_attention_refusal(what)
        result = ranks.call("callers:ring_attention_refused", 2, (what,))
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            examples.assert_ring_attention_refused(value, rank, case)


REAL_RING_ATTENTION = """
import numpy as np
from mpi4py import MPI
from ringside.jobs.real.watch import watched
from ring_attention import attention
comm = watched(MPI.COMM_WORLD, 20.0)
rank = comm.Get_rank()
q = np.ones((1, 1, 2, 3))
v = np.full((1, 1, 2, 3), float(rank))
np.testing.assert_allclose(attention(comm, q, q, v, [2, 2, 2]), 1.0)
"""


@points(5, "reality", "ring_attention")
def test_ring_attention_under_mpiexec(ranks, rng, mpiexec):
    case = ring_attention_case([2] * 3, rng)
    attended(ranks, case)
    words = [mpiexec, "-n", "3", sys.executable, "-c", REAL_RING_ATTENTION]
    assert_real_run(words, Path(__file__).parent, f"{case} under mpiexec")


@points(10, "communication", "ring_attention")
def test_ring_attention_sends_each_block_once_round_a_ring(ranks, rng):
    for p, n, width in ((2, 4, 4), (5, 3, 4), (3, 40, 20)):
        case = ring_attention_case([n] * p, rng, width=width)
        result = attended(ranks, case)
        assert_bytes(result, [case.allowed_bytes] * p, case)
        examples.assert_ring_attention_peers(result, case)


@points(5, "communication", "ring_attention")
def test_ring_attention_uses_the_given_communicator(ranks, rng):
    case = ring_attention_case([3] * 3, rng)
    attended(ranks, case)
    attended(ranks, case, world_size=5, members=[3, 1, 4])


@points(10, "schedule", "ring_attention")
def test_ring_attention_next_block_travels_while_one_is_computed(ranks, rng):
    for p in (3, 6):
        case = ring_attention_case([3] * p, rng)
        result = attended(ranks, case, observed=rng)
        examples.assert_ring_attention_overlap(result, case, case.block_nbytes)
        examples.assert_ring_attention_room(result, case, case.block_nbytes)


@points(5, "memory", "ring_attention")
def test_ring_attention_memory(ranks, rng):
    case = ring_attention_case([16] * 16, rng, heads=1, width=256)
    bound = 4 * case.block_nbytes + 8 * 8 * (16 * 256 + 16 * 16) + (64 << 10)
    result = ranks.call("callers:ring_attention_held", 16, case.arguments_of_ranks())
    case = case.called_through("ring_attention_held", f" --bound {bound}")
    assert_ran(result, case)
    for rank, right in enumerate(
        examples.ring_attention_serial(list(case.lengths), False, case.inputs())
    ):
        examples.assert_ring_attention_held(result.values[rank], right, bound, case, rank)


@points(5, "safety", "ring_attention")
def test_ring_attention_where_sends_wait_and_messages_are_slow(ranks, rng):
    for p in (2, 5):
        case = ring_attention_case([3] * p, rng)
        with_waiting_sends(lambda case=case, **there: attended(ranks, case, **there), case)
        for seed in LATENCY_SEEDS:
            assert_requests_complete(attended(ranks, case, seed=seed), case)


@points(5, "speed", "ring_attention")
def test_ring_attention_time(ranks, rng):
    machine = Machine("quick wire", alpha_s=5e-7, beta_s_per_byte=1e-9, flop_per_s=1e9)
    for n in (8, 4):
        case = ring_attention_case([n] * 6, rng, width=8)
        result = attended(ranks, case, observed=rng, machine=machine)
        assert_declared_at_once(result, case)
        block_s = machine.compute_s(4 * case.heads * n * n * case.width, 0)
        message_s = machine.alpha_s + case.block_nbytes * machine.beta_s_per_byte
        assert_makespan(result, block_s + 5 * max(block_s, message_s), case)


# -- conv_torch ------------------------------------------------------------------------------------


def convolved_in_torch(ranks, case, **options):
    """``conv2d`` and its gradients on all ranks; checks values, and how rows travelled."""
    world_size = options.pop("world_size", case.world_size)
    options.setdefault("machine", buffered())
    given = case.arguments_of_ranks()
    result = ranks.call("callers_torch:conv_torch_called", world_size, given, **options)
    assert_conv_torch(result, case)
    return result


def convolved_within(ranks, case):
    """``convolved_in_torch``, and each rank sent its halos and one all-reduce at most."""
    result = convolved_in_torch(ranks, case)
    for rank in range(case.world_size):
        what = "a halo forward, a halo backward and one all-reduce"
        assert_moved(result, case.allowed_bytes(rank) + 0.5, case, what, rank=rank)
    return result


@points(15, "values", "conv_torch")
def test_conv_torch_rows_and_gradients(ranks, rng):
    for p, h, channels in ((2, 4, (2, 3)), (3, 3, (3, 1))):
        convolved_in_torch(ranks, conv_torch_case([h] * p, rng, batch=2, channels=channels))


@points(10, "values", "conv_torch")
def test_conv_torch_kernels_of_1_and_5(ranks, rng):
    for kernel in (1, 5):
        convolved_within(ranks, conv_torch_case([4] * 3, rng, kernel=kernel))


@points(10, "values", "conv_torch")
def test_conv_torch_uneven_heights(ranks, rng):
    for heights in ((4, 1, 6), (1, 1), (4,)):
        convolved_in_torch(ranks, conv_torch_case(heights, rng))


@points(5, "values", "conv_torch")
def test_conv_torch_other_dtypes_and_no_bias(ranks, rng):
    for kind in ("float32", "bfloat16"):
        convolved_in_torch(ranks, conv_torch_case([4] * 3, rng, kind=kind))
    convolved_in_torch(ranks, conv_torch_case([4] * 2, rng, bias=False))


@points(10, "values", "conv_torch")
def test_conv_torch_gaps_sums_and_two_calls(ranks, rng):
    for how in ("gaps", "sum", "together"):
        convolved_in_torch(ranks, conv_torch_case([4] * 3, rng, batch=2, how=how))


@points(5, "values", "conv_torch")
def test_conv_torch_wrong_arguments_are_refused(ranks, rng):
    convolved_in_torch(ranks, conv_torch_case([4, 4], rng))
    for kernel, height in CONV_TORCH_REFUSALS:
        case = conv_torch_refusal(kernel, height)
        result = ranks.call("callers_torch:conv_torch_refused", 2, (kernel, height))
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            examples.assert_refused(value, rank, case)


@points(15, "communication", "conv_torch")
def test_conv_torch_bytes_and_neighbours(ranks, rng):
    for p, channels in ((2, (2, 3)), (5, (3, 2))):
        case = conv_torch_case([4] * p, rng, channels=channels, needs="none")
        result = convolved_in_torch(ranks, case)
        assert_bytes(result, [case.halo_bytes(rank, channels[0]) for rank in range(p)], case)
        assert_conv_torch_peers(result, case)
        convolved_within(ranks, conv_torch_case([4] * p, rng, channels=channels))


@points(10, "communication", "conv_torch")
def test_conv_torch_gradients_that_nobody_asked_for(ranks, rng):
    for needs in ("weights", "x", "bias"):
        convolved_within(ranks, conv_torch_case([4] * 3, rng, needs=needs))


@points(5, "communication", "conv_torch")
def test_conv_torch_uses_the_given_group(ranks, rng):
    case = conv_torch_case([3] * 3, rng)
    convolved_in_torch(ranks, case)
    convolved_in_torch(ranks, case, world_size=5, members=[3, 1, 4])


@points(5, "safety", "conv_torch")
def test_conv_torch_where_sends_wait_and_messages_are_slow(ranks, rng):
    case = conv_torch_case([3] * 4, rng)
    for seed in LATENCY_SEEDS:
        result = convolved_in_torch(ranks, case, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, case, [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE])


@points(10, "speed", "conv_torch")
def test_conv_torch_time(ranks, rng):
    machine = Machine("far", alpha_s=1e-3, beta_s_per_byte=1e-9, flop_per_s=1e12)
    case = conv_torch_case([4] * 4, rng, needs="none")
    halo_s = machine.alpha_s + case.halo_bytes(1, 2) * machine.beta_s_per_byte
    assert_makespan(convolved_in_torch(ranks, case, machine=machine), halo_s, case)
    case, p = conv_torch_case([4] * 4, rng, channels=(8, 8), width=16), 4
    machine = Machine("slow cores", alpha_s=2e-6, beta_s_per_byte=2e-9, flop_per_s=1e9)
    result = convolved_in_torch(ranks, case, machine=machine)
    work_s = 3 * 2 * 64 * 9 * 4 * 16 / machine.flop_per_s
    halo_s = machine.alpha_s + case.halo_bytes(1, 8) * machine.beta_s_per_byte
    ring_s = machine.alpha_s + -(-case.summed_bytes // p) * machine.beta_s_per_byte
    assert_makespan(result, work_s + 2 * halo_s + 2 * (p - 1) * ring_s, case)


# -- ulysses_torch ---------------------------------------------------------------------------------


def dealt_out(ranks, case, **options):
    """``attention`` and its gradients on all ranks; checks values, and which collectives ran."""
    world_size = options.pop("world_size", case.world_size)
    options.setdefault("machine", buffered())
    given = case.arguments_of_ranks()
    result = ranks.call("callers_torch:ulysses_torch_called", world_size, given, **options)
    assert_ulysses_torch(result, case)
    return result


@points(15, "values", "ulysses_torch")
def test_ulysses_torch_results(ranks, rng):
    for p, n, heads in ((2, 3, 4), (3, 2, 3)):
        dealt_out(ranks, ulysses_torch_case(p, n, rng, heads=heads, batch=2, backward=False))
    dealt_out(ranks, ulysses_torch_case(2, 3, rng, sees="near", backward=False))


@points(15, "values", "ulysses_torch")
def test_ulysses_torch_gradients(ranks, rng):
    for p, n, heads in ((2, 3, 4), (4, 1, 4), (1, 4, 2)):
        dealt_out(ranks, ulysses_torch_case(p, n, rng, heads=heads, batch=2))


@points(10, "values", "ulysses_torch")
def test_ulysses_torch_fewer_kv_heads(ranks, rng):
    for p, heads, kv_heads in ((2, 4, 2), (3, 6, 3)):
        case = ulysses_torch_case(p, 3, rng, heads=heads, kv_heads=kv_heads)
        assert_moved(dealt_out(ranks, case), case.allowed_bytes + 0.5, case, "fewer keys travel")


@points(10, "values", "ulysses_torch")
def test_ulysses_torch_other_tensors_and_two_calls(ranks, rng):
    for kind in ("float32", "bfloat16"):
        dealt_out(ranks, ulysses_torch_case(2, 3, rng, kind=kind))
    for how in ("gaps", "sum", "together"):
        dealt_out(ranks, ulysses_torch_case(2, 3, rng, batch=2, how=how))


@points(10, "values", "ulysses_torch")
def test_ulysses_torch_heads_that_cannot_be_shared(ranks, rng):
    dealt_out(ranks, ulysses_torch_case(2, 2, rng))
    for heads, kv_heads in ULYSSES_TORCH_REFUSALS:
        case = ulysses_torch_refusal(heads, kv_heads)
        result = ranks.call("callers_torch:ulysses_torch_refused", 2, (heads, kv_heads))
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            examples.assert_refused(value, rank, case)


@points(15, "communication", "ulysses_torch")
def test_ulysses_torch_bytes(ranks, rng):
    for p, backward in ((2, False), (4, True)):
        case = ulysses_torch_case(p, 3, rng, width=6, backward=backward)
        what = "q, k, v and the result travel once in each pass"
        assert_moved(dealt_out(ranks, case), case.allowed_bytes + 0.5, case, what)


@points(5, "communication", "ulysses_torch")
def test_ulysses_torch_uses_the_given_group(ranks, rng):
    case = ulysses_torch_case(2, 2, rng)
    dealt_out(ranks, case)
    dealt_out(ranks, case, world_size=4, members=[3, 1])


@points(5, "safety", "ulysses_torch")
def test_ulysses_torch_where_messages_are_slow(ranks, rng):
    case = ulysses_torch_case(4, 2, rng)
    for seed in LATENCY_SEEDS:
        result = dealt_out(ranks, case, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, case, [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE])


@points(15, "speed", "ulysses_torch")
def test_ulysses_torch_work_and_time(ranks, rng):
    p, n, machine = 4, 8, Machine("slow cores", alpha_s=5e-7, beta_s_per_byte=2e-9, flop_per_s=1e9)
    case = ulysses_torch_case(p, n, rng, width=8)
    result = dealt_out(ranks, case, machine=machine)
    assert_ulysses_torch_work(result, case, case.num_flops / p)
    m = case.heads * case.width * n * 8 / p
    exchanges_s = 8 * (p - 1) * (machine.alpha_s + m * machine.beta_s_per_byte)
    assert_makespan(result, case.num_flops / p / machine.flop_per_s + exchanges_s, case)


# -- ring_attention_torch --------------------------------------------------------------------------


def ring_torch_called(ranks, rng, case, *, ordered=True, **where):
    """A run whose values are right, through own messages to neighbours."""
    call = ring_cases.attention_call(case)
    sample = ring_cases.sample_attention(rng, case)
    target = ring_cases.ZIGZAG if case.zigzag else ring_cases.RING
    rest = (None, False) if case.zigzag else (list(case.lengths), case.causal)
    arguments = [
        (target, [parts[rank] for parts in sample], *rest, case.how)
        for rank in range(case.world_size)
    ]
    if ordered:
        where["factors"] = Factors.drawn(rng)
    world_size = where.pop("world_size", case.world_size)
    result = ranks.call("ring_callers_torch:ring_called", world_size, arguments, **where)
    assert_ran(result, call)
    call = call.seen_in(result)
    wanted = [ring_cases.serial(case, parts, result.factors) for parts in sample]
    for rank, value in enumerate(result.values):
        ring_cases.check_attention(value, wanted, case, call, rank)
        if value["changed"]:
            raise call.fail(f"rank {rank} changed a tensor that it was given.")
    if "members" not in where:
        ring_observed.assert_ring(result, call)
    if ordered and not case.causal and len(set(case.lengths)) == 1:
        ring_observed.assert_early(result, call, case)
    return call, result, case


def ring_torch(ranks, rng, lengths, *, ordered=True, where=None, **settings):
    case = ring_cases.Attention(tuple(lengths), **settings)
    return ring_torch_called(ranks, rng, case, ordered=ordered, **(where or {}))


@points(8, "values", "ring_attention_torch")
def test_ring_torch_forward_pass_alone(ranks, rng):
    for p in (2, 3):
        ring_torch(ranks, rng, (3,) * p, how="forward")


@points(12, "values", "ring_attention_torch")
def test_ring_torch_attention_equals_serial(ranks, rng):
    for p in (1, 2, 3):
        ring_torch(ranks, rng, (3,) * p, ordered=p > 1)


@points(8, "values", "ring_attention_torch")
def test_ring_torch_causal_attention(ranks, rng):
    ring_torch(ranks, rng, (3, 3, 3), causal=True)


@points(5, "values", "ring_attention_torch")
def test_ring_torch_uneven_parts(ranks, rng):
    ring_torch(ranks, rng, (4, 1, 3))


@points(5, "values", "ring_attention_torch")
def test_ring_torch_fewer_heads_of_keys(ranks, rng):
    more = {"heads": 6, "kv_heads": 2}
    call, result, case = ring_torch(ranks, rng, (3, 3), ordered=False, **more)
    ring_observed.assert_volume(result, call, case)


@points(6, "values", "ring_attention_torch")
def test_ring_torch_float32_gaps_large_scores_and_two_calls(ranks, rng):
    ring_torch(ranks, rng, (3, 3), dtype="float32")
    ring_torch(ranks, rng, (3, 3), ordered=False, how="gaps")
    ring_torch(ranks, rng, (3, 3), ordered=False, spread=40.0)
    ring_torch(ranks, rng, (3, 3), ordered=False, how="together")


@points(15, "communication", "ring_attention_torch")
def test_ring_torch_bytes_of_both_passes(ranks, rng):
    for p in (2, 4):
        for how in ("forward", "plain"):
            call, result, case = ring_torch(ranks, rng, (4,) * p, ordered=False, how=how)
            ring_observed.assert_volume(result, call, case)
            allowed = case.forward_bytes() + (how != "forward") * case.backward_bytes()
            ranks.record(call, result, {"sent_bytes": [allowed] * p})


@points(5, "communication", "ring_attention_torch")
def test_ring_torch_given_group_is_used(ranks, rng):
    def call(**where):
        return ring_torch(ranks, rng, (3, 3, 3), ordered=False, where=where)[:2]

    on_three_members(rng, call, comm="the group")


@points(14, "schedule", "ring_attention_torch")
def test_ring_torch_keys_travel_on_and_masked_blocks_are_skipped(ranks, rng):
    call, result, case = ring_torch(ranks, rng, (4, 4, 4))
    ring_observed.assert_travelling(result, call, case)
    call, result, case = ring_torch(ranks, rng, (8, 8, 8), causal=True, ordered=False)
    ring_observed.assert_skipped(result, call, case)


@points(8, "safety", "ring_attention_torch")
def test_ring_torch_everything_is_waited_for_and_lengths_are_looked_at(ranks, rng):
    where = {"machine": rendezvous(), "seed": LATENCY_SEEDS[0]}
    call, result, _ = ring_torch(ranks, rng, (3, 3, 3), ordered=False, where=where)
    assert_requests_complete(result, call)
    refused = ring_cases.refused_call((4, 4), 3)
    result = ranks.call("ring_callers_torch:ring_refuses", 2, ((4, 4), 3))
    assert_ran(result, refused)
    for error in result.values:
        ring_cases.check_refused(error, refused)


@points(4, "memory", "ring_attention_torch")
def test_ring_torch_no_keys_of_others_are_kept(ranks, rng):
    case, call = ring_cases.KEPT, ring_cases.kept_call()
    (parts,) = ring_cases.sample_attention(rng, case)
    arguments = [(*own[:3], case.lengths) for own in parts]
    result = ranks.call("ring_callers_torch:kept_for_backward", case.world_size, arguments)
    assert_ran(result, call)
    for rank, value in enumerate(result.values):
        ring_cases.check_kept_result(value, parts, case, call, rank)
    ring_cases.check_kept(result, case, call)


@points(10, "speed", "ring_attention_torch")
def test_ring_torch_time_of_a_long_sequence(ranks, rng):
    call, _, _ = ring_torch(ranks, rng, (4, 4), ordered=False)
    ring_observed.assert_long_time(ranks.trace, call, ring_cases.RING, 16)


# -- zigzag_torch ----------------------------------------------------------------------------------


def zigzag_torch(ranks, rng, p, n=4, *, ordered=True, where=None, **settings):
    case = ring_cases.Attention((n,) * p, causal=True, zigzag=True, **settings)
    return ring_torch_called(ranks, rng, case, ordered=ordered, **(where or {}))


@points(15, "values", "zigzag_torch")
def test_zigzag_splits_and_merges(ranks, rng):
    for positions, num_ranks in ((4, 2), (12, 3), (6, 2)):
        x = rng.standard_normal((2, 1, positions, 2))
        call = ring_cases.orders_call(positions, num_ranks)
        result = ranks.call("ring_callers_torch:orders", 1, (x, num_ranks))
        assert_ran(result, call)
        ring_cases.check_orders(result.values[0], x, num_ranks, call)


@points(8, "values", "zigzag_torch")
def test_zigzag_forward_pass_alone(ranks, rng):
    for p in (2, 3):
        zigzag_torch(ranks, rng, p, how="forward")


@points(22, "values", "zigzag_torch")
def test_zigzag_equals_serial(ranks, rng):
    for p in (1, 2, 3):
        zigzag_torch(ranks, rng, p, ordered=p > 1)
    zigzag_torch(ranks, rng, 2, heads=4, kv_heads=2)
    zigzag_torch(ranks, rng, 2, dtype="float32", how="gaps")
    zigzag_torch(ranks, rng, 2, ordered=False, how="together")


@points(15, "communication", "zigzag_torch")
def test_zigzag_bytes(ranks, rng):
    for how in ("forward", "plain"):
        call, result, case = zigzag_torch(ranks, rng, 3, ordered=False, how=how)
        ring_observed.assert_volume(result, call, case)
    on_three_members(
        rng,
        lambda **where: zigzag_torch(ranks, rng, 3, ordered=False, where=where)[:2],
        comm="the group",
    )


@points(15, "schedule", "zigzag_torch")
def test_zigzag_keys_travel_and_work_is_even(ranks, rng):
    call, result, case = zigzag_torch(ranks, rng, 3)
    ring_observed.assert_travelling(result, call, case)
    call, result, case = zigzag_torch(ranks, rng, 3, 8, ordered=False)
    ring_observed.assert_balanced(result, call, case)


@points(10, "safety", "zigzag_torch")
def test_zigzag_waits_for_everything(ranks, rng):
    where = {"machine": rendezvous(), "seed": LATENCY_SEEDS[0]}
    call, result, _ = zigzag_torch(ranks, rng, 3, ordered=False, where=where)
    assert_requests_complete(result, call)


@points(15, "speed", "zigzag_torch")
def test_zigzag_time_of_a_long_sequence(ranks, rng):
    call, _, _ = zigzag_torch(ranks, rng, 2, ordered=False)
    ring_observed.assert_long_time(ranks.trace, call, ring_cases.ZIGZAG, 4)
