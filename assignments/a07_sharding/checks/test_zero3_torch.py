"""zero3_torch.py: shards that are gathered one layer ahead, and gradients that are scattered.

Where a layer's pass begins is what the network was told before it answered with the factors that
the pass needs; gathers and reduce-scatters are counted in bytes. So a collective that is made in
several pieces counts as one.
"""

from dataclasses import dataclass

from checks.cases_torch import Alone, Train, ring_s, schedule_s, stretched
from ringside import Machine, replay
from ringside.checking import assert_moved, award
from ringside.checking.assertions import assert_requests_complete, microseconds
from ringside.checking.suite import Suite, group
from ringside.trace import Kind

suite = Suite("zero3_torch")
TWO, MORE = "2 ranks", "3 ranks and more"
DIVIDES, DOES_NOT = "lengths that p divides", "lengths that p does not divide"
FIVE = (3, 4, 6, 2, 8)
BLOCKS = {"widths": (4, 6, 6, 4), "blocks": (2, 1)}
DEEP = (64,) * 13
SLOW = "name=slow wire,alpha_s=1e-06,beta_s_per_byte=1e-06"
# A backward pass takes as long as a layer's gather and reduce-scatter on 8 ranks.
BACKWARD_S = 2 * ring_s(8 * 41 * 40, 8, Machine.load(SLOW))
COSTS = BACKWARD_S / 2, BACKWARD_S
STEP = Train(4, (40,) * 7, costs=COSTS, steps=1, machine=SLOW, announced=True)


@suite.test(
    "training", "values", group(TWO, Train(2)),
    group(MORE, Train(3), Train(4), Train(18, (5, 18, 18), steps=1)), weight=7,
)  # fmt: skip
def test_training_equals_serial_training_on_2_to_18_ranks(case, run):
    """Outputs, gradients of shards in each step, and shards at the end."""


@suite.test(
    "together", "values",
    Train(3, (5, 7, 4), steps=3, microbatches=2, evaluate=True, dtype="float32"),
)  # fmt: skip
def test_a_whole_training(case, run):
    """Several steps with everything that comes together in one; nothing is left under way."""
    assert_requests_complete(run, case, [Kind.COLLECTIVE])


@suite.test("layers", "values", Train(4, (2, 1, 1, 3), bias=False), Train(3, (5, 7, 4)), weight=7)
def test_layers_of_any_length(case, run):
    """Also layers with fewer elements than there are ranks."""


@suite.test("accumulation", "values", Train(2, microbatches=2), Train(2, keep_zeros=True))
def test_gradients_add_up(case, run):
    """To what stands in ``grad``, as autograd does."""


@suite.test("evaluation", "values", Train(2, evaluate=True))
def test_evaluation_in_between(case, run):
    """Under ``torch.no_grad()``, before each step and between ``finish`` and the optimizer's."""


@suite.test("layers", "values", Train(2, **BLOCKS, by_layer=True), Train(2, **BLOCKS), weight=5)
def test_layers_that_a_function_names(case, run):
    """Or the network's children, which have several layers each."""


@suite.test(
    "training", "values", Train(2, optimizer="adam", second=True), Train(2, dtype="float32")
)
def test_other_optimizers_and_float32(case, run):
    """Adam after a step of another network; shards in float32."""


test_real_gloo = suite.real_ranks("rules", Train(2), weight=2)


def collective(op):
    return op.detail[0] if op.kind == Kind.COLLECTIVE else ""


@suite.test(
    "costs", "communication",
    group(DIVIDES, Train(2, (5, 12, 24)), Train(4, dtype="float32"), weight=2),
    group(DOES_NOT, Train(5, (4, 6, 5, 3))), checked=False, weight=3,
)  # fmt: skip
def test_bytes_of_a_step(case, run, ranks):
    """Each layer is gathered twice and reduced once, and gathered once more for an evaluation."""
    if run.comm_calls or sum(run.sent_messages()):
        raise case.fail("only all-gathers and reduce-scatters on the group may be called.")
    for record in run.collectives:
        if len(record.members) > 1 and record.name not in ("allgather", "reduce_scatter"):
            raise case.fail(
                f"a collective was called that the network knows as {record.name}; only "
                "all-gathers and reduce-scatters may be called."
            )
    total = sum(layer.nbytes for layer in case.layers)
    times = (3 + 2 * case.evaluate) * case.steps
    ranks.record(case, run, {"layers": [layer.nbytes for layer in case.layers]})
    rule = f"{total} bytes of parameters, gathered twice, reduced once"
    assert_moved(run, times * total * (case.p - 1) / case.p, case, rule)


test_given_group_is_used = suite.given_communicator("rules", Train(3), comm="the group", weight=4)


@dataclass
class Begin:
    """A layer begins a pass: which, and the bytes gathered and reduced in this pass before."""

    direction: str
    layer: int
    gathered: int
    reduced: int


def begins(ops, layers):
    """Where layers begin their passes, in order, as the network saw it."""
    starts = {("forward", layer.begin): k for k, layer in enumerate(layers)}
    starts |= {("backward", layer.end - 1): k for k, layer in enumerate(layers)}
    gathered = reduced = 0
    seen, last = [], len(layers) - 1
    for op in ops:
        if collective(op) == "allgather":
            gathered += sum(op.detail[4])
        elif collective(op):
            reduced += sum(op.detail[4])
        elif op.kind == Kind.PASS:
            direction, _, number = str(op.detail[0]).split(" ")
            layer = starts.get((direction, int(number)))
            if layer is not None:
                seen.append(Begin(direction, layer, gathered, reduced))
                if layer == (last if direction == "forward" else 0):
                    gathered = reduced = 0
    return seen


def assert_gathered(run, case):
    """Whatever the values are, ranks asked one another for parameters."""
    if all(each.name != "allgather" for each in run.collectives):
        raise case.fail("no layer was gathered; most of its parameters are on other ranks.")


def assert_one_by_one(run, case):
    """Layers are gathered while others compute, and not all of them before.

    That is ZeRO 3 at all, whatever else is wrong: when layer 0 begins its forward pass, at most
    half of the parameters have been asked for; when the last layer begins, some have.
    """
    total, count = sum(layer.nbytes for layer in case.layers), len(case.layers)
    for rank, ops in enumerate(run.trace.ops):
        moved = [
            begin.gathered + begin.reduced
            for begin in begins(ops, case.layers)
            if begin.direction == "forward"
        ]
        if moved and moved[0] > total / 2:
            raise case.fail(
                f"when layer 0 began its forward pass, rank {rank} had started to gather "
                f"{moved[0]} of all {total} bytes of parameters; ZeRO 3 gathers layer by layer."
            )
        if not moved or not max(moved[:count]) + run.sent_messages()[rank]:
            raise case.fail(
                f"rank {rank} gathered nothing in the forward pass; most of each layer's "
                "parameters are on other ranks."
            )


@suite.test(
    "layer_by_layer", "schedule", Train(4, (12,) * 8, steps=1, announced=True), checked=False
)
def test_layers_are_gathered_one_by_one(case, run):
    """Whatever their values are."""
    assert_one_by_one(run, case)


@suite.test("order", "schedule", Train(2, FIVE, announced=True), checked=False, weight=8)
def test_one_layer_is_gathered_ahead(case, run):
    """When a layer begins, the next one is on its way, and no later one."""
    sizes, last = [layer.nbytes for layer in case.layers], len(case.layers) - 1
    for rank, ops in enumerate(run.trace.ops):
        for begin in begins(ops, case.layers):
            k = begin.layer
            due = range(max(k - 1, 0), last + 1)
            kept = range(max(k - 1, 0), last)  # the last layer may have been kept
            if begin.direction == "forward":
                due = kept = range(min(k + 2, last + 1))
            most, least = (sum(sizes[layer] for layer in layers) for layers in (due, kept))
            when = f"when layer {k} began its {begin.direction} pass, rank {rank} had started to"
            if begin.gathered > most:
                raise case.fail(
                    f"{when} gather {begin.gathered} bytes in this pass of the network; up to the "
                    f"layer that comes next it is {most}."
                )
            if begin.gathered < least:
                raise case.fail(
                    f"{when} gather {begin.gathered} bytes in this pass of the network; with the "
                    f"layer that comes next it must be {least}."
                )


@suite.test("order", "schedule", Train(2, FIVE, announced=True), checked=False, weight=8)
def test_gradients_are_reduced_while_the_next_layer_computes(case, run):
    """When a layer begins its backward pass, the one before it is being reduced."""
    assert_gathered(run, case)
    sizes = [layer.nbytes for layer in case.layers]
    for rank, ops in enumerate(run.trace.ops):
        for begin in begins(ops, case.layers):
            least = sum(sizes[begin.layer + 1 :]) if begin.direction == "backward" else 0
            if begin.reduced < least:
                raise case.fail(
                    f"when layer {begin.layer} began its backward pass, rank {rank} had started to "
                    f"reduce {begin.reduced} bytes of gradients; those of the layers before it "
                    f"have {least}."
                )


test_everything_is_waited_for = suite.slow_messages(
    "rules", Train(3), kinds=[Kind.COLLECTIVE], weight=5
)


@suite.test(
    "costs", "memory",
    *(Alone(4, DEEP, evaluate=evaluate) for evaluate in (False, True)), checked=False, weight=11,
)  # fmt: skip
def test_two_layers_at_a_time(case, run):
    assert_gathered(run, case)
    layer, count = case.layers[0].nbytes, len(case.layers)
    allowed = (2 * count // case.p + 5) * layer + layer // 2
    for rank, memory in enumerate(run.memory):
        if memory["peak"] > allowed:
            raise case.fail(
                f"rank {rank} held tensors of {memory['peak']} bytes at one time; with layers of "
                f"{layer} bytes {allowed} are allowed: shards and their gradients, two layers, the "
                "gradients of three, and half a layer for the rest."
            )


@suite.test("costs", "speed", *(STEP.with_(stretched=p) for p in (8, 32)), checked=False, weight=8)
def test_time_of_a_step_on_8_to_64_ranks(case, run):
    """That of the schedule, where the trace of few ranks is stretched to many."""
    assert_gathered(run, case)
    took_s = replay(stretched(run.trace, case.stretched), run.machine).makespan_s
    sizes = [layer.nbytes for layer in case.layers]
    bound_s = schedule_s(sizes, case.costs, case.stretched, run.machine)
    ratio = took_s / bound_s
    award(
        1.0 if ratio <= 1.05 else 0.5 if ratio <= 1.3 else 0.0,
        f"{case} on machine {run.machine.name!r}: took {microseconds(took_s)}, {ratio:.3f} times "
        f"{microseconds(bound_s)}; at most 1.05 times that is asked for"
        f"{' (half the points)' if 1.05 < ratio <= 1.3 else ''}.",
    )
