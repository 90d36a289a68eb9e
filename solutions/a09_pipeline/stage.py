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

import numpy as np
from actions import Backward, BackwardInput, Forward, parse
from model import Piece, loss, loss_gradient
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
        pieces: this stage's pieces of the model (``model.Piece``), one for each chunk; all ranks
            have equally many. Their ``grads`` are zero.
        actions: what this stage does, in this order (``actions.py``).
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
    num_stages, stage = comm.Get_size(), comm.Get_rank()
    last = num_stages * len(pieces) - 1
    batch_size = sum(batch_sizes)
    saved, pending = {}, {}
    here = {}  # (kind, piece, microbatch): what a piece on this rank made for another one here
    arriving, sending = {}, []
    total = 0.0

    def place(action):
        """What the action needs: kind and piece as its maker calls them; None: it is here."""
        piece = action.chunk * num_stages + stage
        if isinstance(action, Forward):
            return ("activation", piece - 1) if piece else None
        if isinstance(action, Backward | BackwardInput):
            return ("gradient", piece + 1) if piece < last else None
        return None

    def tag(kind, piece, microbatch):
        return 2 * (microbatch * (last + 1) + piece) + (kind == "gradient")

    def expect(action):
        """Post the receive for what the action needs."""
        needs = place(action)
        if needs is None or num_stages == 1 or action in arriving:
            return
        kind, piece = needs
        own = pieces[action.chunk]
        width = own.width_in if kind == "activation" else own.width_out
        buffer = np.empty((batch_sizes[action.microbatch], width), own.dtype)
        source = piece % num_stages
        request = comm.Irecv(buffer, source, tag(kind, piece, action.microbatch))
        arriving[action] = buffer, request

    def take(action):
        kind, piece = place(action)
        if num_stages == 1:
            return here.pop((kind, piece, action.microbatch))
        buffer, request = arriving.pop(action)
        request.Wait()
        return buffer

    def give(kind, piece, microbatch, array):
        """Send to the rank of the piece that needs it."""
        if num_stages == 1:
            here[kind, piece, microbatch] = array
            return
        dest = (piece + (1 if kind == "activation" else -1)) % num_stages
        sending.append(comm.Isend(array, dest, tag(kind, piece, microbatch)))

    for action, following in zip(actions, [*actions[1:], None], strict=True):
        chunk, microbatch = key = action.chunk, action.microbatch
        own, piece = pieces[chunk], chunk * num_stages + stage
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
