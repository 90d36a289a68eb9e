# fails: test_no_stage_waits_while_there_is_work
# earns: 10 to 35
"""1F1B: each stage waits for the message of the pass that stands next in its list."""

import numpy as np
from given.model import loss, loss_gradient
from mpi4py import MPI


def run(comm, piece, params, batch_sizes, limit, inputs=None, targets=None):
    num_stages, stage = comm.Get_size(), comm.Get_rank()
    count, total = len(batch_sizes), 0.0
    ahead = min(num_stages - stage - 1, limit - 1, count)
    order = [("F", m) for m in range(ahead)]
    for m in range(count):
        order += ([("F", m + ahead)] if m + ahead < count else []) + [("B", m)]
    grads, saved, sending, own = [np.zeros_like(each) for each in params], {}, [], {}

    def receive(source, microbatch, width):
        array = np.empty((batch_sizes[microbatch], width), params[0].dtype)
        comm.Recv(array, source, microbatch)
        return array

    for kind, m in order:
        if kind == "F":
            x = inputs[m] if stage == 0 else receive(stage - 1, m, params[0].shape[0])
            y, saved[m] = piece.forward(m, params, x)
            if stage < num_stages - 1:
                sending.append(comm.Isend(y, stage + 1, m))
            else:
                share = batch_sizes[m] / sum(batch_sizes)
                total += share * loss(y, targets[m])
                own[m] = share * loss_gradient(y, targets[m])
        else:
            last = stage == num_stages - 1
            grad = own.pop(m) if last else receive(stage + 1, m, params[-1].shape[0])
            grad, found = piece.backward(m, params, saved.pop(m), grad)
            grads = [a + b for a, b in zip(grads, found)]
            if stage > 0:
                sending.append(comm.Isend(grad, stage - 1, m))
    MPI.Request.Waitall(sending)
    return (total if stage == num_stages - 1 else None), grads
