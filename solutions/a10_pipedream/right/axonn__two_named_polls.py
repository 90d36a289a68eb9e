"""Each neighbour is asked by name, the next stage first; one message is taken and computed."""

import numpy as np
from model import loss, loss_gradient
from mpi4py import MPI


def run(comm, piece, params, batch_sizes, limit, inputs=None, targets=None):
    stage, num_stages, total = comm.Get_rank(), comm.Get_size(), sum(batch_sizes)
    status, sends, saved = MPI.Status(), [], {}
    begun = done = 0
    grads, value = [0 * each for each in params], 0.0

    def receive(source, width):
        microbatch = status.Get_tag()
        array = np.empty((batch_sizes[microbatch], width), params[0].dtype)
        comm.Recv(array, source=source, tag=microbatch)
        return microbatch, array

    def backward(microbatch, grad):
        nonlocal done
        grad, own = piece.backward(microbatch, params, saved.pop(microbatch), grad)
        for a, b in zip(grads, own):
            a += b
        done += 1
        if stage > 0:
            sends.append(comm.Isend(grad, dest=stage - 1, tag=microbatch))

    while done < len(batch_sizes):
        if stage < num_stages - 1 and comm.Iprobe(source=stage + 1, status=status):
            backward(*receive(stage + 1, params[-1].size))
            continue
        if stage == 0 and begun < len(batch_sizes) and begun - done < limit:
            microbatch, x = begun, inputs[begun]
        elif stage > 0 and comm.Iprobe(source=stage - 1, status=status):
            microbatch, x = receive(stage - 1, len(params[0]))
        else:
            continue
        y, saved[microbatch] = piece.forward(microbatch, params, x)
        begun += 1
        if stage == num_stages - 1:
            value += len(y) * loss(y, targets[microbatch]) / total
            backward(microbatch, len(y) / total * loss_gradient(y, targets[microbatch]))
        else:
            sends.append(comm.Isend(y, dest=stage + 1, tag=microbatch))
    MPI.Request.Waitall(sends)
    return (value if stage == num_stages - 1 else None), grads
