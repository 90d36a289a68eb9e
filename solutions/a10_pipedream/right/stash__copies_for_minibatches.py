"""Live weights are changed in place; each minibatch in flight has a copy of its own."""

import numpy as np
from model import Piece, loss, loss_gradient
from mpi4py import MPI


def train(comm, piece, params, batch_sizes, lr, inputs=None, targets=None, *, vertical_sync=False):
    num_stages, stage, count = comm.size, comm.rank, len(batch_sizes)
    up = stage - 1 if stage > 0 else MPI.PROC_NULL
    down = stage + 1 if stage + 1 < num_stages else MPI.PROC_NULL
    live = [param.copy() for param in params]
    old = [[param.copy() for param in params]]  # of vertical sync alone: the last S versions
    boxes, stash, requests, losses = {}, {}, [], []

    def post(t):
        if t < count:
            x = np.empty((batch_sizes[t], params[0].shape[0]), live[0].dtype)
            grad = np.empty((batch_sizes[t], params[-1].shape[0]), live[0].dtype)
            boxes[t] = x, comm.Irecv(x, up), grad, comm.Irecv(grad, down)

    def forward(t):
        post(t + 1)
        boxes[t][1].Wait()
        x = inputs[t] if stage == 0 else boxes[t][0]
        if vertical_sync:
            weights = old[max(0, t - num_stages + 1) - shifted()]
        else:
            weights = [w.copy() for w in live]
        y, saved = piece.forward(t, weights, x)
        requests.append(comm.Isend(y, down))
        if down == MPI.PROC_NULL:
            losses.append(loss(y, targets[t]))
            y = loss_gradient(y, targets[t])
        stash[t] = weights, saved, y

    updates = [0]

    def shifted():
        return updates[0] + 1 - len(old)

    def backward(t):
        _, _, grad, request = boxes.pop(t)
        request.Wait()
        weights, saved, error = stash.pop(t)
        grad = error if down == MPI.PROC_NULL else grad
        grad, grads = piece.backward(t, weights, saved, grad)
        requests.append(comm.Isend(grad, up))
        updates[0] += 1
        for w, g in zip(live, grads):
            g *= lr
            w -= g
        if vertical_sync:
            del weights, grads
            if len(old) == num_stages:
                old.pop(0)
            old.append([w.copy() for w in live])

    post(0)
    ahead = num_stages - stage
    for t in range(min(ahead, count)):
        forward(t)
    for t in range(count):
        backward(t)
        if t + ahead < count:
            forward(t + ahead)
    MPI.Request.Waitall(requests)
    return live, losses if down == MPI.PROC_NULL else None


def measured_training(comm, params, batch_sizes, lr, inputs, targets):
    piece = Piece(comm.Get_rank())
    params, _ = train(comm, piece, params, batch_sizes, lr, inputs, targets)
    return np.concatenate([param.reshape(-1) for param in params])
