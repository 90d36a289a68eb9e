r"""Experts on few nodes a token, and an exchange on two levels (extra).

A token with k = 8 experts may have them on eight nodes, and then eight copies of it cross the slow
links. Two measures, both of DeepSeek-V3, bound that:

    1. the gate may choose experts on at most M nodes a token;
    2. a token goes **once** to each of these nodes, to the rank of its own place there, and inside
       the node that rank passes it on. What comes back is summed inside the node first.

    node 0: rank 0  1            token of rank 1 for experts on ranks 4, 5 (node 2) and 2 (node 1):
            |  |                 1 -> 5 -> 4, 5    one row to node 2, though two experts are there
    node 1: rank 2  3            1 -> 3 -> 2       one row to node 1
    node 2: rank 4  5

Rank r is on node ``r // g``, at place ``r % g``, with g ranks on each node. The experts are dealt
out evenly: E is a multiple of the number of ranks, so node n has experts ``n E / N`` to
``(n + 1) E / N - 1``.

Both levels are exchanges of the kind of ``exchange.py``: one between the ranks of a place, where a
row goes to a node, and one inside the node. Write them here: modules are graded one by one. Tokens
travel with what the gate said about them: at most 2 k elements more a row.

Source: DeepSeek-AI 2024, "DeepSeek-V3 technical report", sections 2.1.2 and 3.2.2.
"""

import numpy as np
from given.experts import Expert, Routing
from mpi4py import MPI


def choose(scores: np.ndarray, k: int, num_nodes: int, most_nodes: int) -> np.ndarray:
    """Choose k experts a token, on at most M nodes.

    Args:
        scores: shape (T, E), at least 0; E is a multiple of ``num_nodes``.
        k: experts a token, a multiple of ``most_nodes``.
        most_nodes: M.

    Returns:
        Shape (T, k), int64: the experts, the best first; of equal scores the lower number first.

    A node is as good as the sum of its k / M best scores. A token takes the M best nodes (of equal
    ones the lower), and of the experts there the k best. With M = N it is plain top-k.

    Example: scores ``[[5, 0, 4, 3]]``, 2 nodes, k = 2, M = 1: node 0 is worth 5, node 1 is worth 7.
    The experts are ``[[2, 3]]``. Taking the best expert's node would give ``[[0, 1]]``.

    Raises:
        ValueError: k is no multiple of M, M nodes have fewer than k experts, or E is no multiple of
            ``num_nodes``.
    """
    ### BEGIN SOLUTION
    num_tokens, num_experts = scores.shape
    if num_experts % num_nodes or k % most_nodes:
        raise ValueError(
            f"{num_experts} experts on {num_nodes} nodes, and k ({k}) on {most_nodes}, must divide."
        )
    each = num_experts // num_nodes
    if each * most_nodes < k:
        raise ValueError(
            f"{most_nodes} nodes have {each * most_nodes} experts, fewer than k ({k})."
        )
    by_node = np.sort(scores.reshape(num_tokens, num_nodes, each), axis=2)
    worth = by_node[:, :, each - min(each, k // most_nodes) :].sum(axis=2)
    nodes = np.argsort(-worth, axis=1, kind="stable")[:, :most_nodes]
    allowed = np.zeros((num_tokens, num_nodes), bool)
    np.put_along_axis(allowed, nodes, True, axis=1)
    seen = np.where(np.repeat(allowed, each, axis=1), scores, -np.inf)
    return np.argsort(-seen, axis=1, kind="stable")[:, :k]
    ### END SOLUTION


def forward(
    comm: MPI.Comm,
    experts: list[Expert],
    x: np.ndarray,
    routing: Routing,
    num_experts: int,
    ranks_per_node: int,
) -> np.ndarray:
    """The layer's forward pass, on two levels.

    Args:
        comm: p = N g ranks.
        experts: this rank's.
        x: this rank's tokens, shape (T, d).
        routing: of these tokens. What isn't kept isn't sent.
        ranks_per_node: g.

    Returns:
        y, shape (T, d): for each token the sum of ``weight * expert(token)``.

    - Bytes between nodes: a token crosses once to each other node where an expert keeps it, and
      once back, each time d + 2 k elements at most; and 8 bytes of counts to each other node.
      Example: 100 tokens of 1024 elements in float32 with k = 8 on at most 2 nodes: at most
      100 * 2 * (1024 + 16) * 4 bytes each way. With one level it may be four times as much.
    - Between nodes only ranks of the same place send to each other.
    - Time on ``zaratan`` with many tokens: at most 1.7 times what the bytes between nodes take
      through the nodes' ports; half the points up to 2.4 times.
    """
    ### BEGIN SOLUTION
    k, d = routing.experts.shape[1], x.shape[1]
    node, place = divmod(comm.Get_rank(), ranks_per_node)
    num_nodes = comm.Get_size() // ranks_per_node
    each, own = num_experts // num_nodes, len(experts)
    across, inside = comm.Split(place, node), comm.Split(node, place)
    there = np.where(routing.kept, routing.experts // each, -1)
    token, to = np.nonzero((there[:, :, None] == np.arange(num_nodes)).any(axis=1))
    here = there[token] == to[:, None]
    numbers = np.where(here, routing.experts[token] % each, -1)
    weights = np.where(here, routing.weights[token], 0)
    rows, way = _swap(across, np.concatenate([x[token], numbers, weights], 1).astype(x.dtype), to)
    numbers, weights = rows[:, d : d + k].astype(int), rows[:, d + k :]
    row, choice = np.nonzero(numbers >= 0)
    asked = rows[row, : d + 1]
    asked[:, d] = numbers[row, choice] % own
    asked, way_inside = _swap(inside, asked, numbers[row, choice] // own)
    for number, expert in enumerate(experts):
        mine = asked[:, d] == number
        asked[mine, :d] = expert.forward(asked[mine, :d])[0]
    answers = _back(inside, asked, way_inside)[:, :d]
    rows[:, :d] = 0
    np.add.at(rows[:, :d], row, weights[row, choice][:, None] * answers)
    y = np.zeros_like(x)
    np.add.at(y, token, _back(across, rows, way)[:, :d])
    across.Free()
    inside.Free()
    return y


def _swap(comm, rows, dest):
    """Send each row to a rank; return what came, and the way back."""
    order, sent = np.argsort(dest, kind="stable"), np.bincount(dest, minlength=comm.Get_size())
    came = np.empty_like(sent)
    comm.Alltoall(sent, came)
    return _send(comm, rows[order], sent, came), (order, sent, came)


def _back(comm, rows, way):
    """The rows of ``_swap`` to where they came from, in their order there."""
    order, sent, came = way
    back = np.empty((len(order), rows.shape[1]), rows.dtype)
    back[order] = _send(comm, rows, came, sent)
    return back


def _send(comm, rows, sent, came):
    """Exchange rows that are sorted by rank."""
    here = np.empty((came.sum(), rows.shape[1]), rows.dtype)
    wide = rows.shape[1]
    comm.Alltoallv([np.ascontiguousarray(rows), sent * wide], [here, came * wide])
    return here
    ### END SOLUTION
