"""The server polls with Iprobe for each tag, and answers from a heap of clocks."""

import heapq

import numpy as np
from mpi4py import MPI
from wire import END, PULL, PUSH, STATE, receive, send


def serve(comm, weights, update, staleness):
    if staleness is not None and not staleness >= 0:
        raise ValueError("staleness")
    working = set(range(1, comm.Get_size()))
    clock = [0] * comm.Get_size()
    state, version, rounds, asked = np.array(weights), 0, {}, []
    while working:
        status = MPI.Status()
        if not comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status):
            continue
        source, tag, _, array = receive(comm, status.Get_source(), status.Get_tag())
        if tag == END:
            working.discard(source)
        elif tag == PUSH:
            rounds.setdefault(clock[source] if staleness == 0 else -1, {})[source] = array
            clock[source] += 1
        else:
            heapq.heappush(asked, (clock[source], source))
        for number in sorted(rounds):
            if staleness == 0 and any(clock[each] <= number for each in working):
                continue
            arrays = [array for _, array in sorted(rounds.pop(number).items())]
            state, version = update(state, sum(arrays) / len(arrays)), version + 1
        slowest = min((clock[each] for each in working), default=0)
        while asked and (staleness is None or asked[0][0] - slowest <= staleness):
            send(comm, heapq.heappop(asked)[1], STATE, version, state)
    return state


def work(comm, gradient, num_steps):
    if num_steps < 0:
        raise ValueError("num_steps")
    versions = []
    while len(versions) < num_steps:
        send(comm, 0, PULL)
        version, weights = receive(comm, 0, STATE)[2:]
        send(comm, 0, PUSH, version, gradient(weights, len(versions)))
        versions.append(version)
    send(comm, 0, END)
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
