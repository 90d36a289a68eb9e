"""The cases of the hidden run."""

from fractions import Fraction

from checks import test_bubble as bubble
from checks import test_dualpipev as dual
from checks import test_pipeline_torch as torch
from checks import test_schedule as schedule
from checks import test_stage as stage
from checks import test_zero_bubble as zero
from checks.cases import (
    FREE,
    ActivationBytes,
    BubbleFraction,
    DualPipeV,
    FewestMicrobatches,
    Gpipe,
    GpipeS,
    InFlight,
    Interleaved,
    MakespanS,
    NumMessages,
    OneFOneB,
    ZbH1,
    ZbH2,
    ZbV,
)
from checks.cases_stage import IN_HALVES, OTHERS, SEVERAL, USUAL, Step
from checks.cases_torch import StepTorch
from given import replayed
from given.actions import text
from hidden import oracle

from ringside.checking.cases import machine_of
from ringside.checking.suite import group, hidden
from ringside.timing.machine import Machine


def each(case, *sizes):
    """A case of each of these sizes."""
    return [case(*size) for size in sizes]


def two(rng):
    """Two sizes that nobody can know, with as many microbatches as stages or more."""
    stages = rng.integers(2, 9, size=2).tolist()
    return [(each, each + int(rng.integers(0, 8))) for each in stages]


# -- schedule --------------------------------------------------------------------------------------

SOME = ((2, 4), (2, 5), (3, 3), (3, 8), (4, 8), (5, 7))
SHORT = ((2, 1), (3, 1), (3, 2), (4, 3), (5, 2), (8, 5))
ONE_STAGE = ((1, 1), (1, 4))
CHUNKS = ((2, 4, 2), (3, 3, 2), (3, 6, 3), (4, 8, 2), (2, 2, 1), (5, 5, 2))
LARGE = ((12, 30), (16, 16))


def gpipes(rng):
    return each(Gpipe, *two(rng))


def flushes(rng):
    return each(OneFOneB, *two(rng))


def chunked(rng):
    p = int(rng.integers(2, 6))
    return [Interleaved(p, 2 * p, int(rng.integers(2, 4)))]


hidden(schedule.test_gpipe_is_complete_and_can_be_run, *each(Gpipe, *SOME), gpipes)
hidden(schedule.test_1f1b_is_complete_and_can_be_run, *each(OneFOneB, *SOME), flushes)
hidden(
    schedule.test_fewer_microbatches_than_stages_and_one_stage,
    group("gpipe", *each(Gpipe, *SHORT, *ONE_STAGE)),
    group("one_f_one_b", *each(OneFOneB, *SHORT, *ONE_STAGE), weight=3),
)
hidden(
    schedule.test_interleaved_is_complete_and_can_be_run,
    *each(Interleaved, *CHUNKS, (1, 3, 2)),
    chunked,
)
hidden(
    schedule.test_interleaved_refuses_other_numbers_of_microbatches,
    Interleaved(3, 3),
    *(Interleaved(*size, raises="ValueError") for size in ((2, 3, 2), (4, 2, 2), (3, 7, 1))),
)
hidden(schedule.test_gpipes_forward_passes_come_first, *each(Gpipe, *SOME), gpipes)
hidden(
    schedule.test_1f1b_keeps_few_microbatches_in_flight_and_loses_no_time,
    *each(OneFOneB, *SOME, *LARGE),
)
hidden(schedule.test_interleaved_keeps_few_chunks_in_flight, *each(Interleaved, *CHUNKS, (1, 4, 2)))
hidden(schedule.test_time_of_gpipe_with_free_messages, *each(Gpipe, *SOME), gpipes)
hidden(
    schedule.test_time_of_interleaved_with_free_messages,
    *each(Interleaved, *CHUNKS, (8, 16, 2)),
)


def timed(case, **options):
    """A case that has the time of our own schedule on its machine."""
    case = case.with_(**options)
    lists = oracle.lists_of(getattr(oracle, case.function), *case.arguments())
    costs = (cost / case.num_chunks for cost in case.costs)
    line = replayed.timeline(lists, case.num_chunks, *costs, case.nbytes, machine_of(case))
    return case.with_(within_s=line.makespan_s)


LATE = {"machine": schedule.LATE, "nbytes": 8}
GPT = oracle.Gpt(8, Machine.load("zaratan"))
ON_GPUS = {"machine": "zaratan", "nbytes": GPT.nbytes, "costs": (GPT.forward_s, GPT.backward_s)}


def late(case):
    """On messages that take time."""

    def drawn(rng):
        sizes = [(4, 8), (3, 7), two(rng)[0]]
        return [*(timed(case(*size), **LATE) for size in sizes), timed(case(8, 32), **ON_GPUS)]

    return drawn


hidden(
    schedule.test_time_with_messages_that_take_time,
    group("gpipe", late(Gpipe)),
    group("one_f_one_b", late(OneFOneB)),
    group("interleaved", timed(Interleaved(4, 8), **LATE)),
)

# -- zero_bubble -----------------------------------------------------------------------------------

HALVED = ((2, 4), (3, 6), (4, 8), (5, 11), (7, 14))
FEW = ((2, 1), (3, 2), (4, 3), (6, 2), (1, 1), (1, 3))


def enough(case, least):
    """A case of a size that nobody can know, with ``least(S)`` microbatches or more."""

    def drawn(rng):
        num_stages = int(rng.integers(2, 8))
        return [case(num_stages, least(num_stages) + int(rng.integers(0, 6)))]

    return drawn


H1, H2 = enough(ZbH1, lambda s: s), enough(ZbH2, lambda s: 2 * s - 1)
V = enough(ZbV, lambda s: 2 * s - 1)

hidden(zero.test_h1_is_complete_and_can_be_run, *each(ZbH1, *HALVED), H1)
hidden(zero.test_h2_is_complete_and_can_be_run, *each(ZbH2, *HALVED), H2)
hidden(zero.test_v_is_complete_and_can_be_run, *each(ZbV, *HALVED[:4]), V)
hidden(zero.test_fewer_microbatches_than_stages_and_one_stage, *zero.by_function(FEW))
hidden(zero.test_h1_holds_few_microbatches, *each(ZbH1, *HALVED, (12, 30)), H1)
hidden(zero.test_h2_holds_few_microbatches, *each(ZbH2, *HALVED, (12, 30)), H2)
hidden(zero.test_v_holds_few_chunks, *each(ZbV, *HALVED[:4]))
hidden(zero.test_h1_takes_less_time_than_1f1b, ZbH1(4, 8), ZbH1(5, 11))
hidden(zero.test_bubble_of_h1, *each(ZbH1, *HALVED[1:], (12, 30)))
hidden(
    zero.test_h2_leaves_no_stage_idle,
    *each(ZbH2, (3, 5), (2, 5), *HALVED[2:], (12, 30)),
    H2,
)
hidden(zero.test_v_takes_no_longer_than_its_work, *each(ZbV, (2, 3), (3, 5), *HALVED[:4]), V)

# -- dualpipev -------------------------------------------------------------------------------------

PAIRED = ((2, 4), (2, 7), (3, 6), (4, 8), (5, 12))
MANY = ((8, 32), (12, 40))
SOME_PAIRED = enough(DualPipeV, lambda s: 2 * s)

hidden(
    dual.test_each_pass_is_done_once_and_lists_can_be_run,
    *dual.each(*PAIRED, *MANY),
    SOME_PAIRED,
)
hidden(dual.test_one_stage, *dual.each((1, 2), (1, 3), (1, 6)))
hidden(
    dual.test_fewer_microbatches_than_twice_the_stages_are_refused,
    DualPipeV(3, 6),
    *(DualPipeV(*size, raises="ValueError") for size in ((3, 5), (4, 2), (1, 1))),
)
hidden(dual.test_few_chunks_are_held, *dual.each(*PAIRED, *MANY), SOME_PAIRED)
hidden(dual.test_many_passes_are_in_pairs, DualPipeV(4, 16))
hidden(dual.test_time_without_exchange, *dual.each(*PAIRED, *MANY), SOME_PAIRED)
hidden(
    dual.test_time_with_exchange,
    group("x = 1", *dual.each((2, 6), (3, 12), (5, 20), (8, 32), exchange_s=1.0), weight=2),
    group("x = 0.5", *dual.each((4, 16), (6, 30), exchange_s=0.5)),
)

# -- bubble: against replays of our schedules, and in other words ----------------------------------

SIZES = ((1, 1), (1, 5), (2, 1), (2, 8), (3, 4), (4, 8), (8, 3), (16, 64), (64, 512))
SMALL = ((2, 4), (3, 6), (4, 4), (4, 8))
NAMES = ("gpipe", "one_f_one_b", "interleaved")


def solved(case, right):
    """For each argument list the case with its number."""

    def with_number(*arguments):
        return case(*arguments, gives=right(*arguments))

    return with_number


def drawn_sizes(rng, count=4):
    return [(int(rng.integers(2, 40)), int(rng.integers(1, 90))) for _ in range(count)]


def replayed_s(name, s, m, costs, *chunks, machine=replayed.FREE):
    lists = oracle.lists_of(getattr(oracle, name), s, m, *chunks)
    v = chunks[0] if chunks else 1
    return replayed.timeline(lists, v, *(cost / v for cost in costs), 8, machine).makespan_s


def makespan_s(s, m, forward_s, backward_s):
    if s * m > 64:
        return m * (forward_s + backward_s) + (s - 1) * (forward_s + backward_s)
    return replayed_s("one_f_one_b", s, m, (forward_s, backward_s))


def makespans(*costs):
    """Of passes that take these times."""

    def drawn(rng):
        number = solved(MakespanS, makespan_s)
        return [number(*size, *pair) for size in (*SIZES, *drawn_sizes(rng)) for pair in costs]

    return drawn


def chunked_s(s, m, forward_s, backward_s, v):
    if m % s:
        return m * (forward_s + backward_s) + (s - 1) * (forward_s / v + backward_s / v)
    return replayed_s("interleaved", s, m, (forward_s, backward_s), v)


def chunked_makespans(rng):
    number = solved(MakespanS, chunked_s)
    small = [number(*size, 1.0, 2.0, v) for size in SMALL for v in (1, 2, 4)]
    return small + [number(*size, 0.5, 1.0, v) for size in drawn_sizes(rng) for v in (2, 3)]


FRACTION = solved(BubbleFraction, lambda s, m, v=1: 1 - m * v / (m * v + s - 1))


def fractions(rng):
    return [FRACTION(*size) for size in (*SIZES, *drawn_sizes(rng))]


def fewest(s, most, v=1):
    return next(m for m in range(1, 10**4) if s - 1 <= Fraction(most) * (m * v + s - 1))


# Only shares that a float holds exactly are met exactly: elsewhere rounding would decide.
FEWEST = [
    *((s, most) for s in (2, 4, 8, 33) for most in (0.9, 0.5, 0.25, 0.21, 0.11, 0.031)),
    *((s, most, v) for s in (2, 5, 8) for most in (0.5, 0.21, 0.06) for v in (1, 2, 4)),
]


def latent_s(s, m, forward_s, backward_s, latency_s):
    machine = Machine("latency", alpha_s=latency_s, beta_s_per_byte=0.0)
    return replayed_s("gpipe", s, m, (forward_s, backward_s), machine=machine)


def latent(rng):
    number = solved(GpipeS, latent_s)
    sizes = (*SMALL, (1, 3), (5, 2), (2, 1), (3, 1))
    cases = [number(*size, 1.0, 2.0, c) for size in sizes for c in (0.0, 0.5, 0.125)]
    return cases + [number(*size, 0.5, 1.0, 1e-3) for size in drawn_sizes(rng, 2)]


def messages(s, m, v=1):
    return sum(2 * m for piece in range(1, s * v) if piece % s != (piece - 1) % s)


def numbers_of_messages(rng):
    number = solved(NumMessages, messages)
    alone = [number(*size) for size in (*SIZES, *drawn_sizes(rng))]
    return alone + [number(*size, v) for size in (*SIZES[:6], (1, 4)) for v in (1, 2, 3)]


def in_flight(name, s, m, k, *chunks):
    return replayed.most_in_flight(getattr(oracle, name)(s, m, k, *chunks))


def in_flight_of(name):
    """Cases of one chunk a stage."""

    def drawn(rng):
        number = solved(InFlight, in_flight)
        sizes = [*SIZES[:7], *drawn_sizes(rng, 2)]
        return [number(name, s, m, k) for s, m in sizes for k in sorted({0, s // 2, s - 1})]

    return drawn


def activation_bytes(name, s, m, k, saved, given, again=False):
    return saved + (in_flight(name, s, m, k) - 1) * (given if again else saved)


def activations(rng):
    number = solved(ActivationBytes, activation_bytes)
    return [
        number(name, s, m, k, 1000, 50, *again)
        for name in NAMES[:2]
        for s, m in (*SIZES[:7], *drawn_sizes(rng, 2))
        for k in sorted({0, s - 1})
        for again in ((), (False,), (True,))
    ]


# -- what usual mistakes give, by the sentence that names each -------------------------------------


def usual(kind):
    """Give a class what usual mistakes give."""

    def give(function):
        kind.wrong = function
        return function

    return give


@usual(MakespanS)
def wrong_makespan(case):
    s, m, v = case.stages, case.microbatches, case.chunks or 1
    both_s = case.forward_s + case.backward_s
    return {
        "Here a backward pass is taken to be two forward passes; it takes backward_s.": (
            (m + (s - 1) / v) * 3 * case.forward_s
        ),
        "Here the times are taken to be the whole model's; they are those of a stage.": (
            (m + (s - 1) / v) * both_s / s
        ),
        "Here chunks divide the whole step; the work stays as it is.": (m + s - 1) / v * both_s,
        "This is the work without anyone's waiting.": m * both_s,
    }


@usual(BubbleFraction)
def wrong_fraction(case):
    s, m, v = case.stages, case.microbatches, case.chunks or 1
    return {
        "This is idle over ideal; idle over total is asked for.": (s - 1) / v / m,
        "This is the bubble of one chunk.": (s - 1) / (m + s - 1),
    }


@usual(GpipeS)
def wrong_latency(case):
    s, both_s = case.stages, case.forward_s + case.backward_s
    step_s = (case.microbatches + s - 1) * both_s
    return {
        "Here latency is paid for in one direction; gradients travel, too.": (
            step_s + (s - 1) * case.latency_s
        ),
        "Here each message's latency is paid for; most are on their way while others compute.": (
            step_s + 2 * case.microbatches * (s - 1) * case.latency_s
        ),
    }


@usual(NumMessages)
def wrong_messages(case):
    s, m, v = case.stages, case.microbatches, case.chunks or 1
    return {
        "Chunks have a further message between them: from the last stage to the first one.": (
            2 * m * (s - 1) * v
        ),
        "These are the activations; their gradients are messages, too.": m * (v * s - 1),
    }


@usual(ActivationBytes)
def wrong_activations(case):
    m, saved = case.microbatches, case.saved_bytes
    return {
        "These are all microbatches'; under 1F1B fewer are in flight.": m * saved,
        "Here the input of the microbatch that is computed again counts twice.": (
            case.right() + case.input_bytes
        ),
    }


hidden(
    bubble.test_makespan,
    group("backward passes twice as long", makespans((1.0, 2.0), (0.25, 0.5))),
    group(bubble.OTHER_TIMES, makespans((3.0, 1.0), (1.25, 1.5))),
)
hidden(bubble.test_makespan_of_chunks, chunked_makespans)
hidden(
    bubble.test_bubble_fraction,
    group("one chunk", fractions),
    group("several chunks", *(FRACTION(*size, v) for size in SIZES for v in (1, 2, 5))),
)
hidden(
    bubble.test_fewest_microbatches,
    group(
        "several stages",
        *(solved(FewestMicrobatches, fewest)(*arguments) for arguments in FEWEST),
    ),
    group("one stage", *(FewestMicrobatches(1, most, gives=1) for most in (0.9, 0.25, 0.031))),
)
hidden(bubble.test_gpipe_with_latency, latent)
hidden(bubble.test_number_of_messages, numbers_of_messages)
hidden(
    bubble.test_microbatches_in_flight,
    *(group(name, in_flight_of(name)) for name in NAMES[:2]),
    group(
        "interleaved",
        *(
            solved(InFlight, in_flight)("interleaved", s, m, k, v)
            for s, m in ((1, 4), *SMALL)
            for k in range(s)
            for v in (1, 2, 3)
        ),
    ),
    group("other names", InFlight("1f1b", 2, 2, 0, raises="ValueError"), weight=0.5),
)
hidden(bubble.test_bytes_of_activations, activations)

# -- stage -----------------------------------------------------------------------------------------

UNEQUAL = (1, 3, 2, 4, 1, 2)


def words(lists):
    """All stages' actions as text; once where they are the same."""
    texts = tuple(text(actions) for actions in lists)
    return texts[:1] if len(set(texts)) == 1 else texts


def steps(kind, function, p, count, *chunks, **options):
    """A step by one of our schedules."""
    return kind(p, words(oracle.lists_of(function, p, count, *chunks)), **options)


def step(*arguments, **options):
    return steps(Step, *arguments, **options)


def ordered(*arguments, **options):
    return steps(Step, *arguments, **options, ordered=True)


def drawn_orders(kind, *shapes, **options):
    """Schedules drawn at random, of ``(S, M, v, halves)``."""

    def drawn(rng):
        return [
            kind(p, words(oracle.anything(p, count, v, rng, halves)), **options)
            for p, count, v, halves in shapes
        ]

    return drawn


GPIPE, FLUSH = oracle.gpipe, oracle.one_f_one_b
HALVES, INTERLEAVED = oracle.zero_bubble, oracle.interleaved
BOTH = (GPIPE, FLUSH)

hidden(
    stage.test_microbatches_of_unequal_lengths,
    *(
        step(name, p, count, sizes=UNEQUAL)
        for name in BOTH
        for p, count in ((2, 5), (3, 6), (4, 6))
    ),
)
hidden(
    stage.test_loss_of_the_whole_batch,
    group(USUAL, step(FLUSH, 4, 6), weight=3),
    group("one stage", step(GPIPE, 1, 3, sizes=(4,))),
    group("microbatches of unequal lengths", step(FLUSH, 3, 5, sizes=UNEQUAL)),
)
hidden(
    stage.test_gradient_on_2_to_5_stages,
    step(FLUSH, 5, 8),
    step(GPIPE, 5, 7),
    step(FLUSH, 3, 6),
)
hidden(
    stage.test_gradient_in_float32,
    step(FLUSH, 3, 4, dtype="float32"),
    step(GPIPE, 2, 3, dtype="float32"),
)
hidden(
    stage.test_fewer_microbatches_than_stages_and_one_stage,
    group(
        "fewer microbatches than stages",
        *(
            step(name, p, count, sizes=sizes)
            for p, count, sizes in ((2, 1, (3,)), (4, 2, (2,)), (5, 3, (1,)))
            for name in BOTH
        ),
    ),
    group("one stage", *(step(name, 1, 3, sizes=(4,)) for name in (*BOTH, HALVES))),
)
hidden(
    stage.test_backward_passes_in_two_halves,
    *(step(HALVES, p, count) for p, count in ((2, 4), (3, 6), (4, 3))),
)
hidden(
    stage.test_interleaved_chunks,
    *(step(INTERLEAVED, *shape) for shape in ((2, 6, 2), (3, 6, 2), (2, 2, 3), (1, 3, 2))),
)
hidden(
    stage.test_schedules_that_nobody_teaches,
    group(
        "whole passes through one chunk",
        Step(3, ("F0 F1 F2 F3 B3 B2 B1 B0",)),
        drawn_orders(Step, *((p, 4, 1, False) for p in (2, 3, 4))),
    ),
    group(
        "chunks and halves", drawn_orders(Step, (3, 4, 1, True), (2, 4, 3, True), (4, 4, 2, True))
    ),
)
hidden(stage.test_second_step_is_independent, step(FLUSH, 2, 3, sizes=(3,), before=True))
hidden(stage.test_real_mpi, step(FLUSH, 3, 4))
hidden(stage.test_stages_compute_their_pieces_and_pass_arrays_on, ordered(GPIPE, 4, 4, sizes=(8,)))
LONG = {"sizes": (50,), "widths": (40, 7, 30)}
hidden(
    stage.test_one_message_for_each_activation_and_gradient,
    group(
        USUAL,
        *(ordered(FLUSH, p, 4, **LONG) for p in (2, 4, 5, 12, 18)),
        ordered(GPIPE, 2, 4, dtype="float32", **LONG),
        weight=3,
    ),
    group(IN_HALVES, ordered(HALVES, 3, 4, **LONG)),
    group(SEVERAL, ordered(INTERLEAVED, 2, 4, 2, **LONG)),
)
hidden(
    stage.test_messages_go_to_neighbours,
    group(USUAL, ordered(FLUSH, 4, 6), ordered(GPIPE, 5, 3), ordered(FLUSH, 18, 2), weight=3),
    group(SEVERAL, ordered(INTERLEAVED, 4, 4, 2), ordered(INTERLEAVED, 1, 2, 2)),
)
hidden(stage.test_given_communicator_is_used, ordered(FLUSH, 3, 4))
hidden(
    stage.test_passes_follow_the_list,
    group(USUAL, *(step(name, 3, 5, announced=True) for name in BOTH), weight=3),
    group(IN_HALVES, step(HALVES, 3, 5, announced=True)),
    group(SEVERAL, step(INTERLEAVED, 2, 6, 2, announced=True)),
    group(
        OTHERS,
        drawn_orders(Step, (3, 5, 1, False), announced=True),
        Step(3, words(oracle.unhurried(3, 5)), announced=True),
    ),
)
LARGE = {"sizes": (96,), "widths": (8, 512, 8)}
hidden(
    stage.test_activations_are_let_go,
    group(
        USUAL,
        *(ordered(name, 4, 8, watched=True, **LARGE) for name in (FLUSH, GPIPE)),
        weight=3,
    ),
    group(IN_HALVES, ordered(HALVES, 4, 8, watched=True, **LARGE)),
    group(SEVERAL, ordered(INTERLEAVED, 4, 8, 3, watched=True, **LARGE)),
)
hidden(
    stage.test_every_send_may_wait_for_its_receive,
    group(USUAL, ordered(FLUSH, 4, 6), ordered(GPIPE, 3, 6), weight=3),
    group(SEVERAL, ordered(INTERLEAVED, 3, 6, 2)),
    group(IN_HALVES, ordered(HALVES, 3, 6)),
    group(
        OTHERS,
        Step(2, words(oracle.opposite(2, 24)), ordered=True),
        Step(2, words(oracle.overtaking()), ordered=True),
        drawn_orders(Step, (3, 6, 1, False), ordered=True),
    ),
)


def on_wire(kind, function, *shape, **options):
    """A step that is timed."""
    slow = {"machine": "long wire"} if kind is Step else {"machine": torch.SLOW}
    wire = stage.WIRE if kind is Step else torch.WIRE
    return steps(kind, function, *shape, **{**wire, **slow, **options})


hidden(
    stage.test_time_with_free_messages_and_on_a_slow_wire,
    group(
        USUAL,
        *(on_wire(Step, name, 4, 8, machine=m) for name in BOTH for m in (FREE, "long wire")),
        weight=3,
    ),
    group(SEVERAL, on_wire(Step, INTERLEAVED, 4, 8, 2)),
    group(IN_HALVES, on_wire(Step, HALVES, 4, 8)),
)

# -- pipeline_torch --------------------------------------------------------------------------------

LENGTHS = (2, 1, 3, 4, 1, 2)


def torch_step(*arguments, **options):
    return steps(StepTorch, *arguments, **options)


def torch_ordered(*arguments, **options):
    return steps(StepTorch, *arguments, **options, ordered=True)


hidden(
    torch.test_microbatches_of_unequal_lengths,
    *(
        torch_step(name, p, count, sizes=LENGTHS)
        for name in BOTH
        for p, count in ((2, 6), (3, 4), (4, 5))
    ),
)
NEWEST_FIRST = ("F0 F1 F2 F3 B3 B2 B1 B0",)
hidden(
    torch.test_schedules_that_nobody_teaches,
    StepTorch(3, NEWEST_FIRST),
    drawn_orders(StepTorch, (3, 4, 1, False), (4, 4, 1, False)),
)
hidden(
    torch.test_the_same_with_recomputation,
    StepTorch(3, NEWEST_FIRST, recompute=True),
    drawn_orders(StepTorch, (3, 4, 1, False), recompute=True),
)
hidden(
    torch.test_chunks,
    *(torch_step(INTERLEAVED, *shape) for shape in ((2, 4, 2), (3, 6, 2), (1, 2, 2), (2, 6, 2))),
)
hidden(
    torch.test_gradient_with_gpipe_and_1f1b,
    *(torch_step(name, p, 6) for name in BOTH for p in (3, 5)),
)
hidden(
    torch.test_few_microbatches_and_one_stage,
    group(
        "fewer microbatches than stages",
        *(torch_step(name, p, count) for p, count in ((3, 1), (4, 2)) for name in BOTH),
    ),
    group("one stage", *(torch_step(name, 1, 3) for name in BOTH)),
)
hidden(
    torch.test_loss_of_the_whole_batch,
    group(USUAL, torch_step(FLUSH, 4, 6), weight=2),
    group("one stage", torch_step(GPIPE, 1, 3)),
)
hidden(
    torch.test_gradient_with_recomputation,
    group(
        USUAL,
        torch_step(GPIPE, 2, 4, recompute=True),
        torch_step(FLUSH, 3, 4, recompute=True),
        weight=3,
    ),
    group(SEVERAL, torch_step(INTERLEAVED, 2, 4, 2, recompute=True)),
)
DROPOUT = {"widths": (5, 20, 4), "recompute": True, "dropout": 0.4}
hidden(
    torch.test_recomputation_draws_the_same_numbers_again,
    group(USUAL, torch_step(GPIPE, 2, 4, **DROPOUT), torch_step(FLUSH, 3, 4, **DROPOUT)),
    group(SEVERAL, drawn_orders(StepTorch, (2, 4, 2, False), **DROPOUT), weight=2),
)
hidden(
    torch.test_second_step_is_independent,
    group(USUAL, torch_step(FLUSH, 2, 3, sizes=(3,), before=True), weight=3),
    group(torch.AGAIN, torch_step(FLUSH, 2, 3, sizes=(3,), before=True, recompute=True)),
)
hidden(torch.test_real_gloo, torch_step(FLUSH, 3, 4))
hidden(
    torch.test_stages_compute_their_pieces_and_pass_tensors_on,
    torch_ordered(GPIPE, 4, 4, sizes=(8,)),
)
hidden(
    torch.test_one_message_for_each_activation_and_gradient,
    group(
        USUAL,
        *(torch_ordered(FLUSH, p, 4, **LONG) for p in (4, 5, 12, 18)),
        torch_ordered(GPIPE, 2, 4, **LONG),
        weight=3,
    ),
    group(torch.AGAIN, torch_ordered(FLUSH, 4, 4, recompute=True, **LONG)),
    group(SEVERAL, torch_ordered(INTERLEAVED, 2, 4, 2, **LONG)),
)
hidden(
    torch.test_messages_go_to_neighbours,
    group(USUAL, *(torch_ordered(FLUSH, p, 4) for p in (4, 18)), weight=3),
    group(SEVERAL, *(torch_ordered(INTERLEAVED, p, 4, 2) for p in (4, 1))),
)
hidden(torch.test_given_group_is_used, torch_ordered(FLUSH, 3, 4))
hidden(
    torch.test_passes_follow_the_list,
    group(
        USUAL,
        torch_step(GPIPE, 2, 3, announced=True),
        torch_step(FLUSH, 3, 5, announced=True),
    ),
    group(torch.AGAIN, torch_step(FLUSH, 3, 5, recompute=True, announced=True), weight=4),
    group(SEVERAL, torch_step(INTERLEAVED, 2, 4, 2, announced=True)),
)
hidden(
    torch.test_activations_are_let_go_and_recomputation_keeps_inputs_alone,
    group(USUAL, *(torch_ordered(name, 4, 8, **LARGE) for name in BOTH), weight=2),
    group(
        torch.AGAIN,
        *(torch_ordered(name, 4, 8, recompute=True, **LARGE) for name in BOTH),
        weight=3,
    ),
)
hidden(
    torch.test_every_send_may_wait_for_its_receive,
    group(USUAL, torch_ordered(FLUSH, 4, 4), torch_ordered(GPIPE, 3, 4)),
    group(SEVERAL, torch_ordered(INTERLEAVED, 2, 4, 2)),
    group(
        OTHERS,
        drawn_orders(StepTorch, (3, 5, 1, False), ordered=True),
        StepTorch(2, words(oracle.overtaking()), ordered=True),
        StepTorch(2, words(oracle.opposite(2, 24)), ordered=True),
    ),
)
hidden(
    torch.test_time_with_free_messages_and_on_a_slow_wire,
    group(
        USUAL,
        on_wire(StepTorch, GPIPE, 4, 6, machine=FREE),
        *(on_wire(StepTorch, name, 4, 8) for name in BOTH),
        weight=3,
    ),
    group(
        torch.AGAIN,
        on_wire(StepTorch, FLUSH, 4, 6, recompute=True, machine=FREE),
        on_wire(StepTorch, FLUSH, 4, 8, recompute=True),
    ),
    group(SEVERAL, on_wire(StepTorch, INTERLEAVED, 4, 8, 2)),
)
