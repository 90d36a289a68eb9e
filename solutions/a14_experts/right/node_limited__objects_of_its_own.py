"""Dictionaries of rows, messages of its own, and heaps for the choice."""

import heapq

import numpy as np
from mpi4py import MPI


def choose(scores, k, num_nodes, most_nodes):
    num_tokens, num_experts = scores.shape
    each, rest = divmod(num_experts, num_nodes)
    if rest or k % most_nodes or most_nodes * each < k:
        raise ValueError(f"k = {k} on {most_nodes} of {num_nodes} nodes, {num_experts} experts")
    found = np.zeros((num_tokens, k), np.int64)
    for t, own in enumerate(scores):
        worth = [sum(heapq.nlargest(k // most_nodes, own[n * each : (n + 1) * each]))
                 for n in range(num_nodes)]  # fmt: skip
        nodes = heapq.nsmallest(most_nodes, range(num_nodes), key=lambda n: (-worth[n], n))
        there = [e for e in range(num_experts) if e // each in nodes]
        found[t] = heapq.nsmallest(k, there, key=lambda e: (-own[e], e))
    return found


def swap(comm, out):
    """Lists of rows for each rank: what came from each."""
    p, me = comm.size, comm.rank
    sizes = np.array([len(each) for each in out])
    came = np.zeros_like(sizes)
    comm.Alltoall(sizes, came)
    into = [np.empty((n, out[0].shape[1]), out[0].dtype) for n in came]
    into[me][...] = out[me]
    out = [np.ascontiguousarray(each) for each in out]
    todo = [comm.Irecv(into[r], r) for r in range(p) if r != me and came[r]]
    todo += [comm.Isend(out[r], r) for r in range(p) if r != me and sizes[r]]
    MPI.Request.Waitall(todo)
    return into


def give(comm, parts, sizes):
    """The same rows back; everybody knows how many."""
    p, me = comm.size, comm.rank
    into = [np.empty((n, parts[0].shape[1]), parts[0].dtype) for n in sizes]
    into[me][...] = parts[me]
    parts = [np.ascontiguousarray(each) for each in parts]
    todo = [comm.Irecv(into[r], r) for r in range(p) if r != me and sizes[r]]
    todo += [comm.Isend(parts[r], r) for r in range(p) if r != me and len(parts[r])]
    MPI.Request.Waitall(todo)
    return into


def forward(comm, experts, x, routing, num_experts, ranks_per_node):
    d, p, me = x.shape[1], comm.size, comm.rank
    nodes, here, place = p // ranks_per_node, me // ranks_per_node, me % ranks_per_node
    across, inside = comm.Split(place, me), comm.Split(here, me)
    per_node, per_rank = num_experts // nodes, num_experts // p
    index, packed = [], []
    for node in range(nodes):
        on = routing.kept & (routing.experts // per_node == node)
        index.append(np.flatnonzero(on.any(axis=1)))
        gate = np.where(on, routing.experts, -1)[index[-1]]
        shares = np.where(on, routing.weights, 0)[index[-1]]
        packed.append(np.hstack([x[index[-1]], gate, shares]).astype(x.dtype))
    k = routing.experts.shape[1]
    came = swap(across, packed)
    rows = np.concatenate(came)
    gate, shares = rows[:, d : d + k].astype(int), rows[:, d + k :]
    pairs, wanted = [], []
    for rank in range(ranks_per_node):
        owner = here * ranks_per_node + rank
        own = np.argwhere((gate >= 0) & (gate // per_rank == owner))
        pairs.append(own)
        asked = rows[own[:, 0], : d + 1].copy()
        asked[:, d] = gate[own[:, 0], own[:, 1]]
        wanted.append(asked)
    asked = swap(inside, wanted)
    for part in asked:
        for number in np.unique(part[:, d]):
            mine = part[:, d] == number
            part[mine, :d] = experts[int(number) - me * per_rank].forward(part[mine, :d])[0]
    answers = give(inside, [part[:, :d] for part in asked], [len(own) for own in pairs])
    sums = np.zeros((len(rows), d), x.dtype)
    for own, part in zip(pairs, answers, strict=True):
        np.add.at(sums, own[:, 0], shares[own[:, 0], own[:, 1]][:, None] * part)
    cuts = np.cumsum([len(part) for part in came])[:-1]
    y = np.zeros_like(x)
    home = give(across, np.split(sums, cuts), [len(each) for each in index])
    for each, part in zip(index, home, strict=True):
        y[each] += part
    return y
