"""Public tests of a11_spatial: run them with `ringside check`, or from the notebook."""

import sys
from pathlib import Path

import examples
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

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    assert_bytes,
    assert_declared_at_once,
    assert_inputs_kept,
    assert_makespan,
    assert_moved,
    assert_own_messages,
    assert_ran,
    assert_real_run,
    assert_requests_complete,
    buffered,
    rendezvous,
    with_waiting_sends,
)
from ringside.checking.points import points
from ringside.factors import Factors
from ringside.trace import Kind

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
from ringside.real.watch import watched
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


def convolved(ranks, case, **options):
    """``conv2d`` and its gradients on all ranks; checks values, and how rows travelled."""
    world_size = options.pop("world_size", case.world_size)
    options.setdefault("machine", buffered())
    given = case.arguments_of_ranks()
    result = ranks.call("callers_torch:conv_torch_called", world_size, given, **options)
    assert_conv_torch(result, case)
    return result


def convolved_within(ranks, case):
    """``convolved``, and each rank sent its halos and one all-reduce at most."""
    result = convolved(ranks, case)
    for rank in range(case.world_size):
        what = "a halo forward, a halo backward and one all-reduce"
        assert_moved(result, case.allowed_bytes(rank) + 0.5, case, what, rank=rank)
    return result


@points(15, "values", "conv_torch")
def test_conv_torch_rows_and_gradients(ranks, rng):
    for p, h, channels in ((2, 4, (2, 3)), (3, 3, (3, 1))):
        convolved(ranks, conv_torch_case([h] * p, rng, batch=2, channels=channels))


@points(10, "values", "conv_torch")
def test_conv_torch_kernels_of_1_and_5(ranks, rng):
    for kernel in (1, 5):
        convolved_within(ranks, conv_torch_case([4] * 3, rng, kernel=kernel))


@points(10, "values", "conv_torch")
def test_conv_torch_uneven_heights(ranks, rng):
    for heights in ((4, 1, 6), (1, 1), (4,)):
        convolved(ranks, conv_torch_case(heights, rng))


@points(5, "values", "conv_torch")
def test_conv_torch_other_dtypes_and_no_bias(ranks, rng):
    for kind in ("float32", "bfloat16"):
        convolved(ranks, conv_torch_case([4] * 3, rng, kind=kind))
    convolved(ranks, conv_torch_case([4] * 2, rng, bias=False))


@points(10, "values", "conv_torch")
def test_conv_torch_gaps_sums_and_two_calls(ranks, rng):
    for how in ("gaps", "sum", "together"):
        convolved(ranks, conv_torch_case([4] * 3, rng, batch=2, how=how))


@points(5, "values", "conv_torch")
def test_conv_torch_wrong_arguments_are_refused(ranks, rng):
    convolved(ranks, conv_torch_case([4, 4], rng))
    for kernel, height in CONV_TORCH_REFUSALS:
        case = conv_torch_refusal(kernel, height)
        result = ranks.call("callers_torch:conv_torch_refused", 2, (kernel, height))
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            examples.assert_conv_torch_refused(value, rank, case)


@points(15, "communication", "conv_torch")
def test_conv_torch_bytes_and_neighbours(ranks, rng):
    for p, channels in ((2, (2, 3)), (5, (3, 2))):
        case = conv_torch_case([4] * p, rng, channels=channels, needs="none")
        result = convolved(ranks, case)
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
    convolved(ranks, case)
    convolved(ranks, case, world_size=5, members=[3, 1, 4])


@points(5, "safety", "conv_torch")
def test_conv_torch_where_sends_wait_and_messages_are_slow(ranks, rng):
    case = conv_torch_case([3] * 4, rng)
    for seed in LATENCY_SEEDS:
        result = convolved(ranks, case, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, case, [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE])


@points(10, "speed", "conv_torch")
def test_conv_torch_time(ranks, rng):
    machine = Machine("far", alpha_s=1e-3, beta_s_per_byte=1e-9, flop_per_s=1e12)
    case = conv_torch_case([4] * 4, rng, needs="none")
    halo_s = machine.alpha_s + case.halo_bytes(1, 2) * machine.beta_s_per_byte
    assert_makespan(convolved(ranks, case, machine=machine), halo_s, case)
    case, p = conv_torch_case([4] * 4, rng, channels=(8, 8), width=16), 4
    machine = Machine("slow cores", alpha_s=2e-6, beta_s_per_byte=2e-9, flop_per_s=1e9)
    result = convolved(ranks, case, machine=machine)
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
            examples.assert_ulysses_torch_refused(value, rank, case)


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
