"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and communicators. The oracle is the same computation on one rank that has everything.
"""

import sys
from pathlib import Path

import examples
import numpy as np

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Case,
    Verdict,
    assert_declared_at_once,
    assert_makespan,
    assert_moved,
    assert_ran,
    assert_real_run,
    assert_requests_complete,
    buffered,
    rendezvous,
)
from ringside.checking.points import points
from ringside.factors import Factors
from ringside.trace import Kind

ALL_KINDS = [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE]

# -- partition -------------------------------------------------------------------------------------

SHAPES = [(2, 3), (4,), ()]
ARRAYS = [np.arange(6.0).reshape(2, 3), np.arange(6.0, 10.0), np.array(10.0)]


def partition(ranks, function, calls, raises=None):
    """Results of ``partition.py``'s function; each call leaves its arguments as they are."""
    result = ranks.call("callers:partition_calls", 1, [(f"partition:{function}", calls)])
    assert_ran(result, Case(f"partition:{function}", 1, 0))
    for call, (_, error, changed) in zip(calls, result.values[0], strict=True):
        if error != raises:
            shown = f"raised {error}" if error else "raised nothing"
            raise Verdict(f"{function}{tuple(call)!r:.200} {shown}, and not {raises}.")
        if changed:
            raise Verdict(f"{function}{tuple(call)!r:.200} changed an argument, or shares memory.")
    return [value for value, _, _ in result.values[0]]


def equal(function, call, value, right):
    if value != right:
        raise Verdict(f"{function}{tuple(call)!r:.200} is {value}; it must be {right}.")


@points(20, "values", "partition")
def test_starts_and_shard_size(ranks, rng):
    for world_size, shard_size in ((1, 11), (4, 3), (11, 1), (20, 1)):
        call = (ARRAYS, [0, 1, 2], world_size)
        starts, size = partition(ranks, "layout", [call])[0]
        equal("layout", call, ([int(s) for s in starts], int(size)), ([0, 6, 10], shard_size))
    (value,) = partition(ranks, "layout", [([], [], 2)])
    equal("layout", ([], 2), tuple(value), ([], 0))


@points(15, "values", "partition")
def test_tied_weights_stand_once(ranks, rng):
    call = (ARRAYS, [0, 1, 0, 2, 1], 4)  # params[2] is params[0], and params[4] is params[1]
    starts, size = partition(ranks, "layout", [call])[0]
    equal("layout", call, ([int(s) for s in starts], int(size)), ([0, 6, 0, 10, 6], 3))


@points(20, "values", "partition")
def test_flatten_pads_with_zeros(ranks, rng):
    right = np.append(np.arange(11.0), 0.0)
    for more in ((), (True,)):  # in the second call, arrays lie in memory by columns
        (flat,) = partition(ranks, "flatten", [(ARRAYS, [0, 6, 10], 12, *more)])
        if not isinstance(flat, np.ndarray) or not np.array_equal(flat, right):
            raise Verdict(f"flatten of 11 elements, length 12, is {flat}; it must be {right}.")
    (short,) = partition(ranks, "flatten", [([ARRAYS[1].astype("float32")], [0], 4)])
    equal("flatten", ("of float32",), str(short.dtype), "float32")


@points(20, "values", "partition")
def test_views_share_memory_with_the_flat_vector(ranks, rng):
    call = (np.arange(12.0), [0, 6, 0, 10], [(2, 3), (4,), (2, 3), ()])
    (parts,) = partition(ranks, "views", [call])
    for part, right in zip(parts, [*ARRAYS[:2], ARRAYS[0], ARRAYS[2]], strict=True):
        if not np.array_equal(part, 2 * right) or part.shape != right.shape:
            raise Verdict(
                f"views: after flat was doubled, an array is {part.tolist()}; "
                f"it must be {(2 * right).tolist()}."
            )


@points(15, "values", "partition")
def test_pieces_of_each_shard(ranks, rng):
    right = [[(0, 0, 3)], [(0, 3, 6)], [(1, 0, 3)], [(1, 3, 4), (3, 0, 1)]]
    calls = [([0, 6, 0, 10], [(2, 3), (4,), (2, 3), ()], 3, rank) for rank in range(4)]
    for call, value, wanted in zip(calls, partition(ranks, "pieces", calls), right, strict=True):
        equal("pieces", call, [tuple(int(k) for k in each) for each in value], wanted)


@points(10, "safety", "partition")
def test_what_cannot_be_right_is_refused(ranks, rng):
    mixed = [ARRAYS[0], ARRAYS[1].astype("float32")]
    partition(ranks, "layout", [(ARRAYS, [0], 0), (mixed, [0, 1], 2)], "ValueError")
    partition(ranks, "flatten", [(ARRAYS, [0, 6, 10], 10), (ARRAYS, [0], 12)], "ValueError")
    partition(ranks, "views", [(np.ones(5), [0], [(2, 3)]), (np.ones(9), [0], [])], "ValueError")


# -- zero1 -----------------------------------------------------------------------------------------


def trained(ranks, rng, p, n, dtype="float64", steps=1, decay=0.0, clip=None, **options):
    """Make the steps, of which each begins with a state that was saved and loaded."""
    given = {"steps": steps} if steps > 1 else {}
    given |= {"decay": decay} if decay else {}
    given |= {"clip": clip} if clip is not None else {}
    case = Case("zero1:step", p, n, dtype, given).called_by("callers:zero1_steps")
    case.drawn.append(int(rng.integers(2**31)))
    training = examples.Training(p, n, dtype, case.drawn[0], steps, decay, clip)
    options.setdefault("machine", buffered())
    before = [(training.params, None)] * p
    world_size = options.pop("world_size", p)
    for step in range(steps):
        arguments = []
        for rank, (params, state) in enumerate(before):
            gradient, lr = training.gradients[step][rank], training.lrs[step]
            arguments.append((params, [gradient], [lr], decay, clip, state))
        result = ranks.call("callers:zero1_steps", world_size, arguments, **options)
        assert_ran(result, case)
        before = [value[:2] for value in result.values]
    for rank, value in enumerate(result.values):
        examples.assert_trained(value, training, case.seen_in(result), rank)
    return case, result, training


@points(15, "values", "zero1")
def test_one_step(ranks, rng):
    for p, n in ((2, 8), (4, 12)):
        trained(ranks, rng, p, n)


@points(10, "values", "zero1")
def test_any_length_on_any_number_of_ranks(ranks, rng):
    for p, n in ((4, 11), (3, 7), (5, 3), (1, 4)):
        trained(ranks, rng, p, n)


@points(10, "values", "zero1")
def test_several_steps_from_saved_states(ranks, rng):
    trained(ranks, rng, 3, 10, steps=3)
    trained(ranks, rng, 2, 9, steps=2, decay=0.5)
    trained(ranks, rng, 2, 9, "float32", steps=2)


@points(10, "values", "zero1")
def test_clipping_takes_the_norm_of_all_shards(ranks, rng):
    for p, n, clip in ((2, 8, 0.5), (3, 10, 1e9)):
        case, result, training = trained(ranks, rng, p, n, steps=2, clip=clip)
        value, training.gradients = result.values[-1], training.gradients[-1:]
        training.lrs = training.lrs[-1:]
        examples.assert_norms(value, training, case.seen_in(result), p - 1)
        examples.assert_alike(result, case)


@points(20, "communication", "zero1")
def test_bytes_and_state_of_a_rank(ranks, rng):
    for p, n, dtype in (
        (2, 10, "float64"),
        (4, 11, "float64"),
        (5, 500, "float32"),
        (12, 50, "float64"),
    ):
        case, result, _ = trained(ranks, rng, p, n, dtype, clip=1.0)
        shard_nbytes = -(-n // p) * np.dtype(dtype).itemsize
        assert_moved(result, (p - 1) * (2 * shard_nbytes + 16), case)


@points(5, "communication", "zero1")
def test_given_communicator_is_used(ranks, rng):
    trained(ranks, rng, 3, 11, clip=1.0, members=[4, 1, 2], world_size=5)


@points(10, "safety", "zero1")
def test_inputs_stay_and_sends_may_wait(ranks, rng):
    for seed in LATENCY_SEEDS:
        case, result, _ = trained(ranks, rng, 4, 11, clip=1.0, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, case, ALL_KINDS)
    case = Case("zero1:step", 3, 10).called_by("callers:zero1_looked_at")
    training = examples.Training(3, 10, "float64", 7, 2, 0.1, 1.0)
    arguments = [training.arguments(rank) for rank in range(3)]
    result = ranks.call("callers:zero1_looked_at", 3, arguments, machine=buffered())
    assert_ran(result, case)
    for rank, value in enumerate(result.values):
        examples.assert_kept(value, case, rank)
    result = ranks.call("callers:zero1_refuses", 2, [(training.params,)] * 2)
    assert_ran(result, case)
    for value in result.values:
        examples.assert_refused(value, case)


@points(15, "speed", "zero1")
def test_time_on_8_ranks(ranks, rng):
    machine = Machine.load("textbook,flop_per_s=1e9")
    p, n = 8, 16_000
    case, result, _ = trained(ranks, rng, p, n, clip=1.0, machine=machine)
    message_s = machine.alpha_s + n // p * 8 * machine.beta_s_per_byte
    number_s = machine.alpha_s + 8 * machine.beta_s_per_byte
    bound_s = 2 * (p - 1) * (message_s + number_s) + examples.update_s(n // p, machine)
    assert_makespan(result, bound_s, case)


@points(5, "reality", "zero1")
def test_real_mpi(mpiexec):
    program = (
        "import numpy as np; from mpi4py import MPI; from zero1 import measured_step; "
        "c = MPI.COMM_WORLD; w = np.arange(7.0); "
        "a, norm = measured_step(c, w, np.full(7, 1.0 + c.rank)); "
        "assert a.shape == (7,) and abs(a[0] + 0.01) < 1e-6, a"
    )
    words = [mpiexec, "-n", "3", sys.executable, "-c", program]
    assert_real_run(words, Path(__file__).parent, "zero1.py")


# -- zero2 -----------------------------------------------------------------------------------------


def passed(ranks, rng, p, widths, dtype="float64", **options):
    """A backward pass: values, and that each layer's gradient leaves before the next one's."""
    words = {"widths": ",".join(map(str, widths))}
    case = Case("zero2:backward", p, 3, dtype, words).called_by("callers:zero2_backward")
    case.drawn.append(int(rng.integers(2**31)))
    asked = examples.Pass(p, 3, widths, dtype, case.drawn[0])
    options.setdefault("machine", buffered())
    arguments = [asked.arguments(rank) for rank in range(p)]
    result = ranks.call(
        "callers:zero2_backward", options.pop("world_size", p), arguments,
        factors=Factors.drawn(rng), **options,
    )  # fmt: skip
    assert_ran(result, case)
    for rank, value in enumerate(result.values):
        examples.assert_shard(value, asked, case.seen_in(result), rank)
    assert_declared_at_once(result, case)
    examples.assert_sent_at_once(result, asked, case)
    return case, result, asked


@points(20, "values", "zero2")
def test_shards_on_2_and_4_ranks(ranks, rng):
    for p in (2, 4):
        passed(ranks, rng, p, (5, 4, 6, 3))


@points(15, "values", "zero2")
def test_any_layers_on_any_number_of_ranks(ranks, rng):
    passed(ranks, rng, 3, (5, 4, 6, 3), "float32")
    passed(ranks, rng, 5, (2, 12, 1, 1, 1))
    passed(ranks, rng, 3, (1, 1))


@points(10, "schedule", "zero2")
def test_gradients_leave_before_the_next_layer(ranks, rng):
    passed(ranks, rng, 4, (6,) * 6)


@points(20, "communication", "zero2")
def test_bytes_of_a_rank(ranks, rng):
    for p in (2, 4, 12):
        case, result, asked = passed(ranks, rng, p, (6, 5, 4))
        assert_moved(result, 8 * p * asked.shard_size, case)


@points(5, "communication", "zero2")
def test_the_communicator_that_is_given(ranks, rng):
    passed(ranks, rng, 3, (5, 4, 3), members=[4, 1, 2], world_size=5)


@points(15, "memory", "zero2")
def test_no_rank_holds_the_whole_gradient(ranks, rng):
    passed(ranks, rng, 2, (5, 4, 3))
    case = Case("zero2:backward", 4, 3, options={"widths": ",".join(["60"] * 13)})
    case = case.called_by("callers:zero2_memory")
    asked = examples.Pass(4, 3, (60,) * 13, "float64", 1)
    arguments = [asked.arguments(rank) for rank in range(4)]
    result = ranks.call("callers:zero2_memory", 4, arguments, machine=buffered())
    assert_ran(result, case)
    for rank, value in enumerate(result.values):
        examples.assert_held(value, asked, case.seen_in(result), rank)


@points(15, "safety", "zero2")
def test_sends_may_wait_for_their_receives(ranks, rng):
    for seed in LATENCY_SEEDS:
        options = {"machine": rendezvous(), "seed": seed}
        case, result, _ = passed(ranks, rng, 4, (5, 4, 6, 3), **options)
        assert_requests_complete(result, case, ALL_KINDS)
