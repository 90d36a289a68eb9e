"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and communicators. The oracle is the same computation on one rank that has everything.
"""

import itertools
import sys
from pathlib import Path

import cases_torch as cases
import examples
import numpy as np
import observed_torch as observed
import serial_torch
from offload_model import CHOICES, Layer, makespan_s

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Case,
    Verdict,
    assert_array,
    assert_declared_at_once,
    assert_makespan,
    assert_moved,
    assert_ran,
    assert_real_run,
    assert_requests_complete,
    buffered,
    magnitude,
    rendezvous,
)
from ringside.checking.points import points
from ringside.checking.ring_bytes import sent_as_ring
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
    call = ([np.zeros(4), np.zeros(4)], [0, 1], 2)  # equal numbers in two arrays: no tie
    starts, size = partition(ranks, "layout", [call])[0]
    equal("layout", call, ([int(s) for s in starts], int(size)), ([0, 4], 4))


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
    partition(ranks, "flatten", [(ARRAYS, [0, 6, 10], 10)], "ValueError")
    partition(ranks, "views", [(np.ones(5), [0], [(2, 3)])], "ValueError")


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


@points(5, "memory", "zero1", essential=True)
def test_state_is_that_of_a_shard(ranks, rng):
    case = Case("zero1:step", 4, 1000).called_by("callers:zero1_steps")
    training = examples.Training(4, 1000, "float64", 7)
    arguments = [training.arguments(rank) for rank in range(4)]
    result = ranks.call("callers:zero1_steps", 4, arguments, machine=buffered())
    assert_ran(result, case)
    examples.assert_state(result, case)


@points(15, "communication", "zero1")
def test_bytes_of_each_rank(ranks, rng):
    for p, n, dtype in (
        (2, 10, "float64"),
        (4, 11, "float64"),
        (5, 500, "float32"),
        (12, 50, "float64"),
    ):
        case, result, _ = trained(ranks, rng, p, n, dtype)
        shard_nbytes = -(-n // p) * np.dtype(dtype).itemsize
        assert_moved(result, (p - 1) * (2 * shard_nbytes + 16), case)


@points(5, "communication", "zero1")
def test_given_communicator_is_used(ranks, rng):
    trained(ranks, rng, 3, 11, members=[4, 1, 2], world_size=5)


@points(10, "safety", "zero1")
def test_inputs_stay_and_sends_may_wait(ranks, rng):
    for seed in LATENCY_SEEDS:
        case, result, _ = trained(ranks, rng, 4, 11, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, case, ALL_KINDS)
    case = Case("zero1:step", 3, 10).called_by("callers:zero1_looked_at")
    training = examples.Training(3, 10, "float64", 7, 2, 0.1, 1.0)
    arguments = [training.arguments(rank) for rank in range(3)]
    result = ranks.call("callers:zero1_looked_at", 3, arguments, machine=buffered())
    assert_ran(result, case)
    for rank, value in enumerate(result.values):
        examples.assert_kept(value, case, rank)


@points(15, "speed", "zero1")
def test_time_on_8_ranks(ranks, rng):
    machine = Machine.load("textbook,flop_per_s=1e9")
    p, n = 8, 16_000
    case, result, _ = trained(ranks, rng, p, n, machine=machine)
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
        "assert a.shape == (7,), f'the result has shape {a.shape}, not (7,)'; "
        "assert abs(a[0] + 0.01) < 1e-6, f'element 0 is {a[0]:.6f}; it must be -0.010000'"
    )
    words = [mpiexec, "-n", "3", sys.executable, "-c", program]
    assert_real_run(words, Path(__file__).parent, "zero1.py")


# -- zero2 -----------------------------------------------------------------------------------------


def passed(ranks, rng, p, widths, dtype="float64", values=True, **options):
    """A backward pass, and perhaps its values."""
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
    for rank, value in enumerate(result.values if values else []):
        examples.assert_shard(value, asked, case.seen_in(result), rank)
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


@points(5, "schedule", "zero2", essential=True)
def test_gradients_leave_layer_by_layer(ranks, rng):
    case, result, asked = passed(ranks, rng, 4, (6,) * 9, values=False)
    examples.assert_sent_early(result, asked, case)


@points(5, "schedule", "zero2")
def test_gradients_leave_before_the_next_layer(ranks, rng):
    case, result, asked = passed(ranks, rng, 4, (6,) * 9)
    assert_declared_at_once(result, case)
    examples.assert_sent_at_once(result, asked, case)


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


# -- zero3_torch -----------------------------------------------------------------------------------

NETWORK = {"widths": [4, 6, 5, 3], "costs": [1e-6, 2e-6]}


def zero3(ranks, rng, p, spec=NETWORK, by_layer=False, *, optimizer="sgd", keep=False, **more):
    """Train in ``ZeRO3``, and compare with one process: what each rank keeps."""
    second = more.pop("second", False)
    plan = {name: more.pop(name) for name in ("steps", "microbatches", "evaluate") if name in more}
    told = {"keep_zeros": keep, "second": second}
    call = cases.zero3_call(p, spec, by_layer, optimizer=optimizer, **told, **plan)
    options = cases.options_of(optimizer, by_layer=by_layer, **told)
    sample = cases.sample_training(rng, spec, p, by_layer, **plan)
    arguments = cases.training_arguments(spec, sample, options)
    world_size = more.pop("world_size", p)
    if not second:  # passes are told apart by their order
        more["factors"] = Factors.drawn(rng)
    result = ranks.call("callers_torch:zero3_train", world_size, arguments, **more)
    assert_ran(result, call)
    right = serial_torch.train(
        sample["params"], sample["steps"], sample["evaluated"], options, result.factors
    )
    for rank, value in enumerate(result.values):
        cases.check_zero3(value, right, rank, spec, by_layer, call.seen_in(result))
    assert_declared_at_once(result, call)
    return call, result, cases.sharded(spec, p, by_layer)


@points(20, "values", "zero3_torch")
def test_training_equals_serial_training(ranks, rng):
    for p in (2, 3):
        zero3(ranks, rng, p)
    zero3(ranks, rng, 18, steps=1)


@points(5, "values", "zero3_torch")
def test_layers_with_fewer_elements_than_ranks(ranks, rng):
    zero3(ranks, rng, 4, {"widths": [2, 1, 1, 3], "bias": False})


@points(8, "values", "zero3_torch")
def test_gradients_add_up(ranks, rng):
    zero3(ranks, rng, 2, microbatches=2)
    zero3(ranks, rng, 2, keep=True)


@points(6, "values", "zero3_torch")
def test_evaluation_in_between(ranks, rng):
    zero3(ranks, rng, 2, evaluate=True)


@points(5, "values", "zero3_torch")
def test_layers_that_a_function_names(ranks, rng):
    zero3(ranks, rng, 2, NETWORK | {"blocks": [2, 1]}, by_layer=True)
    zero3(ranks, rng, 2, NETWORK | {"blocks": [1, 2]})


@points(5, "values", "zero3_torch")
def test_adam_and_float32(ranks, rng):
    zero3(ranks, rng, 2, optimizer="adam", second=True)
    zero3(ranks, rng, 2, NETWORK | {"dtype": "float32"})


@points(6, "values", "zero3_torch")
def test_as_torchs_own_fully_shard(ranks, rng):
    p, options = 3, cases.options_of()
    call, sample = cases.zero3_call(p, NETWORK), cases.sample_training(rng, NETWORK, 3)
    mine = ranks.call(
        "callers_torch:zero3_train", p, cases.training_arguments(NETWORK, sample, options)
    )
    whole = [each for layer in sample["params"] for each in layer]
    arguments = [(NETWORK, whole, steps, options | {"whole": False}) for steps in sample["steps"]]
    theirs = ranks.call("callers_torch:with_fully_shard", p, arguments)
    assert_ran(mine, call)
    assert_ran(theirs, call)
    for rank in range(p):
        sent, allowed = (sent_as_ring(each)[rank] for each in (mine, theirs))
        if not 0 < sent <= allowed:
            raise call.fail(f"rank {rank} sent {sent:.0f} bytes; fully_shard sends {allowed:.0f}.")
    arguments = [(NETWORK, whole, steps, options) for steps in sample["steps"]]
    ends = iter(ranks.call("callers_torch:with_fully_shard", p, arguments).values[0])
    layers = [[next(ends) for _ in layer] for layer in sample["params"]]
    for rank, value in enumerate(mine.values):
        shards = [np.split(cases.flat(layer, p), p)[rank] for layer in layers]
        cases.compare(value["shards"], shards, call, f"beside fully_shard, rank {rank}'s shard")


@points(8, "communication", "zero3_torch")
def test_bytes_of_a_step(ranks, rng):
    for p in (2, 5):
        call, result, layers = zero3(ranks, rng, p)
        observed.assert_collectives(result, call)
        observed.assert_volume(result, call, layers, steps=2)
        total = sum(layer.nbytes for layer in layers)
        ranks.record(call, result, {"two steps": 6 * total * (p - 1) // p})


@points(5, "communication", "zero3_torch")
def test_given_group_is_used(ranks, rng):
    zero3(ranks, rng, 3, world_size=5, members=[3, 1, 4])


@points(4, "schedule", "zero3_torch", essential=True)
def test_layers_are_gathered_one_by_one(ranks, rng):
    p, spec = 4, {"widths": [12] * 8, "costs": [1e-6, 2e-6]}
    call, options = cases.zero3_call(p, spec, steps=1), cases.options_of()
    sample = cases.sample_training(rng, spec, p, steps=1)
    arguments = cases.training_arguments(spec, sample, options)
    result = ranks.call("callers_torch:zero3_train", p, arguments, factors=Factors.drawn(rng))
    assert_ran(result, call)
    observed.assert_one_by_one(result, call, cases.sharded(spec, p))


@points(8, "schedule", "zero3_torch")
def test_next_layer_is_gathered_before_it_is_needed(ranks, rng):
    call, result, layers = zero3(ranks, rng, 2, NETWORK | {"widths": [4, 3, 5, 2, 6]})
    observed.assert_one_ahead(result, call, layers)


@points(6, "schedule", "zero3_torch")
def test_gradients_are_reduced_while_the_next_layer_computes(ranks, rng):
    call, result, layers = zero3(ranks, rng, 2, NETWORK | {"widths": [4, 3, 5, 2, 6]})
    observed.assert_reduced(result, call, layers)


@points(4, "safety", "zero3_torch")
def test_everything_is_waited_for(ranks, rng):
    for seed in LATENCY_SEEDS:
        call, result, _ = zero3(ranks, rng, 3, evaluate=True, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, call, [Kind.COLLECTIVE])


@points(6, "memory", "zero3_torch")
def test_two_layers_at_a_time(ranks, rng):
    spec, p, layer = {"widths": [64] * 13, "bias": False}, 4, 8 * 64 * 64
    for evaluate in (False, True):
        call = cases.zero3_call(p, spec, steps=1, evaluate=evaluate)
        sample = cases.sample_training(rng, spec, p, steps=1, evaluate=evaluate)
        arguments = [
            (spec, sample["handed"][rank], *sample["steps"][rank][0][0], evaluate)
            for rank in range(p)
        ]
        result = ranks.call("callers_torch:zero3_memory", p, arguments)
        assert_ran(result, call)
        allowed = 11 * layer + layer // 2  # half a layer for activations and the like
        for rank, memory in enumerate(result.memory):
            if memory["peak"] > allowed:
                raise call.fail(
                    f"rank {rank} held tensors of {memory['peak']} bytes at one time; {allowed} "
                    f"are allowed with 12 layers of {layer} bytes."
                )


@points(4, "speed", "zero3_torch")
def test_time_of_a_zero3_step(ranks, rng):
    machine = Machine("slow wire", alpha_s=1e-6, beta_s_per_byte=1e-6)
    spec = {"widths": [40] * 7}
    length = cases.lengths_of(spec, 4)[0]
    backward_s = 2 * observed.ring_s(length, 8, machine)
    costs = [backward_s / 2, backward_s]
    call, result, layers = zero3(ranks, rng, 4, spec | {"costs": costs}, steps=1, machine=machine)
    for world_size in (8, 32):
        observed.assert_time(result, call, layers, costs, world_size)


# -- hsdp_torch ------------------------------------------------------------------------------------


def hsdp(ranks, rng, function, replicas, size, parts=(3, 0, 2), dtype="float64", **more):
    """Call a function of ``hsdp_torch``, and see that each message goes its way."""
    p, lengths = replicas * size, [size * n for n in parts]
    call = cases.hsdp_call(function, replicas, size, lengths, dtype)
    if function == "gather":
        wholes = [rng.standard_normal((1, n)).astype(dtype) for n in lengths]
        own = [[np.split(each[0], size)[r % size] for each in wholes] for r in range(p)]
    else:
        wholes = [rng.standard_normal((p, n)).astype(dtype) for n in lengths]
        own = [[each[r] for each in wholes] for r in range(p)]
    world_size = more.pop("world_size", p)
    arguments = [(function, size, each) for each in own]
    result = ranks.call("callers_torch:hsdp", world_size, arguments, **more)
    assert_ran(result, call)
    for rank, (found, changed) in enumerate(result.values):
        if not isinstance(found, list) or len(found) != len(wholes) or changed:
            raise call.fail(f"rank {rank} must return {len(wholes)} tensors, and change none.")
        for value, whole in zip(found, wholes, strict=True):
            right, scale = whole.astype("float64").mean(axis=0), magnitude(list(whole))
            if function == "synchronise":
                right, scale = (np.split(each, size)[rank % size] for each in (right, scale))
            assert_array(value, right.astype(dtype), scale, call, f"rank {rank}'s layer")
    return call, result


@points(15, "values", "hsdp_torch")
def test_gather(ranks, rng):
    for replicas, size in ((2, 2), (1, 3)):
        hsdp(ranks, rng, "gather", replicas, size)


@points(25, "values", "hsdp_torch")
def test_mean_of_gradients(ranks, rng):
    for replicas, size in ((2, 2), (3, 1), (2, 3)):
        hsdp(ranks, rng, "synchronise", replicas, size)
    hsdp(ranks, rng, "synchronise", 2, 2, dtype="float32")


@points(5, "values", "hsdp_torch")
def test_empty_lists_and_lengths_that_cant_be_cut(ranks, rng):
    for function in ("gather", "synchronise"):
        hsdp(ranks, rng, function, 2, 2, parts=())
    call = cases.hsdp_call("synchronise", 2, 2, (4, 3))
    arguments = [("synchronise", 2, [np.ones(4), np.ones(3)])] * 4
    result = ranks.call("callers_torch:hsdp_refuses", 4, arguments)
    if result.values != ["ValueError"] * 4 or result.collectives:
        raise call.fail("3 elements on 2 ranks: every rank raises ValueError before any message.")


@points(5, "communication", "hsdp_torch", essential=True)
def test_gradients_are_reduced_on_two_levels(ranks, rng):
    call = cases.hsdp_call("synchronise", 2, 2, (16, 8))
    own = [[rng.standard_normal(n) for n in (16, 8)] for _ in range(4)]
    result = ranks.call("callers_torch:hsdp", 4, [("synchronise", 2, each) for each in own])
    assert_ran(result, call)
    observed.assert_two_levels(result, call, 2)


@points(20, "communication", "hsdp_torch")
def test_bytes_inside_and_between(ranks, rng):
    for function in ("gather", "synchronise"):
        call, result = hsdp(ranks, rng, function, 2, 3, parts=(8, 4))
        observed.assert_ways(result, call, function, 3, (24, 12))


@points(5, "communication", "hsdp_torch")
def test_given_groups_are_used(ranks, rng):
    members = [1, 2, 4, 5]
    for function in ("gather", "synchronise"):
        call, result = hsdp(ranks, rng, function, 2, 2, world_size=6, members=members)
        observed.assert_ways(result, call, function, 2, (6, 0, 4))


@points(10, "safety", "hsdp_torch")
def test_hsdp_waits_for_everything(ranks, rng):
    for seed in LATENCY_SEEDS:
        for function in ("gather", "synchronise"):
            more = {"machine": rendezvous(), "seed": seed}
            call, result = hsdp(ranks, rng, function, 2, 2, **more)
            assert_requests_complete(result, call, [Kind.COLLECTIVE])


@points(10, "speed", "hsdp_torch")
def test_both_levels_work_at_once(ranks, rng):
    nodes = Machine(
        "even links", alpha_s=2.7e-6, beta_s_per_byte=8e-11, intra_alpha_s=6e-7,
        intra_beta_s_per_byte=8e-11, ranks_per_node=4, gpus_per_nic=4,
        memory_bytes_per_s=1e18, flop_per_s=1e18,
    )  # fmt: skip
    call, result = hsdp(ranks, rng, "synchronise", 2, 4, (40_000,) * 6, "float32", machine=nodes)
    bound_s = cases.hsdp_s([160_000] * 6, 2, 4, nodes, 4)
    assert_makespan(result, bound_s, call, half=1.3)


@points(5, "speed", "hsdp_torch")
def test_a_step_beats_plain_sharding_over_slow_links(ranks, rng):
    machine = Machine.load("zaratan").with_(kernel_overhead_s=0.0, memory_bytes_per_s=1e18)
    lengths = [80_000] * 4
    call = cases.hsdp_call("synchronise", 2, 4, lengths)
    mine = ranks.call("callers_torch:hsdp_step", 8, [(4, lengths)] * 8, machine=machine)
    plain = ranks.call("callers_torch:flat_step", 8, [(lengths,)] * 8, machine=machine)
    assert_ran(mine, call)
    if mine.makespan_s > 0.6 * plain.makespan_s:
        raise call.fail(
            f"a step takes {mine.makespan_s * 1e6:.0f} µs, and {plain.makespan_s * 1e6:.0f} µs "
            "with plain sharding; at most 0.6 times that is asked for."
        )


# -- memory ----------------------------------------------------------------------------------------

TINY = (2, 4, 2, 2, 3)  # layers, width, heads, tokens, words
SEVEN = (36, 4096, 32, 2048, 51_200)  # 7.5e9 parameters


def memory_line(where):
    return f'python -c "from gpt_sizes import *; from memory import *; print({where})"'


def ask_memory(ranks, function, calls):
    """Per call ``(arguments, options)`` of a function of memory.py: how it is named, result."""
    result = ranks.call("callers:memory_numbers", 1, [(f"memory:{function}", calls)])
    result.raise_for_error()
    for (arguments, options), (value, error) in zip(calls, result.values[0], strict=True):
        words = [f"Sizes{each}" if isinstance(each, tuple) else repr(each) for each in arguments]
        words += [f"{name}={each}" for name, each in options.items()]
        value = value.item() if hasattr(value, "item") else value
        yield f"{function}({', '.join(words)})", value, error


def check_memory(ranks, function, cases):
    """Each case is arguments, options and the right number."""
    calls = [(list(arguments), options) for arguments, options, _ in cases]
    for (where, value, error), (*_, right) in zip(
        ask_memory(ranks, function, calls), cases, strict=True
    ):
        if error or type(value) is not int or value != right:
            said = f"raised {error}" if error else f"is {value!r}"
            raise Verdict(
                f"{where} {said}; it must be {right}, an int.", reproduce=memory_line(where)
            )


@points(10, "values", "memory")
def test_parameters(ranks):
    check_memory(ranks, "num_parameters", [((TINY,), {}, 516), ((SEVEN,), {}, 7_467_786_240)])


@points(15, "values", "memory")
def test_state_of_every_stage(ranks):
    right = (120_000_000_000, 31_406_250_000, 16_640_625_000, 1_875_000_000)
    cases = [((7_500_000_000, 64, stage), {}, number) for stage, number in enumerate(right)]
    check_memory(ranks, "state_bytes", cases)


@points(10, "values", "memory")
def test_state_where_ranks_do_not_divide_the_parameters(ranks):
    right = (112, 76, 70, 64)
    cases = [((7, 2, stage), {}, number) for stage, number in enumerate(right)]
    cases += [((3, 5, 3), {}, 16), ((10**17 + 1, 2, 3), {}, 16 * (5 * 10**16 + 1))]
    check_memory(ranks, "state_bytes", cases)


@points(5, "values", "memory")
def test_state_of_other_dtypes(ranks):
    dtypes = {"weight_bytes": 3, "gradient_bytes": 5, "optimizer_bytes": 7}
    right = (150, 108, 78, 60)
    cases = [((10, 3, stage), dtypes, number) for stage, number in enumerate(right)]
    check_memory(ranks, "state_bytes", cases)


@points(15, "values", "memory")
def test_activations(ranks):
    gpt3_layer = (1, 12_288, 96, 2048, 0)  # 34 s b h + 5 a s s b, and 5 s b h outside
    right = 2048 * 12_288 * 39 + 5 * 96 * 2048**2
    cases = [((TINY, 1), {}, 676), ((TINY, 3), {}, 2028), ((gpt3_layer, 1), {}, right)]
    check_memory(ranks, "activation_bytes", cases)


@points(10, "values", "memory")
def test_activations_without_dropout_and_in_other_dtypes(ranks):
    cases = [
        ((TINY, 1), {"dropout": False}, 588),
        ((TINY, 1), {"element_bytes": 4}, 1296),
        ((TINY, 1), {"element_bytes": 4, "dropout": False}, 1176),
    ]
    check_memory(ranks, "activation_bytes", cases)


@points(10, "values", "memory")
def test_activations_with_recomputation(ranks):
    again = {"recompute": True}
    cases = [((TINY, 1), again, 380), (((1, *TINY[1:]), 1), again, 364), ((TINY, 2), again, 760)]
    check_memory(ranks, "activation_bytes", cases)


@points(10, "memory", "memory")
def test_what_fits(ranks):
    gb = 10**9
    layers = [((32 * gb, SEVEN, 1, 64, 3), {}, 31), ((32 * gb, SEVEN, 1, 64, 1), {}, 17)]
    layers.append(((32 * gb, SEVEN, 1, 64, 3), {"recompute": True}, 458))
    check_memory(ranks, "step_bytes", [((TINY, 1, 2, 1), {}, 676 + 4 * 516 + 12 * 258)])
    exact = 676 + 4 * 516 + 12 * 258
    layers += [((exact, TINY, 1, 2, 1), {}, 2), ((exact - 1, TINY, 1, 2, 1), {}, 1)]
    check_memory(ranks, "most_layers", layers)
    numbers = [
        ((32 * gb, SEVEN, 1, stage), {"recompute": True}, n)
        for stage, n in ((1, 269), (2, 7), (3, 4))
    ]
    numbers += [((exact, TINY, 1, 1), {}, 2), ((exact - 1, TINY, 1, 1), {}, 3)]
    check_memory(ranks, "fewest_ranks", numbers)


@points(5, "safety", "memory")
def test_refuses_what_does_not_fit(ranks):
    refused = {
        "state_bytes": [([10, 2, 4], {}), ([10, 0, 1], {})],
        "most_layers": [([1000, TINY, 1, 2, 1], {})],
        "fewest_ranks": [([1000, TINY, 1, 1], {}), ([1000, TINY, 1, 0], {})],
    }
    for function, calls in refused.items():
        for where, value, error in ask_memory(ranks, function, calls):
            if error != "ValueError":
                said = f"raised {error}" if error else f"is {value}"
                raise Verdict(
                    f"{where} {said}; it must raise ValueError.", reproduce=memory_line(where)
                )


@points(10, "memory", "memory")
def test_as_torchs_tracker_counts_it(ranks):
    """A small GPT on the network: what its storages take between forward and backward pass."""
    sizes = (4, 128, 4, 64, 300)
    for recompute in (False, True):
        result = ranks.call("gpt_torch:kept", 1, [(sizes, 2, 2, True, recompute)])
        counted = result.raise_for_error().memory[0]["live"]["activations"]
        calls = [([sizes, 2], {"recompute": recompute})]
        for where, value, error in ask_memory(ranks, "activation_bytes", calls):
            if error or abs(value - counted) > 0.02 * counted:
                said = f"raised {error}" if error else f"is {value}"
                raise Verdict(
                    f"{where} {said}; the tracker counted {counted} bytes, and 2 % are allowed.",
                    reproduce=memory_line(where),
                )


# -- offload ---------------------------------------------------------------------------------------

SIX = ([(4, 8, 20), (2, 5, 12), (7, 9, 8), (3, 3, 25), (1, 4, 16), (5, 9, 10)], 50, 4.0)
TWELVE = (
    [(1, 7, 12), (4, 2, 19), (5, 11, 3), (8, 16, 22), (2, 4, 30), (6, 6, 9),
     (3, 9, 27), (9, 5, 14), (1, 1, 6), (7, 12, 25), (4, 8, 17), (2, 3, 11)],
    70, 2.0,
)  # fmt: skip


def offload_line(call):
    words = "from callers import try_offload; try_offload"
    return f'python -c "{words}({", ".join(map(str, call))})"'


def ask_plans(ranks, calls):
    result = ranks.call("callers:offload_plans", 1, [("offload:schedule", calls)])
    return result.raise_for_error().values[0]


def plan_s(ranks, call):
    """Makespan of the plan for a call, which must have the right words and fit."""
    numbers, capacity, host = call
    ((plan, error),) = ask_plans(ranks, [call])
    said = f"raised {error}" if error else f"is {plan!r}"
    words = plan if isinstance(plan, list | tuple) else [plan]
    if error or len(words) != len(numbers) or not all(word in CHOICES for word in words):
        raise Verdict(
            f"The schedule of {len(numbers)} layers {said}; it must be one word for each.",
            reproduce=offload_line(call),
        )
    time_s = makespan_s([Layer(*each) for each in numbers], words, capacity, host)
    if time_s == float("inf"):
        raise Verdict(
            f"The schedule {words} needs more than {capacity} bytes.", reproduce=offload_line(call)
        )
    return time_s


def check_plan(ranks, call, most_s):
    time_s = plan_s(ranks, call)
    if time_s > most_s * (1 + 1e-9):
        raise Verdict(
            f"The makespan of your plan is {time_s:.6g} s; the bound is {most_s:.6g} s.",
            reproduce=offload_line(call),
        )


def shortest_s(call):
    numbers, capacity, host = call
    layers = [Layer(*each) for each in numbers]
    plans = itertools.product(CHOICES, repeat=len(layers))
    return min(makespan_s(layers, plan, capacity, host) for plan in plans)


@points(20, "memory", "offload")
def test_plans_fit(ranks):
    for capacity in (25, 26, 40, 60):
        plan_s(ranks, (SIX[0], capacity, 4.0))


@points(30, "values", "offload")
def test_as_short_as_any_plan(ranks):
    for call in (SIX, (SIX[0], 30, 4.0), (TWELVE[0][:7], 60, 5.0)):
        check_plan(ranks, call, shortest_s(call))


@points(10, "values", "offload")
def test_with_a_fast_and_a_slow_link(ranks):
    for host in (100.0, 0.1):
        check_plan(ranks, (SIX[0], 40, host), shortest_s((SIX[0], 40, host)))


@points(10, "values", "offload")
def test_keeps_everything_where_it_fits(ranks):
    check_plan(ranks, (TWELVE[0], sum(n for *_, n in TWELVE[0]), 1.0), 136)
    check_plan(ranks, ([], 5, 1.0), 0)


@points(10, "safety", "offload")
def test_refuses_where_nothing_fits(ranks):
    calls = [(SIX[0], 24, 4.0), ([(1, 2, 9)], 8, 1.0)]
    for call, (plan, error) in zip(calls, ask_plans(ranks, calls), strict=True):
        if error != "ValueError":
            said = f"raised {error}" if error else f"is {plan}"
            raise Verdict(
                f"The schedule of {len(call[0])} layers, one of which is larger than the capacity, "
                f"{said}; it must raise ValueError.",
                reproduce=offload_line(call),
            )


@points(15, "speed", "offload")
def test_time_of_a_long_model(ranks):
    check_plan(ranks, TWELVE, 1.05 * 145)  # keeping what fits takes 159 s


@points(5, "values", "offload")
def test_gradients_are_those_of_everything_kept(ranks):
    widths = [3, 8, 5, 8]
    plan_s(ranks, ([(1, 2, 16 * width) for width in widths], 200, 40.0))
    result = ranks.call("callers:offload_gradients", 1, [(widths, 0, 200, 40.0)])
    plan, equal = result.raise_for_error().values[0]
    if not equal:
        raise Verdict(f"Run by the plan {plan}, a network has other gradients.")
