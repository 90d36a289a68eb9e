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


# -- what one rank gives ---------------------------------------------------------------------------


@suite.test("divided", "communication", even(ForwardTorch, 4, heads=1), checked=False)
def test_sums_travel_and_weights_do_not(case, run):
    for rank, sent in enumerate(sent_as_ring(run)):
        if not 0 < sent <= 3 * case.forward_nbytes:
            raise case.fail(
                f"rank {rank} sent {sent:.0f} bytes; two sums a layer are "
                f"{case.forward_nbytes:.0f}, and whole weights don't travel."
            )


@suite.test("one_rank", "values", even(ForwardTorch, 2), even(ForwardTorch, 3))
def test_forward_on_2_to_5_ranks(case, run):
    """In prefill and in decoding."""


@suite.test("lengths", "values", even(ForwardTorch, 2, lengths=(4, 1)))
def test_prompts_of_different_lengths(case, run):
    """Each sequence's last position."""


@suite.test("uneven", "values", GenerateTorch(3, heads=4, vocabulary=10))
def test_parts_that_differ(case, run):
    """Heads, hidden units and words that p doesn't divide."""


@suite.test(
    "empty", "values", GenerateTorch(4, heads=3, vocabulary=3, tokens=3),
    GreedyTorch(4, heads=4, vocabulary=3, kind="negative", lengths=(1,) * 8),
)  # fmt: skip
def test_ranks_without_heads_or_words(case, run):
    """A rank without words has none to offer, also where all logits are negative."""


@suite.test("key_heads", "values", ForwardTorch(2, heads=8, kv_heads=4))
def test_fewer_key_heads(case, run):
    """A query head is where its key head is."""


# -- other values ----------------------------------------------------------------------------------


@suite.test(
    "words", "values", *(even(GenerateTorch, p, heads=1, tokens=3) for p in (1, 2)), weight=3
)
def test_generate(case, run):
    """The tokens of one rank."""


@suite.test("words", "values", even(GenerateTorch, 9, heads=1, tokens=3), weight=4)
def test_more_than_eight_ranks(case, run):
    """As many as the group has."""


@suite.test(
    "words", "values",
    *(GreedyTorch(p, heads=p, vocabulary=16 * p, kind="ties", lengths=(1,) * 20) for p in (2, 3)),
    weight=2,
)  # fmt: skip
def test_equal_logits_give_the_lowest_word(case, run):
    """In a rank, and among ranks."""


test_real_gloo = suite.real_ranks("words", even(GenerateTorch, 2), weight=4)


@suite.test("float32", "values", even(ForwardTorch, 2, dtype="float32"))
def test_float32(case, run):
    """What comes in float32 stays in float32."""


# -- communication ---------------------------------------------------------------------------------


@suite.test(
    "bytes", "communication", *(even(ForwardTorch, p, heads=4, lengths=(3, 3)) for p in (2, 4)),
    even(ForwardTorch, 4, heads=4, lengths=(3, 3), dtype="float32"), checked=False,
)  # fmt: skip
def test_bytes_of_forward(case, run, ranks):
    ranks.record(case, run, {"sent_bytes": [case.forward_nbytes] * case.p})
    assert_moved(run, case.forward_nbytes + 0.5, case, "two all-reduces a layer and step")


@suite.test(
    "bytes", "communication",
    *(even(GreedyTorch, p, lengths=(1,) * 3, vocabulary=40 * p) for p in (2, 4)), checked=False,
)  # fmt: skip
def test_bytes_of_greedy(case, run, ranks):
    ranks.record(case, run, {"sent_bytes": [case.greedy_nbytes] * case.p})
    assert_moved(run, case.greedy_nbytes + 0.5, case, "two numbers a sequence to each rank")


test_given_group_is_used = suite.given_communicator(
    "group", even(GenerateTorch, 3, heads=1, tokens=2), comm="the group"
)

# -- safety, memory, speed -------------------------------------------------------------------------

test_any_order_and_everything_waited_for = suite.slow_messages(
    "waits", even(GenerateTorch, 3, heads=1), kinds=(Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE)
)


@suite.test("again", "safety", even(GenerateTorch, 2, again=True))
def test_calls_keep_nothing_and_inputs_stay(case, run):
    for rank, value in enumerate(run.values):
        if value["changed"]:
            raise case.fail(f"rank {rank} changed a prompt or a weight; they must stay as before.")


@suite.test("memory", "memory", even(GenerateTorch, 2, watched=True), checked=False)
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
    return GenerateTorch(p, heads=8, vocabulary=48, longest=8, lengths=(3, 3), tokens=3)


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
    "step", "speed", group("GPUs of one node", timed(4)), group("GPUs of two nodes", timed(8)),
    checked=False,
)  # fmt: skip
def test_time_of_a_step(case, run, ranks):
    """A step of two sequences in four layers of 4096 columns on p GPUs, on fake tensors."""
    from given.decode_time_torch import step_times  # which needs torch

    if case.p == 4:
        assert_traced_alike(ranks, case)
    # GPUs four in a node; starting an operator takes no time.
    machine = Machine.load("zaratan").with_(kernel_overhead_s=0.0)
    try:
        took_s, allowed_s = step_times(ranks.trace, machine, case.p, lengths=(1024, 1024))
    except (RunError, TraceError) as error:
        raise case.fail(
            f"a trace of {case.p} ranks on fake tensors failed: {one_line(error, 300)}"
        ) from None
    ratio = took_s / allowed_s
    award(
        1.0 if ratio <= 1.05 else 0.5 if ratio <= 1.5 else 0.0,
        f"decode_torch:generate of four layers of 4096 columns on {case.p} GPUs, four in a node: a "
        f"decoding step of two sequences takes {took_s * 1e3:.3f} ms, {ratio:.3f} times the "
        f"{allowed_s * 1e3:.3f} ms of reading weights and cache and of the messages; 1.05 times is "
        "asked for"
        f"{', and half of the points go to 1.5' * (ratio > 1.05)}.",
    )
