"""Inputs for trying functions out: supplied. ``ringside run`` takes them from here.

    ringside run callers.py:strided --ranks 3 -- --target ring:all_reduce --stride 2 --n 7
    ringside run callers.py:twice --ranks 3 -- --target tree:all_reduce --n 6 --num-chunks 3
    ringside run callers_torch.py:strided --ranks 3 -- --target ring_torch:all_reduce --n 7

Your own functions need nothing from here: ``ringside run ring.py:all_reduce``. What came back is
compared here, too, by the tests and by ``ringside run``.
"""

from dataclasses import replace

import numpy as np

from ringside.checking import assert_array, assert_ran, magnitude, total
from ringside.checking.inputs import expected as wanted_of
from ringside.checking.inputs import parts as parts_of
from ringside.checking.inputs import scale as scale_of
from ringside.checking.inputs import vectors

OPTIONS = {"target", "stride", "num_chunks", "ranks_per_node"}
MORE = ("num_chunks", "ranks_per_node")  # what some functions get after their vector
CALLERS = ("strided", "twice", "special", "returned", "refused")


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None for functions that aren't known here."""
    if function not in CALLERS:
        return None
    others = options.others
    target = others.get("target", "ring:all_reduce")
    first, second = (_given(target, world_size, rank, options, which) for which in (0, 1))
    rest = [others[name] for name in MORE if name in others]
    if function == "special":
        first = (specials(vectors(world_size, options), options.drawn[0])[rank],)
    asked = [] if "_torch:" in target else [target]  # callers_torch.py calls no other
    if function == "strided":
        return (*asked, others.get("stride", 2), *first, *rest)
    if function == "twice":
        return (*asked, first[0], *second, *rest)
    return (*asked, *first, *rest)


def expected(function, world_size, rank, options):
    """What rank ``rank`` should return: ``check`` looks at that."""
    return None


def check(case, function, rank, value, options):
    """Raise a verdict where what a function of ``callers.py`` gave back is not as it must be."""
    if function == "returned":
        check_returned(case, rank, value)
    if function == "refused":
        check_refused(case, rank, value)
    if function == "special":
        given = specials(vectors(case.world_size, options), options.drawn[0])
        check_special(case, rank, value, (total(given), magnitude(given)))
    if function not in ("strided", "twice"):
        return
    rights = []
    for which in (0, 1):
        asked = (case.function, case.world_size, rank, _nth(options, which))
        rights += [(wanted_of(*asked), scale_of(*asked), parts_of(*asked))]
    if case.target.startswith("ring_torch:"):
        looked_at = check_torch_strided if function == "strided" else check_torch_twice
    else:
        looked_at = check_strided if function == "strided" else check_twice
    looked_at(case, rank, value, *rights[: 1 if function == "strided" else 2])


def _assert_right(value, right, case, what):
    """An array; ``right`` is what it must be, its scale and, of a sum, its parts."""
    wanted, scale, *parts = right
    assert_array(value, wanted, scale, case, what, *parts)


def check_strided(case, rank, value, right):
    """What ``callers.strided`` gave back on a rank; ``right`` is as in ``_assert_right``."""
    returned, shared, changed = value
    _assert_right(
        returned, right, case, f"rank {rank}'s result for every other element of an array"
    )
    if shared:
        raise case.fail(f"rank {rank} returned a view of its input, not a new array.")
    if changed:
        raise case.fail(f"rank {rank} changed the array that its input is part of.")


def specials(given, seed):
    """These vectors with NaN, infinities, a very large and very small numbers in them."""
    rng = np.random.default_rng(seed)
    large, small = large_and_small(given[0].dtype)
    for place, number in enumerate((np.nan, np.inf, -np.inf, large)):
        given[rng.integers(len(given))][place] = number
    for vector in given:
        vector[4] *= small
    return given


def large_and_small(dtype):
    """Numbers near the ends of a dtype's range."""
    return (1e300, 1e-200) if dtype == np.float64 else (1e37, 1e-30)


def check_special(case, rank, value, right):
    """What a function gave back on a rank for ``specials``."""
    large, small = large_and_small(np.dtype(case.dtype))
    what = f"rank {rank}'s result for NaN, infinities, {large} and {small} among others"
    _assert_right(value, right, case, what)


def check_returned(case, rank, value):
    """What ``callers_torch.returned`` gave back on a rank."""
    if value:
        raise case.fail(
            f"rank {rank}'s call returned something; it must put the sum into x and return None."
        )


def check_twice(case, rank, value, first, second):
    """What ``callers.twice`` gave back on a rank."""
    then, now, late, shared, fixed, single = value
    _check_three(case, f"rank {rank}'s", ("result",) * 3, (then, now, late), first, second)
    if shared:
        raise case.fail(
            f"rank {rank}'s results share memory with each other or with an input; "
            "each must be a new array."
        )
    if fixed:
        raise case.fail(f"rank {rank}'s result can't be written to by its caller.")
    _check_single(case, f"rank {rank}'s result", single, second)


def check_torch_strided(case, rank, value, right):
    """What ``callers_torch.strided`` gave back on a rank."""
    returned, changed = value
    what = f"rank {rank}'s x, elements with gaps between them of a longer tensor,"
    _assert_right(returned, right, case, what)
    if changed:
        raise case.fail(
            f"rank {rank} changed elements between those of x, or gave x another "
            "storage than that of the longer tensor; copy the sum into x."
        )


def check_torch_twice(case, rank, value, first, second):
    """What ``callers_torch.twice`` gave back on a rank."""
    *three, single = value
    _check_three(case, f"rank {rank}'s", ("x",) * 3, three, first, second)
    _check_single(case, f"rank {rank}'s x", single, second)


def _check_single(case, what, single, second):
    """What a call with the second vector as float32 gave, between the other two."""
    if np.dtype(case.dtype) != np.float32:
        what = f"{what} for float32, after a call with {case.dtype},"
        assert_array(single, second[0].astype(np.float32), second[1], case, what)


def _check_three(case, whose, names, values, first, second):
    whens = ("first", "first", "second")
    later = ("", ", looked at after a second call,", "")
    for when, name, more, value, right in zip(
        whens, names, later, values, (first, first, second), strict=True
    ):
        _assert_right(value, right, case, f"{whose} {when} {name}{more}")


def _given(target, world_size, rank, options, which):
    """What the function itself gets: all-gather a shard and the length, others a vector."""
    drawn = vectors(world_size, options, which)
    if target.endswith(":all_gather"):
        return np.array_split(drawn[0], world_size)[rank].copy(), options.n
    return (drawn[rank],)


def _nth(options, which):
    """The options that give a function's first (0) or second (1) vectors."""
    if options.drawn:
        return replace(options, drawn=options.drawn[which:])
    return replace(options, seed=options.seed + which)


# -- the schemes -----------------------------------------------------------------------------------


def scheme_arguments(case, drawn):
    """What each rank gets for a look at its scheme."""
    if case.function != "all_gather":
        return case.arguments(drawn)
    return [(shard.copy(), case.n) for shard in np.array_split(drawn[0], case.world_size)]


def assert_scheme(result, case):
    """Ranks' own messages carry the data, between the ranks that the module's scheme has.

    Nothing else is looked at: no values, and no bounds on bytes.
    """
    assert_ran(result, case)
    seen = case.seen_in(result).asking("scheme")
    used = [each.name for each in result.collectives if each.name != "barrier"]
    if used:
        raise seen.fail(f"the library's {used[0]} moved data; your own messages must carry it.")
    sent = np.asarray(result.bytes_matrix())
    exchanged = sent + sent.T
    np.fill_diagonal(exchanged, 0)
    _SCHEMES[case.target.partition(":")[0]](seen, exchanged)


def _star(seen, exchanged):
    for rank in range(1, seen.world_size):
        if exchanged[0, rank] < seen.nbytes:
            raise seen.fail(
                f"rank 0 and rank {rank} exchanged {exchanged[0, rank]} bytes; rank {rank}'s whole "
                f"vector of {seen.nbytes} bytes must go to rank 0."
            )
    _nobody_else(seen, exchanged, [(0, rank) for rank in range(1, seen.world_size)])


def _server(seen, exchanged):
    for a, b in _pairs(seen.world_size):
        if exchanged[a, b] < seen.shard_nbytes:
            raise seen.fail(
                f"rank {a} and rank {b} exchanged {exchanged[a, b]} bytes; each rank serves a "
                f"shard of {seen.shard_nbytes} bytes, so every two ranks exchange shards."
            )
        if exchanged[a, b] > 1.5 * seen.nbytes:
            raise seen.fail(
                f"rank {a} and rank {b} exchanged {exchanged[a, b]} bytes, as much as whole "
                f"vectors; each rank adds up its own shard only, of {seen.shard_nbytes} bytes."
            )


def _ring(seen, exchanged):
    neighbours = [(rank, (rank + 1) % seen.world_size) for rank in range(seen.world_size)]
    for a, b in neighbours:
        if exchanged[a, b] < seen.shard_nbytes:
            raise seen.fail(
                f"rank {a} and its neighbour {b} exchanged {exchanged[a, b]} bytes; round a ring "
                f"shards go from each rank to the next, of {seen.shard_nbytes} bytes here."
            )
    _nobody_else(seen, exchanged, neighbours)


def _recursive(seen, exchanged):
    steps = seen.world_size.bit_length() - 1
    for rank, row in enumerate(exchanged):
        partners = int((row >= seen.shard_nbytes).sum())
        if partners != steps:
            raise seen.fail(
                f"rank {rank} exchanged data with {partners} other ranks; in log2(p) steps it has "
                f"{steps} partners."
            )
        parts = sorted(int(nbytes) for nbytes in row)[-steps:]
        if seen.function == "halving_doubling" and parts[-1] < 2 * parts[0]:
            raise seen.fail(
                f"rank {rank} exchanged {parts[0]} to {parts[-1]} bytes with its partners; in "
                "halving, each exchange is half as long as the one before."
            )


def _tree(seen, exchanged):
    most = max(int((row >= seen.shard_nbytes).sum()) for row in exchanged)
    if not 3 <= most <= 6:
        raise seen.fail(
            f"the rank with most partners exchanged data with {most} others; in two binary trees "
            "some have 3, and none has more than 6."
        )


def _levels(seen, exchanged):
    per_node = seen.options["ranks_per_node"]
    for rank, row in enumerate(exchanged):
        first = rank // per_node * per_node
        inside = int(row[first : first + per_node].sum())
        between = int(row.sum()) - inside
        if not inside or not between:
            where = "other nodes" if inside else "its own node"
            raise seen.fail(
                f"rank {rank} exchanged no data with ranks of {where}; each rank takes part in "
                "the steps inside its node and in those between nodes."
            )


def _nobody_else(seen, exchanged, pairs):
    """Between other ranks goes nothing that is as long as a shard."""
    known = {tuple(sorted(pair)) for pair in pairs}
    for a, b in _pairs(seen.world_size):
        if (a, b) not in known and exchanged[a, b] >= seen.shard_nbytes:
            raise seen.fail(
                f"rank {a} and rank {b} exchanged {exchanged[a, b]} bytes; in this scheme no data "
                "goes between them."
            )


def _pairs(world_size):
    return [(a, b) for a in range(world_size) for b in range(a + 1, world_size)]


_SCHEMES = {
    "star": _star,
    "sharded_server": _server,
    "ring": _ring,
    "recursive": _recursive,
    "callers_torch": _ring,
    "tree": _tree,
    "hierarchical": _levels,
}


# -- two levels ------------------------------------------------------------------------------------


def assert_two_levels(result, case):
    """Between nodes each rank sent its part of a shard at most, as hierarchical.py bounds it."""
    per_node = case.options["ranks_per_node"]
    num_nodes, shard = case.world_size // per_node, -(-case.n // per_node)
    most = 2 * (num_nodes - 1) * -(-shard // num_nodes) * np.dtype(case.dtype).itemsize
    sent = np.asarray(result.bytes_matrix())
    for rank in range(case.world_size):
        first = rank // per_node * per_node
        between = int(sent[rank].sum() - sent[rank, first : first + per_node].sum())
        if between > most:
            raise (
                case.seen_in(result)
                .asking("levels")
                .fail(
                    f"rank {rank} sent {between} bytes to ranks of other nodes; at most {most} are "
                    f"allowed with {per_node} ranks a node."
                )
            )


def check_refused(case, rank, value):
    """What ``callers.refused`` gave back: the exception's name."""
    if value != "ValueError":
        p, g = case.world_size, case.options["ranks_per_node"]
        raise case.fail(
            f"rank {rank} raised {value or 'nothing'}; it must be ValueError, since {p} ranks are "
            f"no multiple of {g}."
        )


CHECKS = {
    "levels": lambda result, case, _: assert_two_levels(result, case),
    "scheme": lambda result, case, _: assert_scheme(result, case),
}
