"""Three phases, as Megatron-LM writes 1F1B, and the versions in a list whose old entries go."""

import numpy as np
from model import Piece, loss, loss_gradient
from mpi4py import MPI


class Stage:
    def __init__(self, comm, piece, params, batch_sizes, lr, inputs, targets, vertical_sync):
        self.comm, self.piece, self.lr = comm, piece, lr
        self.sizes, self.inputs, self.targets = batch_sizes, inputs, targets
        self.stage, self.last = comm.Get_rank(), comm.Get_size() - 1
        self.lag = self.last if vertical_sync else self.last - self.stage
        self.versions = [[np.copy(param) for param in params]]
        self.ends = params[0].shape[0], params[-1].shape[0]
        self.dtype = params[0].dtype
        self.kept, self.errors, self.losses = [], [], []
        self.coming_in, self.coming_back, self.going = [], [], []
        self.asked_in = self.asked_back = 0
        self.forwards = self.backwards = 0

    def ask_in(self):
        if self.stage > 0 and self.asked_in < len(self.sizes):
            box = np.empty((self.sizes[self.asked_in], self.ends[0]), self.dtype)
            self.coming_in.append((box, self.comm.Irecv(box, self.stage - 1)))
            self.asked_in += 1

    def ask_back(self):
        if self.stage < self.last and self.asked_back < len(self.sizes):
            box = np.empty((self.sizes[self.asked_back], self.ends[1]), self.dtype)
            self.coming_back.append((box, self.comm.Irecv(box, self.stage + 1)))
            self.asked_back += 1

    def taken(self, coming):
        box, request = coming.pop(0)
        request.Wait()
        return box

    def forward(self):
        t = self.forwards
        self.forwards += 1
        x = self.taken(self.coming_in) if self.stage > 0 else self.inputs[t]
        self.ask_in()
        y, saved = self.piece.forward(t, self.versions[max(0, t - self.lag)], x)
        self.kept.append(saved)
        if self.stage == self.last:
            self.losses.append(loss(y, self.targets[t]))
            self.errors.append(loss_gradient(y, self.targets[t]))
        else:
            self.going.append(self.comm.Isend(y, self.stage + 1))

    def backward(self):
        t = self.backwards
        self.backwards += 1
        at_end = self.stage == self.last
        grad = self.errors.pop(0) if at_end else self.taken(self.coming_back)
        self.ask_back()
        old = self.versions[max(0, t - self.lag)]
        grad, grads = self.piece.backward(t, old, self.kept.pop(0), grad)
        if self.stage > 0:
            self.going.append(self.comm.Isend(grad, self.stage - 1))
        self.versions.append([w - self.lr * g for w, g in zip(self.versions[-1], grads)])
        for version in range(max(0, t + 1 - self.lag)):
            self.versions[version] = None


def train(comm, piece, params, batch_sizes, lr, inputs=None, targets=None, *, vertical_sync=False):
    own = Stage(comm, piece, params, batch_sizes, lr, inputs, targets, vertical_sync)
    count = len(batch_sizes)
    warm_up = min(own.last - own.stage, count)
    own.ask_in()
    own.ask_back()
    for _ in range(warm_up):
        own.forward()
    for _ in range(count - warm_up):
        own.forward()
        own.backward()
    for _ in range(warm_up):
        own.backward()
    MPI.Request.Waitall(own.going)
    return own.versions[-1], own.losses if own.stage == own.last else None


def measured_training(comm, params, batch_sizes, lr, inputs, targets):
    piece = Piece(comm.Get_rank())
    params, _ = train(comm, piece, params, batch_sizes, lr, inputs, targets)
    return np.concatenate([param.reshape(-1) for param in params])
