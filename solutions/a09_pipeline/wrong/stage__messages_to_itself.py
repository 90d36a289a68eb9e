# fails: test_messages_go_to_neighbours_only
"""On one stage the chunks send each other messages."""

import numpy as np
from actions import Backward, BackwardInput, Forward
from model import loss, loss_gradient
from mpi4py import MPI


def run(comm, pieces, actions, batch_sizes, inputs=None, targets=None):
    num_stages, stage = (comm.Get_size(), comm.Get_rank())
    last = num_stages * len(pieces) - 1
    batch_size = sum(batch_sizes)
    saved, pending = ({}, {})
    here = {}
    arriving, sending = ({}, [])
    total = 0.0

    def place(action):
        piece = action.chunk * num_stages + stage
        if isinstance(action, Forward):
            return ("activation", piece - 1) if piece else None
        if isinstance(action, Backward | BackwardInput):
            return ("gradient", piece + 1) if piece < last else None
        return None

    def tag(kind, piece, microbatch):
        return 2 * (microbatch * (last + 1) + piece) + (kind == "gradient")

    def expect(action):
        needs = place(action)
        if needs is None or action in arriving:
            return
        kind, piece = needs
        own = pieces[action.chunk]
        width = own.width_in if kind == "activation" else own.width_out
        buffer = np.empty((batch_sizes[action.microbatch], width), own.dtype)
        source = piece % num_stages
        request = comm.Irecv(buffer, source, tag(kind, piece, action.microbatch))
        arriving[action] = (buffer, request)

    def take(action):
        kind, piece = place(action)
        if num_stages == 0:
            return here.pop((kind, piece, action.microbatch))
        buffer, request = arriving.pop(action)
        request.Wait()
        return buffer

    def give(kind, piece, microbatch, array):
        if num_stages == 0:
            here[kind, piece, microbatch] = array
            return
        dest = (piece + (1 if kind == "activation" else -1)) % num_stages
        sending.append(comm.Isend(array, dest, tag(kind, piece, microbatch)))

    for action, following in zip(actions, [*actions[1:], None], strict=True):
        chunk, microbatch = key = (action.chunk, action.microbatch)
        own, piece = (pieces[chunk], chunk * num_stages + stage)
        expect(action)
        incoming = take(action) if place(action) else None
        if following is not None:
            expect(following)
        if isinstance(action, Forward):
            x = inputs[microbatch] if piece == 0 else incoming
            y, saved[key] = own.forward(microbatch, x)
            if piece < last:
                give("activation", piece, microbatch, y)
            else:
                total += loss(y, targets[microbatch], batch_size)
                here[key] = loss_gradient(y, targets[microbatch], batch_size)
            continue
        if isinstance(action, Backward | BackwardInput):
            grad_y = here.pop(key) if piece == last else incoming
            if isinstance(action, Backward):
                grad_x = own.backward(microbatch, saved.pop(key), grad_y)
            else:
                grad_x, pending[key] = own.backward_input(microbatch, saved.pop(key), grad_y)
            if piece > 0:
                give("gradient", piece, microbatch, grad_x)
            continue
        own.backward_weight(microbatch, pending.pop(key))
    MPI.Request.Waitall(sending)
    return total if stage == num_stages - 1 else None
