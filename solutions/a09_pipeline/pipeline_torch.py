"""The pipeline in torch: autograd goes backward through each stage, you carry it across ranks.

    stage s                                            stage s + 1
    x -> module -> y   - - - y.detach() - - - >   x -> module -> y        Forward
    x.grad <- y.backward(g)   <- - - g - - - -    x.grad <- y.backward    Backward

To autograd each stage is a graph of its own, for each microbatch: it begins at a received tensor
and ends at a sent one. It lives from ``Forward`` to ``Backward``, and holds all activations of the
stage meanwhile. With *recomputation* it doesn't: ``Forward`` keeps the input alone, and
``Backward`` computes the forward pass again, this time with a graph.

Rank s of ``group`` is stage s of S; with v modules on each stage, piece ``chunk * S + s`` of the
model is ``modules[chunk]`` of rank s, as in ``stage.py``.

- Every legal schedule of ``Forward`` and ``Backward`` must run, with any number of chunks. Two
  stages may take microbatches in different orders, so give each message a tag that says what it
  holds. The tests run on gloo, which matches tags. (NCCL ignores them and makes the calls between
  two ranks one after another, so that both must make them in the same order. That isn't asked.)
- On gloo ``is_completed()`` of a send or a receive stays False until ``wait()`` has been called.
- What you create lies on the device of the module's parameters. Tensors are float64.
- Modules are in training mode and stay there. They may draw random numbers (dropout): ``run``
  doesn't seed the generator, and each forward pass of the list draws where it stands.
"""

import torch
import torch.distributed as dist
from actions import Forward
from model_torch import Piece, loss_of


def run(
    group: dist.ProcessGroup,
    modules: list[Piece],
    actions: list,
    batch_sizes: list[int],
    inputs: list[torch.Tensor] | None = None,
    targets: list[torch.Tensor] | None = None,
    recompute: bool = False,
) -> float | None:
    """Run this stage's part of one training step.

    Args:
        group: a process group, the stages in order; S >= 1 of them. Only point-to-point calls of
            torch.distributed on it may be used.
        modules: this stage's pieces (``model_torch.Piece``), one for each chunk; all ranks have
            equally many. Their parameters' ``grad`` is None.
        actions: what this stage does, in this order (``actions.py``).
        batch_sizes: samples of each microbatch, on all ranks; at least one each. They may differ.
        inputs: on stage 0 a list of one tensor per microbatch, shape ``(samples, width_in)``; else
            None.
        targets: on stage S - 1 likewise; else None.
        recompute: keep only inputs between forward and backward pass. The gradients, and the state
            of the generator afterwards (``torch.get_rng_state``), are those without recomputation,
            also where a module draws random numbers.

    Returns:
        On stage S - 1 the loss of the whole batch, a float; on the others None. Every parameter's
        ``grad`` holds the gradient of that loss: half the mean of ``|output - target|^2`` over all
        samples of all microbatches.

    Schedule: the passes are computed in the order of ``actions``, each once. With recomputation a
    second forward pass of the same microbatch comes directly before each backward pass.
    Bounds, with an example for S = 3, M = 4 and one chunk:

    - Messages: one for each forward pass but those of the last piece, and one for each backward
      pass but those of piece 0. Stages 0, 1 and 2 send at most 4, 8 and 4.
    - Bytes: a message holds an activation or its gradient. It goes to the rank of the next piece or
      of the piece before, never to the rank itself.
    - Memory, at any time: (1) activations of the microbatches in flight (from ``Forward`` to the
      end of ``Backward``); with ``recompute`` their inputs alone, and all activations of one;
      (2) all bytes that the rank sends and receives during the step; (3) three times one
      microbatch's graph. Stage 1 under 1F1B has at most 2 microbatches in flight. If a graph has
      100 kB and a message or an input 10 kB, it may hold 200 + 160 + 300 kB; with ``recompute``
      20 + 100 + 160 + 300 kB.
    - Time: at most 1.02 times that of an interpreter that waits for its sends at the end only,
      and posts the receive for the next action before it computes the present one. Half the points
      up to 1.5 times.

    Source: Huang et al., GPipe, NeurIPS 2019, sections 2.2 and 2.3.
    """
    ### BEGIN SOLUTION
    num_stages, stage = dist.get_world_size(group), dist.get_rank(group)
    last, batch_size = num_stages * len(modules) - 1, sum(batch_sizes)
    kept, here, arriving, sending = {}, {}, {}, []
    total = 0.0

    def source_of(action):
        """The piece that makes what the action needs from elsewhere; None: there is none."""
        step = -1 if isinstance(action, Forward) else 1
        piece = action.chunk * num_stages + stage + step
        return piece if 0 <= piece <= last else None

    def tag(forward, piece, microbatch):
        return 2 * (microbatch * (last + 1) + piece) + forward

    def expect(action):
        piece, forward = source_of(action), isinstance(action, Forward)
        if piece is None or num_stages == 1 or action in arriving:
            return
        own = modules[action.chunk]
        width = own.width_in if forward else own.width_out
        weight = next(own.parameters())  # the buffer lies where it lies
        buffer = weight.new_empty(batch_sizes[action.microbatch], width)
        rank = dist.get_global_rank(group, piece % num_stages)
        request = dist.irecv(buffer, rank, group, tag(forward, piece, action.microbatch))
        arriving[action] = buffer, request

    def take(action):
        if num_stages == 1:
            key = isinstance(action, Forward), source_of(action), action.microbatch
            return here.pop(key)
        buffer, request = arriving.pop(action)
        request.wait()
        return buffer

    def give(forward, piece, microbatch, tensor):
        if num_stages == 1:
            here[forward, piece, microbatch] = tensor
            return
        rank = dist.get_global_rank(group, (piece + (1 if forward else -1)) % num_stages)
        request = dist.isend(tensor, rank, group, tag(forward, piece, microbatch))
        sending.append((request, tensor))

    def output_of(piece, module, x, microbatch):
        """The module's output, or of the last piece the loss."""
        y = module(x)
        return y if piece < last else loss_of(y, targets[microbatch], batch_size)

    for action, following in zip(actions, [*actions[1:], None], strict=True):
        key = action.chunk, action.microbatch
        module, piece = modules[action.chunk], action.chunk * num_stages + stage
        expect(action)
        incoming = take(action) if source_of(action) is not None else None
        if following is not None:
            expect(following)
        if isinstance(action, Forward):
            x = (inputs[action.microbatch] if piece == 0 else incoming).detach()
            x.requires_grad_(piece > 0)
            state = torch.get_rng_state()
            with torch.set_grad_enabled(not recompute):
                y = output_of(piece, module, x, action.microbatch)
            kept[key] = (x, state) if recompute else (x, y)
            if piece < last:
                give(True, piece, action.microbatch, y.detach())
            else:
                total += y.item()
            continue
        x, y = kept.pop(key)
        if recompute:
            now = torch.get_rng_state()
            torch.set_rng_state(y)
            y = output_of(piece, module, x, action.microbatch)
            torch.set_rng_state(now)
        torch.autograd.backward(y, incoming)
        if piece > 0:
            give(False, piece, action.microbatch, x.grad)
        del x, y
    for request, _ in sending:
        request.wait()
    return total if stage == num_stages - 1 else None
    ### END SOLUTION
