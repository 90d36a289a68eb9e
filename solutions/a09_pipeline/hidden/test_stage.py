"""stage.py: one interpreter runs our schedules, whatever they are."""

import functools

import numpy as np

from ringside import Machine, replay
from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_own_messages,
    assert_peers,
    assert_requests_complete,
    long_wire,
    on_three_members,
    rendezvous,
)
from ringside.checking.points import points_of
from solutions.a09_pipeline import replayed
from solutions.a09_pipeline.hidden import oracle, runs

UNEQUAL = (3, 1, 2, 4, 1, 2)
FREE = Machine("free", alpha_s=0.0, beta_s_per_byte=0.0)
ENVELOPE = 1024

points = points_of("stage")


def run(ranks, rng, name, num_stages, batch_sizes, num_chunks=1, **options):
    """One of our schedules on the student's stages; returns case, result and the lists."""
    chunks = (num_chunks,) if name == "interleaved" else ()
    lists = runs.lists_of(getattr(oracle, name), num_stages, len(batch_sizes), *chunks)
    case, result = runs.stepped(ranks, rng, name, lists, batch_sizes, num_chunks, **options)
    return case, result, lists


# -- values ----------------------------------------------------------------------------------------


def values(*arguments, **options):
    """``run``, whatever the order of the passes."""
    return run(*arguments, **options, ordered=False)


@points(6, "values")
def test_gradient_with_gpipe_on_2_to_5_stages(ranks, rng):
    for p, sizes in ((2, UNEQUAL), (3, UNEQUAL[:4]), (4, UNEQUAL), (5, (2,) * 7)):
        values(ranks, rng, "gpipe", p, sizes)


@points(6, "values")
def test_gradient_with_1f1b_on_2_to_5_stages(ranks, rng):
    for p, sizes in ((2, UNEQUAL[:5]), (3, UNEQUAL), (4, UNEQUAL), (5, (2,) * 8)):
        values(ranks, rng, "one_f_one_b", p, sizes)


@points(6, "values")
def test_fewer_microbatches_than_stages_and_one_stage(ranks, rng):
    for p, sizes in ((2, (3,)), (4, (2, 1)), (5, (1, 3, 2)), (1, (2, 3, 1)), (1, (4,))):
        for name in ("gpipe", "one_f_one_b"):
            values(ranks, rng, name, p, sizes)


@points(6, "values")
def test_backward_passes_in_two_halves(ranks, rng):
    for p, sizes in ((2, UNEQUAL[:4]), (3, UNEQUAL), (4, UNEQUAL[:3]), (1, (1, 2))):
        values(ranks, rng, "zero_bubble", p, sizes)


@points(6, "values")
def test_interleaved_chunks(ranks, rng):
    for p, sizes, v in ((2, UNEQUAL, 2), (3, UNEQUAL, 2), (2, (1, 2), 3), (1, (3, 1, 2), 2)):
        values(ranks, rng, "interleaved", p, sizes, v)


@points(3, "values")
def test_float32(ranks, rng):
    values(ranks, rng, "one_f_one_b", 3, UNEQUAL[:4], dtype="float32")
    values(ranks, rng, "gpipe", 2, UNEQUAL[:3], dtype="float32")


@points(5, "values")
def test_schedules_that_nobody_teaches(ranks, rng):
    for p, sizes, v in ((2, UNEQUAL[:4], 1), (3, UNEQUAL, 1), (2, UNEQUAL, 3), (4, UNEQUAL[:4], 2)):
        lists = oracle.anything(p, len(sizes), v, rng)
        runs.stepped(ranks, rng, "a schedule drawn at random", lists, sizes, v, ordered=False)


@points(4, "values")
def test_second_step_is_independent(ranks, rng):
    values(ranks, rng, "one_f_one_b", 2, UNEQUAL[:3], through="second_step")


@points(3, "reality")
def test_real_mpi(mpi, rng):
    try:
        values(OnMpi(mpi), rng, "one_f_one_b", 3, UNEQUAL[:4])
    except Verdict as verdict:
        raise Verdict(f"under mpiexec: {verdict.sentence}", detail=verdict.detail) from None


class OnMpi:
    """``ranks.call`` on real ranks."""

    def __init__(self, mpi):
        self._mpi = mpi

    def call(self, target, world_size, arguments):
        return self._mpi.call_all([(target, world_size, arguments)])[0]


# -- what is sent, and when ------------------------------------------------------------------------


def allowed_messages(batch_sizes, ends, num_stages, num_chunks, itemsize):
    """Per stage, messages and their bytes."""
    pieces = num_stages * num_chunks
    counts, nbytes = [0] * num_stages, [0] * num_stages
    if num_stages == 1:
        return counts, nbytes
    for piece in range(pieces):
        stage = piece % num_stages
        width_in, width_out = ends[piece % 2], ends[(piece + 1) % 2]
        for width, goes in ((width_out, piece < pieces - 1), (width_in, piece > 0)):
            if goes:
                counts[stage] += len(batch_sizes)
                nbytes[stage] += sum(itemsize * size * width for size in batch_sizes)
    return counts, nbytes


def check_sent(result, case, counts, nbytes, members=None):
    for stage, (count, bound) in enumerate(zip(counts, nbytes, strict=True)):
        rank = stage if members is None else members[stage]
        messages = result.sent_messages()[rank]
        if messages > count:
            seen = case.seen_in(result).asking(f"messages={rank}:{count}")
            raise seen.fail(f"rank {stage} sent {messages} messages; at most {count} are allowed.")
        oracle.examples.assert_sent(result, case, stage, bound, ENVELOPE * count)


@points(10, "communication")
def test_one_message_for_each_activation_and_gradient(ranks, rng):
    ends = (40, 30)
    for name, p, v, dtype in (
        ("gpipe", 2, 1, "float32"),
        ("one_f_one_b", 4, 1, "float64"),
        ("zero_bubble", 3, 1, "float64"),
        ("interleaved", 2, 2, "float64"),
        ("one_f_one_b", 5, 1, "float64"),
        ("one_f_one_b", 12, 1, "float64"),
        ("one_f_one_b", 18, 1, "float64"),
    ):
        sizes = (60, 20, 40, 100)
        case, result, _ = run(ranks, rng, name, p, sizes, v, widths=(ends, 7), dtype=dtype)
        counts, nbytes = allowed_messages(sizes, ends, p, v, np.dtype(dtype).itemsize)
        ranks.record(case, result, {"messages": counts, "bytes": nbytes})
        check_sent(result, case, counts, nbytes)


@points(4, "communication")
def test_messages_go_to_neighbours_only(ranks, rng):
    for name, p, sizes, v in (
        ("one_f_one_b", 4, UNEQUAL, 1),
        ("interleaved", 4, UNEQUAL[:4], 2),
        ("interleaved", 1, UNEQUAL[:2], 2),
        ("gpipe", 5, UNEQUAL[:3], 1),
        ("one_f_one_b", 18, UNEQUAL[:2], 1),
    ):
        case, result, _ = run(ranks, rng, name, p, sizes, v)
        assert_own_messages(result, case)
        if result.comm_calls:
            raise case.fail("communicators were made; none is allowed.")
        beside = [{rank - 1, rank + 1} & set(range(p)) for rank in range(p)]
        if v > 1 and p > 1:
            beside[0].add(p - 1)
            beside[-1].add(0)
        assert_peers(result, beside, case, "pieces pass arrays to the piece after and before alone")


@points(4, "communication")
def test_given_communicator_is_used(ranks, rng):
    step = functools.partial(run, ranks, rng, "one_f_one_b", 3, UNEQUAL[:4])
    on_three_members(rng, step)


@points(8, "schedule")
def test_passes_follow_the_list(ranks, rng):
    # `run` compares what the layers computed with the lists.
    for name in ("gpipe", "one_f_one_b", "zero_bubble"):
        run(ranks, rng, name, 3, UNEQUAL[:5], observed=True)
    run(ranks, rng, "interleaved", 2, UNEQUAL, 2, observed=True)
    for name, lists in (
        ("a schedule drawn at random", oracle.anything(3, 5, 1, rng)),
        ("no warm-up after stage 0", oracle.unhurried(3, 5)),
    ):
        runs.stepped(ranks, rng, name, lists, UNEQUAL[:5], observed=True)


# -- memory ----------------------------------------------------------------------------------------


@points(6, "memory")
def test_activations_are_let_go(ranks, rng):
    rows, ends, hidden, count = 96, (8, 8), 512, 8
    saved = 8 * rows * (ends[0] + hidden + ends[1])  # input, hidden and output, each once
    for name, v in (("one_f_one_b", 1), ("gpipe", 1), ("zero_bubble", 1), ("interleaved", 3)):
        params = 8 * v * (ends[0] * hidden + hidden + hidden * ends[1] + ends[1])
        traffic = 4 * v * count * 8 * rows * ends[0]  # sent and received, forward and backward
        case, result, lists = run(
            ranks, rng, name, 4, (rows,) * count, v, widths=(ends, hidden), through="step_memory"
        )
        for stage, actions in enumerate(lists):
            most = replayed.most_in_flight(actions)
            # A half-done backward pass keeps a gradient beside each layer's input.
            kept = saved if name != "zero_bubble" else 2 * saved
            bound = most * kept + 3 * saved + 2 * params + traffic + (1 << 16)
            oracle.examples.assert_held(result, case, stage, bound, most, saved)


# -- safety ----------------------------------------------------------------------------------------


@points(10, "safety")
def test_every_send_may_wait_for_its_receive(ranks, rng):
    machine = rendezvous()
    for seed, (name, p, sizes, v) in zip(
        LATENCY_SEEDS,
        (("one_f_one_b", 4, UNEQUAL, 1), ("interleaved", 3, UNEQUAL, 2), ("gpipe", 3, UNEQUAL, 1)),
        strict=True,
    ):
        options = {"machine": machine, "seed": seed}
        case, result, _ = run(ranks, rng, name, p, sizes, v, **options)
        assert_requests_complete(result, case)
    run(ranks, rng, "zero_bubble", 3, UNEQUAL, machine=machine)
    for name, lists in (
        ("opposite orders", oracle.opposite(2, len(UNEQUAL))),
        ("opposite orders", oracle.opposite(2, 24)),
        ("a third forward pass before the second", oracle.overtaking()),
        ("a schedule drawn at random", oracle.anything(3, len(UNEQUAL), 1, rng)),
    ):
        sizes = (UNEQUAL * 4)[: max(each.microbatch for each in lists[0]) + 1]
        runs.stepped(ranks, rng, name, lists, sizes, machine=machine)


# -- speed -----------------------------------------------------------------------------------------


@points(3, "speed")
def test_time_with_free_messages(ranks, rng):
    for name, p, count in (("gpipe", 4, 8), ("one_f_one_b", 4, 8), ("one_f_one_b", 3, 2)):
        costs = (1e-3, 2e-3)
        case, result, lists = run(
            ranks, rng, name, p, (1,) * count, machine=FREE, costs=costs, observed=True
        )
        oracle.examples.assert_work(result, lists, costs, case)
        bound_s = (count + p - 1) * sum(costs)
        where = "if messages take no time"
        oracle.examples.assert_ratio(result, bound_s, case, where)


@points(5, "speed")
def test_time_on_a_slow_wire(ranks, rng):
    machine, width, costs = long_wire(), 16, (4e-6, 8e-6)  # a message takes more than half of 4e-6
    for name, p, count, v in (
        ("one_f_one_b", 4, 8, 1),
        ("gpipe", 3, 6, 1),
        ("interleaved", 4, 8, 2),
        ("zero_bubble", 4, 8, 1),
    ):
        sizes, widths = (1,) * count, ((width, width), 4)
        case, result, lists = run(
            ranks, rng, name, p, sizes, v, machine=machine, costs=costs, widths=widths,
            observed=True,
        )  # fmt: skip
        oracle.examples.assert_work(result, lists, costs, case)
        ideal = replayed.timeline(lists, v, *costs, 8 * width, machine).makespan_s
        where = f"on machine {machine.name!r}"
        oracle.examples.assert_ratio(result, ideal, case, where)


def check_gpt(ranks, rng, name, num_stages, count, num_chunks=1):
    """The run's messages and passes as long as those of a GPT, on A100s."""
    machine, tiny = Machine.load("zaratan"), 8 * 16
    gpt = oracle.Gpt(num_stages, machine)
    costs = (gpt.forward_s / num_chunks, gpt.backward_s / num_chunks)
    case, result, lists = run(
        ranks, rng, name, num_stages, (1,) * count, num_chunks,
        machine=machine, costs=costs, widths=((16, 16), 4), observed=True,
    )  # fmt: skip
    oracle.examples.assert_work(result, lists, costs, case)
    taken_s = replay(replayed.resized(result.trace, gpt.nbytes / tiny), machine).makespan_s
    ideal = replayed.timeline(lists, num_chunks, *costs, gpt.nbytes, machine).makespan_s
    serial_s = num_stages * count * (gpt.forward_s + gpt.backward_s)
    beside = f" That is {serial_s / taken_s:.2f} times as fast as one GPU."
    where = f"for a GPT of {gpt.LAYERS} layers on {num_stages} A100"
    oracle.examples.check_ratio(taken_s, ideal, str(case), case.reproduce, where, beside)


@points(3, "speed")
def test_time_of_a_gpt_on_8_gpus(ranks, rng):
    check_gpt(ranks, rng, "one_f_one_b", 8, 24)
    check_gpt(ranks, rng, "interleaved", 8, 8, 2)


@points(2, "speed")
def test_time_of_a_gpt_on_64_gpus(ranks, rng):
    check_gpt(ranks, rng, "one_f_one_b", 64, 20)
