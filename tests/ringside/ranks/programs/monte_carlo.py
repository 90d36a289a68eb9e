"""Pi by darts: a master hands out seeds, workers ask for the next as soon as they have thrown."""

import numpy as np
from mpi4py import MPI

TASKS, DARTS = 12, 1000
WORK, DONE = 1, 2

comm = MPI.COMM_WORLD
if comm.rank == 0:
    status = MPI.Status()
    hits, working, next_task = {}, comm.size - 1, 0
    while working:
        comm.Probe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        answer = comm.recv(source=status.source, tag=status.tag)
        if answer is not None:
            hits.update(answer)
        if next_task < TASKS:
            comm.send(next_task, dest=status.source, tag=WORK)
            next_task += 1
        else:
            comm.send(None, dest=status.source, tag=DONE)
            working -= 1
    print(f"{len(hits)} tasks, pi is about {4 * sum(hits.values()) / (TASKS * DARTS):.6f}")
else:
    answer, status = None, MPI.Status()
    while True:
        comm.send(answer, dest=0, tag=WORK)
        seed = comm.recv(source=0, status=status)
        if status.tag == DONE:
            break
        x, y = np.random.default_rng(seed).random((2, DARTS))
        answer = {seed: int((x * x + y * y < 1).sum())}
comm.Barrier()
