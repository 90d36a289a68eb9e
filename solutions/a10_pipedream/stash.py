"""An asynchronous pipeline: one update a minibatch, weights stashed for those in flight.

    time ->
    stage 0   F0  F1  F2   .   .  B0  F3  B1  F4  B2  ...      after each B the stage updates
    stage 1    .  F0  F1   .  B0  F2  B1  F3  B2  F4  ...      its own parameters, at once;
    stage 2    .   .  F0  B0  F1  B1  F2  B2  F3  B3  ...      nobody waits for a flush

    version    of the parameters that F and B of minibatch t use, here for S = 3
    stage 0    0 0 0 1 2 3 ...   max(0, t - 2)         the forward pass of t = 3 comes after one
    stage 1    0 0 1 2 3 4 ...   max(0, t - 1)         update on stage 0, after two on stage 1
    stage 2    0 1 2 3 4 5 ...   t                     and after three on stage 2

Version k is what a stage has after k updates. The first stages compute with old versions, and a
backward pass must use the one that its forward pass used. So a stage keeps ("stashes") a version
as long as a minibatch needs it.

In one process that is gradient descent with delays. Let ``f_t`` be the loss of minibatch
t = 0, 1, ...: half the mean over its samples of ``|output - target|^2`` (``model.loss``). Its
gradient is taken at version t - S + 1 + s of stage s (at version 0 if that is negative)::

    w(t+1) = w(t) - lr * gradient of f_t at (w_0(t - S + 1), w_1(t - S + 2), ..., w_(S-1)(t))

With vertical sync a minibatch uses one version on all stages: the one that stage 0 used::

    w(t+1) = w(t) - lr * gradient of f_t at w(t - S + 1)

Rank s of ``comm`` is stage s of S and holds piece s of the model. Only point-to-point calls may be
used, and no communicator is made. ``given/recursion.py`` is the recursion above, in one process.
"""

import numpy as np
from given.model import Piece, loss, loss_gradient
from mpi4py import MPI


def train(
    comm: MPI.Comm,
    piece: Piece,
    params: list[np.ndarray],
    batch_sizes: list[int],
    lr: float,
    inputs: list[np.ndarray] | None = None,
    targets: list[np.ndarray] | None = None,
    *,
    vertical_sync: bool = False,
) -> tuple[list[np.ndarray], list[float] | None]:
    """Train this stage's parameters, with an update after each minibatch's backward pass.

    Args:
        comm: the stages, in order; S >= 1 of them.
        piece: this stage's piece of the model (``given.model.Piece``).
        params: its parameters, weight and bias of each layer in turn; weights have shape
            ``(d_in, d_out)``. This is version 0. All stages have the same dtype.
        batch_sizes: samples of each of the N >= 0 minibatches, at least one each, on all ranks.
        lr: the learning rate.
        inputs: on stage 0 a list of one array a minibatch, shape ``(samples, d_in)`` of the first
            layer; else None.
        targets: on stage S - 1 likewise, ``(samples, d_out)`` of the last layer; else None.
        vertical_sync: use one version on all stages for a minibatch, the one of stage 0.

    Returns:
        ``(params, losses)``: version N, a list of arrays; and on stage S - 1 a list of floats, the
        loss ``f_t`` of each minibatch at the versions that it used. On the other stages ``losses``
        is None.

    - Values: those of the recursion. Each element of a parameter array may be off by at most 1e-10
      (float32: 1e-5) times (1 + the largest magnitude in the right array).
    - Schedule: a stage computes forward passes until ``min(S - s, N)`` minibatches are in flight.
      Then it computes one backward and one forward pass in turn, and in the end the backward
      passes that are left. S = 4, s = 2, N = 4: F0 F1 B0 F2 B1 F3 B2 B3. Each pass is computed
      once.
    - Messages: one for each activation and one for each gradient, to the stage after and before:
      20 for 10 minibatches between two stages. A message holds the activation or the gradient
      alone. (1 KiB of envelope is free. A version number may travel there, or you derive it.)
    - Memory: stage s keeps at most S - s versions, the newest one included; with vertical sync
      each stage keeps at most S. For S = 4 that is 4, 3, 2, 1; with vertical sync 4, 4, 4, 4.
      Beside the versions a stage may hold (1) what forward passes saved for the minibatches in
      flight, (2) three times its parameters: gradients, a version in the making, and as much again
      for arrays of your own. Messages and 64 KiB are free.
    - Time: at most 1.05 times that of stages that never wait for a send, and post the receive for
      the next pass before they compute the present one. If messages take no time, that is
      ``(N + S - 1) (forward + backward)``: 39 ms for N = 10, S = 4, and passes of 1 and 2 ms.

    Source: Narayanan et al., PipeDream, SOSP 2019, section 3.3.
    """
    ### BEGIN SOLUTION
    stage, last, count = comm.Get_rank(), comm.Get_size() - 1, len(batch_sizes)
    lag = last if vertical_sync else last - stage
    passes = _passes(count, last - stage + 1)
    mail = _Mail(comm, params, batch_sizes)
    versions = {0: [np.array(param) for param in params]}
    saved, losses = {}, []

    def forward(t):
        x = inputs[t] if stage == 0 else mail.take("F", t)
        y, saved[t] = piece.forward(t, versions[max(0, t - lag)], x)
        if stage < last:
            mail.send(y, stage + 1)
        else:
            losses.append(loss(y, targets[t]))
            saved["error", t] = loss_gradient(y, targets[t])

    def backward(t):
        grad_y = saved.pop(("error", t)) if stage == last else mail.take("B", t)
        grad_x, grads = piece.backward(t, versions[max(0, t - lag)], saved.pop(t), grad_y)
        if stage > 0:
            mail.send(grad_x, stage - 1)
        versions[t + 1] = [w - lr * g for w, g in zip(versions[t], grads, strict=True)]
        versions.pop(t - lag, None)  # no later minibatch needs it

    for number, (kind, t) in enumerate(passes):
        for following in passes[number : number + 2]:
            mail.expect(*following)
        if kind == "F":
            forward(t)
        else:
            backward(t)
    mail.close()
    return versions[count], losses if stage == last else None


def _passes(num_minibatches, most):
    """One forward, one backward, with at most so many minibatches in flight."""
    passes = []
    for step in range(num_minibatches + most - 1):
        if step < num_minibatches:
            passes.append(("F", step))
        if step >= most - 1:
            passes.append(("B", step - most + 1))
    return passes


class _Mail:
    """A stage's messages: activations come from the stage before, gradients from the one after."""

    def __init__(self, comm, params, batch_sizes):
        rank, self.num_stages = comm.Get_rank(), comm.Get_size()
        self.comm, self.batch_sizes, self.dtype = comm, batch_sizes, params[0].dtype
        self.sources = {"F": rank - 1, "B": rank + 1}
        self.widths = {"F": params[0].shape[0], "B": params[-1].shape[0]}
        self.arriving, self.sending = {}, []

    def expect(self, kind, t):
        """Post the receive for a pass, if it needs one and that hasn't been done."""
        source = self.sources[kind]
        if 0 <= source < self.num_stages and (kind, t) not in self.arriving:
            buffer = np.empty((self.batch_sizes[t], self.widths[kind]), self.dtype)
            self.arriving[kind, t] = buffer, self.comm.Irecv(buffer, source)

    def take(self, kind, t):
        buffer, request = self.arriving.pop((kind, t))
        request.Wait()
        return buffer

    def send(self, array, dest):
        self.sending.append(self.comm.Isend(array, dest))
        while len(self.sending) > 2 * self.num_stages:  # these were received long ago
            self.sending.pop(0).Wait()

    def close(self):
        MPI.Request.Waitall(self.sending)

    ### END SOLUTION


def measured_training(
    comm: MPI.Comm,
    params: list[np.ndarray],
    batch_sizes: list[int],
    lr: float,
    inputs: list[np.ndarray] | None,
    targets: list[np.ndarray] | None,
) -> np.ndarray:
    """A training as the run on a cluster measures it: supplied, nothing to write.

    Returns:
        This stage's parameters, all in one vector.
    """
    piece = Piece(comm.Get_rank())
    params, _ = train(comm, piece, params, batch_sizes, lr, inputs, targets)
    return np.concatenate([param.reshape(-1) for param in params])
