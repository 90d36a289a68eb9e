"""stage.py: one interpreter runs our schedules, whatever they are."""

import numpy as np

from ringside import Machine
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
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from solutions.a09_pipeline import replayed
from solutions.a09_pipeline.hidden import oracle, runs

UNEQUAL = (3, 1, 2, 4, 1, 2)
EQUAL = (2,) * 6
FREE = Machine("free", alpha_s=0.0, beta_s_per_byte=0.0)
ENVELOPE = 1024
DRAWN = "a schedule drawn at random"
PART = "communicators of a part of the world"

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


@points(14, "values")
def test_gradient_on_2_to_5_stages(ranks, rng):
    def kind(case):
        if len(case) > 3:
            return "float32"
        equal = len(set(case[2])) == 1
        return f"microbatches of {'equal length' if equal else 'unequal lengths'}"

    def check(case):
        values(ranks, rng, *case[:3], dtype=case[3] if len(case) > 3 else "float64")

    cases = [("one_f_one_b", 5, (2,) * 8), ("gpipe", 5, (2,) * 7), ("one_f_one_b", 3, (2,) * 6)]
    cases += [
        (name, p, sizes)
        for name in ("gpipe", "one_f_one_b")
        for p, sizes in ((2, UNEQUAL[:5]), (3, UNEQUAL), (4, UNEQUAL))
    ]
    cases += [("one_f_one_b", 3, EQUAL[:4], "float32"), ("gpipe", 2, EQUAL[:3], "float32")]
    weights = {"microbatches of equal length": 6, "microbatches of unequal lengths": 6}
    check_kinds(cases, kind, check, weights=weights)


@points(5, "values")
def test_fewer_microbatches_than_stages_and_one_stage(ranks, rng):
    def check(case):
        for name in ("gpipe", "one_f_one_b"):
            values(ranks, rng, name, *case)

    def kind(case):
        return "one stage" if case[0] == 1 else "fewer microbatches than stages"

    cases = ((2, (3,)), (4, (2, 2)), (5, (1, 1, 1)), (1, (2, 2, 2)), (1, (4,)))
    check_kinds(cases, kind, check)


@points(6, "values")
def test_backward_passes_in_two_halves(ranks, rng):
    for p, sizes in ((2, UNEQUAL[:4]), (3, EQUAL), (4, EQUAL[:3]), (1, (2, 2))):
        values(ranks, rng, "zero_bubble", p, sizes)


@points(6, "values")
def test_interleaved_chunks(ranks, rng):
    for p, sizes, v in ((2, UNEQUAL, 2), (3, EQUAL, 2), (2, (2, 2), 3), (1, (2, 2, 2), 2)):
        values(ranks, rng, "interleaved", p, sizes, v)


@points(5, "values")
def test_schedules_that_nobody_teaches(ranks, rng):
    def check(case):
        p, v, halves = case
        lists = oracle.anything(p, 4, v, rng, halves)
        runs.stepped(ranks, rng, DRAWN, lists, EQUAL[:4], v, ordered=False)

    def kind(case):
        return "chunks and halves" if case[2] else "whole passes through one chunk"

    cases = ((2, 1, False), (3, 1, False), (4, 1, False), (3, 1, True), (2, 3, True), (4, 2, True))
    check_kinds(cases, kind, check)


@points(4, "values")
def test_second_step_is_independent(ranks, rng):
    values(ranks, rng, "one_f_one_b", 2, UNEQUAL[:3], through="second_step")


@points(3, "reality")
def test_real_mpi(mpi, rng):
    try:
        values(OnMpi(mpi), rng, "one_f_one_b", 3, EQUAL[:4], machine=None)
    except Verdict as verdict:
        raise Verdict(f"under mpiexec: {verdict.sentence}", detail=verdict.detail) from None


class OnMpi:
    """``ranks.call`` on real ranks."""

    def __init__(self, mpi):
        self._mpi = mpi

    def call(self, target, world_size, arguments):
        return self._mpi.call_all([(target, world_size, arguments)])[0]


# -- what is sent, and when ------------------------------------------------------------------------


@points(5, "communication", essential=True)
def test_stages_compute_their_pieces_and_pass_arrays_on(ranks, rng):
    name, sizes = "gpipe", (8,) * 4
    lists = runs.lists_of(oracle.gpipe, 4, len(sizes))
    case, result = runs.stepped(ranks, rng, name, lists, sizes, valued=False)
    oracle.examples.assert_passed_on(result, sum(sizes) * 8 * 4, case)


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

    def check(case):
        name, p, v, dtype, sizes = case
        case, result, _ = run(ranks, rng, name, p, sizes, v, widths=(ends, 7), dtype=dtype)
        counts, nbytes = allowed_messages(sizes, ends, p, v, np.dtype(dtype).itemsize)
        ranks.record(case, result, {"messages": counts, "bytes": nbytes})
        check_sent(result, case, counts, nbytes)

    equal = (50,) * 4
    cases = [("one_f_one_b", p, 1, "float64", equal) for p in (2, 4, 5, 12, 18)]
    cases += [
        ("gpipe", 2, 1, "float32", equal),
        ("zero_bubble", 3, 1, "float64", equal),
        ("interleaved", 2, 2, "float64", equal),
    ]
    check_kinds(cases, runs.by_schedule, check, weights=runs.WEIGHTS)


@points(7, "communication")
def test_messages_go_to_neighbours_in_the_given_communicator(ranks, rng):
    def check(case):
        if case[0] == PART:

            def step(**options):
                return run(ranks, rng, "one_f_one_b", 3, EQUAL[:4], **options)

            on_three_members(rng, step)
            return
        name, p, count, v = case
        case, result, _ = run(ranks, rng, name, p, EQUAL[:count], v)
        assert_own_messages(result, case)
        if result.comm_calls:
            raise case.fail("communicators were made; none is allowed.")
        beside = [{rank - 1, rank + 1} & set(range(p)) for rank in range(p)]
        if v > 1 and p > 1:
            beside[0].add(p - 1)
            beside[-1].add(0)
        assert_peers(result, beside, case, "pieces pass arrays to the piece after and before alone")

    def kind(case):
        return PART if case[0] == PART else runs.by_schedule(case)

    cases = [("one_f_one_b", 4, 6, 1), ("gpipe", 5, 3, 1), ("one_f_one_b", 18, 2, 1)]
    cases += [("interleaved", 4, 4, 2), ("interleaved", 1, 2, 2), (PART,)]
    weights = {"GPipe and 1F1B": 3, PART: 3}
    check_kinds(cases, kind, check, weights=weights)


@points(10, "schedule")
def test_passes_follow_the_list(ranks, rng):
    # `run` compares what the layers computed with the lists.
    def check(case):
        name, lists, v = case
        runs.stepped(ranks, rng, name, lists, EQUAL[:5] if v == 1 else EQUAL, v, observed=True)

    cases = [
        (name, runs.lists_of(getattr(oracle, name), 3, 5), 1)
        for name in ("gpipe", "one_f_one_b", "zero_bubble")
    ]
    cases.append(("interleaved", runs.lists_of(oracle.interleaved, 2, 6, 2), 2))
    cases.append((DRAWN, oracle.anything(3, 5, 1, rng, halves=False), 1))
    cases.append(("no warm-up after stage 0", oracle.unhurried(3, 5), 1))
    check_kinds(cases, runs.by_schedule, check, weights=runs.WEIGHTS)


# -- memory ----------------------------------------------------------------------------------------


@points(6, "memory")
def test_activations_are_let_go(ranks, rng):
    rows, ends, hidden, count = 96, (8, 8), 512, 8
    saved = 8 * rows * (ends[0] + hidden + ends[1])  # input, hidden and output, each once

    def check(case):
        name, v = case
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

    cases = (("one_f_one_b", 1), ("gpipe", 1), ("zero_bubble", 1), ("interleaved", 3))
    check_kinds(cases, runs.by_schedule, check, weights=runs.WEIGHTS)


# -- safety ----------------------------------------------------------------------------------------


@points(10, "safety")
def test_every_send_may_wait_for_its_receive(ranks, rng):
    machine = rendezvous()

    def check(case):
        name, p, v, seed, *lists = case
        options = {"machine": machine} | ({} if seed is None else {"seed": seed})
        if lists:
            sizes = (2,) * (max(each.microbatch for each in lists[0][0]) + 1)
            runs.stepped(ranks, rng, name, lists[0], sizes, v, **options)
            return
        case, result, _ = run(ranks, rng, name, p, EQUAL, v, **options)
        assert_requests_complete(result, case)

    seeds = iter(LATENCY_SEEDS)
    cases = [
        ("one_f_one_b", 4, 1, next(seeds)),
        ("interleaved", 3, 2, next(seeds)),
        ("gpipe", 3, 1, next(seeds)),
        ("zero_bubble", 3, 1, None),
        ("opposite orders", 2, 1, None, oracle.opposite(2, 24)),
        ("a third forward pass before the second", 2, 1, None, oracle.overtaking()),
        (DRAWN, 3, 1, None, oracle.anything(3, 6, 1, rng, halves=False)),
    ]
    check_kinds(cases, runs.by_schedule, check, weights=runs.WEIGHTS)


# -- speed -----------------------------------------------------------------------------------------


@points(9, "speed")
def test_time_with_free_messages_and_on_a_slow_wire(ranks, rng):
    # On the wire a message takes more than half of a forward pass.
    wire, width, costs = long_wire(), 16, (4e-6, 8e-6)

    def check(case):
        name, p, count, v, machine = case
        sizes, widths = (1,) * count, ((width, width), 4)
        case, result, lists = run(
            ranks, rng, name, p, sizes, v, machine=machine, costs=costs, widths=widths,
            observed=True,
        )  # fmt: skip
        oracle.examples.assert_work(result, lists, costs, case)
        ideal = replayed.timeline(lists, v, *costs, 8 * width, machine).makespan_s
        where = f"on machine {machine.name!r}"
        oracle.examples.assert_ratio(result, ideal, case, where)

    cases = [
        (name, 4, 8, 1, machine) for name in ("gpipe", "one_f_one_b") for machine in (FREE, wire)
    ]
    cases += [("interleaved", 4, 8, 2, wire), ("zero_bubble", 4, 8, 1, wire)]
    check_kinds(cases, runs.by_schedule, check, weights=runs.WEIGHTS)
