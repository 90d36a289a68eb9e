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
from conv_cases import conv_case, convolved
from conv_sizes import Layer, halving
from halo_cases import bytes_to, exchanged, grid_case, halo_case

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Case,
    Verdict,
    assert_bytes,
    assert_makespan,
    assert_messages,
    assert_moved,
    assert_pairs,
    assert_ran,
    assert_real_run,
    assert_requests_complete,
    buffered,
    long_wire,
    one_line,
    rendezvous,
    short_wire,
    with_waiting_sends,
)
from ringside.checking.points import points
from ringside.checking.ring_bytes import sent_as_ring
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
from ringside.real.watch import watched
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
from ringside.real.watch import watched
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
        ranks.record(case, result, {"sent_bytes": [sum(own.values()) for own in neighbours]})
        assert_pairs(result, bytes_to(case, neighbours), case)


@points(5, "communication", "conv")
def test_conv_makes_one_all_reduce(ranks, rng):
    case, result = convolved(ranks, conv_case((3,) * 3, rng))
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
TWO = [Layer(8, 16, 2, 8), Layer(8, 8, 8, 8, 5, 1)]


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
    cost_check(ranks, "data_bytes", (TWO, 3, 5), 8 * (144 + 320) * 4)
    cost_check(ranks, "filter_bytes", (TWO, 3, 5), 4 * 3 * (1024 + 512 + 512) * 4)
    halos = 3 * (2 * 16 + 8 * 8 * 2 + 8 * 8 * 2)  # the second layer has 5 rows and 1 column
    cost_check(ranks, "domain_bytes", (TWO, 3, 5), 8 * (halos + 144 + 320) * 4)


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
