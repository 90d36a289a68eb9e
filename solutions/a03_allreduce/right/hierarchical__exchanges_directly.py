"""On each level every rank sends each other one its shard at once, by non-blocking calls."""

import numpy as np
from mpi4py import MPI


def all_reduce(comm, x, ranks_per_node):
    rank, p = comm.Get_rank(), comm.Get_size()
    if p % ranks_per_node:
        raise ValueError(f"{p} ranks, {ranks_per_node} a node")
    node = [r for r in range(p) if r // ranks_per_node == rank // ranks_per_node]
    place = [r for r in range(p) if r % ranks_per_node == rank % ranks_per_node]
    mine = scattered(comm, np.array(x), node)
    mine = gathered(comm, scattered(comm, mine, place), len(mine), place)
    return gathered(comm, mine, len(x), node)


def scattered(comm, vector, group):
    parts = np.array_split(vector, len(group))
    at = group.index(comm.Get_rank())
    came = {r: np.empty_like(parts[at]) for r in group if r != comm.Get_rank()}
    requests = [comm.Irecv(buffer, r) for r, buffer in came.items()]
    for shift in range(1, len(group)):
        to = (at + shift) % len(group)
        requests.append(comm.Isend(parts[to], group[to]))
    MPI.Request.Waitall(requests)
    total = parts[at].copy()
    for buffer in came.values():
        total += buffer
    return total


def gathered(comm, part, n, group):
    whole = np.empty(n, part.dtype)
    at = group.index(comm.Get_rank())
    places = np.array_split(whole, len(group))
    places[at][:] = part
    requests = [comm.Irecv(places[k], r) for k, r in enumerate(group) if k != at]
    for shift in range(1, len(group)):
        requests.append(comm.Isend(part, group[(at + shift) % len(group)]))
    MPI.Request.Waitall(requests)
    return whole
