"""Lower-case calls: the number of the version travels with each activation."""

import numpy as np
from model import Piece, loss, loss_gradient


def train(comm, piece, params, batch_sizes, lr, inputs=None, targets=None, *, vertical_sync=False):
    num_stages, stage = comm.Get_size(), comm.Get_rank()
    count, last = len(batch_sizes), stage == num_stages - 1
    versions, used, saved, losses, sends = [[np.array(p) for p in params]], {}, {}, [], []
    activations, gradients = [], []
    if stage > 0:
        activations = [comm.irecv(source=stage - 1, tag=1) for _ in range(count)]
    if not last:
        gradients = [comm.irecv(source=stage + 1, tag=2) for _ in range(count)]

    def forward(t):
        if stage == 0:
            x, version = inputs[t], len(versions) - 1
        else:
            x, version = activations[t].wait()
        if not vertical_sync:
            version = len(versions) - 1
        used[t] = version
        y, saved[t] = piece.forward(t, versions[version], x)
        if last:
            losses.append(loss(y, targets[t]))
            saved["error", t] = loss_gradient(y, targets[t])
        else:
            sends.append(comm.isend((y, version), dest=stage + 1, tag=1))

    def backward(t):
        grad_y = saved.pop(("error", t)) if last else gradients[t].wait()
        version = used.pop(t)
        grad_x, grads = piece.backward(t, versions[version], saved.pop(t), grad_y)
        if stage > 0:
            sends.append(comm.isend(grad_x, dest=stage - 1, tag=2))
        versions.append([w - lr * g for w, g in zip(versions[-1], grads)])
        oldest = max(0, len(versions) - num_stages) if vertical_sync else min(
            used.values(), default=len(versions) - 1
        )
        for version in range(oldest):
            versions[version] = None

    most = num_stages - stage
    for t in range(min(most, count)):
        forward(t)
    for t in range(count):
        backward(t)
        if t + most < count:
            forward(t + most)
    for send in sends:
        send.wait()
    return versions[-1], losses if last else None


def measured_training(comm, params, batch_sizes, lr, inputs, targets):
    piece = Piece(comm.Get_rank())
    params, _ = train(comm, piece, params, batch_sizes, lr, inputs, targets)
    return np.concatenate([param.reshape(-1) for param in params])
