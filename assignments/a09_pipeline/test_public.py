"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, numbers of stages, values,
machines and schedules. ``schedule`` and ``zero_bubble`` are judged by an interpreter of ours
(``replayed.py``), and ``stage`` with schedules of ours, written below as text.
"""

import sys
from pathlib import Path

import numpy as np
import replayed
from actions import parse
from callers import sample
from cases import stage_call, torch_call
from examples import assert_passed_on
from model import Piece, loss_gradient
from model import loss as loss_of
from observed import assert_received, of_stage, of_torch

from ringside import Machine, checking
from ringside.checking import LATENCY_SEEDS, Verdict, assert_real_run, buffered, rendezvous
from ringside.checking.points import points
from ringside.factors import Factors
from ringside.trace import Kind

FREE = Machine("free", alpha_s=0.0, beta_s_per_byte=0.0)


def ask(ranks, through, target, calls):
    """Call a function that needs no ranks, inside one: per call ``(result, error)``."""
    result = ranks.call(f"callers:{through}", 1, [(target, calls)])
    return result.raise_for_error().values[0]


def typed(module, call):
    """The line that tries it out."""
    return f'python -c "from {module} import *; print({call})"'


# -- schedule --------------------------------------------------------------------------------------

SIZES = [(2, 4), (3, 5), (4, 8)]
SHORT = [(3, 1), (4, 2), (1, 3)]


def lists_of(ranks, function, case):
    """Your lists of all stages, complete and possible; ``case`` is ``(S, M)`` or ``(S, M, v)``."""
    num_stages, num_microbatches, *chunks = case
    calls = [(num_stages, num_microbatches, stage, *chunks) for stage in range(num_stages)]
    lists = []
    answers = ask(ranks, "schedules", f"schedule:{function}", calls)
    for call, (words, error) in zip(calls, answers, strict=True):
        line = typed("schedule", f"{function}{call}")
        if words is None:
            raise Verdict(f"{function}{call}: {error}.", reproduce=line)
        lists.append(parse(words))
    try:
        replayed.check(lists, num_microbatches, *chunks)
    except replayed.ScheduleError as error:
        raise Verdict(f"{function}, (S, M) = {case[:2]}: {error}.", reproduce=line) from None
    return lists


@points(15, "values", "schedule")
def test_gpipe_is_complete(ranks):
    for case in SIZES:
        lists_of(ranks, "gpipe", case)


@points(20, "values", "schedule")
def test_1f1b_is_complete(ranks):
    for case in SIZES:
        lists_of(ranks, "one_f_one_b", case)


@points(10, "values", "schedule")
def test_few_microbatches_and_one_stage(ranks):
    for case in SHORT:
        lists_of(ranks, "gpipe", case)
        lists_of(ranks, "one_f_one_b", case)


@points(10, "values", "schedule")
def test_interleaved_is_complete(ranks):
    for case in ((2, 4, 2), (3, 3, 2)):
        lists_of(ranks, "interleaved", case)
    ((_, error),) = ask(ranks, "schedules", "schedule:interleaved", [(2, 3, 0, 2)])
    if error != "ValueError":
        raise Verdict("interleaved(2, 3, 0, 2) must raise ValueError.")


@points(5, "schedule", "schedule")
def test_gpipes_forward_passes_come_first(ranks):
    for case in SIZES:
        for actions in lists_of(ranks, "gpipe", case):
            if any(replayed.kind(each) == "Forward" for each in actions[case[1] :]):
                raise Verdict("gpipe: a Forward stands after a backward action.")


@points(15, "schedule", "schedule")
def test_few_microbatches_are_in_flight(ranks):
    for num_stages, count in (*SIZES, *SHORT):
        lists = lists_of(ranks, "one_f_one_b", (num_stages, count))
        for stage, actions in enumerate(lists):
            most, allowed = replayed.most_in_flight(actions), min(count, num_stages - stage)
            if most > allowed:
                call = f"one_f_one_b({num_stages}, {count}, {stage})"
                raise Verdict(
                    f"{call} has {most} in flight; at most {allowed} are allowed.",
                    reproduce=typed("schedule", call),
                )


@points(5, "schedule", "schedule")
def test_few_chunks_are_in_flight(ranks):
    for stage, actions in enumerate(lists_of(ranks, "interleaved", (2, 8, 2))):
        if replayed.most_in_flight(actions) > 2 * (2 - stage - 1) + 3:
            raise Verdict(f"interleaved(2, 8, {stage}, 2) has too many chunks in flight.")


@points(5, "safety", "schedule")
def test_a_large_pipeline_can_be_run(ranks):
    for function in ("gpipe", "one_f_one_b"):
        lists_of(ranks, function, (10, 24))


def check_time(taken_s, bound_s, what):
    if taken_s > bound_s * 1.02:
        raise Verdict(
            f"{what} takes {taken_s:g} s; at most {bound_s:g} s is asked for.",
            fraction=0.5 if taken_s <= 1.5 * bound_s else 0.0,
        )


@points(10, "speed", "schedule")
def test_time_with_free_messages(ranks):
    for s, m in (*SIZES, *SHORT):
        for function in ("gpipe", "one_f_one_b"):
            taken_s = replayed.timeline(lists_of(ranks, function, (s, m))).makespan_s
            check_time(taken_s, 3 * (m + s - 1), f"{function}, S = {s}, M = {m}")
    lists = lists_of(ranks, "interleaved", (4, 8, 2))
    taken_s = replayed.timeline(lists, 2, 0.5, 1.0).makespan_s
    check_time(taken_s, 3 * (8 + 3 / 2), "interleaved, S = 4, M = 8, v = 2")


@points(5, "speed", "schedule")
def test_time_with_latency(ranks):
    machine = Machine("slow", alpha_s=0.5, beta_s_per_byte=0.0)
    for function, right_s in (("gpipe", 36.0), ("one_f_one_b", 41.0)):
        lists = lists_of(ranks, function, (4, 8))
        taken_s = replayed.timeline(lists, nbytes=8, machine=machine).makespan_s
        check_time(taken_s, right_s, f"{function}, S = 4, M = 8, with latency 0.5 s")


# -- zero_bubble -----------------------------------------------------------------------------------

HALVES = [(2, 4), (3, 5), (4, 8)]
THIRDS = (1.0, 1.0, 1.0)  # F, I, W


def halves_of(ranks, function, case):
    """Your lists of all stages: complete, possible, and every backward pass in two halves."""
    calls = [(*case, stage) for stage in range(case[0])]
    lists = []
    answers = ask(ranks, "schedules", f"zero_bubble:{function}", calls)
    for call, (words, error) in zip(calls, answers, strict=True):
        line = typed("zero_bubble", f"{function}{call}")
        if words is None:
            raise Verdict(f"{function}{call}: {error}.", reproduce=line)
        lists.append(parse(words))
        if any(replayed.kind(each) == "Backward" for each in lists[-1]):
            raise Verdict(f"{function}{call} has a whole Backward.", reproduce=line)
    pieces = (2, "v") if function == "zb_v" else (1, "loop")
    try:
        replayed.check(lists, case[1], *pieces)
    except replayed.ScheduleError as error:
        raise Verdict(f"{function}, (S, M) = {case}: {error}.", reproduce=line) from None
    return lists


def replayed_halves(ranks, function, case, costs=THIRDS):
    """The timeline of your lists; messages are free."""
    pieces, placement = (2, "v") if function == "zb_v" else (1, "loop")
    forward_s, input_s, weight_s = (each / pieces for each in costs)
    return replayed.timeline(
        halves_of(ranks, function, case), pieces, forward_s, input_s + weight_s,
        weight_s=weight_s, placement=placement,
    )  # fmt: skip


@points(15, "values", "zero_bubble")
def test_h1_is_complete(ranks):
    for case in HALVES:
        halves_of(ranks, "zb_h1", case)


@points(13, "values", "zero_bubble")
def test_h2_is_complete(ranks):
    for case in HALVES:
        halves_of(ranks, "zb_h2", case)


@points(7, "values", "zero_bubble")
def test_v_is_complete(ranks):
    for case in HALVES:
        halves_of(ranks, "zb_v", case)


@points(5, "values", "zero_bubble")
def test_few_microbatches_in_halves(ranks):
    for function in ("zb_h1", "zb_h2", "zb_v"):
        for case in SHORT:
            halves_of(ranks, function, case)


@points(22, "schedule", "zero_bubble")
def test_few_microbatches_are_held(ranks):
    for function, most in (("zb_h1", 4), ("zb_h2", 7), ("zb_v", 8)):
        for stage, actions in enumerate(halves_of(ranks, function, (4, 9))):
            held = replayed.most_in_flight(actions)
            if held > most:
                call = f"{function}(4, 9, {stage})"
                raise Verdict(
                    f"{call} holds {held} at one time; at most {most} are allowed.",
                    reproduce=typed("zero_bubble", call),
                )


@points(5, "safety", "zero_bubble")
def test_a_large_pipeline_in_halves_can_be_run(ranks):
    for function in ("zb_h1", "zb_h2"):
        halves_of(ranks, function, (10, 24))


@points(13, "speed", "zero_bubble")
def test_bubble_of_h1(ranks):
    for s, m in HALVES:
        for costs, bubble_s in ((THIRDS, s - 1), ((2.0, 2.0, 1.0), 3 * (s - 1))):
            took_s = replayed_halves(ranks, "zb_h1", (s, m), costs).makespan_s
            most_s = m * sum(costs) + bubble_s
            if took_s > most_s * (1 + 1e-9):
                raise Verdict(
                    f"zb_h1, S = {s}, M = {m}, (F, I, W) = {costs}: a step takes {took_s:g} s; at "
                    f"most {most_s:g} s is asked for.",
                    fraction=0.5 if took_s < (m + s - 1) * sum(costs) else 0.0,
                )


@points(11, "speed", "zero_bubble")
def test_h2_leaves_no_stage_idle(ranks):
    for s, m in ((2, 4), (3, 5), (4, 9)):
        line = replayed_halves(ranks, "zb_h2", (s, m))
        for stage in range(s):
            idle_s = replayed.idle_inside_s(line, stage)
            if idle_s > 1e-9:
                raise Verdict(
                    f"zb_h2, S = {s}, M = {m}, F = I = W = 1 s: stage {stage} is idle for "
                    f"{idle_s:g} s between its first and its last action; it need not be.",
                    fraction=0.5 if idle_s <= s - 1 else 0.0,
                )


@points(5, "speed", "zero_bubble")
def test_v_takes_no_longer_than_its_work(ranks):
    for s, m in ((2, 2), *HALVES):
        took_s = replayed_halves(ranks, "zb_v", (s, m)).makespan_s
        most_s = (6 * m + s - 1) / 2
        if took_s > most_s * (1 + 1e-9):
            raise Verdict(
                f"zb_v, S = {s}, M = {m}, F = I = W = 1 s: a step takes {took_s:g} s; at most "
                f"{most_s:g} s is asked for.",
                fraction=0.5 if took_s <= most_s + (s - 1) / 2 else 0.0,
            )


@points(4, "speed", "zero_bubble")
def test_few_microbatches_take_no_longer_than_under_1f1b(ranks):
    for function in ("zb_h1", "zb_h2", "zb_v"):
        for s, m in SHORT:
            took_s = replayed_halves(ranks, function, (s, m)).makespan_s
            if took_s > 3 * (m + s - 1) * (1 + 1e-9):
                raise Verdict(
                    f"{function}, S = {s}, M = {m}: a step takes {took_s:g} s; 1F1B takes "
                    f"{3 * (m + s - 1)} s."
                )


# -- stage -----------------------------------------------------------------------------------------

GPIPE_2 = ["F0 F1 F2 B0 B1 B2", "F0 F1 F2 B0 B1 B2"]
GPIPE_3 = ["F0 F1 F2 F3 B0 B1 B2 B3"] * 3
PDFLUSH_3 = ["F0 F1 F2 B0 F3 B1 B2 B3", "F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3"]
HALVES_2 = ["F0 F1 I0 F2 W0 I1 W1 I2 W2", "F0 I0 W0 F1 I1 W1 F2 I2 W2"]
CHUNKS_2 = [
    "F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1",
    "F0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1",
]
STRANGE_2 = ["F2 F0 B0 F1 I2 B1 W2", "F0 B0 F2 B2 F1 I1 W1"]
SCHEDULES = {
    "GPipe": GPIPE_3, "1F1B": PDFLUSH_3, "two halves": HALVES_2, "chunks": CHUNKS_2,
    "a strange order": STRANGE_2,
}  # fmt: skip


def check_loss(result, right, call, rtol):
    """What the stages returned."""
    *others, told = [value["loss"] for value in result.values]
    if any(other is not None for other in others):
        raise call.fail(f"the stages before the last must return None, and returned {others}.")
    if told is None or not np.isclose(told, right, rtol=rtol):
        raise call.fail(f"the last stage returned {told}; the loss is {right:.10g}.")


def check_observed(result, right, lists, call):
    """A run whose passes were announced: loss, gradients, and what there was for each pass."""
    loss, gradients = right
    call = call.seen_in(result)
    check_loss(result, loss, call, 1e-7)
    for stage, value in enumerate(result.values):
        for chunk, grads in enumerate(value["grads"]):
            for mine, wanted in zip(grads, gradients[chunk * len(lists) + stage], strict=True):
                if mine is None or not np.allclose(mine, wanted, rtol=1e-9, atol=1e-11):
                    raise call.fail(f"a gradient of stage {stage} is not that of the whole batch.")
    checking.assert_declared_at_once(result, call)
    assert_received(result, lists, call)


def stepped(ranks, name, words, batch_sizes, dtype="float64", **options):
    """One step of ``stage.run``, compared with the whole batch in one process."""
    p = len(words)
    chunks = 2 if words is CHUNKS_2 else 1
    call = stage_call(name, words, batch_sizes, chunks, dtype)
    widths = options.pop("widths", (5, 7, 4))
    params, inputs, targets = sample(p * chunks, batch_sizes, dtype, widths)
    through, costs = options.pop("through", "stepped"), options.pop("costs", (1e-6, 2e-6))
    call = call.second() if through == "second_step" else call
    checked = options.pop("checked", True)
    arguments = [
        (
            [params[chunk * p + stage] for chunk in range(chunks)],
            words[stage],
            list(batch_sizes),
            inputs if stage == 0 else None,
            targets if stage == p - 1 else None,
            *([costs] if through == "stepped" else []),
        )
        for stage in range(p)
    ]
    options.setdefault("machine", buffered())
    result = ranks.call(f"callers:{through}", options.pop("world_size", p), arguments, **options)
    checking.assert_ran(result, call)
    if not checked:
        return call, result
    if result.factors is not None:  # the passes were announced
        lists = [parse(each) for each in words]
        right = of_stage(params, inputs, targets, lists, result.factors)
        check_observed(result, right, lists, call)
        return call, result
    pieces = [Piece(own, number) for number, own in enumerate(params)]
    x, target, kept = np.concatenate(inputs), np.concatenate(targets), []
    for piece in pieces:
        x, saved = piece.forward(0, x)
        kept.append(saved)
    check_loss(result, loss_of(x, target, len(x)), call, 1e-5)
    grad = loss_gradient(x, target, len(x))
    for piece, saved in zip(pieces[::-1], kept[::-1], strict=True):
        grad = piece.backward(0, saved, grad)
    for stage, value in enumerate(result.values):
        for chunk, grads in enumerate(value["grads"]):
            for mine, right in zip(grads, pieces[chunk * p + stage].grads, strict=True):
                eps = np.finfo(dtype).eps
                scale = np.full(right.size, (1e-12 if dtype == "float64" else 1e-5) / eps)
                what = f"stage {stage}'s gradient"
                checking.assert_array(mine.reshape(-1), right.reshape(-1), scale, call, what)
    return call, result


@points(10, "values", "stage")
def test_gradient_with_gpipe(ranks):
    stepped(ranks, "GPipe", GPIPE_2, (2, 2, 2))
    stepped(ranks, "GPipe", GPIPE_3, (3, 1, 2, 4))


@points(15, "values", "stage")
def test_gradient_with_1f1b(ranks):
    stepped(ranks, "1F1B", PDFLUSH_3, (3, 1, 2, 4))
    stepped(ranks, "1F1B", PDFLUSH_3, (2, 1, 1, 3), "float32")


@points(5, "values", "stage")
def test_one_microbatch_and_one_stage(ranks):
    stepped(ranks, "GPipe", ["F0 B0"] * 3, (3,))
    stepped(ranks, "GPipe", ["F0 F1 B0 B1"], (3, 2))


@points(10, "values", "stage")
def test_halves_chunks_and_strange_orders(ranks):
    stepped(ranks, "two halves", HALVES_2, (2, 1, 3))
    stepped(ranks, "chunks", CHUNKS_2, (2, 3))
    stepped(ranks, "a strange order", STRANGE_2, (2, 1, 3))


@points(5, "values", "stage")
def test_second_step(ranks):
    stepped(ranks, "1F1B", PDFLUSH_3, (3, 1, 2, 4), through="second_step")


REAL_STEP = """
import numpy as np
from mpi4py import MPI
from ringside.jobs.real.watch import watched
import stage
from actions import parse
from callers import sample
from model import Piece
comm = watched(MPI.COMM_WORLD, 20.0)
words = ["F0 F1 F2 B0 B1 B2", "F0 F1 B0 F2 B1 B2", "F0 B0 F1 B1 F2 B2"][comm.Get_rank()]
params, inputs, targets = sample(3, [2, 1, 2])
rank = comm.Get_rank()
piece = Piece(params[rank], rank)
first, last = inputs if rank == 0 else None, targets if rank == 2 else None
stage.run(comm, [piece], parse(words), [2, 1, 2], first, last)
assert all(np.isfinite(grad).all() and grad.any() for grad in piece.grads)
"""


@points(5, "reality", "stage")
def test_step_under_mpiexec(ranks, mpiexec):
    call, _ = stepped(ranks, "1F1B", PDFLUSH_3, (3, 1, 2, 4))
    words = [mpiexec, "-n", "3", sys.executable, "-c", REAL_STEP]
    assert_real_run(words, Path(__file__).parent, f"{call} under mpiexec")


@points(10, "communication", "stage")
def test_one_message_for_each_activation_and_gradient(ranks):
    sizes, width = (3, 1, 2, 4), 150  # far longer than the envelope that is free
    call, result = stepped(ranks, "1F1B", PDFLUSH_3, sizes, widths=(width, 3, width))
    ranks.record(call, result, {"messages": [4, 8, 4]})
    for stage, allowed in enumerate((4, 8, 4)):
        if result.sent_messages()[stage] > allowed:
            raise call.fail(f"stage {stage} sent more than {allowed} messages.")
    for stage, arrays in enumerate((1, 2, 1)):
        most = arrays * (8 * sum(sizes) * width + 1024 * len(sizes))
        if result.sent_bytes()[stage] > most:
            raise call.fail(
                f"stage {stage} sent {result.sent_bytes()[stage]} bytes; {most} are allowed."
            )


@points(2, "communication", "stage", essential=True)
def test_stages_compute_their_pieces_and_pass_arrays_on(ranks):
    call, result = stepped(ranks, "GPipe", GPIPE_3, (2,) * 4, checked=False)
    assert_passed_on(result, 8 * 8 * 4, call)


@points(3, "communication", "stage")
def test_neighbours_on_any_communicator(ranks):
    call, result = stepped(ranks, "GPipe", GPIPE_3, (1, 2, 1, 1))
    checking.assert_own_messages(result, call)
    checking.assert_peers(result, [{1}, {0, 2}, {1}], call, "stages send to their neighbours only")
    stepped(ranks, "1F1B", PDFLUSH_3, (1, 2, 1, 1), world_size=5, members=[3, 1, 4])


@points(10, "schedule", "stage")
def test_passes_follow_the_list(ranks, rng):
    call, result = stepped(ranks, "1F1B", PDFLUSH_3, (1, 2, 1, 1), factors=Factors.drawn(rng))
    for stage, words in enumerate(PDFLUSH_3):
        done = [phase.split()[0] for _, phase, _ in checking.announced(result.trace.ops[stage])]
        if done != words.split():
            raise call.fail(f"stage {stage} computed {' '.join(done)}; its list is {words}.")


@points(5, "memory", "stage")
def test_activations_are_let_go(ranks):
    rows, hidden = 96, 512
    saved = 8 * rows * (8 + hidden + 8)
    call, result = stepped(
        ranks, "1F1B", PDFLUSH_3, (rows,) * 4, widths=(8, hidden, 8), through="step_memory"
    )
    for stage, value in enumerate(result.values):
        beside = 3 * saved + 2 * 8 * (2 * 8 * hidden + hidden + 8) + 16 * 8 * rows * 8 + (1 << 16)
        if value["peak"] > (3 - stage) * saved + beside:
            raise call.fail(
                f"stage {stage} held {value['peak']} bytes at one time; {3 - stage} microbatches "
                f"of {saved} bytes are in flight, and {beside} bytes are allowed beside them."
            )


@points(10, "safety", "stage")
def test_sends_may_wait_for_their_receives(ranks):
    for seed in LATENCY_SEEDS:
        call, result = stepped(
            ranks, "1F1B", PDFLUSH_3, (1, 2, 1, 1), machine=rendezvous(), seed=seed
        )
        checking.assert_requests_complete(result, call)


@points(5, "speed", "stage")
def test_time_of_a_step(ranks):
    costs = (1e-3, 2e-3)
    _, result = stepped(ranks, "GPipe", GPIPE_3, (1,) * 4, machine=FREE, costs=costs)
    check_time(result.makespan_s, 6 * sum(costs), "GPipe on 3 stages")


@points(5, "speed", "stage")
def test_time_of_long_messages(ranks):
    machine, costs = Machine("slow", alpha_s=1e-4, beta_s_per_byte=1e-5), (1e-3, 2e-3)
    options = {"widths": (8, 4, 8), "costs": costs, "machine": machine}
    _, result = stepped(ranks, "1F1B", PDFLUSH_3, (1,) * 4, **options)
    lists = [parse(words) for words in PDFLUSH_3]
    ideal_s = replayed.timeline(lists, 1, *costs, 64, machine).makespan_s
    what = "1F1B on 3 stages, with messages that wait for their receives,"
    check_time(result.makespan_s, ideal_s, what)


# -- bubble ----------------------------------------------------------------------------------------


def check_numbers(ranks, function, cases):
    found = ask(ranks, "several", f"bubble:{function}", [call for call, _ in cases])
    for (call, right), (value, error) in zip(cases, found, strict=True):
        if error or not np.isclose(np.asarray(value, float), right, rtol=1e-9, atol=1e-15):
            where = f"{function}{call}"
            raise Verdict(
                f"{where} is {error or value}; it must be {right}.",
                reproduce=typed("bubble", where),
            )


@points(20, "values", "bubble")
def test_makespan(ranks):
    cases = [((3, 4, 1.0, 2.0), 18.0), ((1, 5, 1.0, 1.0), 10.0), ((4, 8, 1.0, 2.0, 2), 28.5)]
    check_numbers(ranks, "makespan_s", cases)


@points(15, "values", "bubble")
def test_bubble_fraction(ranks):
    check_numbers(ranks, "bubble_fraction", [((3, 4), 1 / 3), ((1, 2), 0.0), ((4, 8, 3), 1 / 9)])


@points(15, "values", "bubble")
def test_fewest_microbatches(ranks):
    check_numbers(ranks, "fewest_microbatches", [((3, 0.3), 5), ((4, 0.5), 3), ((1, 0.1), 1)])


@points(10, "communication", "bubble")
def test_gpipe_with_latency(ranks):
    check_numbers(ranks, "gpipe_s", [((4, 8, 1.0, 2.0, 0.5), 36.0), ((1, 2, 1.0, 2.0, 0.5), 6.0)])


@points(10, "communication", "bubble")
def test_number_of_messages(ranks):
    check_numbers(ranks, "num_messages", [((3, 4), 16), ((1, 4, 2), 0), ((2, 4, 2), 24)])


@points(15, "memory", "bubble")
def test_microbatches_in_flight(ranks):
    cases = [(("gpipe", 4, 8, 1), 8), (("one_f_one_b", 4, 8, 1), 3), (("one_f_one_b", 4, 2, 1), 2)]
    cases += [(("interleaved", 2, 8, 0, 2), 5), (("interleaved", 1, 4, 0, 2), 2)]
    check_numbers(ranks, "in_flight", cases)
    ((_, error),) = ask(ranks, "several", "bubble:in_flight", [("1f1b", 2, 2, 0)])
    if error != "ValueError":
        raise Verdict(
            "in_flight('1f1b', 2, 2, 0) must raise ValueError: no schedule has that name."
        )


@points(15, "memory", "bubble")
def test_bytes_of_activations(ranks):
    cases = [(("gpipe", 4, 8, 1, 100, 10), 800), (("gpipe", 4, 8, 1, 100, 10, True), 170)]
    check_numbers(ranks, "activation_bytes", [*cases, (("one_f_one_b", 4, 8, 3, 100, 10), 100)])


# -- pipeline_torch --------------------------------------------------------------------------------

TORCH_CHUNKS = ["F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1", "F0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1"]


def torch_step(ranks, name, words, batch_sizes, recompute=False, dropout=0.0, **options):
    """One step of ``pipeline_torch.run``, compared with the whole batch unless there is dropout."""
    from callers_torch import torch_sample  # torch takes longer than the checks of other modules

    p, chunks = len(words), 2 if words is TORCH_CHUNKS else 1
    call = torch_call(name, words, batch_sizes, chunks, recompute, dropout)
    params, inputs, targets = torch_sample(
        p * chunks, batch_sizes, options.pop("widths", (5, 7, 4))
    )
    costs, through = options.pop("costs", (1e-6, 2e-6)), options.pop("through", "stepped")
    call = call.second() if through == "second_step" else call
    arguments = []
    for stage in range(p):
        own = [params[chunk * p + stage] for chunk in range(chunks)]
        widths = [(each[0].shape[1], each[0].shape[0], each[2].shape[0]) for each in own]
        spec = {"widths": widths, "costs": costs, "dropout": dropout}
        ends = (inputs if stage == 0 else None, targets if stage == p - 1 else None)
        arguments.append((spec, own, words[stage], list(batch_sizes), *ends, recompute))
    options.setdefault("machine", buffered())
    size, checked = options.pop("world_size", p), options.pop("checked", not dropout)
    result = ranks.call(f"callers_torch:{through}", size, arguments, **options)
    checking.assert_ran(result, call)
    if not checked:
        return call, result
    if result.factors is not None:  # the passes were announced
        turned, lists = [[each.T for each in own] for own in params], [parse(w) for w in words]
        loss, grads = of_torch(turned, inputs, targets, lists, result.factors)
        right = loss, [[each.T for each in own] for own in grads]
        check_observed(result, right, lists, call)
        return call, result
    pieces = [Piece([each.T for each in own], k) for k, own in enumerate(params)]
    x, target, graphs = np.concatenate(inputs), np.concatenate(targets), []
    for piece in pieces:
        x, saved = piece.forward(0, x)
        graphs.append(saved)
    check_loss(result, loss_of(x, target, len(x)), call, 1e-7)
    grad = loss_gradient(x, target, len(x))
    for piece, saved in reversed(list(zip(pieces, graphs, strict=True))):
        grad = piece.backward(0, saved, grad)
    for stage, value in enumerate(result.values):
        for chunk, grads in enumerate(value["grads"]):
            for mine, turned in zip(grads, pieces[chunk * p + stage].grads, strict=True):
                if mine is None or not np.allclose(mine, turned.T, rtol=1e-10, atol=1e-12):
                    raise call.fail(f"a gradient of stage {stage} is not that of the whole batch.")
    return call, result


@points(15, "values", "pipeline_torch")
def test_torch_gradient(ranks):
    torch_step(ranks, "GPipe", GPIPE_3, (3, 1, 2, 4))
    torch_step(ranks, "1F1B", PDFLUSH_3, (3, 1, 2, 4))


@points(10, "values", "pipeline_torch")
def test_torch_chunks_and_one_stage(ranks):
    torch_step(ranks, "chunks", TORCH_CHUNKS, (2, 3))
    torch_step(ranks, "GPipe", ["F0 F1 B0 B1"], (2, 3))


@points(5, "values", "pipeline_torch")
def test_torch_second_step(ranks):
    torch_step(ranks, "1F1B", PDFLUSH_3, (3, 1, 2, 4), through="second_step")


@points(10, "values", "pipeline_torch")
def test_torch_gradient_with_recomputation(ranks):
    torch_step(ranks, "1F1B", PDFLUSH_3, (3, 1, 2, 4), recompute=True)


@points(5, "values", "pipeline_torch")
def test_recomputation_draws_the_same_numbers_again(ranks):
    found = []
    for recompute in (False, True):
        options = {"recompute": recompute, "dropout": 0.5}
        call, result = torch_step(ranks, "1F1B", PDFLUSH_3, (3, 1, 2, 4), **options)
        found.append(result.values)
    for stage, (plain, again) in enumerate(zip(*found, strict=True)):
        pairs = list(zip(plain["grads"][0], again["grads"][0], strict=True))
        pairs.append((plain["drawn"], again["drawn"]))
        if not all(np.allclose(a, b, rtol=1e-10, atol=1e-12) for a, b in pairs):
            raise call.fail(f"recomputation changes stage {stage}'s numbers.")
        if plain["drawn"] != plain["alone"]:
            raise call.fail(f"stage {stage}'s passes don't draw where the generator stands.")


@points(10, "communication", "pipeline_torch")
def test_one_message_for_each_tensor(ranks):
    sizes, width = (3, 1, 2, 4), 150  # far longer than the envelope that is free
    call, result = torch_step(ranks, "1F1B", PDFLUSH_3, sizes, widths=(width, 3, width))
    ranks.record(call, result, {"messages": [4, 8, 4]})
    if any(sent > most for sent, most in zip(result.sent_messages(), (4, 8, 4), strict=True)):
        raise call.fail(f"the stages sent {result.sent_messages()} messages; 4, 8, 4 are enough.")
    for stage, arrays in enumerate((1, 2, 1)):
        most = arrays * (8 * sum(sizes) * width + 1024 * len(sizes))
        if result.sent_bytes()[stage] > most:
            raise call.fail(
                f"stage {stage} sent {result.sent_bytes()[stage]} bytes; {most} are allowed."
            )


@points(3, "communication", "pipeline_torch", essential=True)
def test_torch_stages_compute_their_pieces_and_pass_tensors_on(ranks):
    call, result = torch_step(ranks, "GPipe", GPIPE_3, (2,) * 4, checked=False)
    assert_passed_on(result, 8 * 8 * 4, call)


@points(7, "communication", "pipeline_torch")
def test_neighbours_in_any_group(ranks):
    call, result = torch_step(ranks, "GPipe", GPIPE_3, (1, 2, 1, 1))
    checking.assert_own_messages(result, call)
    checking.assert_peers(result, [{1}, {0, 2}, {1}], call, "stages send to their neighbours only")
    torch_step(ranks, "1F1B", PDFLUSH_3, (1, 2, 1, 1), world_size=5, members=[3, 1, 4])


@points(5, "schedule", "pipeline_torch")
def test_torch_passes_follow_the_list(ranks, rng):
    call, result = torch_step(
        ranks, "1F1B", PDFLUSH_3, (1, 2, 1, 1), recompute=True, factors=Factors.drawn(rng)
    )
    for stage, words in enumerate(PDFLUSH_3):
        labels = [op.detail[0] for op in result.trace.ops[stage] if op.kind == Kind.PASS]
        done = "".join(label[0] for label in labels if label[1:10] == " of piece")
        right = "".join({"F": "F", "B": "FB"}[word[0]] for word in words.split())
        if done != right:
            raise call.fail(f"stage {stage} computed {done}; it must be {right}.")


@points(10, "memory", "pipeline_torch")
def test_recomputation_keeps_inputs_alone(ranks):
    rows, hidden = 96, 512
    saved, given = 8 * rows * (16 + hidden), 8 * rows * 8
    for recompute, words in ((True, GPIPE_3), (False, PDFLUSH_3)):
        options = {"widths": (8, hidden, 8), "through": "step_memory"}
        call, result = torch_step(ranks, "a schedule", words, (rows,) * 4, recompute, **options)
        for stage, memory in enumerate(result.memory):
            kept = saved + 4 * given if recompute else (3 - stage) * saved
            allowed = kept + 16 * given + 3 * saved
            if memory["peak_by_kind"]["activations"] > allowed:
                raise call.fail(
                    f"stage {stage} held {memory['peak_by_kind']['activations']} bytes of "
                    f"activations; {allowed} are allowed."
                )


@points(10, "safety", "pipeline_torch")
def test_torch_sends_may_wait(ranks):
    for seed in LATENCY_SEEDS[:2]:
        options = {"machine": rendezvous(), "seed": seed}
        call, result = torch_step(ranks, "1F1B", PDFLUSH_3, (1, 2, 1, 1), **options)
        checking.assert_requests_complete(result, call)


@points(10, "speed", "pipeline_torch")
def test_torch_time_of_long_messages(ranks):
    machine, costs = Machine("slow", alpha_s=1e-3, beta_s_per_byte=3e-5), (1e-2, 2e-2)
    options = {"widths": (16, 4, 16), "costs": costs, "machine": machine}
    _, result = torch_step(ranks, "1F1B", PDFLUSH_3, (1,) * 4, **options)
    lists = [parse(words) for words in PDFLUSH_3]
    ideal_s = replayed.timeline(lists, 1, *costs, 128, machine).makespan_s
    check_time(result.makespan_s, ideal_s, "1F1B on 3 stages, with long messages,")
