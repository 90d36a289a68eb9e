r"""The interpreter: one stage of a pipeline runs its list of actions, whatever the schedule.

    stage 0   F0 ------> F1 ------> F2   ...  B0          -> activations, to the stage of the
                 \          \               /              next piece, after each forward pass
    stage 1       F0 ------> F1 ... B0 ----            <- gradients, to the stage of the piece
                                                          before, after Backward or BackwardInput

Rank s of ``comm`` is stage s of S. With v pieces on each stage, piece ``chunk * S + s`` of the
model is ``pieces[chunk]`` of rank s. Piece 0 takes its input from ``inputs``; the last piece makes
the output, and from it and ``targets`` the loss.

Every legal schedule must run: GPipe, 1F1B, interleaved, backward passes in two halves, or one that
nobody has thought of yet. So two stages may take microbatches in different orders: give each
message a tag that says what it holds. A legal schedule is one in which everything that an action
needs is made by an action that doesn't wait for it.
"""

from itertools import zip_longest

import numpy as np
from given.actions import Backward, BackwardInput, BackwardWeight, Forward, parse
from given.model import Piece, loss, loss_gradient
from mpi4py import MPI


def run(
    comm: MPI.Comm,
    pieces: list[Piece],
    actions: list,
    batch_sizes: list[int],
    inputs: list[np.ndarray] | None = None,
    targets: list[np.ndarray] | None = None,
) -> float | None:
    """Run this stage's part of one training step.

    Args:
        comm: the stages, in order; S >= 1 of them. Only point-to-point calls may be used, and no
            communicator is made.
        pieces: this stage's pieces of the model (``given.model.Piece``), one for each chunk; all
            ranks have equally many. Their ``grads`` are zero.
        actions: what this stage does, in this order (``given/actions.py``).
        batch_sizes: samples of each microbatch, on all ranks; at least one each. They may differ.
        inputs: on stage 0 a list of one array per microbatch, shape ``(samples, width)``; else
            None.
        targets: on stage S - 1 likewise; else None.

    Returns:
        On stage S - 1 the loss of the whole batch, a float; on the others None. Every piece's
        ``grads`` hold the gradient of that loss: half the mean of ``|output - target|^2`` over
        all samples of all microbatches.

    Schedule: the passes are computed in the order of ``actions``, each once. A pass begins when
    what it needs has come.
    Bounds, with an example for S = 3, M = 4 and one chunk:

    - Messages: one for each forward pass but those of the last piece, and one for each backward
      pass but those of piece 0. Stages 0, 1 and 2 send at most 4, 8 and 4.
    - Bytes: a message holds an activation or its gradient, and 1 KiB of envelope is free. It goes
      to the rank of the next piece or of the piece before, never to the rank itself.
    - Memory, at any time: (1) what forward passes saved, until the microbatch's ``Backward`` (or
      ``BackwardInput``, whose ``pending`` is kept until ``BackwardWeight``), (2) all bytes that the
      rank sends and receives during the step, (3) three times what one microbatch saves, (4) twice
      the parameters, (5) 64 KiB. Stage 1 under 1F1B has at most 2 microbatches in flight. If each
      saves 100 kB, a message has 10 kB and the parameters 50 kB, it may hold
      200 + 160 + 300 + 100 kB and 64 KiB.
    - Time: at most 1.02 times that of an interpreter that waits for its sends at the end only,
      and posts the receive for the next action before it computes the present one. Half the points
      up to 1.5 times.

    Source: Huang et al., GPipe, NeurIPS 2019; Narayanan et al., SC 2021, section 2.2; Qi et al.,
    Zero Bubble Pipeline Parallelism, ICLR 2024 (the two halves).
    """
    ### BEGIN SOLUTION
    stage = _Stage(comm, pieces, batch_sizes, inputs, targets)
    stage.expect(actions[0])
    for action, following in zip_longest(actions, actions[1:]):
        arrived = stage.take(action)
        if following is not None:  # its message may come while this action computes
            stage.expect(following)
        if isinstance(action, Forward):
            stage.forward(action, arrived)
        elif isinstance(action, BackwardWeight):
            stage.backward_weight(action)
        else:
            stage.backward(action, arrived)
    MPI.Request.Waitall(stage.sending)
    return stage.loss if stage.rank == stage.num_stages - 1 else None


class _Stage:
    """A stage during a step: what its passes keep, what is to come, and what it has sent."""

    def __init__(self, comm, pieces, batch_sizes, inputs, targets):
        self.comm, self.pieces, self.batch_sizes = comm, pieces, batch_sizes
        self.inputs, self.targets = inputs, targets
        self.num_stages, self.rank = comm.Get_size(), comm.Get_rank()
        self.last_piece = self.num_stages * len(pieces) - 1
        self.loss, self.batch_size = 0.0, sum(batch_sizes)
        self.loss_grads = {}  # microbatch: the gradient with which its way back begins
        self.saved, self.pending = {}, {}  # (chunk, microbatch): what a later pass needs
        self.arriving, self.sending = {}, []  # action: (buffer, request); requests
        self.here = {}  # tag: what a piece passes to the next one on the same, only stage

    # The passes

    def forward(self, action, arrived):
        chunk, microbatch = action.chunk, action.microbatch
        piece = self.piece_of(action)
        x = self.inputs[microbatch] if piece == 0 else arrived
        y, self.saved[chunk, microbatch] = self.pieces[chunk].forward(microbatch, x)
        if piece == self.last_piece:
            target = self.targets[microbatch]
            self.loss += loss(y, target, self.batch_size)
            self.loss_grads[microbatch] = loss_gradient(y, target, self.batch_size)
        self.give(action, y)

    def backward(self, action, arrived):
        """A whole backward pass, or its first half."""
        chunk, microbatch = action.chunk, action.microbatch
        is_last = self.piece_of(action) == self.last_piece
        grad_y = self.loss_grads.pop(microbatch) if is_last else arrived
        saved = self.saved.pop((chunk, microbatch))
        if isinstance(action, Backward):
            grad_x = self.pieces[chunk].backward(microbatch, saved, grad_y)
        else:
            grad_x, pending = self.pieces[chunk].backward_input(microbatch, saved, grad_y)
            self.pending[chunk, microbatch] = pending
        self.give(action, grad_x)

    def backward_weight(self, action):
        pending = self.pending.pop((action.chunk, action.microbatch))
        self.pieces[action.chunk].backward_weight(action.microbatch, pending)

    # What passes from piece to piece

    def piece_of(self, action):
        return action.chunk * self.num_stages + self.rank

    def maker(self, action):
        """The piece that makes what the action needs; None: the action needs nothing."""
        piece = self.piece_of(action)
        if isinstance(action, Forward):
            return piece - 1 if piece > 0 else None
        if isinstance(action, Backward | BackwardInput):
            return piece + 1 if piece < self.last_piece else None
        return None

    def tag(self, action, maker):
        """Of a message: which piece made it, of which microbatch, on the way forward or back."""
        number = action.microbatch * (self.last_piece + 1) + maker
        return 2 * number + isinstance(action, Forward)

    def expect(self, action):
        """Post the receive for what the action needs."""
        maker = self.maker(action)
        if maker is None or self.num_stages == 1:
            return
        piece = self.pieces[action.chunk]
        width = piece.width_in if isinstance(action, Forward) else piece.width_out
        buffer = np.empty((self.batch_sizes[action.microbatch], width), piece.dtype)
        request = self.comm.Irecv(buffer, maker % self.num_stages, self.tag(action, maker))
        self.arriving[action] = buffer, request

    def take(self, action):
        """What the action needs, once it is here; None: it needs nothing."""
        maker = self.maker(action)
        if maker is None:
            return None
        if self.num_stages == 1:
            return self.here.pop(self.tag(action, maker))
        buffer, request = self.arriving.pop(action)
        request.Wait()
        return buffer

    def give(self, action, array):
        """Pass an activation to the next piece, or a gradient to the one before."""
        maker = self.piece_of(action)
        taker = maker + 1 if isinstance(action, Forward) else maker - 1
        if not 0 <= taker <= self.last_piece:
            return
        tag = self.tag(action, maker)
        if self.num_stages == 1:
            self.here[tag] = array
        else:
            self.sending.append(self.comm.Isend(array, taker % self.num_stages, tag))

    ### END SOLUTION


def measured_step(
    comm: MPI.Comm,
    params: list[np.ndarray],
    words,
    batch_sizes: list[int],
    inputs: list[np.ndarray] | None,
    targets: list[np.ndarray] | None,
):
    """One step as the run on a cluster measures it: supplied, nothing to write.

    Args:
        params: of this stage's only piece.
        words: this stage's actions as text.

    Returns:
        The gradients of the parameters.
    """
    piece = Piece(params, comm.Get_rank())
    run(comm, [piece], parse(words), batch_sizes, inputs, targets)
    return piece.grads
