"""zero1.py: each rank keeps the state of its shard, and updates nothing else."""

import numpy as np
from given.adam import FLOPS

from checks.cases import Steps, state_nbytes
from ringside.checking import Verdict, assert_makespan, assert_moved, assert_ran
from ringside.checking.cases import assert_like, machine_of
from ringside.checking.suite import Suite, called, group
from ringside.trace import Kind

suite = Suite("zero1")
PLAIN = "powers of two, which divide the length"
WORLDS = "other worlds"
LENGTHS = "lengths that p does not divide"
CLIPPED, DECAYED = "with clipping", "with weight decay"
WORK = "textbook,flop_per_s=1e9"  # the update of all elements takes as long as all messages


@suite.test("mean", "values", Steps(2, 8), Steps(4, 12), weight=2)
def test_one_step_on_2_4_and_8_ranks(case, run):
    """Parameters as those of one rank that has the mean gradient."""
    case.check_exactly(run)


@suite.test("mean", "values", Steps(2, 40, dtype="float32", steps=2), weight=1.25)
def test_float32(case, run):
    """Parameters and state keep their dtype."""
    assert_state(run, case)


test_real_mpi = suite.real_ranks("mean", Steps(4, 8), weight=0.5)


@suite.test(
    "lengths", "values",
    group(LENGTHS, *(Steps(p, n) for p, n in ((4, 11), (2, 7), (4, 3)))),
    group(WORLDS, *(Steps(p, n) for p, n in ((3, 9), (5, 10)))),
)  # fmt: skip
def test_any_length_on_any_number_of_ranks(case, run):
    """Also fewer elements than ranks."""


@suite.test(
    "training", "values", group(CLIPPED, Steps(3, 10, steps=3, clip=0.5)),
    group(DECAYED, Steps(2, 9, steps=2, decay=0.5)),
)  # fmt: skip
def test_several_steps_from_saved_states(case, run, ranks):
    """The last step begins with states that were saved, after another and longer training."""
    inputs = [case.inputs(rank) for rank in range(case.p)]
    first = [(params, gs[:-1], lrs[:-1], *rest) for params, gs, lrs, *rest in inputs]
    saved = called(ranks, case, args=first)
    assert_ran(saved, case)
    other = [(params, 2 * [-g for g in gs], 2 * lrs, *rest) for params, gs, lrs, *rest in first]
    called(ranks, case, args=other)
    loaded = called(
        ranks, case,
        args=[
            (value["params"], gs[-1:], lrs[-1:], *rest, value["state"])
            for value, (_, gs, lrs, *rest) in zip(saved.values, inputs, strict=True)
        ],
    )  # fmt: skip
    assert_ran(loaded, case)
    for rank, (value, right) in enumerate(zip(loaded.values, case.right(), strict=True)):
        what = f"after a last step from states that were saved, rank {rank}'s vector of parameters"
        assert_like(value["params"], right["params"], case, what)


@suite.test("training", "values", Steps(2, 8, decay=0.5), weight=0.25)
def test_weight_decay(case, run):
    """As ``adam`` takes it."""
    case.check_exactly(run)


@suite.test("clip", "values", Steps(2, 8, steps=2, clip=0.5), Steps(2, 8, steps=2, clip=1e9))
def test_clipping_takes_the_norm_of_all_shards(case, run):
    """Of a first step Adam takes the direction alone, so the second one shows the length."""


@suite.test(
    "norm", "values", Steps(2, 8), Steps(4, 12, steps=2, clip=0.5), Steps(8, 40, steps=4)
)  # fmt: skip
def test_norm_is_that_of_the_whole_mean_gradient(case, run):
    first = run.values[0]
    for rank, (value, right) in enumerate(zip(run.values, case.right(), strict=True)):
        what = f"rank {rank}'s norm in step"
        for norm in value["norms"]:
            if type(norm.item() if isinstance(norm, np.ndarray) else norm) is not float:
                raise case.fail(f"{what} 0 is of type {type(norm).__name__}, not a float.")
        norms = [np.asarray(norm, case.dtype) for norm in value["norms"]]
        try:
            assert_like(norms, [np.asarray(n, case.dtype) for n in right["norms"]], case, what)
        except Verdict as verdict:
            if np.allclose(norms, case.p * np.array(right["norms"])):
                verdict.sentence += " This is the norm of the sum; that of the mean is asked for."
            raise
        if not np.array_equal(value["params"], first["params"]):
            raise case.fail(f"rank {rank}'s parameters differ from rank 0's; no bit may.")
        if list(value["norms"]) != list(first["norms"]):
            raise case.fail(
                f"rank {rank}'s norms are {value['norms']}; rank 0's are {first['norms']}. No bit "
                "may differ."
            )


@suite.test("state", "memory", Steps(4, 1000), checked=False)
def test_state_is_that_of_a_shard(case, run):
    """Half of the points where it is at most half of all; values are looked at elsewhere."""
    assert_state(run, case)


@suite.test(
    "costs", "memory", group("float32", Steps(2, 100, dtype="float32"), weight=4),
    group(WORLDS, Steps(5, 1000)), group(LENGTHS, Steps(4, 1003)), checked=False, weight=4,
)  # fmt: skip
def test_state_to_the_byte(case, run):
    """In the parameters' dtype, and for any length."""
    assert_state(run, case)


def assert_state(run, case):
    """No rank's state has more than m and v of a shard."""
    shard, whole = (2 * count * case.itemsize for count in (case.shard_size, case.n))
    for rank, value in enumerate(run.values):
        nbytes = state_nbytes(value["state"])
        if nbytes > shard + 64:
            verdict = case.fail(
                f"rank {rank}'s state has {nbytes} bytes; m and v of a shard have {shard}, and 64 "
                f"are allowed for numbers. All ranks' m and v have {whole}."
            )
            verdict.fraction = 0.5 if nbytes <= whole / 2 else 0.0
            raise verdict


@suite.test(
    "costs", "communication", group(PLAIN, Steps(2, 10), Steps(4, 20)),
    group(LENGTHS, Steps(4, 11)), group(WORLDS, Steps(5, 500), Steps(12, 60)),
    group("float32", Steps(4, 500, "float32"), weight=4), checked=False, weight=5,
)  # fmt: skip
def test_bytes_per_rank(case, run, ranks):
    allowed = (case.p - 1) * (2 * case.shard_size * case.itemsize + 16)
    ranks.record(case, run, {"bytes": allowed})
    assert_moved(run, allowed, case)


test_given_communicator_is_used = suite.given_communicator("rules", Steps(4, 12), weight=4)
test_messages_may_wait_and_come_in_any_order = suite.slow_messages(
    "rules", Steps(4, 12), kinds=[Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE], weight=3
)


@suite.test("rules", "safety", Steps(4, 12, steps=2, decay=0.1), checked=False, weight=4)
def test_inputs_stay_as_they_were(case, run):
    for rank, value in enumerate(run.values):
        if value["changed"]:
            raise case.fail(
                f"rank {rank} changed params, gradient or state; all stay as they were."
            )
        if value["shared"]:
            raise case.fail(
                f"rank {rank}'s new parameters are not a new array that can be written to."
            )


@suite.test("costs", "speed", Steps(8, 16_000, machine=WORK), checked=False, weight=10)
def test_time_on_8_and_32_ranks(case, run):
    """Reduce-scatter, the sum of one number, the update of a shard, all-gather: one by one."""
    machine = machine_of(case)
    around_s, number_s = (
        machine.alpha_s + nbytes * machine.beta_s_per_byte
        for nbytes in (case.shard_size * case.itemsize, 8)
    )
    shard_s, whole_s = (FLOPS * n / machine.flop_per_s for n in (case.shard_size, case.n))
    bound_s = 2 * (case.p - 1) * (around_s + number_s) + shard_s
    beside = f" The update of all {case.n} elements takes {whole_s * 1e6:.1f} µs."
    assert_makespan(run, bound_s, case, beside=beside)
