"""The cases of the hidden run."""

from checks import test_accumulate as accumulate
from checks import test_shard as shard
from checks import test_step as step
from checks import test_step_torch as step_torch
from checks import test_warmup as warmup
from checks.cases import (
    DEEP,
    FLAT,
    WIDE,
    Accumulated,
    Broadcast,
    LrAt,
    Order,
    Scale,
    Schedule,
    Shard,
    Steps,
)  # fmt: skip
from checks.cases_torch import TorchBroadcast, TorchSteps

from ringside.checking.suite import group, hidden, oracle

EQUAL, UNEQUAL = "equal numbers of samples", "unequal numbers of samples"
IDLE = "steps in which a rank has no samples"
MEDIUM = (16, 25, 6)

# -- shard -----------------------------------------------------------------------------------------

WORLDS = (2, 4, 8, 3, 5, 6, 7)
SIZES = (1, 2, 3, 7, 9, 64, 101)

hidden(
    shard.test_every_sample_once,
    group("four ranks", Shard(4, (4, 8, 36), epochs=(0, 3))),
    group(
        "other numbers of ranks",
        *(Shard(p, (p, 2 * p, 9 * p), epochs=(0, 3)) for p in WORLDS if p != 4),
        weight=2,
    ),
)
hidden(
    shard.test_every_sample_once_where_p_does_not_divide_n,
    group(
        "more samples than ranks",
        *(Shard(p, tuple(n for n in SIZES if n % p and n > p), epochs=(0, 3)) for p in WORLDS),
        weight=2,
    ),
    group(
        "fewer samples than ranks",
        *(Shard(p, (0, *(n for n in SIZES if n < p)), epochs=(0, 3)) for p in WORLDS),
    ),
)
hidden(
    shard.test_lengths_differ_by_one_at_most,
    *(Shard(p, (2 * p, *(n for n in SIZES if n > p)), epochs=(1,)) for p in (2, 3, 5, 8)),
)


def neighbours(rng):
    """Epochs of seeds that follow one another."""
    seed = int(rng.integers(1, 2**31))
    return [Order(2, (1000,), epochs=(0, 1, 2, 3), seeds=tuple(range(seed, seed + 4)))]


FEW = (0, 1, 2, 3, 10, 11)
hidden(
    shard.test_each_epoch_and_seed_has_its_own_order,
    neighbours,
    Order(2, (1000,), epochs=FEW, seeds=FEW),
    Order(2, (50,), round_numbers=True),
)
hidden(shard.test_orders_are_random_permutations, Order(2, (1000,), epochs=(0, 1, 2)))
hidden(
    shard.test_steps_do_not_depend_on_the_number_of_ranks,
    *(Order(p, (168, 336), epochs=(0, 2)) for p in (2, 3, 4, 7, 8)),  # all of p divide them
)
hidden(shard.test_nothing_is_sent, *(Shard(p, (64,), epochs=(0, 1)) for p in (2, 4)))
hidden(
    shard.test_same_result_whatever_was_called_before,
    *(Shard(p, (96, 66), epochs=(0, 2, 1)) for p in (2, 3)),
)
hidden(
    shard.test_result_belongs_to_the_caller,
    *(Shard(p, (66,), epochs=(1,), overwritten=True) for p in (2, 3)),
)
hidden(
    shard.test_global_generators_are_left_alone,
    *(Shard(p, (66,), epochs=(0, 1)) for p in (2, 3)),
)

# -- step and step_torch ---------------------------------------------------------------------------

SOME = ((5, 2), (1, 9, 4), (7, 1, 1, 2, 3), (1, 2, 3, 4, 5, 6), (3, 3, 3, 3, 3, 3, 2))
NONE = ((0, 4), (3, 0, 1), (0, 0, 0, 2), (0, 5, 0, 0, 1))
NET = (20, 30, 10)
TIMED = {"widths": (64, 128, 10), "machine": "slow_cores", "stretched": 512}
DIGITS = {"widths": (64, 16, 10), "steps": 2, "digits": True}


def of_sizes(kind, *table):
    """Cases whose ranks have so many samples."""
    return [kind(len(sizes), sizes=sizes) for sizes in table]


def both(weight, steps, starts):
    """Cases of both functions."""
    return group("train_step", *steps, weight=weight), group("broadcast_parameters", *starts)


for tests, kind, start, part, safety in (
    (
        step, Steps, Broadcast, step.test_given_communicator_is_used,
        step.test_sends_may_wait_and_come_in_any_order,
    ),
    (
        step_torch, TorchSteps, TorchBroadcast, step_torch.test_given_group_is_used,
        step_torch.test_sends_may_wait_and_everything_is_waited_for,
    ),
):  # fmt: skip
    hidden(
        tests.test_one_step_on_2_4_and_8_ranks, kind(2, 12), kind(4, 12), kind(8, 8), kind(3, 15)
    )
    hidden(
        tests.test_unequal_numbers_of_samples,
        group(UNEQUAL, *of_sizes(kind, *SOME)),
        group(IDLE, *of_sizes(kind, *NONE)),
    )
    hidden(
        tests.test_copies_stay_equal_over_several_steps,
        kind(2, 8, steps=3),
        kind(5, 10, widths=DEEP, steps=4),
        kind(1, 6, steps=2),
    )
    hidden(
        tests.test_loss_is_the_mean_over_all_samples,
        group(EQUAL, kind(3, 9)),
        group(UNEQUAL, *of_sizes(kind, (5, 2), (1, 6, 2))),
    )
    hidden(tests.test_each_rank_works_on_its_own_samples, kind(4, 32))
    hidden(
        tests.test_bytes_of_the_broadcast,
        *(start(p, NET) for p in (2, 3, 5, 8, 12, 18)),
        start(4, WIDE),
    )
    hidden(part, *both(3, [kind(3, 6), kind(2, 6)], [start(3), start(2)]))
    hidden(
        safety,
        *both(5, [kind(p, 2 * p, steps=2) for p in (2, 3, 4, 7)], [start(p) for p in (2, 3, 5)]),
    )
    hidden(tests.test_nothing_is_left_open, kind(2, 4, steps=2), kind(3, 6, steps=2))
    hidden(tests.test_time_on_512_ranks, kind(8, 384, **TIMED))

hidden(
    step.test_parameters_of_rank_0_on_every_rank,
    Broadcast(2),
    Broadcast(5, DEEP, "float32"),
    Broadcast(1),
    Broadcast(8, FLAT),
)
hidden(
    step.test_any_network_and_dtype,
    group("networks of float64", Steps(3, 9, widths=DEEP), Steps(2, 4, widths=FLAT)),
    group("networks of float32", Steps(3, 12, dtype="float32", steps=2)),
)
hidden(
    step.test_inputs_stay_and_nothing_is_kept,
    group("arguments that stay", Steps(2, 6), Steps(4, 8)),
    group(
        "a second call",
        Steps(2, 4, between_others=True),
        Steps(3, 6, between_others=True),
        weight=2,
    ),
)
hidden(step.test_digits_under_real_mpi, Steps(3, 48, **DIGITS))
hidden(
    step.test_bytes_per_rank,
    group(
        "float64",
        Steps(4, 12, widths=NET, steps=2),
        Steps(3, 6, widths=WIDE),
        *(Steps(p, 2 * p, widths=MEDIUM) for p in (2, 5, 12, 18)),
    ),
    group("float32", Steps(3, 120, widths=DEEP, dtype="float32")),
)
hidden(
    step_torch.test_parameters_of_place_0_on_every_rank,
    TorchBroadcast(2),
    TorchBroadcast(5, DEEP, "float32", nested=True),
    TorchBroadcast(8, FLAT),
)
hidden(
    step_torch.test_frozen_parameters_and_old_gradients,
    group(
        "frozen parameters",
        TorchSteps(2, 4, frozen=(0, 1), steps=2),
        TorchSteps(3, 6, widths=DEEP, frozen=(3, 4), steps=2),
        TorchSteps(3, 6, frozen=(0, 1), stale=True),
    ),
    group("old gradients", TorchSteps(2, 6, stale=True), TorchSteps(3, 6, stale=True), weight=2),
)
hidden(
    step_torch.test_any_network_and_dtype,
    group("networks of float32", TorchSteps(3, 9, widths=DEEP, dtype="float32")),
    group("one layer", TorchSteps(2, 4, widths=FLAT)),
    group("a network inside another", TorchSteps(2, 6, steps=2, nested=True), weight=2),
)
hidden(step_torch.test_digits_on_gloo, TorchSteps(3, 48, **DIGITS))
hidden(
    step_torch.test_bytes_per_rank,
    group(
        "float64",
        TorchSteps(4, 12, widths=NET, steps=2),
        TorchSteps(3, 6, widths=WIDE),
        *(TorchSteps(p, 2 * p, widths=MEDIUM) for p in (5, 12, 18)),
        weight=2,
    ),
    group("float32", TorchSteps(2, 18, widths=(30, 40, 5), dtype="float32", frozen=(0,), steps=2)),
)

# -- accumulate ------------------------------------------------------------------------------------

hidden(
    accumulate.test_one_step_of_equal_microbatches,
    Accumulated(2, 24),
    Accumulated(4, 16, microbatches=2),
    Accumulated(8, 24),
    Accumulated(3, 15, microbatches=1),
)
hidden(
    accumulate.test_unequal_microbatches,
    group(
        UNEQUAL,
        *of_sizes(
            Accumulated,
            ((5, 2), (1, 3)),
            ((1, 2, 3), (4, 1, 1), (2, 6, 2)),
            ((1,), (2, 3, 1, 1), (4, 2), (3, 3, 3), (1, 1)),
            ((2, 2, 7), (3,), (1, 1), (4,), (2,), (1, 3), (5,)),
        ),
    ),
    group(
        IDLE,
        *of_sizes(Accumulated, ((), (3, 2)), ((2, 0, 1), (0, 0), ())),
        Accumulated(4, sizes=((), (0,), (1,), ()), widths=DEEP),
    ),
)
hidden(
    accumulate.test_copies_stay_equal_over_several_steps,
    Accumulated(2, 8, microbatches=2, steps=3),
    Accumulated(4, 16, widths=DEEP, microbatches=2, steps=4),
    Accumulated(1, 6, microbatches=2),
)
hidden(
    accumulate.test_loss_is_the_mean_over_all_samples,
    group(EQUAL, Accumulated(2, 12, microbatches=2)),
    group(UNEQUAL, Accumulated(2, sizes=((1, 6), (2, 3, 1)))),
)
hidden(accumulate.test_dtype_is_kept, Accumulated(3, 12, dtype="float32", microbatches=2))
hidden(
    accumulate.test_inputs_stay_and_nothing_is_kept,
    group("arguments that stay", Accumulated(2, 12), Accumulated(3, 18)),
    group(
        "a second call",
        *(Accumulated(2, n, microbatches=2, between_others=True) for n in (8, 4)),
        weight=2,
    ),
)
hidden(accumulate.test_real_mpi, Accumulated(3, 18, microbatches=2, steps=2))
hidden(accumulate.test_each_rank_works_on_its_own_samples, Accumulated(4, 32, microbatches=2))
hidden(
    accumulate.test_one_synchronisation_a_step,
    group(
        "float64",
        Accumulated(2, 16, widths=NET, microbatches=4),
        Accumulated(3, 9, widths=NET, steps=2),
        *(Accumulated(p, 2 * p, widths=MEDIUM, microbatches=2) for p in (12, 18)),
        Accumulated(3, 12, widths=WIDE, microbatches=2),
        weight=4,
    ),
    group("float32", Accumulated(5, 20, widths=(30, 40, 5), dtype="float32", microbatches=2)),
)
hidden(
    accumulate.test_given_communicator_is_used,
    *(Accumulated(p, 4 * p, microbatches=2) for p in (3, 2)),
)
hidden(
    accumulate.test_one_microbatch_at_a_time,
    Accumulated(2, 24),
    Accumulated(3, 12, widths=DEEP, microbatches=4),
)
hidden(
    accumulate.test_sends_may_wait_and_come_in_any_order,
    *(Accumulated(p, 4 * p, microbatches=2, steps=2) for p in (2, 3, 4, 7)),
)
hidden(
    accumulate.test_nothing_is_left_open,
    *(Accumulated(p, 4 * p, microbatches=2, steps=2) for p in (2, 3)),
)
hidden(accumulate.test_time_on_512_ranks, Accumulated(8, 384, microbatches=4, **TIMED))

# -- warmup ----------------------------------------------------------------------------------------


@oracle(Scale)
def scale(case):
    return case.local_batch_size * case.world_size / case.base_batch_size


@oracle(LrAt)
def lr_at(case):
    """By the docstring, in another way than the reference."""
    lr = case.k * case.base_lr
    if case.step < case.warmup_steps:
        lr = case.base_lr + (lr - case.base_lr) * case.step / case.warmup_steps
    for milestone in case.milestones:
        if case.step >= milestone:
            lr *= case.decay
    return lr


@oracle(Schedule)
def schedule(case):
    batch_size = case.local_batch_size * case.world_size
    steps = -(-case.n // batch_size)
    rate = LrAt(
        base_lr=case.base_lr, k=batch_size / case.base_batch_size, decay=case.decay,
        warmup_steps=case.warmup_epochs * steps,
        milestones=tuple(epoch * steps for epoch in case.milestone_epochs),
    )  # fmt: skip
    return [lr_at(rate.with_(step=step)) for step in range(case.num_epochs * steps)]


def named(kind):
    """Give a class of formulas its usual mistakes here: beside the solution."""

    def give(wrong):
        kind.wrong = wrong

    return give


@named(Scale)
def scale_wrong(case):
    return {
        "That is one rank's batch over the base; the batches of all ranks count.": (
            case.local_batch_size / case.base_batch_size
        ),
        "That is the base over the global batch; k is the global batch over the base.": (
            case.base_batch_size / (case.local_batch_size * case.world_size)
        ),
    }


@named(LrAt)
def lr_at_wrong(case):
    later = case.with_(milestones=tuple(each + 1 for each in case.milestones))
    once = case.with_(milestones=case.milestones[:1])
    return {
        "That is the base rate; in the warm-up, every step has another one.": (
            case.base_lr if 0 < case.step < case.warmup_steps else None
        ),
        "That is the base rate; without a warm-up, every step has the scaled one.": (
            None if case.warmup_steps else case.base_lr
        ),
        "Each milestone counts, from its own step on.": lr_at(later),
        "Each milestone counts that has been reached.": lr_at(once),
        "That is the rate without any decay.": lr_at(case.with_(milestones=())),
    }


def rates(rng, count):
    """Learning rates and factors."""
    drawn = rng.uniform((0.01, 1.5), (0.5, 20), size=(count, 2))
    return [(float(f"{base_lr:.4g}"), float(f"{k:.4g}")) for base_lr, k in drawn]


def ends(rng):
    return [
        LrAt(at, *rate, warm)
        for rate in rates(rng, 4)
        for warm in (1, 2, 7, 100)
        for at in (0, warm - 1, warm, warm + 1)
    ]


def lines(rng):
    return [LrAt(at, *rate, 13) for rate in rates(rng, 3) for at in range(16)]


def unwarmed(rng):
    return [LrAt(at, *rate, 0) for rate in rates(rng, 3) for at in (0, 1, 50)]


def small(rng):
    below = [(lr, float(f"{1 / k:.4g}")) for lr, k in rates(rng, 3)]
    return [LrAt(at, *rate, 6) for rate in [*below, (0.1, 1.0)] for at in range(8)]


def decayed(rng):
    places = ((20,), (20, 30, 35), (35, 20), (3, 20), (20, 20), (0, 20))
    return [
        LrAt(at, *rate, 5, milestones, decay)
        for rate in rates(rng, 2)
        for decay in (0.1, 0.5)
        for milestones in places
        for at in (5, 6, 19, 20, 21, 30, 34, 40)
    ]


def batches(rng):
    return [Scale(*(int(size) for size in rng.integers(1, 500, size=3))) for _ in range(5)]


def scaled(rng):
    ((lr, _),) = rates(rng, 1)
    return [
        *(
            Schedule(48, 4, 8, p, lr, base, warm)
            for p in (1, 2, 3, 6)
            for base in (8, 32)
            for warm in (2, 6)
        ),
        Schedule(48, 7, 8, 2, lr, 8),
    ]


def decaying(rng):
    ((lr, _),) = rates(rng, 1)
    return [
        Schedule(96, 6, 8, 4, lr, 32, 2, (3, 5)),
        Schedule(96, 6, 8, 4, lr, 32, 1, (1,), 0.5),
        Schedule(60, 4, 5, 2, lr, 10, 1, (2, 3), 0.2),
        Schedule(60, 5, 5, 2, lr, 10, 3, (1, 4), 0.3),
        Schedule(60, 4, 5, 2, lr, 10, 1, (0, 2), 0.3),
    ]


hidden(
    warmup.test_scale_is_the_global_batch_over_the_base,
    *(Scale(*sizes) for sizes in ((64, 128, 256), (1, 1, 1), (8, 4, 48), (7, 3, 10), (2, 8, 256))),
    batches,
)
hidden(warmup.test_ends_of_the_warm_up, ends)
hidden(warmup.test_a_straight_line_between_them, lines)
hidden(warmup.test_no_warm_up, unwarmed)
hidden(warmup.test_small_batches_scale_down, small)
hidden(
    warmup.test_milestones,
    decayed,
    *(LrAt(at, 0.2, 3.0, 5, (4, 9)) for at in (5, 8, 9)),  # during the warm-up too
)
hidden(
    warmup.test_schedule_has_a_rate_for_each_step,
    *(
        Schedule(n, 3, b, p, 0.1, b * p, 1)
        for n in (96, 100, 143, 5)
        for b, p in ((8, 4), (4, 1), (3, 7))
    ),
)
hidden(
    warmup.test_schedule_is_scaled_by_the_global_batch,
    group("with a warm-up", scaled, weight=3),
    group("without one", Schedule(48, 4, 8, 2, 0.1, 8, 0), Schedule(48, 4, 8, 3, 0.2, 32, 0)),
)
hidden(warmup.test_schedule_decays_at_the_start_of_epochs, decaying)
