"""tree.py: two trees, half of the vector on each."""

import math

from checks.cases import DoubleTree, Tree
from checks.network import assert_own_data, assert_time, exchanged
from checks.sums import Sums, shares
from ringside.checking import Verdict, assert_bytes, assert_messages, assert_peers
from ringside.checking.cases import plain
from ringside.checking.suite import answers, group

suite = Sums("tree", Tree)


def by_parity(*world_sizes):
    """The second tree is made in two ways: by mirroring the first one, and by moving it."""
    of = [[DoubleTree(p) for p in world_sizes if p % 2 == odd] for odd in (0, 1)]
    return group("even numbers of ranks", *of[0]), group("odd numbers of ranks", *of[1])


SMALL = by_parity(1, 2, 3, 5, 6, 8)


@suite.test("over_trees", "communication", Tree(8, 48), checked=False)
def test_data_goes_over_binary_trees(case, run):
    most = max(int((row >= case.shard_nbytes).sum()) for row in exchanged(run, case))
    if not 3 <= most <= 6:
        raise case.fail(
            f"the rank with most partners exchanged data with {most} others; in two binary trees "
            "some have 3, and none has more than 6."
        )


@suite.test("double_tree", "schedule", *SMALL, weight=5)
def test_both_are_binary_trees_of_small_depth(case, run):
    limit = math.ceil(math.log2(case.world_size)) + 1
    for which, tree in enumerate(case.parents(run)):
        found = case.depth(tree, which)
        if found > limit:
            raise Verdict(
                f"{case}: tree {which + 1} is {found} edges deep; at most {limit} are allowed."
            )
        most = max(tree.count(rank) for rank in range(case.world_size))
        if most > 2:
            raise Verdict(
                f"{case}: a rank of tree {which + 1} has {most} children; at most 2 are allowed."
            )


@suite.test("double_tree", "schedule", *SMALL, weight=13)
def test_no_rank_has_children_in_both_trees(case, run):
    first, second = case.parents(run)
    both, most = sorted((set(first) & set(second)) - {-1}), case.world_size % 2
    if len(both) > most:
        raise Verdict(f"{case}: ranks {both} have children in both trees; at most {most} may.")


test_sum_on_2_4_and_8_ranks = suite.powers_of_two("sum", weight=4)
test_sum_on_3_5_6_and_7_ranks = suite.other_sizes("sum", weight=4)


@suite.test(
    "sum", "values", *(Tree(3, n, num_chunks=k) for k in (1, 2, 7) for n in (1, 12)), weight=3
)
def test_any_number_of_chunks(case, run):
    """More of them than elements, too."""
    case.check_exactly(run)


test_dtype_is_kept_and_integers_are_exact = suite.dtypes("sum", weight=3)
test_inputs_may_have_gaps_and_stay_as_they_were = suite.inputs("own_arrays", weight=5)
test_second_call_is_independent = suite.again("own_arrays", weight=12)
test_real_mpi = suite.real("own_arrays", weight=2)


@suite.test("bytes", "communication", *shares(Tree(4, 20), Tree(5, 20, "float32")))
def test_bytes_per_rank(case, run, ranks):
    """Of each rank, and of all of them together."""
    assert_own_data(run, case)
    allowed = [(2 * case.n + 2) * case.itemsize] * case.p
    ranks.record(case, run, {"sent_bytes": allowed})
    assert_bytes(run, allowed, case)
    moved, most = sum(run.sent_bytes()), 2 * (case.p - 1) * case.nbytes
    if moved > most:
        raise case.fail(f"all ranks sent {moved} bytes together; at most {most} are allowed.")


def trees(ranks, p):
    """The student's trees for so many ranks."""
    case = DoubleTree(p)
    ((value, error, _),) = answers(ranks, [case])
    case.check_answer(plain(value), error)
    return case.parents(plain(value))


@suite.test(
    "messages", "communication",
    *shares(Tree(4, 20), Tree(6, 20), Tree(7, 20, num_chunks=2)), weight=6,
)  # fmt: skip
def test_messages_go_along_the_trees(case, run, ranks):
    assert_own_data(run, case)
    neighbours = [set() for _ in range(case.p)]
    edges = [0] * case.p
    for tree in trees(ranks, case.p):
        for rank, parent in enumerate(tree):
            if parent >= 0:
                neighbours[rank].add(parent)
                neighbours[parent].add(rank)
                edges[rank] += 1
                edges[parent] += 1
    assert_peers(run, neighbours, case, "messages go along the edges of double_tree only")
    assert_messages(run, [2 * case.num_chunks * count for count in edges], case)


test_given_communicator_is_used = suite.in_part("communicator")
test_only_point_to_point_calls = suite.point_to_point("messages", weight=3)
test_sends_may_wait_for_their_receives = suite.waiting("any_timing", weight=5, complete=True)
test_messages_may_arrive_in_any_order = suite.any_order("any_timing", weight=13)


@suite.test("time", "speed", Tree(8, 40_000, num_chunks=16, machine="long wire"))
def test_time_with_long_vectors(case, run):
    assert_time(run, case)
