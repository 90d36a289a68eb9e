"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and communicators. The oracle is the same training on one rank that has all samples.
"""

import math
import sys
from pathlib import Path

import digits
import numpy as np
import pytest
from examples import assert_split
from model import init_params, loss_and_gradients, num_flops

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Case,
    Verdict,
    assert_makespan,
    assert_ran,
    assert_real_run,
    assert_requests_complete,
    buffered,
    rendezvous,
)
from ringside.checking.points import points
from ringside.checking.ring_bytes import received_as_ring, sent_as_ring
from ringside.trace import Kind

WIDTHS = (12, 9, 5)
BROADCAST = "step:broadcast_parameters"
TORCH_BROADCAST = "callers_torch:broadcast_parameters"  # calls step_torch.py, returns what is then
STEPS = {
    "step": "step:train_step",
    "accumulate": "accumulate:accumulated_step",
    "step_torch": "callers_torch:train_step",
}
LR, MOMENTUM = 0.2, 0.8


def each(step_points, accumulate_points, torch_points, kind, *, essential=False):
    """The same test for the functions that make a step; without points it is not about torch's."""
    shared = {"step": step_points, "accumulate": accumulate_points, "step_torch": torch_points}
    return pytest.mark.parametrize(
        "module",
        [
            pytest.param(module, marks=points(number, kind, module, essential=essential))
            for module, number in shared.items()
            if number
        ],
    )


def both(step_points, accumulate_points, kind):
    return each(step_points, accumulate_points, 0, kind)


class Problem:
    """One step: parameters, velocity, and each rank's microbatches (one each in a step)."""

    def __init__(self, rng, module, sizes, widths=WIDTHS, dtype="float64"):
        options = {"widths": ",".join(map(str, widths))}
        if len(sizes) <= 8:
            options = {"sizes": ",".join(map(str, sizes))} | options
        self.case = Case(STEPS[module], len(sizes), sum(sizes), dtype, options)
        self.module, self.sizes = module, sizes
        self.params = init_params(widths, int(rng.integers(2**31)), dtype)
        self.velocity = [(0.1 * rng.standard_normal(p.shape)).astype(dtype) for p in self.params]
        self.samples = []
        for b in sizes:
            x = rng.standard_normal((b, widths[0])).astype(dtype)
            self.samples.append((x, rng.integers(widths[-1], size=b)))

    def batch(self, rank):
        """What a rank gets as its samples: two or three microbatches, or all in one.

        Where all ranks have as many samples, the microbatches are equal, too.
        """
        x, y = self.samples[rank]
        if self.module != "accumulate":
            return (x, y)
        alike = len(set(self.sizes)) == 1
        cuts = [len(x) // 2] if alike else [len(x) // 2, len(x) - len(x) // 4]
        return (list(zip(np.split(x, cuts), np.split(y, cuts), strict=True)),)

    def arguments(self, rank):
        return (self.params, self.velocity, *self.batch(rank), LR, MOMENTUM)

    def serial(self):
        """What one rank with all samples gets."""
        x, y = (np.concatenate(each) for each in zip(*self.samples, strict=True))
        loss, gradients = loss_and_gradients(self.params, x, y)
        velocity = [MOMENTUM * v + g for v, g in zip(self.velocity, gradients, strict=True)]
        return [p - LR * v for p, v in zip(self.params, velocity, strict=True)], velocity, loss


def same(case, got, wanted, what):
    """A list of arrays is what it must be, to 1e-12 in float64."""
    tolerance = {"float64": 1e-12, "float32": 1e-5}[case.dtype]
    if not isinstance(got, list | tuple) or len(got) != len(wanted):
        raise case.fail(f"{what}s must be a list of {len(wanted)} arrays.")
    for index, (array, right) in enumerate(zip(got, wanted, strict=True)):
        if not isinstance(array, np.ndarray) or array.shape != right.shape:
            raise case.fail(f"{what} array {index} must be an array of shape {right.shape}.")
        if array.dtype != right.dtype:
            raise case.fail(f"{what} array {index} is {array.dtype}; it must be {right.dtype}.")
        off = float(np.abs(array - right).max())
        if not off <= tolerance * max(1.0, float(np.abs(right).max())):
            raise case.fail(
                f"{what} array {index} is off by {off:.2g} from what one rank that has all "
                f"samples gets; {tolerance:g} is allowed."
            )


def run(ranks, problem, *, loss=False, **options):
    """Make the step, and check parameters and velocity on every rank."""
    case, size = problem.case, problem.case.world_size
    options.setdefault("machine", buffered())
    arguments = [problem.arguments(rank) for rank in range(size)]
    result = ranks.call(case.target, options.pop("world_size", size), arguments, **options)
    assert_ran(result, case)
    params, velocity, mean = problem.serial()
    for rank, (got_params, got_velocity, got_loss) in enumerate(result.values):
        same(case, got_params, params, f"rank {rank}'s parameter")
        same(case, got_velocity, velocity, f"rank {rank}'s velocity")
        if loss and not abs(float(got_loss) - mean) <= 1e-12 * max(1, abs(mean)):
            raise case.fail(f"rank {rank}'s loss is {got_loss}; the mean of all is {mean}.")
    return result


# -- shard -----------------------------------------------------------------------------------------


def shards(ranks, world_size, calls):
    """Every rank's shard of each ``(n, epoch, seed)``."""
    result = ranks.call("callers:shards", world_size, [(calls,)] * world_size)
    assert_ran(result, Case("shard:shard", world_size, calls[0][0]))
    return result, [[own[0][k] for own in result.values] for k in range(len(calls))]


def shard_fails(sentence, n, world_size, epoch, seed):
    call = f"[shard({n}, {world_size}, r, {epoch}, {seed}) for r in range({world_size})]"
    line = f'python -c "from shard import shard; print({call})"'
    return Verdict(f"n = {n}, {world_size} ranks: {sentence}", reproduce=line)


@points(30, "values", "shard")
def test_every_sample_once(ranks, rng):
    for world_size in (4, 3):
        calls = [(n, 1, 5) for n in (12, 10, 2)]
        for (n, epoch, seed), parts in zip(calls, shards(ranks, world_size, calls)[1], strict=True):
            arrays = all(isinstance(p, np.ndarray) and p.dtype == np.int64 for p in parts)
            if not arrays or sorted(int(i) for p in parts for i in p) != list(range(n)):
                shown = [np.asarray(p).tolist() for p in parts]
                raise shard_fails(
                    f"the shards {shown} must be int64 arrays with each of 0 to {n - 1} once.",
                    n, world_size, epoch, seed,
                )  # fmt: skip


@points(10, "values", "shard")
def test_lengths_differ_by_one_at_most(ranks, rng):
    (parts,) = shards(ranks, 4, [(10, 0, 1)])[1]
    if sorted(map(len, parts)) != [2, 2, 3, 3]:
        raise shard_fails(f"lengths are {[len(p) for p in parts]}.", 10, 4, 0, 1)


@points(20, "values", "shard")
def test_each_epoch_and_seed_is_shuffled_anew(ranks, rng):
    calls = [(200, epoch, seed) for epoch in (0, 1) for seed in (0, 1)]
    calls += [(200, epoch, 0) for epoch in (10, 100, 1000)]  # another order than epoch 0 of seed 1
    shards(ranks, 2, calls)
    found = shards(ranks, 1, calls)[1]
    orders = {tuple(int(i) for i in parts[0]) for parts in found} | {tuple(range(200))}
    if len(orders) < 8:
        raise shard_fails(
            "two epochs have the same order, or one is not shuffled: epochs 0 and 1 of seeds 0 and "
            "1, epochs 10, 100 and 1000 of seed 0.",
            200, 1, 0, 0,
        )  # fmt: skip


@points(20, "schedule", "shard")
def test_steps_do_not_depend_on_the_number_of_ranks(ranks, rng):
    call = (10, 2, 3)
    [[whole]], [parts] = shards(ranks, 1, [call])[1], shards(ranks, 4, [call])[1]
    for k in (1, 2, 3):
        together = sorted(int(i) for p in parts for i in p[:k])
        if together != sorted(int(i) for i in whole[: 4 * k]):
            raise shard_fails(
                f"the first {k} of four ranks are {together}; on one rank the order is "
                f"{whole.tolist()}.",
                10, 4, 2, 3,
            )  # fmt: skip


@points(10, "communication", "shard")
def test_nothing_is_sent(ranks, rng):
    result, _ = shards(ranks, 4, [(12, 0, 0), (12, 1, 0)])
    test_every_sample_once(ranks, rng)
    if any(result.sent_messages()) or result.collectives:
        raise shard_fails("each rank must work its shard out alone.", 12, 4, 0, 0)


@points(10, "safety", "shard")
def test_depends_on_its_arguments_alone(ranks, rng):
    result, found = shards(ranks, 2, [(20, 0, 1), (20, 1, 1), (20, 0, 1)])
    test_every_sample_once(ranks, rng)
    again = all(np.array_equal(a, b) for a, b in zip(found[0], found[2], strict=True))
    if not again or any(moved for _, moved in result.values):
        raise shard_fails(
            "the same call must give the same again, and move no global generator.", 20, 2, 0, 1
        )


# -- step and accumulate: values -------------------------------------------------------------------


@points(5, "values", "step")
def test_parameters_of_rank_0_on_every_rank(ranks, rng):
    for world_size in (3, 4):
        case = Case(BROADCAST, world_size, 0, options={"widths": "12,9,5"})
        params = [init_params(WIDTHS, seed) for seed in range(world_size)]
        result = ranks.call(BROADCAST, world_size, [(p,) for p in params], machine=buffered())
        assert_ran(result, case)
        for rank, got in enumerate(result.values):
            same(case, got, params[0], f"rank {rank}'s parameter")


@each(10, 15, 15, "values")
def test_equal_numbers_of_samples(ranks, rng, module):
    for world_size in (2, 4):
        run(ranks, Problem(rng, module, [8] * world_size))


@each(10, 10, 15, "values")
def test_unequal_numbers_of_samples(ranks, rng, module):
    run(ranks, Problem(rng, module, [1, 9, 4]))
    run(ranks, Problem(rng, module, [5, 0, 2, 8, 1]))


@each(5, 5, 5, "values")
def test_loss_is_the_mean_over_all_samples(ranks, rng, module):
    run(ranks, Problem(rng, module, [1, 7, 3]), loss=True)


@each(5, 5, 5, "values")
def test_float32_and_deeper_networks(ranks, rng, module):
    run(ranks, Problem(rng, module, [4, 4], widths=(7, 11, 6, 4), dtype="float32"))


@both(5, 5, "values")
def test_inputs_stay_as_they_were(ranks, rng, module):
    problem = Problem(rng, module, [4, 4])
    arguments = [(problem.case.target, *problem.arguments(rank)) for rank in range(2)]
    result = ranks.call("callers:looked_at", 2, arguments, machine=buffered())
    assert_ran(result, problem.case)
    for rank, ((params, _, _), changed, shared, fixed) in enumerate(result.values):
        same(problem.case, params, problem.serial()[0], f"rank {rank}'s parameter")
        if changed or shared or fixed:
            raise problem.case.fail("results must be new arrays, and arguments stay as they were.")
    # A second step, of another network with as many parameters, knows nothing of the first.
    other, target = Problem(rng, module, [2, 2], widths=(21, 6, 5)), problem.case.target
    arguments = [(target, problem.arguments(rank), other.arguments(rank)) for rank in range(2)]
    result = ranks.call("callers:twice", 2, arguments, machine=buffered())
    assert_ran(result, problem.case)
    for rank, (_, first, second) in enumerate(result.values):
        for found, right, which in ((first, problem, "first"), (second, other, "second")):
            what = f"after two calls, rank {rank}'s {which}"
            same(right.case, found[0], right.serial()[0], f"{what} parameter")
            same(right.case, found[1], right.serial()[1], f"{what} velocity")


@both(5, 5, "values")
def test_copies_stay_equal(ranks, rng, module):
    problem = Problem(rng, module, [2] * 4)
    values = run(ranks, problem).values
    for rank, (params, _, _) in enumerate(values):
        if not all(np.array_equal(a, b) for a, b in zip(params, values[0][0], strict=True)):
            raise problem.case.fail(f"rank {rank}'s parameters differ from rank 0's in some bit.")


@points(5, "values", "step")
def test_training_on_digits(ranks, rng):
    (x, y), _ = digits.load()
    params, batches = init_params((64, 16, 10), 1), [x[:48], y[:48], x[48:96], y[48:96]]
    case = Case(STEPS["step"], 3, 48, options={"widths": "64,16,10"})
    parts = [np.array_split(each, [16, 32]) for each in batches]
    arguments = [
        (case.target, init_params((64, 16, 10), 1 + rank),
         [(parts[0][rank], parts[1][rank]), (parts[2][rank], parts[3][rank])], [0.3, 0.2], 0.9)
        for rank in range(3)
    ]  # fmt: skip
    result = ranks.call("callers:training", 3, arguments, machine=buffered())
    assert_ran(result, case)
    velocity = [np.zeros_like(p) for p in params]
    for k, lr in ((0, 0.3), (2, 0.2)):
        _, gradients = loss_and_gradients(params, batches[k], batches[k + 1])
        velocity = [0.9 * v + g for v, g in zip(velocity, gradients, strict=True)]
        params = [p - lr * v for p, v in zip(params, velocity, strict=True)]
    for rank, (got, _, _) in enumerate(result.values):
        same(case, got, params, f"after two steps on digits, rank {rank}'s parameter")


@both(5, 5, "reality")
@pytest.mark.usefixtures("mpiexec")
def test_real_mpi(ranks, rng, tmp_path, module):
    # What fails on simulated ranks isn't tried on real ones, where a hang takes its whole time.
    run(ranks, Problem(rng, module, [4] * 3))
    target = STEPS[module].replace(":", ".py:")
    words = [sys.executable, "-m", "ringside", "launch", target, "--site", "local"]
    words += ["--out", str(tmp_path), "--", "--n", "12"]
    assert_real_run(words, Path(__file__).parent, f"{target} under mpiexec", 120.0)


@points(5, "values", "step_torch")
def test_place_0s_parameters_on_every_rank(ranks, rng):
    case = Case(TORCH_BROADCAST, 3, 0, options={"widths": "12,9,5"})
    params = [init_params(WIDTHS, seed) for seed in range(3)]
    result = ranks.call(TORCH_BROADCAST, 3, [(p, (0,)) for p in params], machine=buffered())
    assert_ran(result, case)
    for rank, got in enumerate(result.values):
        same(case, got, params[0], f"rank {rank}'s parameter")
    nbytes = sum(p.nbytes for p in params[0])
    if max(received_as_ring(result)) > nbytes:
        raise case.fail(f"a rank received more than the {nbytes} bytes of all parameters.")


@points(5, "values", "step_torch")
def test_frozen_parameters_and_old_gradients(ranks, rng):
    problem = Problem(rng, "step_torch", [3, 3])
    arguments = [
        (problem.params, problem.velocity, [problem.batch(rank)], [LR], MOMENTUM, (0,), True)
        for rank in range(2)
    ]
    result = ranks.call("callers_torch:steps", 2, arguments, machine=buffered())
    assert_ran(result, problem.case)
    wanted = [problem.params[0], *problem.serial()[0][1:]]
    for rank, (params, _, _) in enumerate(result.values):
        what = f"with the first array frozen and old gradients there, rank {rank}'s parameter"
        same(problem.case, params, wanted, what)
    # The network is inside another module, and another one made a step before.
    arguments = [each[:5] for each in arguments]
    result = ranks.call("callers_torch:steps_of_another", 2, arguments, machine=buffered())
    assert_ran(result, problem.case)
    for rank, (params, _, _, calls) in enumerate(result.values):
        what = f"of a network inside another module, rank {rank}'s parameter"
        same(problem.case, params, problem.serial()[0], what)
        if calls != 1:
            raise problem.case.fail(f"a step called optimizer.step() {calls} times, not once.")


@points(10, "reality", "step_torch")
def test_real_gloo(ranks, rng):
    run(ranks, Problem(rng, "step_torch", [4] * 3))
    words = ["-c", "import sys, callers_torch; sys.exit(callers_torch.try_gloo(3))"]
    assert_real_run([sys.executable, *words], Path(__file__).parent, "on gloo")


# -- step and accumulate: communication, work, memory ----------------------------------------------


@each(15, 15, 15, "communication")
def test_bytes_per_rank(ranks, rng, module):
    for sizes, dtype in (([2] * 4, "float64"), ([4] * 3, "float32")):
        problem = Problem(rng, module, sizes, widths=(20, 30, 10), dtype=dtype)
        result, p, case = run(ranks, problem), len(sizes), problem.case
        elements = sum(math.ceil(each.size / p) for each in problem.params)
        allowed = 2 * (p - 1) * elements * problem.params[0].itemsize + 64 * (p - 1)
        ranks.record(case, result, {"sent_bytes": [allowed] * p})
        moved = max(sent_as_ring(result) + received_as_ring(result))
        if moved > allowed:
            raise case.fail(
                f"a rank moved {moved:.0f} bytes, collectives counted as a ring's; at most "
                f"{allowed} are allowed."
            )


@points(5, "communication", "step")
def test_bytes_of_the_broadcast(ranks, rng):
    test_parameters_of_rank_0_on_every_rank(ranks, rng)
    params = [init_params(WIDTHS, seed) for seed in range(4)]
    result = ranks.call(BROADCAST, 4, [(p,) for p in params], machine=buffered())
    nbytes = sum(p.nbytes for p in params[0])
    if max(received_as_ring(result)) > nbytes:
        raise Verdict(f"a rank received more than the {nbytes} bytes of all parameters.")


@each(5, 5, 5, "communication")
def test_given_communicator_is_used(ranks, rng, module):
    # Three of five ranks, in another order: COMM_WORLD is somebody else.
    run(ranks, Problem(rng, module, [2] * 3), world_size=5, members=[4, 1, 2])


@each(5, 5, 5, "schedule", essential=True)
def test_each_rank_works_on_its_own_samples(ranks, rng, module):
    problem = Problem(rng, module, [8] * 4)
    arguments = [problem.arguments(rank) for rank in range(4)]
    result = ranks.call(problem.case.target, 4, arguments, machine=buffered())
    assert_ran(result, problem.case)
    nbytes = sum(each.nbytes for each in problem.params)
    assert_split(result, problem.case, 8, num_flops(problem.params, 8), nbytes)


@points(10, "memory", "accumulate")
def test_one_microbatch_at_a_time(ranks, rng):
    problem = Problem(rng, "accumulate", [8, 8])
    result = run(ranks, problem)
    for rank, own in enumerate(result.trace.ops):
        passes = [op.detail[0] for op in own if op.kind == Kind.COMPUTE]
        longest = max(len(x) for x, _ in problem.batch(rank)[0])
        if max(passes) > 2 * longest * problem.params[0].size:
            raise problem.case.fail(f"rank {rank} put more than {longest} samples in at once.")


# -- step and accumulate: safety and speed ---------------------------------------------------------


@each(5, 5, 5, "safety")
def test_sends_may_wait_and_come_in_any_order(ranks, rng, module):
    for sizes in ([2] * 2, [4] * 3, [2] * 4):
        problem = Problem(rng, module, sizes)
        assert_requests_complete(run(ranks, problem, machine=rendezvous()), problem.case)
        for seed in LATENCY_SEEDS:
            run(ranks, problem, seed=seed)


@each(10, 10, 10, "speed")
def test_time_on_8_ranks(ranks, rng, module):
    machine = Machine(
        "slow cores", alpha_s=5e-8, beta_s_per_byte=1e-9, flop_per_s=1e9,
        collectives={"allreduce": "halving_doubling"},
    )  # fmt: skip
    problem = Problem(rng, module, [32] * 8, widths=(64, 128, 10))
    result = run(ranks, problem, machine=machine)
    nbytes = 8 * (sum(p.size for p in problem.params) + 8)
    bound_s = num_flops(problem.params, 32) / machine.flop_per_s
    bound_s += 6 * machine.alpha_s + 2 * 7 / 8 * nbytes * machine.beta_s_per_byte
    assert_makespan(result, bound_s, problem.case)


# -- warmup ----------------------------------------------------------------------------------------


def ask(ranks, function, calls):
    """The values of a function of warmup.py, for a list of argument tuples."""
    result = ranks.call("callers:evaluated", 1, [(f"warmup:{function}", calls)])
    assert_ran(result, Case(f"warmup:{function}", 1, 0))
    return result.values[0]


def check_values(ranks, function, table):
    values = ask(ranks, function, [call for call, _ in table])
    for (call, wanted), value in zip(table, values, strict=True):
        shown = f"{function}{call}"
        line = f'python -c "from warmup import *; print({shown})"'
        if np.shape(value) != np.shape(wanted) or not np.allclose(value, wanted, rtol=1e-12):
            raise Verdict(f"{shown} is {value}; it must be {wanted}.", reproduce=line)


@points(20, "values", "warmup")
def test_scale(ranks, rng):
    check_values(ranks, "scale", [((32, 8, 256), 1.0), ((64, 8, 256), 2.0), ((3, 5, 10), 1.5)])


@points(20, "values", "warmup")
def test_line_from_the_base_rate_to_the_scaled_one(ranks, rng):
    wanted = [0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.5]
    check_values(ranks, "lr_at", [((s, 0.1, 5, 4), lr) for s, lr in enumerate(wanted)])


@points(15, "values", "warmup")
def test_no_warm_up_and_small_batches(ranks, rng):
    table = [((0, 0.1, 5, 0), 0.5), ((7, 0.1, 5, 0), 0.5), ((0, 0.1, 0.5, 2), 0.1)]
    check_values(ranks, "lr_at", [*table, ((1, 0.1, 0.5, 2), 0.075), ((2, 0.1, 0.5, 2), 0.05)])


@points(20, "schedule", "warmup")
def test_milestones(ranks, rng):
    table = [((s, 0.1, 4, 2, (10, 20)), lr) for s, lr in ((9, 0.4), (10, 0.04), (20, 0.004))]
    check_values(ranks, "lr_at", [*table, ((12, 0.1, 4, 2, (20, 10), 0.5), 0.2)])


@points(25, "schedule", "warmup")
def test_schedule_of_a_training_run(ranks, rng):
    # 10 samples, 2 ranks of 2 samples: 3 steps an epoch; k = 4 / 2.
    wanted = [0.1, 0.1 + 0.1 / 3, 0.1 + 0.2 / 3, 0.2, 0.2, 0.2, 0.02, 0.02, 0.02]
    check_values(ranks, "schedule", [((10, 3, 2, 2, 0.1, 2, 1, (2,)), wanted)])
