"""pipeline_torch.py: autograd on each stage, messages between them, and recomputation."""

import numpy as np

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_declared_at_once,
    assert_own_messages,
    assert_peers,
    assert_ran,
    assert_requests_complete,
    buffered,
    on_three_members,
    rendezvous,
)
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from ringside.factors import Factors
from ringside.trace import Kind
from solutions.a09_pipeline import replayed
from solutions.a09_pipeline.actions import Backward, text
from solutions.a09_pipeline.cases import torch_call
from solutions.a09_pipeline.hidden import oracle, runs

LENGTHS = (2, 1, 3, 4, 1, 2)
EQUAL = (2,) * 6
DRAWN = "a schedule drawn at random"
PART = "groups of a part of the world"
ENDS, HIDDEN = (5, 4), 7

points = points_of("pipeline_torch")


class Model:
    """Parameters, inputs and targets; what pieces hand on takes turns in its width."""

    def __init__(self, rng, num_pieces, batch_sizes, ends=ENDS, hidden=HIDDEN):
        handed = [ends[piece % 2] for piece in range(num_pieces + 1)]
        self.widths = [(handed[k], hidden, handed[k + 1]) for k in range(num_pieces)]
        self.params = []
        for d_in, d, d_out in self.widths:
            shapes = ((d, d_in), (d,), (d_out, d), (d_out,))
            self.params.append([rng.standard_normal(each) / 2 for each in shapes])
        self.inputs = [rng.standard_normal((size, handed[0])) for size in batch_sizes]
        self.targets = [rng.standard_normal((size, handed[-1])) for size in batch_sizes]

    def right(self, lists=None, factors=None):
        """Loss and gradients of the whole batch; torch's weights are transposed.

        With ``factors``, those of a run whose passes are announced.
        """
        whole = [[each.T for each in own] for own in self.params], self.inputs, self.targets
        if factors is None:
            loss, gradients = oracle.serial(*whole)
        else:
            loss, gradients = oracle.examples.observed.of_torch(*whole, lists, factors)
        return loss, [[each.T for each in own] for own in gradients]


def called(ranks, case, model, lists, batch_sizes, num_chunks=1, recompute=False, **options):
    """The step on ranks; nothing but its end is checked."""
    num_stages = len(lists)
    costs, dropout = options.pop("costs", (1e-6, 2e-6)), options.pop("dropout", 0.0)
    through = options.pop("through", "stepped")
    arguments = []
    for stage, actions in enumerate(lists):
        mine = [chunk * num_stages + stage for chunk in range(num_chunks)]
        spec = {"widths": [model.widths[k] for k in mine], "costs": costs, "dropout": dropout}
        x = model.inputs if stage == 0 else None
        y = model.targets if stage == num_stages - 1 else None
        given = (text(actions), list(batch_sizes), x, y, recompute)
        arguments.append((spec, [model.params[k] for k in mine], *given))
    world_size = options.pop("world_size", num_stages)
    options.setdefault("machine", buffered())
    if options["machine"] is None:  # real ranks have none
        del options["machine"]
    result = ranks.call(f"callers_torch:{through}", world_size, arguments, **options)
    assert_ran(result, case)
    return result


def run(ranks, rng, name, num_stages, batch_sizes, num_chunks=1, recompute=False, **options):
    """One of our schedules, compared with the whole batch; returns case, result and lists."""
    chunks = (num_chunks,) if name == "interleaved" else ()
    lists = options.pop("lists", None) or runs.lists_of(
        getattr(oracle, name), num_stages, len(batch_sizes), *chunks
    )
    model = Model(rng, num_stages * num_chunks, batch_sizes, *options.pop("widths", (ENDS, HIDDEN)))
    words = [text(each) for each in lists]
    case = torch_call(name, words, batch_sizes, num_chunks, recompute)
    case = case.second() if options.get("through") == "second_step" else case
    members, ordered = options.get("members"), options.pop("ordered", True)
    if options.pop("observed", False):
        options["factors"] = Factors.drawn(rng)
    valued = options.pop("valued", True)
    result = called(ranks, case, model, lists, batch_sizes, num_chunks, recompute, **options)
    if not valued:
        return case, result, lists
    factors = options.get("factors") and result.factors
    right = model.right(lists, factors) if factors else model.right()
    case_there = case.seen_in(result) if factors else case
    check_gradients(result, *right, case_there, returned=not ordered)
    if ordered:
        check_passes(result, lists, case, recompute, members)
    return case, result, lists


def check_gradients(result, loss, gradients, case, returned):
    """What ``run`` returned, every gradient, and all that was given as it was."""
    num_stages = case.world_size
    for stage, value in enumerate(result.values):
        if returned:
            oracle.examples.check_loss(value["loss"], loss, stage, 1e-10, case)
        for chunk, grads in enumerate(value["grads"]):
            own = gradients[chunk * num_stages + stage]
            for number, (grad, right) in enumerate(zip(grads, own, strict=True)):
                if not isinstance(grad, np.ndarray) or grad.shape != right.shape:
                    raise case.fail(f"stage {stage} has no gradient of parameter {number}.")
                error = float(np.abs(grad - right).max())
                if not error <= 1e-10 * (1 + np.abs(right).max()):
                    raise case.fail(
                        f"stage {stage}'s gradient of parameter {number} in chunk {chunk} differs "
                        f"by {error:.3g} from that of the whole batch."
                    )
        if value.get("kept") is False:
            raise case.fail(
                f"stage {stage} changed its parameters, inputs or targets (their values, their "
                "requires_grad or grad, or a list of them), or left training mode."
            )


def begun(ops):
    """The passes that a rank announced, repeated ones too: "F of piece 2", and which of these."""
    return [op.detail[:2] for op in ops if op.kind == Kind.PASS]


def passes(ops):
    """What the modules of a rank computed: "F of piece 2"."""
    phases = [str(op.detail[3]) for op in ops if op.kind == Kind.COMPUTE]
    return [phase for phase in phases if phase[:10] in ("F of piece", "B of piece")]


def check_passes(result, lists, case, recompute, members=None):
    """Passes in the order of the list; with recomputation a forward pass before each backward."""
    observed = result.factors is not None
    for stage, actions in enumerate(lists):
        wanted = []
        for action in actions:
            piece = action.chunk * len(lists) + stage
            back = isinstance(action, Backward)
            wanted += [f"F of piece {piece}"] if recompute or not back else []
            wanted += [f"B of piece {piece}"] if back else []
        ops = result.trace.ops[stage if members is None else members[stage]]
        done = passes(ops)
        if done == wanted and observed and begun(ops) != numbered(actions, stage, lists, recompute):
            raise case.seen_in(result).fail(
                f"stage {stage} announced its passes in another order than its list has them."
            )
        if done != wanted:
            at = next((k for k, (a, b) in enumerate(zip(done, wanted, strict=False)) if a != b), -1)
            raise case.fail(
                f"stage {stage} computed {len(done)} passes, and {len(wanted)} are asked for"
                f"{f'; pass {at} was {done[at]}, not {wanted[at]}' if at >= 0 else ''}."
            )
    if observed:
        assert_declared_at_once(result, case)
        oracle.examples.observed.assert_received(result, lists, case)


def numbered(actions, stage, lists, recompute):
    """What ``begun`` must be: passes of a piece are numbered as the list has them."""
    found, counts = [], {}
    for action in actions:
        piece = action.chunk * len(lists) + stage
        forward = f"F of piece {piece}"
        if isinstance(action, Backward):
            phase = f"B of piece {piece}"
            made = counts[forward, action.microbatch]
            found += [(forward, made)] if recompute else []
        else:
            phase = forward
        counts[phase, action.microbatch] = counts[phase] = counts.get(phase, -1) + 1
        found.append((phase, counts[phase]))
    return found


# -- values ----------------------------------------------------------------------------------------


def values(*arguments, **options):
    """``run``, whatever the order of the passes."""
    return run(*arguments, **options, ordered=False)


@points(13, "values")
def test_gradient_with_gpipe_and_1f1b(ranks, rng):
    def kind(case):
        equal = len(set(case[2])) == 1
        return f"microbatches of {'equal length' if equal else 'unequal lengths'}"

    cases = [
        (name, p, sizes)
        for name in ("gpipe", "one_f_one_b")
        for p, sizes in ((2, LENGTHS), (3, EQUAL), (3, LENGTHS[:4]), (4, LENGTHS[:5]), (5, EQUAL))
    ]
    check_kinds(cases, kind, lambda case: values(ranks, rng, *case))


@points(5, "values")
def test_few_microbatches_and_one_stage(ranks, rng):
    def check(case):
        for name in ("gpipe", "one_f_one_b"):
            values(ranks, rng, name, *case)

    def kind(case):
        return "one stage" if case[0] == 1 else "fewer microbatches than stages"

    check_kinds(((3, (2,)), (4, (2, 2)), (1, (2, 2, 2))), kind, check)


@points(6, "values")
def test_chunks_and_other_schedules(ranks, rng):
    def check(case):
        name, p, sizes, v = case
        lists = oracle.anything(p, 4, v, rng, halves=False) if name == DRAWN else None
        values(ranks, rng, name, p, sizes, v, lists=lists)

    cases = [("interleaved", *each) for each in ((2, EQUAL[:4], 2), (3, EQUAL, 2), (1, (2, 2), 2))]
    cases += [(DRAWN, 3, EQUAL[:4], 1), (DRAWN, 4, EQUAL[:4], 1), ("interleaved", 2, LENGTHS, 2)]
    check_kinds(cases, runs.by_schedule, check)


@points(8, "values")
def test_gradient_with_recomputation(ranks, rng):
    def check(case):
        name, p, v = case
        lists = oracle.anything(p, 4, v, rng, halves=False) if name == DRAWN else None
        values(ranks, rng, name, p, EQUAL[:4], v, recompute=True, lists=lists)

    cases = (("gpipe", 2, 1), ("one_f_one_b", 3, 1), ("interleaved", 2, 2), (DRAWN, 3, 1))
    check_kinds(cases, runs.by_schedule, check, weights=runs.WEIGHTS)


@points(4, "values")
def test_recomputation_draws_the_same_numbers_again(ranks, rng):
    sizes = EQUAL[:4]
    drawn = oracle.anything(2, len(sizes), 2, rng, halves=False)
    for name, lists, v in (
        ("gpipe", runs.lists_of(oracle.gpipe, 2, len(sizes)), 1),
        ("one_f_one_b", runs.lists_of(oracle.one_f_one_b, 3, len(sizes)), 1),
        ("a schedule drawn at random", drawn, 2),
    ):
        model = Model(rng, len(lists) * v, sizes, hidden=20)
        words = [text(each) for each in lists]
        cases = {
            recompute: torch_call(name, words, sizes, v, recompute, dropout=0.4)
            for recompute in (False, True)
        }
        plain, again = (
            called(ranks, case, model, lists, sizes, v, recompute=recompute, dropout=0.4).values
            for recompute, case in cases.items()
        )
        for stage, (first, second) in enumerate(zip(plain, again, strict=True)):
            check_same(first, second, stage, cases[True])
            if runs.plain(first["drawn"]) != runs.plain(first["alone"]):
                raise cases[False].fail(
                    f"stage {stage}'s generator is not where its forward passes "
                    "leave it: they are made in training mode, and nothing else seeds or uses it."
                )


def check_same(first, second, stage, case):
    """Gradients with and without recomputation, and the number drawn afterwards."""
    plain, again = ([grad for own in each["grads"] for grad in own] for each in (first, second))
    for a, b in zip(plain, again, strict=True):
        if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
            raise case.fail(f"stage {stage} has no gradient.")
        if not np.allclose(a, b, rtol=1e-10, atol=1e-12):
            raise case.fail(f"recomputation changes stage {stage}'s gradients.")
    if runs.plain(first["drawn"]) != runs.plain(second["drawn"]):
        raise case.fail(f"recomputation leaves stage {stage}'s random generator elsewhere.")


@points(4, "values")
def test_second_step_is_independent(ranks, rng):
    def check(again):
        step = {"recompute": again, "through": "second_step"}
        values(ranks, rng, "one_f_one_b", 2, LENGTHS[:3], **step)

    check_kinds((False, True), lambda again: by_recomputing(("one_f_one_b", again)), check)


@points(3, "reality")
def test_real_gloo(gloo, rng):
    try:
        values(gloo, rng, "one_f_one_b", 3, EQUAL[:4], machine=None)
    except Verdict as verdict:
        raise Verdict(f"on gloo: {verdict.sentence}", detail=verdict.detail) from None


# -- communication ---------------------------------------------------------------------------------


def by_recomputing(case):
    """The kind of a case: its last item says whether it recomputes."""
    return "recomputation" if case[-1] else runs.by_schedule(case)


@points(5, "communication", essential=True)
def test_stages_compute_their_pieces_and_pass_tensors_on(ranks, rng):
    sizes = (8,) * 4
    case, result, _ = run(ranks, rng, "gpipe", 4, sizes, valued=False)
    oracle.examples.assert_passed_on(result, sum(sizes) * 8 * min(ENDS), case)


@points(10, "communication")
def test_one_message_for_each_activation_and_gradient(ranks, rng):
    sizes, ends = (50,) * 4, (40, 30)

    def check(case):
        name, p, v, again = case
        case, result, _ = run(ranks, rng, name, p, sizes, v, again, widths=(ends, HIDDEN))
        pieces, counts, nbytes = p * v, [0] * p, [0] * p
        for piece in range(pieces):
            for width, goes in (
                (ends[(piece + 1) % 2], piece < pieces - 1),
                (ends[piece % 2], piece),
            ):
                counts[piece % p] += len(sizes) * bool(goes)
                nbytes[piece % p] += 8 * sum(sizes) * width * bool(goes)
        ranks.record(case, result, {"messages": counts, "bytes": nbytes})
        for stage in range(p):
            messages, sent = result.sent_messages()[stage], result.sent_bytes()[stage]
            if messages > counts[stage]:
                raise case.fail(
                    f"stage {stage} sent {messages} messages; at most {counts[stage]} are allowed."
                )
            if sent > nbytes[stage] + 1024 * counts[stage]:
                raise case.fail(
                    f"stage {stage} sent {sent} bytes; its activations and gradients have "
                    f"{nbytes[stage]}."
                )

    cases = [("one_f_one_b", p, 1, False) for p in (4, 5, 12, 18)]
    cases += [("gpipe", 2, 1, False), ("one_f_one_b", 4, 1, True), ("interleaved", 2, 2, False)]
    check_kinds(cases, by_recomputing, check, weights=runs.WEIGHTS)


@points(8, "communication")
def test_messages_go_to_neighbours_in_the_given_group(ranks, rng):
    def check(case):
        if case[0] == PART:
            words = "right on the world, wrong on a group of its ranks {members}. There:"
            on_three_members(rng, on_three, words, "the group")
            return
        name, p, v = case
        case, result, _ = run(ranks, rng, name, p, EQUAL[:4], v)
        assert_own_messages(result, case)
        ring = {0: {1, p - 1}, p - 1: {p - 2, 0}} if v > 1 else {0: {1}, p - 1: {p - 2}}
        peers = [ring.get(k, {k - 1, k + 1}) for k in range(p)] if p > 1 else [set()]
        assert_peers(result, peers, case, "pieces pass tensors to the piece after and before alone")

    def on_three(**options):
        return run(ranks, rng, "one_f_one_b", 3, EQUAL[:4], **options)

    def kind(case):
        return PART if case[0] == PART else runs.by_schedule(case)

    cases = [("one_f_one_b", 4, 1), ("one_f_one_b", 18, 1)]
    cases += [("interleaved", 4, 2), ("interleaved", 1, 2), (PART,)]
    check_kinds(cases, kind, check, weights={"GPipe and 1F1B": 3, PART: 3})


# -- schedule, memory, safety, speed ---------------------------------------------------------------


@points(8, "schedule")
def test_passes_follow_the_list(ranks, rng):
    # `run` compares what the modules computed with the lists.
    def check(case):
        name, p, count, v, again = case
        run(ranks, rng, name, p, EQUAL[:count], v, again, observed=True)

    cases = [("gpipe", 2, 3, 1, False), ("one_f_one_b", 3, 5, 1, False)]
    cases += [("one_f_one_b", 3, 5, 1, True), ("interleaved", 2, 4, 2, False)]
    check_kinds(cases, by_recomputing, check, weights=runs.WEIGHTS)


def check_memory(ranks, rng, name, recompute):
    """The peak of activations, as they were allocated."""
    rows, width, hidden, count = 96, 8, 512, 8
    saved, given = 8 * rows * (2 * width + hidden), 8 * rows * width
    sizes = (rows,) * count
    case, result, lists = run(
        ranks, rng, name, 4, sizes, recompute=recompute, widths=((width, width), hidden),
        through="step_memory",
    )  # fmt: skip
    for stage, actions in enumerate(lists):
        most = replayed.most_in_flight(actions)
        kept = most * given + saved if recompute else most * saved
        bound = kept + 4 * count * given + 3 * saved
        peak = result.memory[stage]["peak_by_kind"]["activations"]
        if peak > bound:
            raise case.fail(
                f"stage {stage} held {peak} bytes of activations at one time; {bound} are allowed "
                f"with {most} microbatches in flight, whose graphs hold {saved} bytes each."
            )


@points(9, "memory")
def test_activations_are_let_go_and_recomputation_keeps_inputs_alone(ranks, rng):
    cases = [(name, again) for again in (False, True) for name in ("one_f_one_b", "gpipe")]
    check_kinds(cases, by_recomputing, lambda case: check_memory(ranks, rng, *case))


@points(9, "safety")
def test_every_send_may_wait_for_its_receive(ranks, rng):
    def check(case):
        name, p, v, seed, lists = case
        if lists is not None:
            sizes = (2,) * (max(each.microbatch for each in lists[0]) + 1)
            run(ranks, rng, name, p, sizes, v, machine=rendezvous(), lists=lists)
            return
        options = {"machine": rendezvous(), "seed": seed}
        case, result, _ = run(ranks, rng, name, p, EQUAL[:4], v, **options)
        assert_requests_complete(result, case)

    plain = (("one_f_one_b", 4, 1), ("interleaved", 2, 2), ("gpipe", 3, 1))
    cases = [(*case, seed, None) for case, seed in zip(plain, LATENCY_SEEDS, strict=True)]
    cases += [
        (DRAWN, 3, 1, None, oracle.anything(3, 5, 1, rng, halves=False)),
        ("a third forward pass before the second", 2, 1, None, oracle.overtaking()),
        ("opposite orders", 2, 1, None, oracle.opposite(2, 24)),
    ]
    check_kinds(cases, runs.by_schedule, check, weights=runs.WEIGHTS)


def check_time(ranks, rng, name, p, count, machine, recompute=False, v=1):
    costs, width = (1e-2, 2e-2), 16
    sizes, widths = (1,) * count, ((width, width), 4)
    case, result, lists = run(
        ranks, rng, name, p, sizes, v, recompute, machine=machine, costs=costs, widths=widths,
        observed=True,
    )  # fmt: skip
    spent = (costs[0], costs[1] + costs[0] * recompute)
    oracle.examples.assert_work(result, lists, spent, case)
    ideal = replayed.timeline(lists, v, *spent, 8 * width, machine).makespan_s
    where = f"on machine {machine.name!r}"
    oracle.examples.check_ratio(result.makespan_s, ideal, str(case), case.reproduce, where)


@points(8, "speed")
def test_time_with_free_messages_and_on_a_slow_wire(ranks, rng):
    slow = Machine("slow wire", alpha_s=1e-3, beta_s_per_byte=3e-5)

    def check(case):
        name, count, machine, v, again = case
        check_time(ranks, rng, name, 4, count, machine, again, v)

    cases = [("gpipe", 6, replayed.FREE, 1, False), ("one_f_one_b", 6, replayed.FREE, 1, True)]
    cases += [(name, 8, slow, 1, False) for name in ("one_f_one_b", "gpipe")]
    cases += [("interleaved", 8, slow, 2, False), ("one_f_one_b", 8, slow, 1, True)]
    check_kinds(cases, by_recomputing, check, weights=runs.WEIGHTS)
