"""One receive for each worker is always open; answers are sent without waiting for them."""

import numpy as np
from mpi4py import MPI
from wire import END, PULL, PUSH, STATE


def serve(comm, weights, update, staleness):
    if staleness is not None and staleness < 0:
        raise ValueError("staleness")
    workers = list(range(1, comm.Get_size()))
    buffers = {each: np.empty(len(weights) + 1) for each in workers}
    requests = [comm.Irecv(buffers[each], each) for each in workers]
    clocks, waiting, pending, answers = dict.fromkeys(workers, 0), [], [], []
    version, weights = 0, np.array(weights)
    while clocks:
        status = MPI.Status()
        place = MPI.Request.Waitany(requests, status)
        worker, tag = workers[place], status.Get_tag()
        if tag == END:
            clocks.pop(worker)
        else:
            if tag == PULL:
                waiting.append(worker)
            else:
                clocks[worker] += 1
                pending.append(buffers[worker][1:].copy())
            requests[place] = comm.Irecv(buffers[worker], worker)
        slowest = min(clocks.values(), default=np.inf)
        if pending and (staleness != 0 or slowest > version):
            weights = update(weights, sum(pending) / len(pending))
            version, pending = version + 1, []
        free = [w for w in waiting if staleness is None or clocks[w] <= slowest + staleness]
        waiting = [w for w in waiting if w not in free]
        for each in free:
            body = np.array([float(version), *weights])
            answers.append((comm.Isend(body, each, STATE), body))
    MPI.Request.Waitall([request for request, _ in answers])
    return weights


def work(comm, gradient, num_steps):
    if num_steps < 0:
        raise ValueError("num_steps")
    versions, status = [], MPI.Status()
    for step in range(num_steps):
        comm.Send(np.empty(0), 0, PULL)
        comm.Probe(0, STATE, status)
        body = np.empty(status.Get_count(MPI.DOUBLE))
        comm.Recv(body, 0, STATE)
        versions.append(int(body[0]))
        comm.Send(np.append(body[:1], gradient(body[1:], step)), 0, PUSH)
    comm.Send(np.empty(0), 0, END)
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
