"""Lower-case calls: arrays come as objects, with their kind and number beside them."""

from model import loss, loss_gradient
from mpi4py import MPI


def run(comm, piece, params, batch_sizes, limit, inputs=None, targets=None):
    here, stages = comm.rank, comm.size
    waiting = {"F": {}, "B": {}}
    fresh = list(range(len(batch_sizes))) if here == 0 else []
    saved, requests, grads, value = {}, [], None, 0.0
    left = 2 * len(batch_sizes)
    while left:
        while comm.iprobe(source=MPI.ANY_SOURCE):
            kind, number, array = comm.recv(source=MPI.ANY_SOURCE)
            waiting[kind][number] = array
        if waiting["B"]:
            number = min(waiting["B"])
            grad, own = piece.backward(
                number, params, saved.pop(number), waiting["B"].pop(number)
            )
            grads = own if grads is None else [a + b for a, b in zip(grads, own)]
            if here:
                requests.append(comm.isend(("B", number, grad), here - 1))
        elif waiting["F"] or (fresh and len(saved) < limit):
            number = min(waiting["F"]) if waiting["F"] else fresh.pop(0)
            x = waiting["F"].pop(number) if here else inputs[number]
            y, saved[number] = piece.forward(number, params, x)
            if here < stages - 1:
                requests.append(comm.isend(("F", number, y), here + 1))
            else:
                part = batch_sizes[number] / sum(batch_sizes)
                value += part * loss(y, targets[number])
                waiting["B"][number] = part * loss_gradient(y, targets[number])
        else:
            comm.probe(source=MPI.ANY_SOURCE)
            continue
        left -= 1
    MPI.Request.waitall(requests)
    return (value if here == stages - 1 else None), grads
