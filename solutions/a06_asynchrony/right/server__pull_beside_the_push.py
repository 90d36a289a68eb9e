"""A worker starts its next pull together with its push; the server keeps lists by rank."""

import numpy as np
from mpi4py import MPI
from wire import END, PULL, PUSH, STATE, receive, send


def serve(comm, weights, update, staleness):
    if staleness is not None and staleness < 0:
        raise ValueError("staleness")
    p = comm.Get_size()
    clocks = np.zeros(p)
    clocks[0] = np.inf
    steps_of, waiting = np.zeros(p, dtype=int), []
    version, weights, total, count = 0, weights + 0.0, 0.0, 0
    while np.isfinite(clocks).any():
        rank, tag, _, array = receive(comm)
        if tag == PUSH:
            clocks[rank] += 1
            steps_of[rank] += 1
            total, count = total + array, count + 1
        if tag == END:
            clocks[rank] = np.inf
        if tag == PULL:
            waiting.append(rank)
        if count and (staleness != 0 or clocks.min() > version):
            weights = update(weights, total / count)
            version, total, count = version + 1, 0.0, 0
        held = []
        for rank in waiting:
            if staleness is None or steps_of[rank] - clocks.min() <= staleness:
                send(comm, rank, STATE, version, weights)
            else:
                held.append(rank)
        waiting = held
    return weights


def work(comm, gradient, num_steps):
    if num_steps < 0:
        raise ValueError("num_steps")
    empty, versions = np.empty(0), []
    if num_steps:
        comm.Send(empty, 0, PULL)
    for step in range(num_steps):
        _, _, version, weights = receive(comm, 0, STATE)
        versions.append(version)
        body = np.concatenate([[version], gradient(weights, step)])
        requests = [comm.Isend(body, 0, PUSH)]
        if step + 1 < num_steps:
            requests.append(comm.Isend(empty, 0, PULL))
        MPI.Request.Waitall(requests)
    comm.Send(empty, 0, END)
    return versions


def measured_training(comm, matrix, targets, staleness, slow):
    comm.Barrier()  # a training before this one is over on all ranks
    if comm.Get_rank() == 0:
        weights = np.zeros(len(matrix))
        return serve(comm, weights, lambda weights, gradient: weights - gradient, staleness)

    def gradient(weights, step):
        for _ in range(slow if comm.Get_rank() == 1 else 1):
            matrix @ matrix
        return targets[step]

    return len(work(comm, gradient, len(targets)))
