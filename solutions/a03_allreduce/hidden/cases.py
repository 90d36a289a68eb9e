"""The cases of the hidden run."""

import itertools
import math

from checks import test_cost as cost
from checks import test_hierarchical as hierarchical
from checks import test_recursive as recursive
from checks import test_ring as ring
from checks import test_ring_torch as ring_torch
from checks import test_sharded_server as sharded_server
from checks import test_star as star
from checks import test_tree as tree
from checks.cases import (
    NAMES,
    Choice,
    Doubling,
    DoublingSeconds,
    Gather,
    Halving,
    HalvingSeconds,
    Ring,
    RingSeconds,
    Scatter,
    Server,
    ServerSeconds,
    Star,
    StarSeconds,
    TorchRing,
    Tree,
)
from checks.sums import OF_LENGTHS, WEIGHTS, shares

from ringside.checking.suite import group, hidden

POWERS_OF_TWO = (2, 4, 8)
OTHER_SIZES = (3, 5, 6, 7)
LARGE = 2003
DTYPES = ("float64", "float32", "int64")

# -- sums ------------------------------------------------------------------------------------------


def sweep(kind, world_sizes=range(2, 9), dtypes=DTYPES):
    """On 2 to 8 ranks, of every dtype: what is sent is bounded at all of them."""
    return [
        kind(p, n, dtypes[(p + k) % len(dtypes)])
        for p in world_sizes
        for k, n in enumerate((1, 5 * p + 2, 3 * p))
        if p < 6 or k > 0
    ]


def many(kind):
    """Ranks or elements as many as nobody tries by hand: a star there is seen."""
    sizes = (12, 72_000, "float32"), (17, 77, "int64"), (36, 90, "float32")
    return [kind(*size) for size in sizes]


def few(kind):
    """On 2 to 8 ranks: one case of each number."""
    return [kind(p, 5 * p + p % 3, DTYPES[p % 3]) for p in range(2, 9)]


def lengths(p):
    """No element, as many as ranks, one more, and many: what ``sweep`` leaves out."""
    if p < 5:
        return 0, p, p - 1, LARGE
    return (0, p + 1) if p % 4 == 0 else (p + 1,)


def sums(kind, world_sizes):
    special = [kind(world_sizes[1], 3 * world_sizes[1], d, special=True) for d in DTYPES[:2]]
    more = [kind(p, n) for p in world_sizes for n in lengths(p)]
    return [*sweep(kind, world_sizes, DTYPES[:1]), *more, *special]


def assorted(kind, world_sizes, numbers, **more):
    """Of these lengths, and some with nothing to pad or convert: equal shards, no float64."""
    dtypes = itertools.cycle(("int64", "float32"))
    cases = [kind(p, n, **more) for p in world_sizes for n in numbers]
    return cases + [kind(p, 3 * p, next(dtypes), **more) for p in world_sizes]


def of_each_dtype(kind):
    return [
        kind(p, n, dtype)
        for p, n in ((1, 0), (1, 13), (2, 8), (4, 40), (3, 9), (3, 4), (3, LARGE), (4, 3), (4, 43))
        for dtype in ("float32", "int64")
    ]


def inputs(kind):
    strided = (assorted(kind, (1, 2, 3), (11,), stride=stride) for stride in (2, -3))
    return [*itertools.chain(*strided), *assorted(kind, (1, 2, 4, 3), (13,))]


def again(kind):
    return assorted(kind, (1, 2, 4, 3), (9, 0), again=True)


def real(kind):
    return [kind(p, n) for p in (4, 3) for n in (12, 11, LARGE)]


def in_part(kind):
    return [kind(4, 8, "int64"), kind(4, 203, "int64"), kind(5, LARGE, "float32"), kind(4, 40)]


def point_to_point(kind):
    more = [] if kind.plainly else many(kind)[1:]  # ranks with torch begin slowly
    return [kind(1, 10), kind(3, 0), *few(kind), *more]


def waiting(kind):
    """Long vectors, single elements, and none."""
    swept = [case for case in sweep(kind) if case.n > case.p or (case.n == 1 and case.p > 2)]
    return swept + [kind(p, 0) for p in (2, 3)]


def any_order(kind):
    """Long shards, and some that are empty."""
    return [kind(4, 20), kind(5, 3)]


TABLES = {
    "sum_on_2_4_and_8_ranks": lambda kind: sums(kind, POWERS_OF_TWO),
    "sum_on_3_5_6_and_7_ranks": lambda kind: sums(kind, OTHER_SIZES),
    "dtype_is_kept_and_integers_are_exact": of_each_dtype,
    "inputs_may_have_gaps_and_stay_as_they_were": inputs,
    "second_call_is_independent": again,
    "real_mpi": real,
    "real_gloo": real,
    "given_communicator_is_used": in_part,
    "given_group_is_used": in_part,
    "only_point_to_point_calls": point_to_point,
    "sends_may_wait_for_their_receives": waiting,
    "messages_may_arrive_in_any_order": any_order,
}


def shared(tests, *kinds, **more):
    """The tests that all sums have, if a module has them; ``more`` are cases beside."""
    for name, table in TABLES.items():
        if test := getattr(tests, f"test_{name}", None):
            cases = [case for kind in kinds for case in table(kind)]
            weights = OF_LENGTHS if name.startswith("sum_on") else WEIGHTS
            hidden(test, *shares(*cases, *more.get(name, ()), weights=weights))


def halves_of(table, *others):
    """For both halves of the ring: the cases that a function gives, with these arguments."""
    return [case for half in HALVES for case in table(half, *others)]


HALVES = Scatter, Gather

# -- star ------------------------------------------------------------------------------------------

shared(star, Star)
hidden(star.test_vectors_go_to_rank_0_and_back, Star(4, 40))
hidden(
    star.test_bytes_per_rank,
    *shares(Star(4, 37), Star(3, 64), Star(5, 5003), *sweep(Star), *many(Star)),
)
hidden(star.test_messages_go_through_rank_0, *shares(*few(Star), *many(Star)))
hidden(
    star.test_time_with_long_vectors,
    *shares(*(Star(p, 1250, machine="long wire") for p in (7, 8, 12, 32))),
)

# -- sharded_server --------------------------------------------------------------------------------

shared(sharded_server, Server)
hidden(sharded_server.test_every_two_ranks_exchange_shards, Server(8, 64))
hidden(  # shards of different length show who serves which
    sharded_server.test_bytes_between_each_pair,
    *shares(
        *(Server(p, n) for p, n in ((4, 40), (5, 203), (8, 64), (6, 5003), (7, 9), (7, 12))),
        *sweep(Server),
        *many(Server),
    ),
)
hidden(
    sharded_server.test_time_with_long_vectors,
    *shares(*(Server(p, 1250 * p, machine="long wire") for p in (7, 8, 12, 32))),
)

# -- ring ------------------------------------------------------------------------------------------


def halves(kind):
    return [kind(4, 40), kind(5, 23), kind(6, 5004), *sweep(kind, (2, 3, 8))]


def half_sizes(kind):
    sizes = ((1, 0), (1, 13), (2, 0), (2, 3), (3, 4), (4, 0), (4, 3), (4, 4), (4, 5), (7, 3))
    return [kind(*size) for size in sizes]


def sized(kind, *sizes):
    return [kind(*size) for size in sizes]


THREE = (4, 40), (5, 23), (8, 24)
shared(
    ring,
    Ring,
    dtype_is_kept_and_integers_are_exact=[
        half(p, n, dtype)
        for half in HALVES
        for p, n in ((1, 13), (2, 8), (2, 13), (3, 13))
        for dtype in ("float32", "int64")
    ],
    inputs_may_have_gaps_and_stay_as_they_were=[
        *halves_of(lambda half: assorted(half, (1, 4), (11,), stride=2)),
        *halves_of(lambda half: assorted(half, (1, 4), (11,), stride=-3)),
        *halves_of(assorted, (1, 4, 3), (13,)),
    ],
    second_call_is_independent=halves_of(lambda half: assorted(half, (1, 4), (9,), again=True)),
    given_communicator_is_used=halves_of(sized, (3, 11), (4, 203), (4, 8)),
    only_point_to_point_calls=halves_of(sized, *THREE),
    sends_may_wait_for_their_receives=halves_of(
        sized, *((p, n) for p in (2, 3, 4, 5) for n in (2, 40))
    ),
    messages_may_arrive_in_any_order=halves_of(sized, (4, 20), (5, 40)),
)
hidden(
    ring.test_data_goes_round_the_ring, group("reduce_scatter", Scatter(4, 40)),
    group("all_gather", Gather(4, 40)), group("all_reduce", Ring(4, 40)),
)  # fmt: skip
hidden(
    ring.test_reduce_scatter_gives_rank_r_shard_r, *shares(*halves(Scatter), *half_sizes(Scatter))
)
hidden(ring.test_all_gather_puts_shards_in_order, *shares(*halves(Gather), *half_sizes(Gather)))
hidden(
    ring.test_bytes_per_rank,
    *shares(
        *sized(Ring, (4, 64), (5, 203), (8, 9), (6, 5003)), *sweep(Ring), *many(Ring),
        *halves_of(halves),
    ),
)  # fmt: skip
hidden(
    ring.test_messages_go_to_neighbours_only,
    *shares(*sized(Ring, (5, 203), (6, 5003)), *few(Ring), *many(Ring), *halves_of(sized, *THREE)),
)
hidden(
    ring.test_time_with_long_vectors,
    *shares(*(Ring(p, 1250 * p, machine="long wire") for p in (7, 8, 12, 32))),
)
hidden(
    ring.test_time_with_short_vectors,
    *shares(*(Ring(p, 4 * p, machine="short wire") for p in (5, 8, 12, 32))),
)

# -- recursive -------------------------------------------------------------------------------------

shared(recursive, Doubling, Halving)
hidden(
    recursive.test_each_rank_has_log2_p_partners, group("recursive_doubling", Doubling(8, 400)),
    group("halving_doubling", Halving(8, 400)),
)  # fmt: skip
for powers, others, kind in (
    (
        recursive.test_recursive_doubling_on_2_4_and_8_ranks,
        recursive.test_recursive_doubling_on_3_5_6_and_7_ranks,
        Doubling,
    ),
    (
        recursive.test_halving_doubling_on_2_4_and_8_ranks,
        recursive.test_halving_doubling_on_3_5_6_and_7_ranks,
        Halving,
    ),
):
    hidden(powers, *shares(*sums(kind, POWERS_OF_TWO), weights=OF_LENGTHS))
    hidden(others, *shares(*sums(kind, OTHER_SIZES), weights=OF_LENGTHS))
hidden(
    recursive.test_recursive_doubling_bytes_and_messages,
    *shares(
        *(Doubling(p, n) for p, n in ((4, 64), (16, 16), (6, 5003), (4, 5003))),
        *sweep(Doubling),
        *many(Doubling),
    ),
)
hidden(
    recursive.test_halving_doubling_bytes,
    *shares(
        *(Halving(p, n) for p, n in ((4, 64), (8, 200), (6, 203), (4, 5003))),
        *sweep(Halving),
        *many(Halving),
    ),
)
hidden(
    recursive.test_recursive_doubling_time,
    group("long vectors", *(Doubling(p, 1200, machine="long wire") for p in (6, 16, 33)), weight=2),
    group(
        "short vectors",
        *(Doubling(p, n, machine="short wire") for p, n in ((6, 12), (16, 16), (33, 33))),
    ),
)
hidden(
    recursive.test_halving_doubling_time,
    group(
        "long vectors", *(Halving(p, 1250 * p, machine="long wire") for p in (6, 16, 33)), weight=2
    ),
    group("short vectors", *(Halving(p, 32, machine="short wire") for p in (8, 16, 32))),
)

# -- cost ------------------------------------------------------------------------------------------

MANY_POWERS = (2, 4, 8, 16, 64, 1024)
MANY_OTHERS = (3, 5, 6, 7, 12, 48, 100)
MACHINES = ((1e-6, 1e-9), (2.5e-5, 8e-11), (1e-3, 1e-8), (0.0, 1e-9), (1e-6, 0.0))
SECONDS = {
    "star": StarSeconds,
    "sharded_server": ServerSeconds,
    "ring": RingSeconds,
    "recursive_doubling": DoublingSeconds,
    "halving_doubling": HalvingSeconds,
}


def messages(name, p):
    """How many messages follow one another, and how many vectors they are together."""
    steps = p.bit_length() - 1
    core = 1 << steps
    folded = 2 * (p != core)
    return {
        "star": (2 * (p - 1), 2 * (p - 1)),
        "sharded_server": (2 * (p - 1), 2 * (p - 1) / p),
        "ring": (2 * (p - 1), 2 * (p - 1) / p),
        "recursive_doubling": (steps + folded, steps + folded),
        "halving_doubling": (2 * steps + folded, 2 * (core - 1) / core + folded),
    }[name]


def seconds_of(name, nbytes, p, alpha_s, beta):
    number, vectors = messages(name, p)
    return number * alpha_s + vectors * nbytes * beta


def usual_mistakes(case):
    """Other seconds of a scheme that a case is of, by the sentence that names the mistake."""
    name = case.function.removesuffix("_s")
    nbytes, p = case.nbytes, case.world_size
    number, vectors = messages(name, p)
    power = 1 << (p.bit_length() - 1)

    def seconds(number, vectors, nbytes=nbytes):
        return number * case.alpha_s + vectors * nbytes * case.beta

    mistakes = {
        "This takes nbytes for a number of elements of 8 bytes.": seconds(
            number, vectors, 8 * nbytes
        ),
        "Each message takes alpha_s, also one of no bytes.": seconds(0, vectors),
    }
    if name in ("star", "sharded_server", "ring"):
        mistakes["This is half of the steps: sums go back, too."] = seconds(number / 2, vectors / 2)
    if name == "star":
        mistakes["Messages follow one another, so each one's alpha_s counts."] = seconds(1, p)
    if name.endswith("doubling") and p != power:
        mistakes["This leaves out the fold."] = seconds(*messages(name, power))
        steps = math.log2(p)
        mistakes["log2(p) is no whole number here; see what the fold is."] = seconds(steps, steps)
    if name.endswith("doubling") and p == power:
        mistakes["This has a fold, and p is a power of two."] = seconds(number + 2, vectors + 2)
        mistakes["This has a step too many, as bit_length() has it."] = seconds(
            number + 1, vectors + 1
        )
    return mistakes


for kind in SECONDS.values():
    kind.wrong = usual_mistakes


def timed(name, *call):
    """A case with what must come out."""
    return SECONDS[name](*call, gives=seconds_of(name, *call))


def nbytes_for(p):
    """A short and a long vector that every scheme can cut evenly."""
    unit = 8 * math.lcm(p, 1 << (p.bit_length() - 1))
    return [unit * times for times in (17, 100_003)]


def seconds(name, world_sizes):
    """The groups of cost.GROUPS, with cases."""

    def drawn(rng):
        machine = float(10 ** rng.uniform(-7, -4)), float(10 ** rng.uniform(-11, -8))
        return [timed(name, n, p, *machine) for p in world_sizes for n in nbytes_for(p)]

    many_bytes = [
        timed(name, n, p, *machine)
        for machine in MACHINES
        for p in world_sizes
        for n in nbytes_for(p)
    ]
    nothing = [timed(name, 0, p, *machine) for machine in MACHINES[:2] for p in world_sizes]
    alone = [timed(name, n, 1, *machine) for machine in MACHINES[:2] for n in (0, 8)]
    return cost.shares_of([*many_bytes, drawn], nothing, alone)


for test, name, world_sizes in (
    (cost.test_star, "star", (*MANY_POWERS, *MANY_OTHERS)),
    (cost.test_sharded_server, "sharded_server", (*MANY_POWERS, *MANY_OTHERS)),
    (cost.test_ring, "ring", (*MANY_POWERS, *MANY_OTHERS)),
    (cost.test_recursive_doubling_at_powers_of_two, "recursive_doubling", MANY_POWERS),
    (cost.test_recursive_doubling_at_other_sizes, "recursive_doubling", MANY_OTHERS),
    (cost.test_halving_doubling_at_powers_of_two, "halving_doubling", MANY_POWERS),
    (cost.test_halving_doubling_at_other_sizes, "halving_doubling", MANY_OTHERS),
):
    hidden(test, *seconds(name, world_sizes))


def choice(nbytes, p, alpha_s, beta):
    """A case with the names of all that take at most 5 % longer than the fastest."""
    times = {name: seconds_of(name, nbytes, p, alpha_s, beta) for name in NAMES}
    names = sorted(NAMES, key=times.__getitem__)
    most_s = 1.05 * times[names[0]] + 1e-15
    gives = tuple(name for name in names if times[name] <= most_s)
    return Choice(nbytes, p, alpha_s, beta, gives=gives)


def grid(world_sizes, alpha_s, beta):
    """Sizes that go through every crossover: none to 256 MB, two to each power of ten."""
    sizes = sorted({0, 4} | {8 * round(10 ** (exponent / 2)) for exponent in range(16)})
    return [choice(size, p, alpha_s, beta) for p in world_sizes for size in sizes]


def choices_of_a_drawn_machine(rng):
    machine = float(10 ** rng.uniform(-6, -4)), float(10 ** rng.uniform(-11, -9))
    return grid(SOME, *machine)


SOME = (2, 7, 16)
hidden(
    cost.test_choice_at_powers_of_two,
    group(cost.SHORT, *(choice(8, p, 1e-6, 1e-9) for p in (4, 8, 16)), weight=2),
    group(cost.LONG, *(choice(8 << 20, p, 1e-6, 1e-9) for p in (4, 8, 16)), weight=2),
    group(cost.BETWEEN, *grid((1, *MANY_POWERS), 1e-6, 1e-9)),
)
hidden(cost.test_choice_at_other_sizes, *grid(MANY_OTHERS, 1e-6, 1e-9))
hidden(
    cost.test_choice_follows_the_machine,
    group(
        cost.MACHINES, *grid(SOME, 2.5e-5, 8e-11), *grid(SOME, 1e-3, 1e-8),
        choices_of_a_drawn_machine, weight=3,
    ),
    group(cost.NO_LATENCY, *grid(SOME, 0.0, 1e-9), weight=2),
    group(cost.ANY_BANDWIDTH, *grid(SOME, 1e-6, 0.0), weight=3),
)  # fmt: skip

# -- ring_torch ------------------------------------------------------------------------------------

shared(ring_torch, TorchRing)
hidden(ring_torch.test_data_goes_round_the_ring, TorchRing(4, 40))
hidden(
    ring_torch.test_tensor_with_gaps,
    *shares(
        *(
            TorchRing(p, n, stride=stride)
            for p, n in ((1, 11), (2, 12), (4, 11), (3, 11))
            for stride in (2, 3)
        )
    ),
)
hidden(
    ring_torch.test_bytes_per_rank,
    *shares(
        *(TorchRing(p, n) for p, n in ((4, 64), (5, 203), (8, 9), (6, 5004), (17, 77))),
        *sweep(TorchRing),
    ),
)
hidden(ring_torch.test_messages_go_to_neighbours_only, *shares(*few(TorchRing), TorchRing(17, 77)))
hidden(
    ring_torch.test_time_with_long_vectors,
    *shares(*(TorchRing(p, 1250 * p, machine="long wire") for p in (7, 8, 16))),
)

# -- tree ------------------------------------------------------------------------------------------

shared(tree, Tree)
TREES = tree.by_parity(*range(1, 18), 31, 32, 33, 64, 100)

hidden(tree.test_data_goes_over_binary_trees, Tree(8, 48))
hidden(tree.test_both_are_binary_trees_of_small_depth, *TREES)
hidden(tree.test_no_rank_has_children_in_both_trees, *TREES)
hidden(
    tree.test_any_number_of_chunks,
    *shares(*(Tree(p, n, num_chunks=k) for p in (2, 6) for k in (1, 2, 7, 17) for n in (0, 1, 24))),
)
hidden(
    tree.test_bytes_per_rank,
    *shares(Tree(4, 64), Tree(7, 203), Tree(6, 5003), *sweep(Tree), *many(Tree)[1:]),
)
hidden(
    tree.test_messages_go_along_the_trees,
    *shares(
        Tree(4, 64, num_chunks=4), Tree(7, 203, num_chunks=2), Tree(8, 30, num_chunks=1),
        Tree(2, 30, num_chunks=1), Tree(6, 5003), *few(Tree), Tree(17, 77),
    ),
)  # fmt: skip
hidden(
    tree.test_time_with_long_vectors,
    *shares(*(Tree(p, 40_000, num_chunks=16, machine="long wire") for p in (7, 8, 12))),
)

# -- hierarchical ----------------------------------------------------------------------------------

levels = hierarchical.levels
GRIDS = ((4, 2), (6, 3), (6, 2), (8, 4), (9, 3))  # p, g

hidden(hierarchical.test_every_rank_sends_inside_its_node_and_between_nodes, levels(6, 3, 36))
hidden(hierarchical.test_nodes_are_summed_before_they_exchange, levels(6, 3, 72))
hidden(
    hierarchical.test_sums_where_everything_divides,
    *(levels(p, g, n) for p, g in GRIDS for n in (p, 6 * p)),
)
hidden(
    hierarchical.test_sums_of_other_lengths,
    *(levels(p, g, n) for p, g in GRIDS[:4] for n in (0, 1, p - 1, p + 1, 203)),
)
hidden(
    hierarchical.test_one_node_and_nodes_of_one_rank,
    group(hierarchical.ONE_NODE, *(levels(p, p, 4 * p) for p in (1, 2, 4))),
    group(hierarchical.ONE_RANK, *(levels(p, 1, 4 * p) for p in (3, 4))),
)
hidden(
    hierarchical.test_dtype_is_kept_and_integers_are_exact,
    levels(4, 2, 16, "float32"), levels(4, 2, 16, "int64"),
)  # fmt: skip
hidden(
    hierarchical.test_inputs_may_have_gaps_and_stay_as_they_were,
    *shares(
        levels(4, 2, 12, stride=2), levels(4, 2, 12, stride=-3), levels(4, 2, 12),
        levels(6, 3, 12), levels(6, 3, 13),
    ),
)  # fmt: skip
hidden(
    hierarchical.test_second_call_is_independent,
    *shares(*(levels(*size, again=True) for size in ((4, 2, 12), (6, 2, 12), (4, 2, 11)))),
)  # fmt: skip
hidden(
    hierarchical.test_other_worlds_are_refused, levels(4, 2, 12), levels(5, 2, 8), levels(6, 4, 8)
)
hidden(hierarchical.test_real_mpi, levels(4, 2, 12), levels(4, 2, LARGE))
hidden(
    hierarchical.test_bytes_between_nodes, levels(4, 2, 64), levels(12, 4, 1200),
    levels(15, 5, 3000), levels(20, 4, 800),
)  # fmt: skip
hidden(
    hierarchical.test_bytes_in_all, levels(4, 2, 64, "float32"), levels(6, 3, 6000),
    levels(12, 4, 1200), levels(20, 4, 800),
)  # fmt: skip
hidden(
    hierarchical.test_given_communicator_is_used,
    *shares(levels(4, 2, 16), levels(6, 3, 24, "float32"), levels(4, 2, 19)),
)
hidden(
    hierarchical.test_sends_may_wait_for_their_receives,
    *shares(levels(4, 2, 16), levels(6, 3, 600), levels(6, 3, 601)),
)
hidden(
    hierarchical.test_messages_may_arrive_in_any_order, *shares(levels(6, 3, 24), levels(6, 3, 25))
)
hidden(
    hierarchical.test_time_on_two_and_four_nodes,
    *(levels(p, 4, p * 10_000, machine="zaratan") for p in (8, 16)),
)
