"""shard.py: one order an epoch, dealt out."""

import numpy as np

from ringside.checking import Case, Verdict, assert_ran
from ringside.checking.formulas import Asked, one_of
from ringside.checking.points import points_of

TARGET = "shard:shard"
SIZES = (1, 2, 3, 7, 9, 64, 101)
WORLDS = (2, 4, 8, 3, 5, 6, 7)
LARGE, MEDIUM = 1000, 50
FACTORS = (*range(1, 300), *(10**k for k in range(3, 8)), *(2**k for k in range(9, 21)), 997, 1009)

points = points_of("shard")


def fail(sentence, n, world_size, rank, epoch, seed):
    call = f"shard({n}, {world_size}, {rank}, {epoch}, {seed})"
    line = f'python -c "from shard import shard; print({call})"'
    return Verdict(f"{call}: {sentence}", reproduce=line)


def shards(ranks, world_size, calls):
    """For each ``(n, epoch, seed)`` every rank's shard, each from a process of its own."""
    result = ranks.call("callers:shards", world_size, [(list(calls),)] * world_size)
    n, epoch, seed = calls[0]
    first = f"shard({n}, {world_size}, rank, {epoch}, {seed})"
    line = f'python -c "from shard import shard; print({first.replace("rank", "0")})"'
    assert_ran(result, Asked(TARGET, world_size, n, about=one_of(calls, first), line=line))
    per_rank = [value[0] for value in result.values]
    for rank, own in enumerate(per_rank):
        for (n, epoch, seed), indices in zip(calls, own, strict=True):
            if not isinstance(indices, np.ndarray) or indices.ndim != 1:
                kind = type(indices).__name__
                raise fail(
                    f"the result is of type {kind}; it must be an array of one dimension.",
                    n, world_size, rank, epoch, seed,
                )  # fmt: skip
            if indices.dtype != np.int64:
                raise fail(
                    f"the result has dtype {indices.dtype}; it must be int64.",
                    n, world_size, rank, epoch, seed,
                )  # fmt: skip
    return result, [[own[k] for own in per_rank] for k in range(len(calls))]


def covered(ranks, world_size, calls):
    """Shards of each call, in which every sample stands once."""
    result, found = shards(ranks, world_size, calls)
    for (n, epoch, seed), parts in zip(calls, found, strict=True):
        counts = np.bincount(np.concatenate(parts).clip(0), minlength=n)
        together = sum(map(len, parts))
        strange = [int(i) for part in parts for i in part if not 0 <= i < n]
        if strange:
            raise fail(f"{strange[0]} is no index.", n, world_size, "rank", epoch, seed)
        for what, wrong in (("no rank takes", counts == 0), ("twice or more stands", counts > 1)):
            if n and wrong.any():
                alike = " Is the order the same on all ranks?" if together == n else ""
                raise fail(
                    f"of {n} samples the shards of all {world_size} ranks hold {together}; {what} "
                    f"sample {int(np.argmax(wrong))}.{alike}",
                    n, world_size, "rank", epoch, seed,
                )  # fmt: skip
    return result, found


def orders(ranks, calls):
    """The order on one rank, for each call."""
    return [parts[0] for parts in covered(ranks, 1, calls)[1]]


def draw(rng, count=1):
    """Seeds that nobody has guessed."""
    return [int(seed) for seed in rng.integers(1, 2**31, size=count)]


@points(14, "values")
def test_every_sample_once(ranks, rng):
    seed = draw(rng)[0]
    for world_size in WORLDS:
        sizes = [world_size * each for each in (0, 1, 2, 9)]
        covered(ranks, world_size, [(n, epoch, seed) for n in sizes for epoch in (0, 3)])


@points(20, "values")
def test_every_sample_once_where_p_does_not_divide_n(ranks, rng):
    seed = draw(rng)[0]
    for world_size in WORLDS:
        sizes = [n for n in SIZES if n % world_size]
        covered(ranks, world_size, [(n, epoch, seed) for n in sizes for epoch in (0, 3)])


@points(7, "values")
def test_lengths_differ_by_one_at_most(ranks, rng):
    seed = draw(rng)[0]
    for world_size in (2, 3, 5, 8):
        covered(ranks, world_size, [(2 * world_size, 1, seed)])
        calls = [(n, 1, seed) for n in SIZES]
        for (n, epoch, _), parts in zip(calls, shards(ranks, world_size, calls)[1], strict=True):
            for rank, part in enumerate(parts):
                short = n // world_size
                if len(part) not in (short, short + bool(n % world_size)):
                    raise fail(
                        f"{len(part)} of {n} samples for one of {world_size} ranks; "
                        f"it must be {short}{f' or {short + 1}' if n % world_size else ''}.",
                        n, world_size, rank, epoch, seed,
                    )  # fmt: skip


@points(13, "values")
def test_each_epoch_and_seed_has_its_own_order(ranks, rng):
    seed = draw(rng)[0]
    calls = [(LARGE, epoch, seed + k) for k in range(4) for epoch in range(4)]
    calls += [(LARGE, e, s) for e in (0, 1, 2, 3, 10, 11) for s in (0, 1, 2, 3, 10, 11)]
    # Where one number is made of both, as 100 seed + epoch, late epochs meet the next seed's.
    calls += [(MEDIUM, many, 0) for many in FACTORS]
    calls += [(MEDIUM, 0, many) for many in FACTORS]
    covered(ranks, 2, [calls[0]])  # one rank alone earns nothing
    found = orders(ranks, calls)
    seen = {}
    for (n, epoch, of_seed), order in zip(calls, found, strict=True):
        other = seen.setdefault(order.tobytes(), (epoch, of_seed))
        if other != (epoch, of_seed):
            raise fail(
                f"the same order as in epoch {other[0]} of seed {other[1]}.",
                n, 1, 0, epoch, of_seed,
            )  # fmt: skip


@points(6, "values")
def test_orders_are_random_permutations(ranks, rng):
    seed = draw(rng)[0]
    covered(ranks, 2, [(LARGE, 0, seed)])  # one rank alone earns nothing
    calls = [(LARGE, epoch, seed) for epoch in range(3)]
    found = [np.arange(LARGE), *orders(ranks, calls)]
    for late in range(1, len(found)):
        for early in range(late):
            alike = _likeness(found[early], found[late])
            if alike > 0.02:
                what = "the samples' own order" if early == 0 else f"epoch {early - 1}'s order"
                raise fail(
                    f"{alike:.0%} of the samples have the place or the neighbour that they have in "
                    f"{what}; in a random permutation almost none have.",
                    LARGE, 1, 0, late - 1, seed,
                )  # fmt: skip
    for epoch, order in enumerate(found[1:]):
        moved = float(np.corrcoef(order, np.arange(LARGE))[0, 1])
        if abs(moved) > 0.2:  # by chance it is about 0.03
            raise fail(
                f"the samples' places correlate with their numbers by {moved:.2f}; in a random "
                "permutation they do not.",
                LARGE, 1, 0, epoch, seed,
            )  # fmt: skip


def _likeness(a, b):
    """The largest share of samples in the same place, or with the same neighbour."""
    pairs = [{(int(x), int(y)) for x, y in zip(o, np.roll(o, -1), strict=True)} for o in (a, b)]
    turned = {(y, x) for x, y in pairs[0]}
    moved = np.argsort(b) - np.argsort(a)  # how far each sample moved, round the end
    same_move = np.bincount(moved % len(a)).max() / len(a)
    shared = max(len(pairs[0] & pairs[1]), len(turned & pairs[1])) / len(a)
    return max(shared, same_move)


@points(20, "schedule")
def test_steps_do_not_depend_on_the_number_of_ranks(ranks, rng):
    seed = draw(rng)[0]
    calls = [(n, epoch, seed) for n in (168, 336) for epoch in (0, 2)]  # all of p divide them
    wholes = orders(ranks, calls)
    for world_size in (2, 3, 4, 7, 8):
        found = covered(ranks, world_size, calls)[1]
        for (n, epoch, _), whole, parts in zip(calls, wholes, found, strict=True):
            for k in range(1, max(map(len, parts)) + 1):
                together = {int(i) for part in parts for i in part[:k]}
                if together != set(whole[: k * world_size].tolist()):
                    raise fail(
                        f"the first {k} samples of all {world_size} ranks are not the first "
                        f"{min(k * world_size, n)} of the order on one rank.",
                        n, world_size, "rank", epoch, seed,
                    )  # fmt: skip


@points(6, "communication")
def test_nothing_is_sent(ranks, rng):
    seed = draw(rng)[0]
    for world_size in (2, 4):
        result, _ = covered(ranks, world_size, [(64, 0, seed), (64, 1, seed)])
        used = [record.name for record in result.collectives] + list(result.comm_calls)
        if any(result.sent_messages()) or used:
            what = used[0] if used else "a message"
            raise fail(
                f"the ranks used {what}; each must work its shard out alone.",
                64, world_size, "rank", 0, seed,
            )  # fmt: skip


@points(5, "safety")
def test_same_result_whatever_was_called_before(ranks, rng):
    seed = draw(rng)[0]
    calls = [(96, 0, seed), (66, 2, seed), (96, 1, seed), (96, 0, seed), (66, 2, seed)]
    for world_size in (2, 3):
        found = covered(ranks, world_size, calls)[1]
        for early, late in ((0, 3), (1, 4)):
            for rank, (a, b) in enumerate(zip(found[early], found[late], strict=True)):
                if not np.array_equal(a, b):
                    n, epoch, _ = calls[late]
                    raise fail(
                        "another result than the first time, after other calls.",
                        n, world_size, rank, epoch, seed,
                    )  # fmt: skip


@points(4, "safety")
def test_result_belongs_to_the_caller(ranks, rng):
    seed = draw(rng)[0]
    for world_size in (2, 3):
        covered(ranks, world_size, [(66, 1, seed)])
        result = ranks.call("callers:shards_again", world_size, [(66, 1, seed)] * world_size)
        assert_ran(result, Case(TARGET, world_size, 66))
        for rank, (then, again) in enumerate(result.values):
            if not np.array_equal(then, again):
                raise fail(
                    "after the caller wrote into the result, a second call gives another one.",
                    66, world_size, rank, 1, seed,
                )  # fmt: skip


@points(5, "safety")
def test_global_generators_are_left_alone(ranks, rng):
    seed = draw(rng)[0]
    for world_size in (2, 3):
        result, _ = covered(ranks, world_size, [(66, 0, seed), (66, 1, seed)])
        for rank, (_, moved) in enumerate(result.values):
            if moved:
                raise fail(
                    "it drew from a global random generator, or seeded one; make one of your own.",
                    66, world_size, rank, 0, seed,
                )  # fmt: skip
