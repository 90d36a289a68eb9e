"""zero2.py: each layer's gradient goes to its owners before the next layer's is computed."""

from checks.cases import Backward, BackwardOrder
from ringside.checking import announced, assert_moved
from ringside.checking.suite import Suite, group
from ringside.trace import Kind

suite = Suite("zero2")
EQUAL = (6,) * 9  # 2, 3 and 4 ranks own whole layers
MIXED = (5, 4, 6, 3, 5, 4, 6, 3)  # on up to 5 ranks a layer has one owner, or two
WHOLE, OTHER = "layers of whole shards", "other layers"
AT_ALL, AT_ONCE = "sending layer by layer", "sending before the next layer"


@suite.test("values", "values", Backward(2), Backward(4, announced=True), weight=16)
def test_shards_on_2_and_4_ranks(case, run):
    """The mean gradient's shard, and a rank's own gradient of its input."""


@suite.test("values", "values", Backward(3), weight=12)
def test_shards_on_3_and_5_ranks(case, run):
    """Numbers of ranks that are no powers of two."""


@suite.test("values", "values", Backward(5, (2, 12, 1, 1, 1)), weight=10)
def test_layers_with_several_owners_and_owners_of_several_layers(case, run):
    """A layer may be longer than a shard, or much shorter."""


@suite.test("values", "values", Backward(3, (1, 1)), weight=5)
def test_more_ranks_than_elements(case, run):
    """Shards of nothing but padding."""


@suite.test("values", "values", Backward(4, EQUAL, dtype="float32"), weight=3)
def test_float32(case, run):
    """Shards have the gradients' dtype."""


test_real_mpi = suite.real_ranks("reality", Backward(2, (5, 4, 3)), weight=4)


@suite.test(
    "communication", "communication", group(WHOLE, Backward(2, EQUAL), Backward(4, EQUAL), weight=2),
    group(OTHER, Backward(4, (6, 5, 4)), Backward(12, (6, 5, 4))), weight=14,
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


@suite.test(
    "point", "schedule", group(AT_ALL, BackwardOrder(4, EQUAL, announced=True)),
    group(AT_ONCE, Backward(2, EQUAL, announced=True)), weight=14,
)  # fmt: skip
def test_gradients_leave_before_the_next_layer(case, run):
    """Its first part asks whether layers are sent one by one at all, whatever the values are."""
    if isinstance(case, BackwardOrder):
        assert_sent_early(run, case)
        return
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


test_given_communicator_is_used = suite.given_communicator("group", Backward(3), weight=4)


@suite.test("memory", "memory", Backward(4, (60,) * 13, watched=True), weight=8)
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
    "safety", Backward(4), kinds=[Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE], weight=10
)
