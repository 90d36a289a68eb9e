"""decode_torch.py: the tokens of one rank, two all-reduces a layer, two numbers for a word."""

from dataclasses import astuple

from checks.cases_decode import even
from checks.cases_torch import ForwardTorch, GenerateTorch, GreedyTorch
from ringside import Machine, TraceError
from ringside.checking import assert_moved, assert_ran, award, one_line
from ringside.checking.ring_bytes import sent_as_ring
from ringside.checking.suite import Suite, group
from ringside.errors import RunError
from ringside.scale import agreement
from ringside.trace import Kind

suite = Suite("decode_torch")


@suite.test("point", "communication", even(ForwardTorch, 4, heads=1), checked=False, weight=4)
def test_sums_travel_and_weights_do_not(case, run):
    for rank, sent in enumerate(sent_as_ring(run)):
        if not 0 < sent <= 3 * case.forward_nbytes:
            raise case.fail(
                f"rank {rank} sent {sent:.0f} bytes; two sums a layer are "
                f"{case.forward_nbytes:.0f}, and whole weights don't travel."
            )


# -- values ----------------------------------------------------------------------------------------


@suite.test(
    "values", "values", group("float32", even(ForwardTorch, 2, dtype="float32")),
    group("prompts of one length", even(ForwardTorch, 2), even(ForwardTorch, 3), weight=7),
    group("prompts of different lengths", even(ForwardTorch, 2, lengths=(4, 1)), weight=2), weight=17,
)  # fmt: skip
def test_forward_on_2_to_5_ranks(case, run):
    """What one rank gives, in prefill and in decoding."""


@suite.test(
    "values", "values",
    group("1 to 4 ranks", *(even(GenerateTorch, p, heads=1, tokens=3) for p in (1, 2)), weight=3),
    group("9 ranks", even(GenerateTorch, 9, heads=1, tokens=3)), weight=11,
)  # fmt: skip
def test_generate(case, run):
    """The tokens of one rank."""


@suite.test(
    "values", "values",
    group("parts that differ", GenerateTorch(3, heads=4, vocabulary=10, lengths=(4, 1, 3))),
    group("ranks without heads or words", GenerateTorch(4, heads=3, vocabulary=3, tokens=3)),
    group("fewer key heads", ForwardTorch(2, heads=8, kv_heads=4)), weight=10,
)  # fmt: skip
def test_parts_that_differ_and_fewer_key_heads(case, run):
    """A query head is where its key head is."""


@suite.test(
    "values", "values",
    *(GreedyTorch(p, heads=p, vocabulary=16 * p, kind="ties", lengths=(1,) * 20) for p in (2, 3)), weight=6,
)  # fmt: skip
def test_equal_logits_give_the_lowest_word(case, run):
    """In a rank, and among ranks."""


test_real_gloo = suite.real_ranks("reality", even(GenerateTorch, 2), weight=2)

# -- communication ---------------------------------------------------------------------------------


@suite.test(
    "communication",
    "communication",
    *(even(ForwardTorch, p, heads=4, lengths=(3, 2)) for p in (2, 4)),
    weight=12,
)
def test_bytes_of_forward(case, run, ranks):
    ranks.record(case, run, {"sent_bytes": [case.forward_nbytes] * case.p})
    assert_moved(run, case.forward_nbytes + 0.5, case, "two all-reduces a layer and step")


@suite.test(
    "communication", "communication",
    *(even(GreedyTorch, p, lengths=(1,) * 3, vocabulary=40 * p) for p in (2, 4)), weight=8,
)  # fmt: skip
def test_bytes_of_greedy(case, run, ranks):
    ranks.record(case, run, {"sent_bytes": [case.greedy_nbytes] * case.p})
    assert_moved(run, case.greedy_nbytes + 0.5, case, "two numbers a sequence to each rank")


test_given_group_is_used = suite.given_communicator(
    "group", even(GenerateTorch, 3, heads=1, tokens=2), comm="the group", weight=4
)

# -- safety, memory, speed -------------------------------------------------------------------------

test_any_order_and_everything_waited_for = suite.slow_messages(
    "safety",
    even(GenerateTorch, 3, heads=1),
    kinds=(Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE),
    weight=5,
)


@suite.test("safety", "safety", even(GenerateTorch, 2, again=True), weight=4)
def test_calls_keep_nothing_and_inputs_stay(case, run):
    for rank, value in enumerate(run.values):
        if value["changed"]:
            raise case.fail(f"rank {rank} changed a prompt or a weight; they must stay as before.")


@suite.test("memory", "memory", even(GenerateTorch, 2, watched=True), weight=4)
def test_nothing_is_kept_for_a_backward_pass(case, run):
    for rank, value in enumerate(run.values):
        if value["saved"] or value["graph"]:
            too = "; so has what forward returned" if value["graph"] else ""
            raise case.fail(
                f"on rank {rank} the weights require gradients, and {value['saved']} tensors were "
                f"kept for a backward pass that never comes{too}."
            )


def timed(p):
    """A case whose trace on fake tensors can be compared with what the network counts."""
    return GenerateTorch(p, heads=8, vocabulary=48, longest=8, lengths=(3, 2), tokens=3)


def assert_traced_alike(ranks, case):
    """A trace on fake tensors is what the network counts, operation by operation.

    Raises:
        Verdict: it isn't, or there is none.
    """
    function = "given/decode_time_torch.py:traced"
    arguments = astuple(case.sizes), case.lengths, case.tokens
    run = ranks.call(function, case.p, arguments)
    assert_ran(run, case)
    try:
        agreement.compare(ranks.trace(function, case.p, arguments).trace, run.trace)
    except (RunError, TraceError) as error:
        raise case.fail(
            f"a trace on fake tensors is not what the network counted: {one_line(error, 300)} "
            "Nothing may depend on the elements' values."
        ) from None


@suite.test(
    "speed",
    "speed",
    group("GPUs of one node", timed(4)),
    group("GPUs of two nodes", timed(8)),
    weight=13,
)
def test_time_of_a_step(case, run, ranks):
    """A decoding step of four layers of 4096 columns on p GPUs, traced on fake tensors."""
    from given.decode_time_torch import step_times  # which needs torch

    if case.p == 4:
        assert_traced_alike(ranks, case)
    # GPUs four in a node; starting an operator takes no time.
    machine = Machine.load("zaratan").with_(kernel_overhead_s=0.0)
    try:
        took_s, allowed_s = step_times(ranks.trace, machine, case.p)
    except (RunError, TraceError) as error:
        raise case.fail(
            f"a trace of {case.p} ranks on fake tensors failed: {one_line(error, 300)}"
        ) from None
    ratio = took_s / allowed_s
    award(
        1.0 if ratio <= 1.05 else 0.5 if ratio <= 1.5 else 0.0,
        f"decode_torch:generate of four layers of 4096 columns on {case.p} GPUs, four in a node: a "
        f"decoding step takes {took_s * 1e3:.3f} ms, {ratio:.2f} times the {allowed_s * 1e3:.3f} "
        "ms of reading weights and cache and of the messages; 1.05 times is asked for"
        f"{', and half of the points go to 1.5' * (ratio > 1.05)}.",
    )
