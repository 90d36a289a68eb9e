"""One class for each way to wait, and matched probes."""

import numpy as np
from mpi4py import MPI
from wire import END, PULL, PUSH, STATE


class Asynchronous:
    def __init__(self, workers):
        self.clocks = {worker: 0 for worker in workers}
        self.gradients = []

    def may_start(self, worker):
        return True

    def may_apply(self):
        return bool(self.gradients)


class Stale(Asynchronous):
    def __init__(self, workers, staleness):
        super().__init__(workers)
        self.staleness = staleness

    def may_start(self, worker):
        return all(self.clocks[worker] <= c + self.staleness for c in self.clocks.values())


class Rounds(Asynchronous):
    rounds = 0

    def may_start(self, worker):
        return self.clocks[worker] == self.rounds

    def may_apply(self):
        if not self.gradients or any(clock == self.rounds for clock in self.clocks.values()):
            return False
        self.rounds += 1
        return True


def serve(comm, weights, update, staleness):
    workers = range(1, comm.size)
    if staleness is None:
        rule = Asynchronous(workers)
    elif staleness < 0:
        raise ValueError("staleness")
    else:
        rule = Stale(workers, staleness) if staleness else Rounds(workers)
    state, version, queue = np.copy(weights), 0, []
    while rule.clocks:
        status = MPI.Status()
        message = comm.Mprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        body = np.empty(status.Get_count(MPI.DOUBLE))
        message.Recv(body)
        if status.tag == PULL:
            queue.append(status.source)
        if status.tag == PUSH:
            rule.clocks[status.source] += 1
            rule.gradients.append(body[1:])
        if status.tag == END:
            del rule.clocks[status.source]
        if rule.may_apply():
            state = update(state, np.stack(rule.gradients).mean(axis=0))
            version += 1
            rule.gradients.clear()
        for worker in [each for each in queue if rule.may_start(each)]:
            queue.remove(worker)
            comm.Send(np.hstack([version, state]), worker, STATE)
    return state


def work(comm, gradient, num_steps):
    if num_steps < 0:
        raise ValueError("num_steps")
    status = MPI.Status()

    def one(step):
        comm.Send(np.empty(0), 0, PULL)
        message = comm.Mprobe(0, STATE, status)
        body = np.empty(status.Get_count(MPI.DOUBLE))
        message.Recv(body)
        comm.Send(np.hstack([body[0], gradient(body[1:], step)]), 0, PUSH)
        return int(body[0])

    versions = [one(step) for step in range(num_steps)]
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
