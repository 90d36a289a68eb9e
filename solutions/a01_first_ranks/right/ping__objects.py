"""Lower-case calls, and a clock for every trip."""

from mpi4py import MPI


def bounce(comm, x, repetitions, partner=1):
    me = comm.rank
    result = None
    if comm.size > 1 and me == 0:
        result = x.copy()
        for k in range(repetitions):
            comm.send(result, partner, tag=k)
            result = comm.recv(source=partner, tag=k)
    elif comm.size > 1 and me == partner:
        for k in range(repetitions):
            comm.send(comm.recv(source=0, tag=k), 0, tag=k)
    return result


def ping(comm, nbytes, repetitions, partner=1):
    if comm.size == 1 or comm.rank not in (0, partner):
        return None
    ball, times = bytes(nbytes), []
    for _ in range(repetitions + 1):
        start = MPI.Wtime()
        if comm.rank == 0:
            comm.send(ball, dest=partner)
            ball = comm.recv(source=partner)
        else:
            comm.send(comm.recv(source=0), dest=0)
        times.append(MPI.Wtime() - start)
    return sum(times[1:]) / repetitions / 2 if comm.rank == 0 else None
