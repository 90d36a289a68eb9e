# fails: test_schedules_that_nobody_teaches
"""The second halves are found by microbatch, without the chunk."""

import numpy as np
from actions import Backward, BackwardInput, BackwardWeight, Forward, parse
from model import Piece, loss, loss_gradient
from mpi4py import MPI


class Mail:
    """Receives, sends, and what stays here."""

    def __init__(self, comm, pieces, batch_sizes):
        self.comm, self.pieces, self.sizes = comm, pieces, batch_sizes
        self.s, self.size, self.last = (
            comm.Get_rank(),
            comm.Get_size(),
            len(pieces) * comm.Get_size() - 1,
        )
        self.open, self.sends, self.here = {}, [], {}

    def tag(self, back, piece, m):
        return (piece * len(self.sizes) + m) * 2 + back

    def source(self, a):
        k = a.chunk * self.size + self.s
        if isinstance(a, BackwardWeight):
            return None
        if isinstance(a, Forward):
            return k - 1 if k else None
        return k + 1 if k < self.last else None

    def expect(self, a):
        src = self.source(a)
        if src is None or self.size == 1 or a in self.open:
            return
        back, piece = not isinstance(a, Forward), self.pieces[a.chunk]
        buf = np.empty(
            (self.sizes[a.microbatch], piece.width_out if back else piece.width_in), piece.dtype
        )
        t = self.tag(back, a.chunk * self.size + self.s, a.microbatch)
        self.open[a] = self.comm.Irecv(buf, src % self.size, t), buf

    def get(self, a):
        if self.size == 1:
            return self.here.pop(
                self.tag(not isinstance(a, Forward), a.chunk * self.size + self.s, a.microbatch)
            )
        self.expect(a)
        request, buf = self.open.pop(a)
        request.Wait()
        return buf

    def put(self, a, to, what):
        t = self.tag(not isinstance(a, Forward), to, a.microbatch)
        if self.size == 1:
            self.here[t] = what
        else:
            self.sends.append(self.comm.Isend(what, to % self.size, t))

    def close(self):
        MPI.Request.Waitall(self.sends)


def run(comm, pieces, actions, batch_sizes, inputs=None, targets=None):
    mail = Mail(comm, pieces, batch_sizes)
    total, saved, pending, grads, value = sum(batch_sizes), {}, {}, {}, 0.0
    for i, a in enumerate(actions):
        k, m, piece, key = (
            a.chunk * mail.size + mail.s,
            a.microbatch,
            pieces[a.chunk],
            (a.microbatch, a.chunk),
        )
        x = mail.get(a) if mail.source(a) is not None else None
        for nxt in actions[i + 1 : i + 2]:
            mail.expect(nxt)
        if isinstance(a, Forward):
            y, saved[key] = piece.forward(m, inputs[m] if k == 0 else x)
            if k == mail.last:
                value += loss(y, targets[m], total)
                grads[key] = loss_gradient(y, targets[m], total)
            else:
                mail.put(a, k + 1, y)
        elif isinstance(a, BackwardWeight):
            piece.backward_weight(m, pending.pop(m))
        else:
            g = grads.pop(key) if k == mail.last else x
            if isinstance(a, Backward):
                g = piece.backward(m, saved.pop(key), g)
            else:
                g, pending[m] = piece.backward_input(m, saved.pop(key), g)
            if k > 0:
                mail.put(a, k - 1, g)
        x = y = g = None
    mail.close()
    return value if mail.s == mail.size - 1 else None


def measured_step(comm, params, words, batch_sizes, inputs, targets):
    piece = Piece(params, comm.Get_rank())
    run(comm, [piece], parse(words), batch_sizes, inputs, targets)
    return piece.grads
