"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and communicators. A ``Case`` is one call; ``ranks.call`` makes it on simulated ranks; what is
asserted stands in ``ringside/checking/assertions.py``.
"""

import sys
from pathlib import Path

import examples
import numpy as np
import pytest
from shards import shard_bounds

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Case,
    Verdict,
    assert_bytes,
    assert_inputs_kept,
    assert_makespan,
    assert_messages,
    assert_own_messages,
    assert_pairs,
    assert_peers,
    assert_ran,
    assert_real_run,
    assert_requests_complete,
    assert_sum,
    assert_values,
    buffered,
    long_wire,
    magnitude,
    rendezvous,
    short_wire,
    total,
)
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points

OPTIONS = {"tree:all_reduce": {"num_chunks": 3}}
TARGETS = (
    "star:all_reduce",
    "sharded_server:all_reduce",
    "ring:all_reduce",
    "recursive:recursive_doubling",
    "recursive:halving_doubling",
    "tree:all_reduce",
)
TORCH = "callers_torch:all_reduce"  # calls ring_torch.py, and returns what its tensor holds then
ALL = (*TARGETS, TORCH)
LEVELS = "hierarchical:all_reduce"


def each(number, kind, targets=TARGETS):
    """The same test for several functions; a module with two of them shares the points."""
    shared = {target: 2 if target.startswith("recursive:") else 1 for target in targets}
    modules = {target: target.partition(":")[0] for target in targets} | {TORCH: "ring_torch"}
    return pytest.mark.parametrize(
        "target",
        [
            pytest.param(t, marks=points(number / shared[t], kind, modules[t]), id=t)
            for t in targets
        ],
    )


def typed(module, call):
    """The line that tries out a function that needs no ranks."""
    return f'python -c "import {module}; from ringside import Machine; print({module}.{call})"'


def case(target, world_size, n, dtype="float64"):
    return Case(target, world_size, n, dtype, OPTIONS.get(target, {}))


def run(ranks, rng, each_case, *, values_only=False, **options):
    """Call an all-reduce on random vectors, and check the sum on every rank.

    Unless values are all that counts, nothing is earned where the library moves the data.
    """
    vectors = each_case.vectors(rng)
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", each_case.world_size)
    result = ranks.call(each_case.target, world_size, each_case.arguments(vectors), **options)
    assert_sum(result, vectors, each_case)
    if not values_only and any(call.name != "barrier" for call in result.collectives):
        assert_own_messages(result, each_case)
    return result


# -- values ----------------------------------------------------------------------------------------


@each(10, "values", ALL)
def test_sum_on_four_ranks(ranks, rng, target):
    for n in (8, 10, 3, 0):
        run(ranks, rng, case(target, 4, n), values_only=True)


@each(10, "values", ALL)
def test_sum_on_one_three_and_five_ranks(ranks, rng, target):
    for world_size in (1, 3, 5):
        run(ranks, rng, case(target, world_size, 11), values_only=True)


@each(5, "values", ALL)
def test_dtype_is_kept(ranks, rng, target):
    for dtype in ("float32", "int64"):
        run(ranks, rng, case(target, 3, 7, dtype), values_only=True)


@each(5, "values")
def test_inputs_may_have_gaps_and_stay_as_they_were(ranks, rng, target):
    asked = case(target, 4, 9)
    assert_inputs_kept(run(ranks, rng, asked, values_only=True), asked)
    asked = case(target, 3, 7)
    vectors = asked.vectors(rng)
    # callers.py builds the longer array inside the rank, and looks at it after the call.
    arguments = [(target, 2, *each) for each in asked.arguments(vectors)]
    result = ranks.call("callers:strided", 3, arguments, machine=buffered())
    asked = asked.called_by("callers:strided --stride 2").seen_in(result)
    assert_ran(result, asked)
    for rank, value in enumerate(result.values):
        examples.check_strided(asked, rank, value, (total(vectors), magnitude(vectors), vectors))


@each(5, "values")
def test_second_call_is_independent(ranks, rng, target):
    asked = case(target, 3, 6)
    first, second = asked.vectors(rng), asked.vectors(rng)
    arguments = [
        (target, a, b, *asked.options.values()) for a, b in zip(first, second, strict=True)
    ]
    result = ranks.call("callers:twice", 3, arguments, machine=buffered())
    asked = asked.called_by("callers:twice", 2).seen_in(result)
    assert_ran(result, asked)
    rights = [(total(vectors), magnitude(vectors), vectors) for vectors in (first, second)]
    for rank, value in enumerate(result.values):
        examples.check_twice(asked, rank, value, *rights)


REAL_CALL = """
import sys
import numpy as np
from mpi4py import MPI
from ringside.checking import find
from ringside.jobs.real.watch import watched
comm = watched(MPI.COMM_WORLD, 20.0)
x = np.arange(11.0) * (comm.Get_rank() + 1)
wanted = np.arange(11.0) * sum(range(1, comm.Get_size() + 1))
np.testing.assert_allclose(find(sys.argv[1])(comm, x, *map(int, sys.argv[2:])), wanted)
"""


@each(5, "reality")
def test_real_mpi(ranks, rng, mpiexec, target):
    # What fails on simulated ranks isn't tried on real ones, where a hang takes its whole time.
    run(ranks, rng, case(target, 3, 11), values_only=True)
    words = [target, *map(str, OPTIONS.get(target, {}).values())]
    command = [mpiexec, "-n", "3", sys.executable, "-c", REAL_CALL, *words]
    assert_real_run(command, Path(__file__).parent, f"{target} under mpiexec")


@points(5, "values", "ring")
def test_reduce_scatter_gives_rank_r_shard_r(ranks, rng):
    for world_size, n in ((4, 8), (3, 7), (1, 2), (5, 3)):
        asked = Case("ring:reduce_scatter", world_size, n)
        vectors = asked.vectors(rng)
        result = ranks.call(asked.target, world_size, asked.arguments(vectors), machine=buffered())
        bounds = [shard_bounds(n, world_size, rank) for rank in range(world_size)]
        assert_values(
            result,
            [total(vectors)[lo:hi] for lo, hi in bounds],
            asked,
            scales=[magnitude(vectors)[lo:hi] for lo, hi in bounds],
            parts=[[vector[lo:hi] for vector in vectors] for lo, hi in bounds],
        )


@points(5, "values", "ring")
def test_all_gather_puts_shards_in_order(ranks, rng):
    for world_size, n in ((4, 8), (3, 7), (1, 2), (5, 3)):
        asked = Case("ring:all_gather", world_size, n)
        whole = asked.vectors(rng)[0]
        bounds = [shard_bounds(n, world_size, rank) for rank in range(world_size)]
        arguments = [(whole[lo:hi], n) for lo, hi in bounds]
        result = ranks.call(asked.target, world_size, arguments, machine=buffered())
        assert_values(result, [whole] * world_size, asked)


@points(5, "values", "ring_torch")
def test_tensor_with_gaps(ranks, rng):
    asked = Case("ring_torch:all_reduce", 3, 7).called_by("callers_torch:strided --stride 2")
    vectors = asked.vectors(rng)
    arguments = [(2, x) for x in vectors]
    result = ranks.call("callers_torch:strided", 3, arguments, machine=buffered())
    assert_ran(result, asked)
    for rank, value in enumerate(result.values):
        right = total(vectors), magnitude(vectors), vectors
        examples.check_torch_strided(asked.seen_in(result), rank, value, right)


@points(5, "values", "ring_torch")
def test_second_sum_of_tensors(ranks, rng):
    asked = Case("ring_torch:all_reduce", 3, 6).called_by("callers_torch:twice", 2)
    first, second = asked.vectors(rng), asked.vectors(rng)
    arguments = list(zip(first, second, strict=True))
    result = ranks.call("callers_torch:twice", 3, arguments, machine=buffered())
    assert_ran(result, asked)
    rights = [(total(vectors), magnitude(vectors), vectors) for vectors in (first, second)]
    for rank, value in enumerate(result.values):
        examples.check_torch_twice(asked.seen_in(result), rank, value, *rights)


@points(10, "reality", "ring_torch")
def test_real_gloo(ranks, rng):
    # What fails on simulated ranks isn't tried on real ones, where a hang takes its whole time.
    run(ranks, rng, case(TORCH, 3, 11), values_only=True)
    words = ["-c", "import sys, callers_torch; sys.exit(callers_torch.try_gloo(3))"]
    assert_real_run([sys.executable, *words], Path(__file__).parent, "on gloo")


# -- communication ---------------------------------------------------------------------------------

SCHEMES = {
    "star": [Case("star:all_reduce", 4, 12)],
    "sharded_server": [Case("sharded_server:all_reduce", 8, 32)],
    "ring": [
        Case(f"ring:{each}", 4, 12) for each in ("reduce_scatter", "all_gather", "all_reduce")
    ],
    "recursive": [Case(target, 8, 24) for target in TARGETS if "recursive:" in target],
    "ring_torch": [Case(TORCH, 4, 12)],
    "tree": [Case("tree:all_reduce", 8, 48, options={"num_chunks": 3})],
    "hierarchical": [Case(LEVELS, 6, 36, options={"ranks_per_node": 3})],
}


@pytest.mark.parametrize(
    "module",
    [pytest.param(m, marks=points(5, "communication", m, essential=True), id=m) for m in SCHEMES],
)
def test_own_messages_carry_the_data(ranks, rng, module):
    def check(asked):
        arguments = examples.scheme_arguments(asked, asked.vectors(rng))
        result = ranks.call(asked.target, asked.world_size, arguments, machine=buffered())
        examples.assert_scheme(result, asked)

    check_kinds(SCHEMES[module], lambda asked: asked.function, check)


@points(10, "communication", "star")
def test_star_bytes(ranks, rng):
    for asked in (case("star:all_reduce", 4, 10), case("star:all_reduce", 3, 7, "float32")):
        others = asked.world_size - 1
        allowed = [others * asked.nbytes] + [asked.nbytes] * others
        result = run(ranks, rng, asked)
        ranks.record(asked, result, {"sent_bytes": allowed})
        assert_bytes(result, allowed, asked)


@points(15, "communication", "star")
def test_star_goes_through_rank_0(ranks, rng):
    asked = case("star:all_reduce", 4, 10)
    result = run(ranks, rng, asked)
    rule = "ranks other than 0 exchange messages with rank 0 only"
    assert_peers(result, [{1, 2, 3}, {0}, {0}, {0}], asked, rule)


@points(25, "communication", "sharded_server")
def test_rank_i_serves_shard_i(ranks, rng):
    asked = case("sharded_server:all_reduce", 3, 4)  # shards of 2, 1 and 1 elements
    result = run(ranks, rng, asked)
    elements = np.array([[0, 3, 3], [3, 0, 2], [3, 2, 0]])  # from row to column
    ranks.record(asked, result, {"sent_bytes": (8 * elements).sum(axis=1).tolist()})
    assert_pairs(result, 8 * elements, asked)


def check_ring_bytes(ranks, rng, target):
    """At most 2 (p - 1) shards of ceil(n / p) elements."""
    for world_size, n, dtype in ((4, 12, "float64"), (3, 10, "float32")):
        asked = case(target, world_size, n, dtype)
        result = run(ranks, rng, asked)
        allowed = [2 * (world_size - 1) * asked.shard_nbytes] * world_size
        ranks.record(asked, result, {"sent_bytes": allowed})
        assert_bytes(result, allowed, asked)


def check_neighbours(ranks, rng, target):
    asked = case(target, 4, 12)
    rule = "a rank talks to its two neighbours only"
    assert_peers(run(ranks, rng, asked), [{3, 1}, {0, 2}, {1, 3}, {2, 0}], asked, rule)


@points(5, "communication", "ring")
def test_ring_bytes(ranks, rng):
    check_ring_bytes(ranks, rng, "ring:all_reduce")


@points(5, "communication", "ring")
def test_ring_talks_to_neighbours_only(ranks, rng):
    check_neighbours(ranks, rng, "ring:all_reduce")


@points(15, "communication", "ring_torch")
def test_torch_ring_bytes(ranks, rng):
    check_ring_bytes(ranks, rng, TORCH)


@points(5, "communication", "ring_torch")
def test_torch_ring_talks_to_neighbours_only(ranks, rng):
    check_neighbours(ranks, rng, TORCH)


@points(10, "communication", "recursive")
def test_recursive_doubling_bytes_and_messages(ranks, rng):
    for world_size, exchanges in ((4, 2), (5, 3)):  # log2 of the power of two, and the fold
        asked = case("recursive:recursive_doubling", world_size, 12)
        result = run(ranks, rng, asked)
        ranks.record(asked, result, {"sent_bytes": [exchanges * asked.nbytes] * world_size})
        assert_bytes(result, [exchanges * asked.nbytes] * world_size, asked)
        assert_messages(result, [exchanges] * world_size, asked)


@points(10, "communication", "recursive")
def test_halving_doubling_bytes(ranks, rng):
    for world_size, elements in ((4, 2 * (6 + 3)), (5, 2 * (6 + 3) + 12)):
        asked = case("recursive:halving_doubling", world_size, 12)
        assert_bytes(run(ranks, rng, asked), [8 * elements] * world_size, asked)


@points(15, "communication", "tree")
def test_tree_bytes(ranks, rng):
    asked = case("tree:all_reduce", 5, 20)
    result = run(ranks, rng, asked)
    ranks.record(asked, result, {"sent_bytes": [(2 * 20 + 2) * 8] * 5})
    assert_bytes(result, [(2 * 20 + 2) * 8] * 5, asked)


@points(10, "schedule", "tree")
def test_double_tree_on_six_ranks(ranks):
    line = typed("tree", "double_tree(6)")
    result = ranks.call("callers:trees", 1, [("tree:double_tree", [6])])
    if result.error is not None:
        raise Verdict(f"double_tree(6): {result.error}", reproduce=line)
    trees = [list(tree) for tree in result.values[0][0]]
    for tree in trees:
        if sorted(tree)[0] != -1 or tree.count(-1) != 1 or len(tree) != 6:
            raise Verdict(
                f"double_tree(6): {tree} must name 5 parents, and -1 for the root.", reproduce=line
            )
        if max(tree.count(rank) for rank in range(6)) > 2:
            raise Verdict(
                f"double_tree(6): in {tree} a rank has more than two children.", reproduce=line
            )
    both = set(trees[0]) & set(trees[1]) - {-1}
    if both:
        raise Verdict(
            f"double_tree(6): ranks {sorted(both)} have children in both trees.", reproduce=line
        )


# What is asked of hierarchical.py: the sum, and few bytes between nodes.


def two_levels(ranks, rng, world_size, ranks_per_node, n, dtype="float64", **options):
    asked = Case(LEVELS, world_size, n, dtype, {"ranks_per_node": ranks_per_node})
    return asked, run(ranks, rng, asked, **options)


@points(10, "values", "hierarchical")
def test_two_levels_where_everything_divides(ranks, rng):
    for world_size, per_node in ((4, 2), (6, 3), (8, 4)):
        two_levels(ranks, rng, world_size, per_node, 2 * world_size)


@points(10, "values", "hierarchical")
def test_two_levels_of_other_lengths(ranks, rng):
    for n in (0, 1, 5, 11):
        two_levels(ranks, rng, 4, 2, n)
        two_levels(ranks, rng, 6, 3, n)


@points(6, "values", "hierarchical")
def test_one_node_and_nodes_of_one_rank(ranks, rng):
    two_levels(ranks, rng, 3, 3, 12)
    two_levels(ranks, rng, 3, 1, 12)


@points(12, "values", "hierarchical")
def test_two_levels_with_other_inputs(ranks, rng):
    for dtype in ("float32", "int64"):
        two_levels(ranks, rng, 4, 2, 8, dtype)
    asked, result = two_levels(ranks, rng, 4, 2, 12)
    assert_inputs_kept(result, asked)
    first, second = asked.vectors(rng), asked.vectors(rng)
    arguments = [(LEVELS, a, b, 2) for a, b in zip(first, second, strict=True)]
    result = ranks.call("callers:twice", 4, arguments, machine=buffered())
    twice = asked.called_by("callers:twice", 2).seen_in(result)
    assert_ran(result, twice)
    rights = [(total(vectors), magnitude(vectors), vectors) for vectors in (first, second)]
    for rank, value in enumerate(result.values):
        examples.check_twice(twice, rank, value, *rights)


@points(3, "values", "hierarchical")
def test_a_node_that_is_not_full_is_refused(ranks, rng):
    asked, _ = two_levels(ranks, rng, 4, 2, 8)
    asked = Case(LEVELS, 5, 8, options={"ranks_per_node": 2})
    arguments = [(LEVELS, *each) for each in asked.arguments(asked.vectors(rng))]
    result = ranks.call("callers:refused", 5, arguments)
    asked = asked.called_by("callers:refused")
    assert_ran(result, asked)
    for rank, value in enumerate(result.values):
        examples.check_refused(asked, rank, value)


@points(4, "reality", "hierarchical")
def test_two_levels_under_mpiexec(ranks, rng, mpiexec):
    two_levels(ranks, rng, 4, 2, 11)
    command = [mpiexec, "-n", "4", sys.executable, "-c", REAL_CALL, LEVELS, "2"]
    assert_real_run(command, Path(__file__).parent, f"{LEVELS} under mpiexec")


@points(14, "communication", "hierarchical")
def test_bytes_between_nodes(ranks, rng):
    asked, result = two_levels(ranks, rng, 12, 4, 1200)
    examples.assert_two_levels(result, asked)  # 2 * 2 * 100 elements


@points(6, "communication", "hierarchical")
def test_bytes_of_two_levels(ranks, rng):
    asked, result = two_levels(ranks, rng, 6, 3, 600)
    assert_own_messages(result, asked)
    allowed = [8 * (2 * 100 + 2 * 2 * 200)] * 6  # between nodes, and inside
    ranks.record(asked, result, {"sent_bytes": allowed})
    assert_bytes(result, allowed, asked)


@points(8, "communication", "hierarchical")
def test_nodes_are_those_of_the_communicator(ranks, rng):
    asked = Case(LEVELS, 4, 16, options={"ranks_per_node": 2})
    run(ranks, rng, asked, world_size=6, members=[4, 1, 5, 2])


@points(10, "safety", "hierarchical")
def test_two_levels_are_safe(ranks, rng):
    asked, result = two_levels(ranks, rng, 6, 3, 60, machine=rendezvous())
    assert_requests_complete(result, asked)
    for seed in LATENCY_SEEDS:
        two_levels(ranks, rng, 4, 2, 10, seed=seed)


@points(12, "speed", "hierarchical")
def test_time_on_two_nodes(ranks, rng):
    machine = Machine.load("zaratan")
    asked, result = two_levels(ranks, rng, 8, 4, 80_000, machine=machine)
    inside = machine.intra_alpha_s + 20_000 * 8 * machine.intra_beta_s_per_byte
    between = machine.alpha_s + 40_000 * 8 * machine.beta_s_per_byte  # four ranks, one port
    assert_makespan(result, 2 * 3 * inside + 2 * between, asked)


@each(5, "communication", ALL)
def test_given_communicator_is_used(ranks, rng, target):
    # Four of six ranks, in another order: COMM_WORLD is somebody else.
    run(ranks, rng, case(target, 4, 10), world_size=6, members=[4, 1, 5, 2])


@each(5, "communication", ALL)
def test_only_point_to_point_calls(ranks, rng, target):
    for world_size in (1, 4):
        asked = case(target, world_size, 10)
        assert_own_messages(run(ranks, rng, asked), asked)


# -- safety ----------------------------------------------------------------------------------------


@each(5, "safety", ALL)
def test_sends_may_wait_for_their_receives(ranks, rng, target):
    for world_size in (2, 3, 4):
        asked = case(target, world_size, 10)
        assert_requests_complete(run(ranks, rng, asked, machine=rendezvous()), asked)


@each(5, "safety", ALL)
def test_messages_may_arrive_in_any_order(ranks, rng, target):
    for seed in LATENCY_SEEDS:
        run(ranks, rng, case(target, 4, 10), seed=seed)


# -- speed -----------------------------------------------------------------------------------------


def bound_s(target, world_size, n, machine):
    """The time that the docstring's bound is stated in; world sizes here are powers of two."""
    alpha, beta, steps = machine.alpha_s, machine.beta_s_per_byte, world_size.bit_length() - 1
    shard = -(-n // world_size) * 8 * beta
    return {
        "star:all_reduce": 2 * (world_size - 1) * (alpha + 8 * n * beta),
        "sharded_server:all_reduce": 2 * (world_size - 1) * (alpha + shard),
        "ring:all_reduce": 2 * (world_size - 1) * (alpha + shard),
        TORCH: 2 * (world_size - 1) * (alpha + shard),
        "recursive:recursive_doubling": steps * (alpha + 8 * n * beta),
        "recursive:halving_doubling": 2 * steps * alpha + 2 * (world_size - 1) * shard,
    }[target]


@each(10, "speed", (*TARGETS[:5], TORCH))
def test_time_with_long_vectors(ranks, rng, target):
    asked = case(target, 8, 8 * 1250)
    result = run(ranks, rng, asked, machine=long_wire())
    assert_makespan(result, bound_s(target, 8, asked.n, long_wire()), asked)


@each(5, "speed", TARGETS[2:5])
def test_time_with_short_vectors(ranks, rng, target):
    asked = case(target, 8, 16)
    result = run(ranks, rng, asked, machine=short_wire())
    assert_makespan(result, bound_s(target, 8, 16, short_wire()), asked, full=2.5, half=4)


@points(10, "speed", "tree")
def test_tree_time_with_long_vectors(ranks, rng):
    asked = Case("tree:all_reduce", 8, 40_000, options={"num_chunks": 16})
    machine = long_wire()
    result = run(ranks, rng, asked, machine=machine)
    chunk = 8 * 20_000 // 16 * machine.beta_s_per_byte
    bound = 2 * asked.nbytes * machine.beta_s_per_byte + 4 * 3 * (machine.alpha_s + chunk)
    assert_makespan(result, bound, asked)


# -- cost ------------------------------------------------------------------------------------------

# function, ranks, messages one after another, and their bytes in all for a vector of 8000 bytes
FORMULAS = (
    ("star_s", 5, 8, 8 * 8000),
    ("sharded_server_s", 5, 8, 8 * 1600),
    ("ring_s", 5, 8, 8 * 1600),
    ("recursive_doubling_s", 4, 2, 2 * 8000),
    ("recursive_doubling_s", 5, 4, 4 * 8000),
    ("halving_doubling_s", 4, 4, 2 * 6000),
    ("halving_doubling_s", 5, 6, 2 * 6000 + 2 * 8000),
)


def ask(ranks, function, calls):
    """Call a function of cost.py for ``(nbytes, world_size, alpha_s, beta_s_per_byte)`` each."""
    result = ranks.call("callers:formulas", 1, [(f"cost:{function}", calls)])
    nbytes, world_size, *_ = calls[0]
    call = f"{function}({nbytes}, {world_size}, Machine.load('textbook'))"
    if result.error is not None:
        raise Verdict(f"{call}: {result.error}", reproduce=typed("cost", call))
    return result.values[0]


@pytest.mark.parametrize(
    ("function", "world_size", "messages", "nbytes"),
    [pytest.param(*f, marks=points(10, "values", "cost"), id=f"{f[0]}-{f[1]}") for f in FORMULAS],
)
def test_cost_of_8000_bytes(ranks, function, world_size, messages, nbytes):
    rights = {8000: messages * 1e-6 + nbytes * 1e-9, 0: messages * 1e-6}
    values = ask(ranks, function, [(given, world_size, 1e-6, 1e-9) for given in rights])

    def check(answer):
        (given, right_s), value = answer
        if not isinstance(value, int | float) or not np.isclose(value, right_s, rtol=1e-6):
            call = f"{function}({given}, {world_size}, Machine.load('textbook'))"
            raise Verdict(
                f"{call} is {value}; it must be {right_s}.", reproduce=typed("cost", call)
            )

    def kind(answer):
        return "8000 bytes" if answer[0][0] else "no bytes"

    answers = zip(rights.items(), values, strict=True)
    check_kinds(answers, kind, check, weights={"8000 bytes": 3.0})


@points(20, "speed", "cost")
def test_choice_on_the_textbook_machine(ranks):
    machine = Machine.load("textbook")
    long = {4: {"halving_doubling", "ring", "sharded_server"}, 5: {"ring", "sharded_server"}}
    for world_size, good in long.items():
        calls = [(n, world_size, machine.alpha_s, machine.beta_s_per_byte) for n in (8, 8_000_000)]
        short_choice, long_choice = ask(ranks, "choose", calls)
        if short_choice != "recursive_doubling" or long_choice not in good:
            raise Verdict(
                f"choose on {world_size} ranks: {short_choice!r} for 8 bytes and {long_choice!r} "
                f"for 8 MB; recursive_doubling, and one of {sorted(good)}, are fastest."
            )


@points(10, "speed", "cost")
def test_choice_where_messages_start_slowly(ranks):
    for world_size in (4, 5):
        (chosen,) = ask(ranks, "choose", [(80_000, world_size, 1e-3, 1e-8)])
        if chosen != "recursive_doubling":
            call = f"choose(80_000, {world_size}, Machine('slow start', 1e-3, 1e-8))"
            raise Verdict(
                f"{call} is {chosen!r}; recursive_doubling is fastest.",
                reproduce=typed("cost", call),
            )
