"""zero2.py: each layer's gradient goes to its owners before the next layer's is computed."""

from checks.cases import Backward
from ringside.checking import announced, assert_moved
from ringside.checking.suite import Suite, group
from ringside.trace import Kind

suite = Suite("zero2")
EQUAL = (6,) * 9  # 2, 3 and 4 ranks own whole layers
MIXED = (5, 4, 6, 3, 5, 4, 6, 3)  # on up to 5 ranks a layer has one owner, or two
LONG = (2, 12, 2, 1, 2, 1)  # 72 elements, of which layer 0 has half
WHOLE, OTHER = "layers of whole shards", "other layers"
PADDED, EMPTY = "shards with some padding", "shards of nothing but padding"


@suite.test(
    "mean", "values", Backward(2, EQUAL), Backward(4, EQUAL, announced=True), weight=3
)  # fmt: skip
def test_shards_on_2_and_4_ranks(case, run):
    """The mean gradient's shard, and a rank's own gradient of its input."""


@suite.test("mean", "values", Backward(3, EQUAL), Backward(5, (6,) * 6), weight=5)
def test_shards_on_3_and_5_ranks(case, run):
    """Numbers of ranks that are no powers of two."""


@suite.test("owners", "values", Backward(8, LONG))
def test_layers_with_several_owners_and_owners_of_several_layers(case, run):
    """A layer may be longer than a shard, or much shorter."""


@suite.test(
    "padding", "values", group(PADDED, Backward(4, MIXED), Backward(8, MIXED), weight=2),
    group(EMPTY, Backward(4, (1, 1))),
)  # fmt: skip
def test_padding(case, run):
    """Lengths that N doesn't divide, and more ranks than elements."""


@suite.test("mean", "values", Backward(4, EQUAL, dtype="float32"))
def test_float32(case, run):
    """Shards have the gradients' dtype."""


test_real_mpi = suite.real_ranks("mean", Backward(2, EQUAL))


@suite.test(
    "bytes", "communication",
    group(WHOLE, *(Backward(p, EQUAL) for p in (2, 4)), Backward(4, EQUAL, dtype="float32"),
          weight=3),
    group(OTHER, *(Backward(p, LONG) for p in (8, 12))), checked=False,
)  # fmt: skip
def test_bytes_per_rank(case, run, ranks):
    allowed = case.p * case.shard_size * case.itemsize
    ranks.record(case, run, {"bytes": allowed})
    assert_moved(run, allowed, case)


def posted(op):
    """Bytes that a rank gave a send or a collective."""
    if op.kind == Kind.COLLECTIVE and op.detail[0] == "reduce_scatter":
        return sum(op.detail[4])  # all ranks' parts
    return op.nbytes if op.kind in (Kind.ISEND, Kind.COLLECTIVE) else 0


def passes(ops):
    """Where layers began their backward passes, as the network saw it: places and numbers."""
    return [
        (place, int(phase.rpartition(" ")[2]))
        for place, phase, _ in announced(ops)
        if phase.startswith("backward layer ")
    ]


def assert_sent_early(run, case):
    """Before the first layer's pass, the last to come, half of all gradients are on their way."""
    for rank, ops in enumerate(run.trace.ops):
        last = max((place for place, layer in passes(ops) if layer == 0), default=0)
        sent, wanted = sum(map(posted, ops[:last])), sum(case.not_owned(rank)) * case.itemsize
        if sent < wanted / 2:
            raise case.fail(
                f"when layer 0's backward pass began, rank {rank} had sent {sent} bytes of "
                f"gradients; other ranks own {wanted}. ZeRO 2 sends them layer by layer."
            )


@suite.test("layer_by_layer", "schedule", Backward(4, EQUAL, announced=True), checked=False)
def test_gradients_leave_layer_by_layer(case, run):
    """Whatever the values are."""
    assert_sent_early(run, case)


@suite.test(
    "at_once", "schedule",
    *(Backward(p, EQUAL, announced=True) for p in (2, 4)), checked=False,
)  # fmt: skip
def test_gradients_leave_before_the_next_layer(case, run):
    for rank, ops in enumerate(run.trace.ops):
        begun = passes(ops)
        order = [layer for _, layer in begun]
        if order != list(range(len(case.sizes)))[::-1]:
            raise case.fail(f"rank {rank} called backward of layers {order}, last layer first.")
        ends = [place for place, _ in begun[1:]] + [len(ops)]
        for (place, layer), end in zip(begun, ends, strict=True):
            sent = sum(map(posted, ops[place:end]))
            wanted = case.not_owned(rank)[layer] * case.itemsize
            if sent < wanted:
                before = f"layer {layer - 1}'s pass begins" if layer else "the call returns"
                raise case.fail(
                    f"rank {rank} sends {sent} bytes after layer {layer}'s backward pass and "
                    f"before {before}; other ranks own {wanted} bytes of its gradient."
                )


test_given_communicator_is_used = suite.given_communicator("rules", Backward(4, EQUAL))


@suite.test("memory", "memory", Backward(4, (60,) * 13, watched=True), checked=False)
def test_no_rank_holds_the_whole_gradient(case, run):
    bound = case.itemsize * (case.shard_size + 3 * max(case.sizes))
    for rank, value in enumerate(run.values):
        if value["held"] > bound + 20_000:  # Python's own objects are in it, too
            raise case.fail(
                f"rank {rank} held {value['held'] / 1e6:.2f} MB when a layer's backward pass "
                f"began; its shard and the gradients of three layers have {bound / 1e6:.2f} of "
                f"{case.itemsize * sum(case.sizes) / 1e6:.2f} MB."
            )


test_messages_may_wait_and_come_in_any_order = suite.slow_messages(
    "rules", Backward(4, EQUAL), kinds=[Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE],
    weight=3,
)  # fmt: skip
