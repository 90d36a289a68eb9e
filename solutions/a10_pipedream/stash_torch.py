"""A pipeline that never drains, in torch: each backward pass meets the parameters that it knows.

Each minibatch ends with an update of its own, and the next ones are under way meanwhile. Two
stages, v0 to v3 are versions of a stage's parameters, v1 the one after one update:

    stage 0    F0  F1  .   B0  F2  B1  F3  B2  .   B3        B: a backward pass, and an update
               v0  v0      v0  v1  v0  v2  v1      v2
    stage 1    .   F0  B0  F1  B1  F2  B2  F3  B3  .
                   v0  v0  v1  v1  v2  v2  v3  v3

Stage 0 computes F2 with v1. B1 makes v2, and only then comes B2, with v1 again. So stage 0 must
have kept v1. The optimizer works in place, and autograd's graph of F2 holds the tensors themselves,
not the values that they had. If F2 uses the module's own parameters, B2 raises RuntimeError
("modified by an inplace operation"). If you write to ``param.data``, B2 is silently wrong.

Two ways to compute with a version that isn't the module's: ``torch.func.functional_call(module,
version, (x,))``, where ``version`` maps the names of ``module.named_parameters()`` to copies; or a
second module (``copy.deepcopy``) whose parameters hold them.

Rank s of ``group`` is stage s, and ``module`` is piece s of the model. Tensors are float64, and
what you create lies on the device of the module's parameters. The tests run on gloo; there
``is_completed()`` of a send or a receive stays False until ``wait()`` has been called.
"""

import torch
import torch.distributed as dist
from given.model_torch import Piece, loss_of
from torch.func import functional_call


def train(
    group: dist.ProcessGroup,
    module: Piece,
    optimizer: torch.optim.Optimizer,
    batch_sizes: list[int],
    inputs: list[torch.Tensor] | None = None,
    targets: list[torch.Tensor] | None = None,
    *,
    vertical_sync: bool = False,
) -> list[float] | None:
    """Train this stage's piece on N minibatches, with one update after each.

    Args:
        group: a process group, the stages in order; S >= 1 of them. Only point-to-point calls of
            torch.distributed on it may be used.
        module: this stage's piece (``model_torch.Piece``), changed in place. ``width_in`` and
            ``width_out`` tell the shapes of what it gets and gives. Every parameter requires a
            gradient, and its ``grad`` is None. It has no buffers and draws no random numbers.
        optimizer: a ``torch.optim`` optimizer of ``module.parameters()``. Its state goes on from
            what it is. You call ``step()``, once for each minibatch, in their order.
        batch_sizes: samples of each minibatch, on all ranks; N >= 1 numbers of at least 1. They
            may differ.
        inputs: on stage 0 a list of one tensor per minibatch, shape ``(samples, width_in)``; else
            None.
        targets: on stage S - 1 likewise; else None.
        vertical_sync: whether all stages use the same version for a minibatch.

    Returns:
        On stage S - 1 a list of N floats, the loss (``loss_of``) of each minibatch as its forward
        pass computed it; on the others None.

    - Afterwards: the module's parameters are the same objects as before and hold version N, the
      newest one. Their ``grad`` is None. A second call goes on from there with an empty pipeline.

    - Versions: version k of a stage's parameters is what they are after k updates of this call.
      Forward and backward pass of minibatch m use version ``max(0, m - (S - 1 - s))`` on stage s;
      with ``vertical_sync`` version ``max(0, m - (S - 1))`` on every stage. For S = 4 and m = 5:
      versions 2, 3, 4, 5 on stages 0 to 3; with ``vertical_sync`` 2, 2, 2, 2.
    - Values: those of one process that computes each minibatch through the whole model with these
      versions, and then updates the newest one with that gradient. Each element of a parameter may
      be off by at most 1e-10 times (1 + the largest magnitude in the parameter).
    - Order: 1F1B without a flush. Stage s computes min(S - s, N) forward passes, then backward and
      forward passes in turn, then the backward passes that are left. Each pass is computed once.
      S = 3, s = 1, N = 4: F0 F1 B0 F2 B1 F3 B2 B3.
    - Messages: at most 2 for each minibatch and boundary between stages, one activation and one
      gradient. With 6 minibatches of 10 samples on 3 stages, and 40 values a sample handed on,
      stage 1 sends at most 12 messages, of 3200 bytes each. No collective.
    - Memory: stage s keeps at most S - s versions, with ``vertical_sync`` S. Beside them it may
      hold what forward passes saved for the minibatches under way, and three times its parameters
      (the module's own, gradients, a version in the making). Messages are free. With S = 4 and
      1 MB of parameters in each stage, stage 0 holds at most 7 MB of these, stage 3 at most 4 MB.
    - Time: at most 1.05 times that of a stage that waits for its sends at the end only, and posts
      the receive for the next pass before it computes the present one. Where messages are free that
      is (N + S - 1)(tf + tb), for passes of tf and tb.

    Source: Narayanan et al., PipeDream, SOSP 2019, sections 3.2 and 3.3.
    """
    ### BEGIN SOLUTION
    num_stages, stage, count = group.size(), group.rank(), len(batch_sizes)
    in_flight = num_stages - stage
    late = num_stages - 1 if vertical_sync else in_flight - 1
    passes = [("F", m) for m in range(min(in_flight, count))]
    for m in range(count):
        passes += [("B", m), *([("F", m + in_flight)] if m + in_flight < count else [])]
    names = [name for name, _ in module.named_parameters()]
    versions, under_way = {0: _copies(module)}, {}
    arriving, sending, losses = {}, [], []

    def expect(letter, m):
        """Post the receive that a pass needs, if it needs one and that hasn't been done."""
        source = stage - 1 if letter == "F" else stage + 1
        if 0 <= source < num_stages and (letter, m) not in arriving:
            width = module.width_in if letter == "F" else module.width_out
            buffer = next(module.parameters()).new_empty(batch_sizes[m], width)
            request = dist.irecv(buffer, dist.get_global_rank(group, source), group)
            arriving[letter, m] = buffer, request

    def take(letter, m):
        expect(letter, m)
        if (letter, m) not in arriving:
            return None
        buffer, request = arriving.pop((letter, m))
        request.wait()
        return buffer

    def give(dest, tensor):
        if 0 <= dest < num_stages:
            request = dist.isend(tensor, dist.get_global_rank(group, dest), group)
            sending.append((request, tensor))

    for (letter, m), following in zip(passes, [*passes[1:], None], strict=True):
        incoming = take(letter, m)
        if following is not None:
            expect(*following)
        if letter == "F":
            x = (inputs[m] if stage == 0 else incoming).detach().requires_grad_(stage > 0)
            version = versions[max(0, m - late)]
            y = functional_call(module, dict(zip(names, version, strict=True)), (x,))
            if stage == num_stages - 1:
                y = loss_of(y, targets[m])
                losses.append(y.item())
            under_way[m] = x, version, y
            give(stage + 1, y.detach())
            continue
        x, version, y = under_way.pop(m)
        wanted = [*version, x] if stage > 0 else version
        grads = torch.autograd.grad(y, wanted, incoming)  # not backward(): versions are shared
        del x, version, y, wanted
        if stage > 0:
            give(stage - 1, grads[-1])
        for param, grad in zip(module.parameters(), grads, strict=False):
            param.grad = grad
        del grads, grad
        optimizer.step()
        optimizer.zero_grad()
        versions.pop(m - late, None)
        versions[m + 1] = _copies(module)
    for request, _ in sending:
        request.wait()
    return losses if stage == num_stages - 1 else None


def _copies(module):
    """The module's parameters as they are now, as leaves of graphs to come."""
    return [param.detach().clone().requires_grad_() for param in module.parameters()]
    ### END SOLUTION
