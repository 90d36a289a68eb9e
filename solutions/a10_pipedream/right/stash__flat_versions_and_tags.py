"""A ring of flat vectors as versions, tags that name the minibatch, and synchronous sends."""

import numpy as np
from model import Piece, loss, loss_gradient


def _views(flat, shapes):
    parts, start = [], 0
    for shape in shapes:
        size = int(np.prod(shape))
        parts.append(flat[start : start + size].reshape(shape))
        start += size
    return parts


def _turns(count, most):
    forward = backward = 0
    while backward < count:
        if forward < count and forward < backward + most:
            yield True, forward
            forward += 1
        else:
            yield False, backward
            backward += 1


def train(comm, piece, params, batch_sizes, lr, inputs=None, targets=None, *, vertical_sync=False):
    num_stages, stage = comm.Get_size(), comm.Get_rank()
    shapes, dtype, count = [p.shape for p in params], params[0].dtype, len(batch_sizes)
    slots = num_stages if vertical_sync else num_stages - stage
    ring = np.zeros((slots, sum(p.size for p in params)), dtype)
    ring[0] = np.concatenate([p.ravel() for p in params])
    first, last = stage == 0, stage == num_stages - 1
    posted = {}
    for t in range(count):
        if not first:
            box = np.empty((batch_sizes[t], shapes[0][0]), dtype)
            posted[True, t] = box, comm.Irecv(box, stage - 1, 2 * t)
        if not last:
            box = np.empty((batch_sizes[t], shapes[-1][0]), dtype)
            posted[False, t] = box, comm.Irecv(box, stage + 1, 2 * t + 1)
    under_way, sent, losses = {}, {}, []
    for goes_forward, t in _turns(count, num_stages - stage):
        version = _views(ring[max(0, t - slots + 1) % slots], shapes)
        if (goes_forward, t) in posted:
            given, request = posted.pop((goes_forward, t))
            request.wait()
        elif goes_forward:
            given = inputs[t]
        else:
            given = loss_gradient(under_way[t][0], targets[t])
        if goes_forward:
            under_way[t] = piece.forward(t, version, given)
            if last:
                losses.append(loss(under_way[t][0], targets[t]))
            else:
                sent[t] = comm.Issend(under_way[t][0], stage + 1, 2 * t)
            continue
        if not last:
            sent.pop(t).Wait()  # its gradient is here, so it was received
        grad_x, grads = piece.backward(t, version, under_way.pop(t)[1], given)
        step = np.concatenate([g.ravel() for g in grads])
        step *= lr
        np.subtract(ring[t % slots], step, out=ring[(t + 1) % slots])
        if not first:
            sent["gradient", t] = comm.Issend(grad_x, stage - 1, 2 * t + 1)
    for request in sent.values():
        request.Wait()
    return [view.copy() for view in _views(ring[count % slots], shapes)], losses if last else None


def measured_training(comm, params, batch_sizes, lr, inputs, targets):
    piece = Piece(comm.Get_rank())
    params, _ = train(comm, piece, params, batch_sizes, lr, inputs, targets)
    return np.concatenate([param.reshape(-1) for param in params])
