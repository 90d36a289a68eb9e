"""A message-driven pipeline stage: it computes what has arrived, and follows no list.

    1F1B, a fixed order       F0 F1 F2 F3 B0 F4 B1 ...    B0 is next, so the stage waits for it,
                                                          though F4's activation lies there
    message-driven            F0 F1 F2 F3 F4 B0 B1 ...    whatever is there comes next

    previous stage --- activation m ---> stage s --- activation m ---> next stage
                   <--- gradient m ----          <--- gradient m ----

Rank s of ``comm`` is stage s of S. Each stage has one piece of the model (``given/model.py``), and
its parameters stay the same during the whole batch. Each microbatch goes forward through all
stages, and its gradient comes back. The run ends when the last gradient is done, so the pipeline is
flushed, and its gradient is that of the whole batch, whatever came first.

**What a stage does next**, each time it has finished a pass:

1. It takes in every message that has arrived by now.
2. If the gradient of a microbatch is there, it computes a backward pass.
3. Else, if an activation is there, it computes a forward pass. Stage 0 takes the next microbatch
   of ``inputs``, if fewer than ``limit`` microbatches are in flight. A microbatch is in flight
   when stage 0 has computed its F, and not yet its B.
4. Else it waits until a message arrives, whoever sends it.

The last stage makes the gradient of a microbatch itself, as soon as it has its output. So there a
backward pass follows each forward pass. Among several microbatches of one kind any may come first.

``ANY_SOURCE`` with ``Probe`` or ``Iprobe``, ``Waitany``, ``Testsome`` and lower-case calls are all
allowed. Library collectives are not. A hint on polls: on the simulated network an ``Iprobe`` or
``Test`` that has failed, and is called again with nothing done in between, returns when something
happens at this rank. So when a poll has failed and there is work, do the work.

Source: Singh, Bhatele, AxoNN: An asynchronous, message-driven parallel framework for extreme-scale
deep learning, IPDPS 2022.
"""

from collections import deque

import numpy as np
from given.model import Piece, loss, loss_gradient
from mpi4py import MPI


def run(
    comm: MPI.Comm,
    piece: Piece,
    params: list[np.ndarray],
    batch_sizes: list[int],
    limit: int,
    inputs: list[np.ndarray] | None = None,
    targets: list[np.ndarray] | None = None,
) -> tuple[float | None, list[np.ndarray]]:
    """Run this stage's part of one training step.

    Args:
        comm: the stages, in order; S >= 1 of them.
        piece: this stage's ``model.Piece``.
        params: weight and bias of each of its layers in turn; at least one layer. Weights have
            shape ``(d_in, d_out)`` and biases ``(d_out,)``.
        batch_sizes: samples of each microbatch, on all ranks; M >= 1 of them, at least one sample
            each. They may differ.
        limit: how many microbatches may be in flight on stage 0, from 1, on all ranks.
        inputs: on stage 0 a list of one array a microbatch, shape ``(samples, d_in)`` of the first
            layer; else None.
        targets: on stage S - 1 likewise, ``(samples, d_out)`` of the last layer; else None.

    Returns:
        ``(loss, grads)``. On stage S - 1 ``loss`` is that of the whole batch, a float; on the
        others None. ``grads`` is the gradient of that loss, a list with the shapes and dtype of
        ``params``. The loss of the whole batch is half the mean of ``|output - target|^2`` over
        all samples of all microbatches. ``model.loss`` and ``model.loss_gradient`` take the mean
        over the samples that they are given: with microbatches of 1 and 3 samples those of the
        first count 1/4, those of the second 3/4.

    - Values: each element may be off by at most 1e-10 (float32: 1e-5) times (1 + the largest
      magnitude in the right array).
    - Messages: at most one for each forward pass of a stage but the last, and one for each backward
      pass of a stage but the first. With 4 stages and 10 microbatches, rank 1 sends at most 20.
      Each goes to a neighbour and holds the activation or the gradient; 1 KiB of envelope is free.
    - Order: as above. Messages that arrive less than 1 % of a pass before it begins may be missed.
    - Time: stages' times differ in the tests from one microbatch to the next. A message takes a
      good part of a pass, but its sender needn't wait for it. With a limit of 2 S, steps take at
      most 1.05 times as long as ``given.axonn_times.message_driven`` says, three of them together.
      Half the points are given for less time than ``one_f_one_b`` there takes.
    """
    ### BEGIN SOLUTION
    num_stages, stage = comm.Get_size(), comm.Get_rank()
    first, last, count = stage == 0, stage == num_stages - 1, len(batch_sizes)
    grads = [np.zeros_like(each) for each in params]
    activations, gradients = deque(), deque()  # (microbatch, array) that have come
    saved, sending, total = {}, [], 0.0
    begun = done = 0
    missing = (0 if first else count) + (0 if last else count)  # messages that will still come
    status = MPI.Status()
    while done < count:
        if first and begun < count and begun - done < limit and not activations:
            activations.append((begun, inputs[begun]))
        idle = not activations and not gradients
        while missing and (idle or comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)):
            if idle:
                comm.Probe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
            source, microbatch = status.Get_source(), status.Get_tag()
            forward = source == stage - 1
            width = params[0].shape[0] if forward else params[-1].shape[0]
            array = np.empty((batch_sizes[microbatch], width), params[0].dtype)
            comm.Recv(array, source, microbatch)
            (activations if forward else gradients).append((microbatch, array))
            missing, idle = missing - 1, False
        if gradients:
            microbatch, grad_y = gradients.popleft()
            grad_x, own = piece.backward(microbatch, params, saved.pop(microbatch), grad_y)
            grads = [a + b for a, b in zip(grads, own, strict=True)]
            done += 1
            if not first:
                sending.append(comm.Isend(grad_x, stage - 1, microbatch))
            continue
        microbatch, x = activations.popleft()
        y, saved[microbatch] = piece.forward(microbatch, params, x)
        begun += 1
        if last:
            share = batch_sizes[microbatch] / sum(batch_sizes)
            total += share * loss(y, targets[microbatch])
            gradients.append((microbatch, share * loss_gradient(y, targets[microbatch])))
        else:
            sending.append(comm.Isend(y, stage + 1, microbatch))
    MPI.Request.Waitall(sending)
    return (total if last else None), grads
    ### END SOLUTION
