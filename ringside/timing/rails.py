"""How a library's collectives use a node's ports: as many rings at once as its ranks have NICs.

    two nodes of four ranks, a NIC each               ring 0   0 1 2 3 | 4 5 6 7
                                                      ring 1   1 2 3 0 | 5 6 7 4
    Ring j enters each node by its j-th NIC, goes     ring 2   2 3 0 1 | 6 7 4 5
    round all members there, and carries a k-th       ring 3   3 0 1 2 | 7 4 5 6
    of the vector.

In every step of a ring of n members, each of them sends a chunk of V / (k n) bytes in each of the k
rings: k - 1 to its neighbour in the node, and one through its NIC. So an all-reduce takes::

    2 (n - 1) * max(alpha + chunk * beta, intra_alpha + (k - 1) * chunk * intra_beta)

A ring that a program sends by hand is one ring: one NIC of each node is busy, the others rest.

k rings are k times as many messages. Where they would be more than ``MOST_MESSAGES``, no message is
timed: all members end when the last has begun and the formula's time has passed. A rank has one
such collective at a time, as they use all its ports. They don't hold up what other groups send
meanwhile, ``latency_seed`` doesn't change them, and their bytes aren't in
``Timeline.bytes_matrix``.

"ring_or_tree": on two nodes the faster of rings and tree; on more, a tree only where the chunks of
the rings are eager. NCCL's own table takes trees for large vectors as well. That is 5 to 9 times
faster than what was measured on 256 and 512 GPUs (cluster/validation/many_nodes.toml), so it is
left out here, at the price of a jump at that size. A tree is always timed by its formula::

    2 ((members of a node - 1) intra_alpha + log2(nodes) alpha)
        + V * max(passes * beta / k, 2 * intra_beta)

On two nodes each half crosses the network once, which is one pass; else two, at 92 % of the rate.
NCCL's protocol LL has the latencies of eager messages and half the rate; the faster one counts.

Source: github.com/NVIDIA/nccl, src/graph (search.cc, connect.cc, tuning.cc). NCCL's rings alternate
between nodes, so that each keeps to the switches of its rail; here a NIC reaches all others alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ringside.timing.collectives import ALGORITHMS, Round, ring_pass, split
from ringside.timing.machine import Machine

MOST_MESSAGES = 100_000  # of one collective's rings
PASSES = {"allgather": (0,), "reduce_scatter": (-1,), "allreduce": (0, 1)}  # the share sent first
TREE_RATE = 0.92  # of the links', src/graph/tuning.cc


class Layout(NamedTuple):
    """How the members of a communicator lie on nodes.

    Attributes:
        rings: the members in the order of every ring: as many rings as each node has NICs. One ring
            is in the communicator's order; of several each goes from node to node.
        num_nodes: the nodes that they lie on.
        num_near: in how many rings a member sends to its own node, at most.
    """

    rings: tuple[tuple[int, ...], ...]
    num_nodes: int
    num_near: int = 1


def layout(machine: Machine, members: tuple[int, ...]) -> Layout:
    """Find the rings of a communicator whose members are these ranks, in its order."""
    # Without ports that messages share, several rings are no faster than one.
    nics = machine.gpus_per_nic if machine.ports == "rank" else machine.ranks_per_node
    return _layout(machine.ranks_per_node, nics, members)


@lru_cache(maxsize=256)
def _layout(ranks_per_node: int, gpus_per_nic: int, members: tuple[int, ...]) -> Layout:
    nodes: dict[int, dict[int, list[int]]] = {}
    for member in sorted(range(len(members)), key=members.__getitem__):
        node, local = divmod(members[member], ranks_per_node)
        nodes.setdefault(node, {}).setdefault(local // gpus_per_nic, []).append(member)
    num_rings = min(map(len, nodes.values()))
    if len(nodes) == 1 or num_rings == 1:
        return Layout((tuple(range(len(members))),), len(nodes))
    rings = []
    for first in range(num_rings):
        ring: list[int] = []
        for nics in nodes.values():
            in_turn = [*nics.values()][first:] + [*nics.values()][:first]
            ring += [member for sharing in in_turn for member in sharing]
        rings.append(tuple(ring))
    # A member with a NIC of its own leaves the node in one of the rings; else perhaps in none.
    leaves = all(len(nics) == num_rings == sum(map(len, nics.values())) for nics in nodes.values())
    return Layout(tuple(rings), len(nodes), num_rings - leaves)


def formula_s(
    machine: Machine, name: str, members: tuple[int, ...], sizes: tuple[int, ...]
) -> float | None:
    """Return the seconds of a collective that is timed by a formula; None if messages time it.

    Args:
        members: the ranks, in the communicator's order.
        sizes: as in ``collectives.py``.
    """
    p = len(members)
    if not _in_rings(machine, name) or machine.ranks_per_node == 1 or p < 3:
        return None
    where = layout(machine, members)
    sharing = min(machine.gpus_per_nic, machine.ranks_per_node)
    is_whole = p == len(where.rings) * where.num_nodes * sharing
    if where.num_nodes == 1 or (machine.ports == "rank" and sharing > 1 and not is_whole):
        return None  # other groups may send over the same ports: messages queue there
    if machine.algorithm(name) == "ring_or_tree":
        is_small = sizes[0] < len(where.rings) * p * machine.eager_threshold_bytes
        tree = tree_s(machine, members, sizes[0])
        if (is_small or where.num_nodes == 2) and tree < rings_s(machine, name, members, sizes):
            return tree
    num_messages = len(where.rings) * p * (p - 1) * len(PASSES[name])
    if len(where.rings) == 1 or num_messages <= MOST_MESSAGES:
        return None
    return rings_s(machine, name, members, sizes)


def rounds(
    machine: Machine, name: str, members: tuple[int, ...], me: int, root: int,
    sizes: tuple[int, ...],
) -> list[Round]:  # fmt: skip
    """Return member ``me``'s rounds of a collective, as ``collectives.py`` has them."""
    if _in_rings(machine, name):
        where = layout(machine, members)
        if len(where.rings) > 1:
            return _rounds(where.rings, name, me, sizes)
        if name == "allreduce" and where.num_nodes == 1 and len(members) == machine.ranks_per_node:
            sizes = (round(sizes[0] / machine.switch_gain),)
    return ALGORITHMS[name][machine.algorithm(name)](me, len(members), root, sizes)


def _in_rings(machine: Machine, name: str) -> bool:
    return name in PASSES and machine.algorithm(name) in ("ring", "ring_or_tree")


def _rounds(
    rings: Sequence[tuple[int, ...]], name: str, me: int, sizes: tuple[int, ...]
) -> list[Round]:
    """All rings' steps, the like of every ring in one round."""
    k, p = len(rings), len(rings[0])
    slices = [split(nbytes, k) for nbytes in sizes]
    of_rings: list[list[Round]] = []
    for j, ring in enumerate(rings):
        if name == "allreduce":
            shares = split(slices[0][j], p)
        else:
            shares = [slices[member][j] for member in ring]
        rounds = [r for first in PASSES[name] for r in ring_pass(ring.index(me), shares, first)]
        of_rings.append(
            [tuple((ring[peer], sent, got) for peer, sent, got in step) for step in rounds]
        )
    return [sum(alike, ()) for alike in zip(*of_rings, strict=True)]


def rings_s(machine: Machine, name: str, members: tuple[int, ...], sizes: tuple[int, ...]) -> float:
    """Return the seconds of a ring collective, by the formula, if all members begin at once."""
    p, where = len(members), layout(machine, members)
    k = len(where.rings)
    chunk = -(-sizes[0] // (k * p)) if name == "allreduce" else -(-max(sizes) // k)
    first, inside = min(members), _near(machine, members)
    steps = []
    if where.num_nodes > 1:
        far = next(rank for rank in members if machine.node(rank) != machine.node(first))
        steps.append(_step_s(machine, first, far, chunk, 1))
    if inside is not None:
        steps.append(_step_s(machine, first, inside, chunk, where.num_near))
    return len(PASSES[name]) * (p - 1) * max(steps)


def tree_s(machine: Machine, members: tuple[int, ...], nbytes: int) -> float:
    """Return the seconds of an all-reduce over a tree of nodes, by the formula."""
    where = layout(machine, members)
    first, inside = min(members), _near(machine, members)
    far = next(rank for rank in members if machine.node(rank) != machine.node(first))
    passes = 1.0 if where.num_nodes == 2 else 2 / TREE_RATE
    rate_s = passes * machine.link(first, far).beta_s_per_byte / len(where.rings)
    if inside is not None:
        rate_s = max(rate_s, 2 * machine.link(first, inside).beta_s_per_byte)
    times = []
    for nbytes_of_hop, slower in ((0, 2), (machine.eager_threshold_bytes, 1)):  # LL, Simple
        hops_s = (where.num_nodes - 1).bit_length() * _latency_s(machine, first, far, nbytes_of_hop)
        if inside is not None:
            others = max(Counter(map(machine.node, members)).values()) - 1
            hops_s += others * _latency_s(machine, first, inside, nbytes_of_hop)
        times.append(2 * hops_s + slower * nbytes * rate_s)
    return min(times)


def _near(machine: Machine, members: Sequence[int]) -> int | None:
    """A member on the first one's node, if there is any."""
    first = min(members)
    return next((r for r in members if r != first and machine.node(r) == machine.node(first)), None)


def _step_s(machine: Machine, source: int, dest: int, nbytes: int, count: int) -> float:
    beta = machine.link(source, dest).beta_s_per_byte
    return _latency_s(machine, source, dest, nbytes) + count * nbytes * beta


def _latency_s(machine: Machine, source: int, dest: int, nbytes: int) -> float:
    if nbytes < machine.eager_threshold_bytes:
        return machine.eager_latency_s(source, dest)
    return machine.link(source, dest).alpha_s
