"""shard.py: one order an epoch, dealt out."""

import numpy as np

from checks.cases import Order, Shard
from ringside.checking.suite import Suite, group

suite = Suite("shard")


@suite.test(
    "covered", "values", group("four ranks", Shard(4, (12, 8), epochs=(0, 1))),
    group("other numbers of ranks", Shard(3, (12, 3)), weight=2),
)  # fmt: skip
def test_every_sample_once(case, run):
    """Where p divides n; ``case`` has looked at it."""


@suite.test(
    "rest", "values",
    group("more samples than ranks", Shard(4, (10,), epochs=(1,)), Shard(3, (10,)), weight=2),
    group("fewer samples than ranks", Shard(4, (2, 0)), Shard(3, (2, 1))), weight=11,
)  # fmt: skip
def test_every_sample_once_where_p_does_not_divide_n(case, run):
    """None is left out, and none added to fill up."""


@suite.test("rest", "values", Shard(4, (10, 12)), weight=7)
def test_lengths_differ_by_one_at_most(case, run):
    for call, parts in zip(case.calls, case.parts(run), strict=True):
        short, rest = divmod(call[0], case.p)
        for rank, part in enumerate(parts):
            if len(part) not in (short, short + bool(rest)):
                raise case.fault(
                    call, f"{len(part)} of {call[0]} samples for one of {case.p} ranks; it must be "
                    f"{short}{f' or {short + 1}' if rest else ''}.", rank,
                )  # fmt: skip


@suite.test(
    "orders", "values", Order(2, (200,), epochs=(0, 1, 2), seeds=(0, 1, 2)),
    Order(2, (50,), round_numbers=True), weight=14,
)  # fmt: skip
def test_each_epoch_and_seed_has_its_own_order(case, run):
    seen = {}
    for call, order in zip(case.calls, case.orders(run), strict=True):
        other = seen.setdefault(order.tobytes(), call)
        if other != call:
            _, epoch, seed = other
            raise case.fault(call, f"the same order as in epoch {epoch} of seed {seed}.", 0, 1)


def likeness(a, b):
    """The largest share of samples in the same place, or with the same neighbour."""
    pairs = [{(int(x), int(y)) for x, y in zip(o, np.roll(o, -1), strict=True)} for o in (a, b)]
    turned = {(y, x) for x, y in pairs[0]}
    moved = np.argsort(b) - np.argsort(a)  # how far each sample moved, round the end
    same_move = np.bincount(moved % len(a)).max() / len(a)
    shared = max(len(pairs[0] & pairs[1]), len(turned & pairs[1])) / len(a)
    return max(shared, same_move)


@suite.test("orders", "values", Order(2, (1000,), epochs=(0, 1)), weight=14)
def test_orders_are_random_permutations(case, run):
    n = case.sizes[0]
    orders = [np.arange(n), *case.orders(run)]
    names = ["the samples' own order", *(f"epoch {epoch}'s order" for epoch in case.epochs)]
    for late, call in enumerate(case.calls, 1):
        for early in range(late):
            alike = likeness(orders[early], orders[late])
            if alike > max(0.02, 6 / n):
                raise case.fault(
                    call, f"{alike:.0%} of the samples have the place or the neighbour that they "
                    f"have in {names[early]}; in a random permutation almost none have.", 0, 1,
                )  # fmt: skip
        moved = float(np.corrcoef(orders[late], np.arange(n))[0, 1])
        if abs(moved) > max(0.2, 6 / n**0.5):  # by chance it is about 1 / n**0.5
            raise case.fault(
                call, f"the samples' places correlate with their numbers by {moved:.2f}; in a "
                "random permutation they do not.", 0, 1,
            )  # fmt: skip


@suite.test("steps", "schedule", Order(4, (12, 8), epochs=(2,)), Order(3, (12,)))
def test_steps_do_not_depend_on_the_number_of_ranks(case, run):
    for call, whole, parts in zip(case.calls, case.orders(run), case.parts(run), strict=True):
        for k in range(1, max(map(len, parts)) + 1):
            together = sorted(int(i) for part in parts for i in part[:k])
            in_turn = sorted(int(i) for i in whole[: k * case.p])
            if together != in_turn:
                raise case.fault(
                    call, f"the first {k} samples of all {case.p} ranks are {together[:12]}; the "
                    f"first {len(in_turn)} of the order on one rank are {in_turn[:12]}.",
                )  # fmt: skip


@suite.test("alone", "communication", Shard(4, (12,), epochs=(0, 1)), weight=8)
def test_nothing_is_sent(case, run):
    used = [record.name for record in run.collectives] + list(run.comm_calls)
    if used or any(run.sent_messages()):
        what = used[0] if used else "a message"
        raise case.fault(
            case.calls[0], f"the ranks used {what}; each must work its shard out alone."
        )


def assert_same_again(case, run, words):
    pairs = zip(case.calls, case.parts(run), case.parts(run, "again"), strict=True)
    for call, parts, again in pairs:
        for rank, (first, second) in enumerate(zip(parts, again, strict=True)):
            if not np.array_equal(first, second):
                raise case.fault(call, words, rank)


@suite.test("alone", "safety", Shard(2, (20, 8), epochs=(0, 1)), weight=3)
def test_same_result_whatever_was_called_before(case, run):
    assert_same_again(case, run, "another result than the first time, after other calls.")


@suite.test("alone", "safety", Shard(2, (20,), epochs=(1,), overwritten=True), weight=5)
def test_result_belongs_to_the_caller(case, run):
    words = "after the caller wrote into the result, a second call gives another one."
    assert_same_again(case, run, words)


@suite.test("alone", "safety", Shard(2, (20,), epochs=(0, 1)), weight=4)
def test_global_generators_are_left_alone(case, run):
    for rank, value in enumerate(run.values):
        if value["moved"]:
            raise case.fault(
                case.calls[0], "it drew from a global random generator, or seeded one; make one of "
                "your own.", rank,
            )  # fmt: skip
