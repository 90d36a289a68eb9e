"""Library collectives as point-to-point rounds, for their time only; values never pass here.

Each function returns, for one member of ``p``, its rounds in order. A round is a tuple of transfers
``(peer, send_bytes, receive_bytes)`` that are posted together and waited for together; -1 stands
for no message in that direction. ``sizes`` holds the bytes of every member's part (or, in one
entry, of the whole).

Where the members of a ring lie on nodes with several NICs each, ``rails.py`` makes several rings.
"""

from __future__ import annotations

from collections.abc import Callable

Transfer = tuple[int, int, int]
Round = tuple[Transfer, ...]
Lowering = Callable[[int, int, int, tuple[int, ...]], list[Round]]


def split(nbytes: int, p: int) -> list[int]:
    """Bytes in p parts that differ by at most one."""
    return [nbytes // p + (i < nbytes % p) for i in range(p)]


def ring_pass(rank: int, shares: list[int], first: int) -> list[Round]:
    """p - 1 steps round the ring; at step s rank r sends share (r + first - s) mod p."""
    p = len(shares)
    rounds: list[Round] = []
    for step in range(p - 1):
        sent, received = shares[(rank + first - step) % p], shares[(rank + first - step - 1) % p]
        following, previous = (rank + 1) % p, (rank - 1) % p
        if following == previous:
            rounds.append(((following, sent, received),))
        else:
            rounds.append(((following, sent, -1), (previous, -1, received)))
    return rounds


def ring_allreduce(rank: int, p: int, root: int, sizes: tuple[int, ...]) -> list[Round]:
    """Reduce-scatter and all-gather round a ring."""
    shares = split(sizes[0], p)
    return ring_pass(rank, shares, 0) + ring_pass(rank, shares, 1)


def ring_reduce_scatter(rank: int, p: int, root: int, sizes: tuple[int, ...]) -> list[Round]:
    """p - 1 steps, after which member r holds part r."""
    return ring_pass(rank, list(sizes), -1)


def ring_allgather(rank: int, p: int, root: int, sizes: tuple[int, ...]) -> list[Round]:
    """p - 1 steps, each forwarding the part received last."""
    return ring_pass(rank, list(sizes), 0)


def _fold(
    rank: int, p: int, nbytes: int, core: Callable[[int, int, int], list[Round]]
) -> list[Round]:
    """Fold the first 2r of p = 2^k + r members in pairs, run ``core`` on 2^k, send back."""
    power = 1 << (p.bit_length() - 1)
    extra = p - power
    if rank < 2 * extra and rank % 2 == 0:
        return [((rank + 1, nbytes, -1),), ((rank + 1, -1, nbytes),)]
    core_rank = rank // 2 if rank < 2 * extra else rank - extra

    def member(index: int) -> int:
        return 2 * index + 1 if index < extra else index + extra

    rounds = [
        tuple((member(peer), sent, received) for peer, sent, received in transfers)
        for transfers in core(core_rank, power, nbytes)
    ]
    if rank < 2 * extra:
        return [((rank - 1, -1, nbytes),), *rounds, ((rank - 1, nbytes, -1),)]
    return rounds


def recursive_doubling(rank: int, p: int, root: int, sizes: tuple[int, ...]) -> list[Round]:
    """Whole vectors between partners at distance 1, 2, 4, ..."""

    def core(index: int, power: int, nbytes: int) -> list[Round]:
        distances = [1 << k for k in range(power.bit_length() - 1)]
        return [((index ^ distance, nbytes, nbytes),) for distance in distances]

    return _fold(rank, p, sizes[0], core)


def halving_doubling(rank: int, p: int, root: int, sizes: tuple[int, ...]) -> list[Round]:
    """Reduce-scatter by recursive halving, all-gather by recursive doubling (Rabenseifner)."""

    def core(index: int, power: int, nbytes: int) -> list[Round]:
        shares = split(nbytes, power)
        lo, hi, rounds = 0, power, []
        while hi - lo > 1:
            middle = (lo + hi) // 2
            lower, upper = sum(shares[lo:middle]), sum(shares[middle:hi])
            half = (hi - lo) // 2
            if index < middle:
                rounds.append(((index + half, upper, lower),))
                hi = middle
            else:
                rounds.append(((index - half, lower, upper),))
                lo = middle
        back = [
            tuple((peer, got, sent) for peer, sent, got in transfers)
            for transfers in reversed(rounds)
        ]
        return rounds + back

    return _fold(rank, p, sizes[0], core)


def _binomial_children(relative: int, p: int) -> tuple[int, list[int]]:
    """Parent (or -1) and children, largest subtree first, of a binomial tree rooted at 0."""
    bit = 1
    while bit < p and not relative & bit:
        bit <<= 1
    parent = relative - bit if relative else -1
    children = []
    bit >>= 1
    while bit:
        if relative + bit < p:
            children.append(relative + bit)
        bit >>= 1
    return parent, children


def binomial_bcast(rank: int, p: int, root: int, sizes: tuple[int, ...]) -> list[Round]:
    """From the root down a binomial tree."""
    parent, children = _binomial_children((rank - root) % p, p)
    rounds: list[Round] = [(((parent + root) % p, -1, sizes[0]),)] if parent >= 0 else []
    return rounds + [(((child + root) % p, sizes[0], -1),) for child in children]


def binomial_reduce(rank: int, p: int, root: int, sizes: tuple[int, ...]) -> list[Round]:
    """Up the same tree, in the reverse order."""
    down = binomial_bcast(rank, p, root, sizes)
    return [
        tuple((peer, got, sent) for peer, sent, got in transfers) for transfers in reversed(down)
    ]


def tree_allreduce(rank: int, p: int, root: int, sizes: tuple[int, ...]) -> list[Round]:
    """Reduce to member 0, then broadcast."""
    return binomial_reduce(rank, p, 0, sizes) + binomial_bcast(rank, p, 0, sizes)


def dissemination(rank: int, p: int, root: int, sizes: tuple[int, ...]) -> list[Round]:
    """A barrier: empty messages to the members 1, 2, 4, ... further on."""
    rounds: list[Round] = []
    distance = 1
    while distance < p:
        dest, source = (rank + distance) % p, (rank - distance) % p
        rounds.append(((dest, 0, 0),) if dest == source else ((dest, 0, -1), (source, -1, 0)))
        distance *= 2
    return rounds


def linear_gather(rank: int, p: int, root: int, sizes: tuple[int, ...]) -> list[Round]:
    """Every member sends its part straight to the root."""
    if rank != root:
        return [((root, sizes[rank], -1),)]
    return [tuple((peer, -1, sizes[peer]) for peer in range(p) if peer != root)]


def linear_scatter(rank: int, p: int, root: int, sizes: tuple[int, ...]) -> list[Round]:
    """The root sends every member its part."""
    if rank != root:
        return [((root, -1, sizes[rank]),)]
    return [tuple((peer, sizes[peer], -1) for peer in range(p) if peer != root)]


def chain_scan(rank: int, p: int, root: int, sizes: tuple[int, ...]) -> list[Round]:
    """Prefix sums handed from member to member."""
    rounds: list[Round] = []
    if rank > 0:
        rounds.append(((rank - 1, -1, sizes[0]),))
    if rank < p - 1:
        rounds.append(((rank + 1, sizes[0], -1),))
    return rounds


def pairwise_alltoall(rank: int, p: int, root: int, sizes: tuple[int, ...]) -> list[Round]:
    """p - 1 rounds, the k-th to the member k further on. ``sizes[i * p + j]``: from i to j."""
    rounds: list[Round] = []
    for k in range(1, p):
        dest, source = (rank + k) % p, (rank - k) % p
        sent, received = sizes[rank * p + dest], sizes[source * p + rank]
        if dest == source:
            rounds.append(((dest, sent, received),))
        else:
            rounds.append(((dest, sent, -1), (source, -1, received)))
    return rounds


ALGORITHMS: dict[str, dict[str, Lowering]] = {
    "allgather": {"ring": ring_allgather},
    "allreduce": {
        "ring": ring_allreduce,
        "recursive_doubling": recursive_doubling,
        "halving_doubling": halving_doubling,
        "tree": tree_allreduce,
        "ring_or_tree": ring_allreduce,  # which of both, and how, the nodes decide: rails.py
    },
    "alltoall": {"pairwise": pairwise_alltoall},
    "barrier": {"dissemination": dissemination},
    "bcast": {"binomial": binomial_bcast},
    "exscan": {"chain": chain_scan},
    "gather": {"linear": linear_gather},
    "reduce": {"binomial": binomial_reduce},
    "reduce_scatter": {"ring": ring_reduce_scatter},
    "scan": {"chain": chain_scan},
    "scatter": {"linear": linear_scatter},
}
