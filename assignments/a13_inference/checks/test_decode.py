"""decode.py: the tokens of one rank, two sums a layer, and two numbers a sequence for a word."""

from dataclasses import astuple
from pathlib import Path

from checks.cases_decode import Forward, Generate, Greedy, Shard, even
from ringside import Session
from ringside.checking import assert_makespan, assert_moved
from ringside.checking.cases import machine_of
from ringside.checking.ring_bytes import sent_as_ring
from ringside.checking.suite import Suite
from ringside.trace import Kind

suite = Suite("decode")
FEWER = {"heads": 4, "kv_heads": 2, "vocabulary": 12}
# GPUs that take a few microseconds to read this small model's layer, on real links.
GPUS = "zaratan,name={0} a node,ranks_per_node={0},memory_bytes_per_s=4e9,flop_per_s=1e13"


# -- what one rank gives ---------------------------------------------------------------------------


@suite.test("divided", "communication", even(Forward, 4, heads=1), checked=False)
def test_work_is_divided_and_sums_travel(case, run):
    """Sums travel, weights don't, and no rank does half of the work."""
    for rank, sent in enumerate(sent_as_ring(run)):
        if not 0 < sent <= 3 * case.forward_nbytes:
            raise case.fail(
                f"rank {rank} sent {sent:.0f} bytes; two sums a layer are "
                f"{case.forward_nbytes:.0f}, and whole weights don't travel."
            )
    most = case.alone.num_flops(0) / 2
    for rank, done in enumerate(run.num_flops()):
        if done > most:
            raise case.fail(
                f"rank {rank} computed {done:.6g} floating-point operations; half of what one rank "
                f"alone computes is {most:.6g}, and each rank computes its part only."
            )


@suite.test(
    "one_rank", "values", even(Forward, 2, lengths=(3,)), even(Forward, 3, lengths=(2, 2))
)  # fmt: skip
def test_forward(case, run):
    """In prefill and in decoding."""


@suite.test(
    "lengths", "values", even(Forward, 2, lengths=(1, 4)), even(Generate, 3, lengths=(4, 1, 2))
)  # fmt: skip
def test_prompts_of_different_lengths(case, run):
    """Each sequence's last position, and its own positions in decoding."""


@suite.test("uneven", "values", Generate(3, heads=4, vocabulary=11))
def test_parts_that_differ(case, run):
    """Heads, hidden units and words that p doesn't divide."""


@suite.test(
    "empty", "values", Generate(4, heads=3, vocabulary=3),
    Greedy(4, heads=4, vocabulary=3, kind="negative", lengths=(1,) * 8),
)  # fmt: skip
def test_parts_that_are_empty(case, run):
    """A rank without words has none to offer, also where all logits are negative."""


@suite.test("key_heads", "values", Shard(2, **FEWER), Generate(2, **FEWER))
def test_fewer_key_heads(case, run):
    """A query head is where its key head is."""


@suite.test("once", "schedule", even(Generate, 2, lengths=(4,), tokens=5), checked=False)
def test_nothing_is_computed_again(case, run):
    """The words are dealt out evenly here."""
    words = len(case.lengths) * case.tokens * case.vocabulary // case.p
    for rank, done in enumerate(run.num_flops()):
        right = case.num_flops(rank) + 2 * case.sizes.d * words
        if not right * (1 - 1e-9) <= done <= 1.02 * right:
            raise case.fail(
                f"rank {rank} declared {done:.6g} floating-point operations; its part of the "
                f"layers takes {right:.6g}, if nothing is computed again."
            )


# -- other values ----------------------------------------------------------------------------------


@suite.test("shard", "values", Shard(2), Shard(3))
def test_parts_of_the_weights(case, run):
    """Each rank's, in new arrays."""


@suite.test(
    "words", "values", even(Generate, 2, lengths=(2, 2)), even(Generate, 3, tokens=6), weight=2
)
def test_generate(case, run):
    """The tokens of one rank."""


TIES = {"heads": 3, "vocabulary": 36, "kind": "ties", "lengths": (1,) * 4}


@suite.test("words", "values", Greedy(3, **TIES), Greedy(2, **TIES))
def test_equal_logits_give_the_lowest_word(case, run):
    """In a rank, and among ranks."""


@suite.test("float32", "values", even(Forward, 4, lengths=(3, 3), dtype="float32"))
def test_float32(case, run):
    """What comes in float32 stays in float32."""


@suite.test("again", "values", Generate(2, kind="first", vocabulary=60, again=True))
def test_calls_keep_nothing_and_inputs_stay(case, run):
    for rank, value in enumerate(run.values):
        if value["changed"]:
            raise case.fail(f"rank {rank} changed a prompt or a weight; they must stay as before.")


test_real_mpi = suite.real_ranks("words", even(Forward, 3), even(Generate, 3))

# -- communication and work ------------------------------------------------------------------------


@suite.test(
    "bytes", "communication", Forward(4, heads=16, lengths=(6, 6)),
    Forward(4, heads=16, lengths=(6, 6), dtype="float32"), checked=False,
)  # fmt: skip
def test_bytes_of_two_sums_a_layer(case, run, ranks):
    ranks.record(case, run, {"sent_bytes": [case.forward_nbytes] * case.p})
    rule = "two all-reduces a layer of d elements for each new position"
    assert_moved(run, case.forward_nbytes, case, rule)


@suite.test("bytes", "communication", Greedy(4, lengths=(1, 1), vocabulary=200), checked=False)
def test_bytes_of_a_word(case, run):
    assert_moved(run, case.greedy_nbytes, case, "two numbers a sequence and rank")


@suite.test("memory", "memory", even(Generate, 3, longest=1024, watched=True), checked=False)
def test_memory_of_the_cache(case, run):
    weights = max(sum(array.nbytes for array in case.part(rank).values()) for rank in range(case.p))
    most = case.cache_nbytes(0) + 4 * weights + 65536
    for rank, value in enumerate(run.values):
        if value["held"] > most:
            raise case.fail(
                f"generate on rank {rank} holds {value['held']} bytes; at most {most} are allowed: "
                "the cache of its own key heads, four times its weights, and 64 KiB."
            )


# -- safety and speed ------------------------------------------------------------------------------

test_given_communicator_is_used = suite.given_communicator(
    "communicator", even(Generate, 3), kind="safety"
)
test_any_order_and_waiting_sends = suite.slow_messages(
    "waits", even(Generate, 3), kinds=(Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE)
)


def timed(p, ranks_per_node):
    """A case on modelled GPUs, so many a node."""
    return Generate(
        p, heads=8, vocabulary=160, lengths=(2, 2), kind="first",
        machine=GPUS.format(ranks_per_node),
    )  # fmt: skip


def generate_s(case):
    """The time of a whole generation, after ``given/token_time.py``."""
    steps = astuple(case.sizes), list(case.lengths), [0] * len(case.lengths), case.tokens, case.unit
    with Session(Path(__file__).parents[1]) as session:
        run = session.call("given/token_time.py:steps", case.p, steps, machine=machine_of(case))
    return run.raise_for_error().makespan_s


@suite.test("time", "speed", timed(4, 8), checked=False)
def test_time_of_a_token(case, run):
    alone_s = generate_s(case.with_(p=1))
    beside = f" One rank alone takes {alone_s * 1e6:.1f} µs."
    assert_makespan(run, generate_s(case), case, beside=beside)
