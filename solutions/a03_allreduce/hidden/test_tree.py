"""tree.py: two trees, half of the vector on each."""

import math

import numpy as np

from ringside.checking import (
    Case,
    Verdict,
    assert_bytes,
    assert_messages,
    assert_peers,
    long_wire,
    one_line,
)
from ringside.checking.formulas import evaluated, plain
from solutions.a03_allreduce.hidden import oracle, runs
from solutions.a03_allreduce.hidden.shared_tests import SharedTests

TARGET = "tree:all_reduce"
CHUNKS = {"num_chunks": 3}

shared = SharedTests("tree", [TARGET], CHUNKS)
points = shared.points


def case(world_size, n, num_chunks=3, dtype="float64"):
    return Case(TARGET, world_size, n, dtype, {"num_chunks": num_chunks})


def double_trees(ranks, world_sizes):
    """The student's trees for these world sizes, as ``{p: (parents1, parents2)}``."""
    answers = evaluated(ranks, "callers:trees", "tree:double_tree", list(world_sizes), shown)
    return {p: parents(p, answer) for p, answer in zip(world_sizes, answers, strict=True)}


def shown(p):
    """How a sentence names a call of double_tree, and the line that makes it."""
    return f"double_tree({p})", f'python -c "import tree; print(tree.double_tree({p}))"'


def parents(p, answer):
    """An answer of double_tree as two lists of int."""
    _, line = shown(p)
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise Verdict(f"double_tree({p}) must be two lists of parents.", reproduce=line)
    found = []
    for tree in answer:
        if isinstance(tree, np.ndarray) and tree.dtype.kind in "iu":
            tree = tree.tolist()
        if isinstance(tree, tuple | list):
            tree = [plain(each) for each in tree]
        fits = isinstance(tree, list) and len(tree) == p
        if not fits or not all(type(each) is int and -1 <= each < p for each in tree):
            raise Verdict(
                f"double_tree({p}): {one_line(repr(tree), 80)} is no list of {p} parents, each "
                f"from -1 to {p - 1}.",
                reproduce=line,
            )
        found.append(list(tree))
    return found


def depth(tree, p, which):
    """Edges from the root to the deepest rank; fails if it is no tree."""
    line = f'python -c "import tree; print(tree.double_tree({p})[{which}])"'
    if tree.count(-1) != 1:
        raise Verdict(
            f"double_tree({p}): tree {which + 1} has {tree.count(-1)} roots; it must have one.",
            reproduce=line,
        )
    deepest = 0
    for rank in range(p):
        edges, at = 0, rank
        while tree[at] >= 0 and edges <= p:
            edges, at = edges + 1, tree[at]
        if edges > p:
            raise Verdict(
                f"double_tree({p}): rank {rank} never gets to the root of tree {which + 1}.",
                reproduce=line,
            )
        deepest = max(deepest, edges)
    return deepest


ALL_SIZES = (*range(1, 18), 31, 32, 33, 64, 100)


test_data_goes_over_binary_trees = shared.scheme(6, 8, 48)


@points(7, "schedule")
def test_both_are_binary_trees_of_small_depth(ranks, rng):
    for p, trees in double_trees(ranks, ALL_SIZES).items():
        for which, tree in enumerate(trees):
            limit = math.ceil(math.log2(p)) + 1
            found = depth(tree, p, which)
            line = f'python -c "import tree; print(tree.double_tree({p})[{which}])"'
            if found > limit:
                raise Verdict(
                    f"double_tree({p}): tree {which + 1} is {found} edges deep; "
                    f"at most {limit} are allowed.",
                    reproduce=line,
                )
            most = max((tree.count(rank) for rank in range(p)), default=0)
            if most > 2:
                raise Verdict(
                    f"double_tree({p}): a rank of tree {which + 1} has {most} children; "
                    "at most 2 are allowed.",
                    reproduce=line,
                )


@points(7, "schedule")
def test_no_rank_has_children_in_both_trees(ranks, rng):
    for p, (first, second) in double_trees(ranks, ALL_SIZES).items():
        depth(first, p, 0)
        depth(second, p, 1)
        both = sorted((set(first) & set(second)) - {-1})
        if len(both) > p % 2:
            raise Verdict(
                f"double_tree({p}): ranks {both} have children in both trees; at most {p % 2} may.",
                reproduce=f'python -c "import tree; print(tree.double_tree({p}))"',
            )


test_sum_on_2_4_and_8_ranks = shared.sums(8, runs.POWERS_OF_TWO)
test_sum_on_3_5_6_and_7_ranks = shared.sums(8, runs.OTHER_SIZES)


@points(6, "values")
def test_any_number_of_chunks(ranks, rng):
    cases = [
        case(p, n, num_chunks) for p in (2, 6) for num_chunks in (1, 2, 7, 17) for n in (0, 1, 24)
    ]
    runs.check_each(cases, lambda each: runs.reduced(ranks, rng, each, values_only=True))


test_dtype_is_kept_and_integers_are_exact = shared.dtypes(5)
test_inputs_may_have_gaps_and_stay_as_they_were = shared.inputs(5)
test_second_call_is_independent = shared.second_call(4)
test_real_mpi = shared.real_mpi(4)


@points(7, "communication")
def test_bytes_per_rank(ranks, rng):
    def check(each):
        result = runs.seen(ranks, each)
        allowed = [(2 * each.n + 2) * oracle.itemsize(each)] * each.world_size
        ranks.record(each, result, {"sent_bytes": allowed})
        assert_bytes(result, allowed, each)
        moved, most = sum(result.sent_bytes()), 2 * (each.world_size - 1) * each.nbytes
        if moved > most:
            raise each.fail(f"all ranks sent {moved} bytes together; at most {most} are allowed.")

    cases = [case(4, 64), case(7, 203), case(6, 5003), *runs.everywhere(TARGET, CHUNKS)]
    runs.check_each(cases, check)


@points(6, "communication")
def test_messages_go_along_the_trees(ranks, rng):
    def check(each):
        p = each.world_size
        neighbours = [set() for _ in range(p)]
        edges = [0] * p
        for tree in double_trees(ranks, [p])[p]:
            for rank, parent in enumerate(tree):
                if parent >= 0:
                    neighbours[rank].add(parent)
                    neighbours[parent].add(rank)
                    edges[rank] += 1
                    edges[parent] += 1
        result = runs.seen(ranks, each)
        assert_peers(result, neighbours, each, "messages go along the edges of double_tree only")
        limit = 2 * each.options["num_chunks"]
        assert_messages(result, [limit * count for count in edges], each)

    more = [case(4, 64, 4), case(7, 203, 2), case(8, 30, 1), case(2, 30, 1), case(6, 5003)]
    runs.check_each([*more, *runs.everywhere(TARGET, CHUNKS)], check)


test_given_communicator_is_used = shared.given_communicator(4)
test_only_point_to_point_calls = shared.point_to_point(3)
test_sends_may_wait_for_their_receives = shared.rendezvous(3)
test_messages_may_arrive_in_any_order = shared.any_order(3)


@points(14, "speed")
def test_time_with_long_vectors(ranks, rng):
    cases = [case(p, 40_000, num_chunks=16) for p in (7, 8, 12)]
    runs.check_makespans(ranks, rng, cases, long_wire(), oracle.tree_seconds)
