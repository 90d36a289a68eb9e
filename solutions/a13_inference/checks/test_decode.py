"""decode.py: the tokens of one rank, two sums a layer, and two numbers a sequence for a word."""

from dataclasses import astuple
from pathlib import Path

from checks.cases_decode import Forward, Generate, Greedy, Shard, even
from ringside import Session
from ringside.checking import assert_makespan, assert_moved
from ringside.checking.cases import machine_of
from ringside.checking.ring_bytes import sent_as_ring
from ringside.checking.suite import Suite, group
from ringside.trace import Kind

suite = Suite("decode")
FEWER = {"heads": 4, "kv_heads": 2, "vocabulary": 12}
# GPUs that take a few microseconds to read this small model's layer, on real links.
GPUS = "zaratan,name={0} a node,ranks_per_node={0},memory_bytes_per_s=4e9,flop_per_s=1e13"


@suite.test("point", "communication", even(Forward, 4, heads=1), checked=False, weight=4)
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


# -- values ----------------------------------------------------------------------------------------


@suite.test("values", "values", Shard(2), Shard(2, kv_heads=3), Shard(4, vocabulary=10), weight=4)
def test_parts_of_the_weights(case, run):
    """Each rank's, in new arrays."""


@suite.test(
    "values", "values", group("float32", Forward(4, heads=2, lengths=(1, 4), dtype="float32")),
    group("prompts of one length", Forward(2, lengths=(3,)), Forward(3, lengths=(2, 2)), weight=7),
    group("prompts of different lengths", Forward(3, kv_heads=3, lengths=(1, 4)), weight=2), weight=18,
)  # fmt: skip
def test_forward(case, run):
    """What one rank gives, in prefill and in decoding."""


@suite.test(
    "values",
    "values",
    Generate(2, lengths=(2, 2)),
    Generate(3, lengths=(4, 1, 2), tokens=6),
    weight=9,
)
def test_generate(case, run):
    """The tokens of one rank."""


@suite.test(
    "values", "values",
    group("parts that differ", Generate(3, heads=4, vocabulary=11)),
    group("parts that are empty", Generate(4, heads=3, vocabulary=3)),
    group("fewer key heads", Shard(2, **FEWER), Generate(2, **FEWER)), weight=11,
)  # fmt: skip
def test_parts_that_differ_and_fewer_key_heads(case, run):
    """A query head is where its key head is."""


TIES = {"heads": 3, "vocabulary": 36, "kind": "ties", "lengths": (1,) * 4}


@suite.test("values", "values", Greedy(3, **TIES), Greedy(2, **TIES), weight=5)
def test_equal_logits_give_the_lowest_word(case, run):
    """In a rank, and among ranks."""


@suite.test("values", "values", Generate(2, kind="first", vocabulary=60, again=True), weight=3)
def test_calls_keep_nothing_and_inputs_stay(case, run):
    for rank, value in enumerate(run.values):
        if value["changed"]:
            raise case.fail(f"rank {rank} changed a prompt or a weight; they must stay as before.")


test_real_mpi = suite.real_ranks("reality", Forward(3), Generate(3), weight=2)

# -- communication and work ------------------------------------------------------------------------


@suite.test("communication", "communication", Forward(4, heads=16, lengths=(6, 6)), weight=11)
def test_bytes_of_two_sums_a_layer(case, run, ranks):
    ranks.record(case, run, {"sent_bytes": [case.forward_nbytes] * case.p})
    rule = "two all-reduces a layer of d elements for each new position"
    assert_moved(run, case.forward_nbytes, case, rule)


@suite.test("communication", "communication", Greedy(4, lengths=(1, 1), vocabulary=200), weight=7)
def test_bytes_of_a_word(case, run):
    assert_moved(run, case.greedy_nbytes, case, "two numbers a sequence and rank")


@suite.test("schedule", "schedule", even(Generate, 2, lengths=(4,), tokens=5), weight=7)
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


@suite.test("memory", "memory", Generate(3, longest=1024, watched=True), weight=3)
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
    "safety", Generate(3), kind="safety", weight=3
)
test_any_order_and_waiting_sends = suite.slow_messages(
    "safety", Generate(3), kinds=(Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE), weight=3
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


@suite.test("speed", "speed", timed(4, 8), weight=10)
def test_time_of_a_token(case, run):
    alone_s = generate_s(case.with_(p=1))
    beside = f" One rank alone takes {alone_s * 1e6:.1f} µs."
    assert_makespan(run, generate_s(case), case, beside=beside)
