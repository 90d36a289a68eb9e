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

from itertools import zip_longest

import torch
import torch.distributed as dist
from given.actions import Forward
from given.model_torch import Piece, loss_of


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
        modules: this stage's pieces (``given.model_torch.Piece``), one for each chunk; all ranks
            have equally many. Their parameters' ``grad`` is None.
        actions: what this stage does, in this order (``given/actions.py``).
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
    stage = _Stage(group, modules, batch_sizes, inputs, targets, recompute)
    stage.expect(actions[0])
    for action, following in zip_longest(actions, actions[1:]):
        arrived = stage.take(action)
        if following is not None:  # its message may come while this action computes
            stage.expect(following)
        if isinstance(action, Forward):
            stage.forward(action, arrived)
        else:
            stage.backward(action, arrived)
    for request, _ in stage.sending:
        request.wait()
    return stage.loss if stage.rank == stage.num_stages - 1 else None


class _Stage:
    """A stage during a step: the graphs of its microbatches, what is to come, what it has sent."""

    def __init__(self, group, modules, batch_sizes, inputs, targets, recompute):
        self.group, self.modules, self.batch_sizes = group, modules, batch_sizes
        self.inputs, self.targets, self.recompute = inputs, targets, recompute
        self.num_stages, self.rank = dist.get_world_size(group), dist.get_rank(group)
        self.last_piece = self.num_stages * len(modules) - 1
        self.loss, self.batch_size = 0.0, sum(batch_sizes)
        # (chunk, microbatch): the input, and the graph's end or the generator's state
        self.kept = {}
        self.arriving, self.sending = {}, []  # action: (buffer, request); (request, tensor)
        self.here = {}  # tag: what a piece passes to the next one on the same, only stage

    # The passes

    def forward(self, action, arrived):
        piece = self.piece_of(action)
        x = (self.inputs[action.microbatch] if piece == 0 else arrived).detach()
        x.requires_grad_(piece > 0)
        state = torch.get_rng_state()
        with torch.set_grad_enabled(not self.recompute):
            end = self.end_of_graph(action, x)
        self.kept[action.chunk, action.microbatch] = (x, state) if self.recompute else (x, end)
        if piece == self.last_piece:
            self.loss += end.item()
        self.give(action, end.detach())

    def backward(self, action, arrived):
        x, end = self.kept.pop((action.chunk, action.microbatch))
        if self.recompute:
            end = self.computed_again(action, x, end)
        torch.autograd.backward(end, arrived)
        self.give(action, x.grad)

    def end_of_graph(self, action, x):
        """The module's output; of the last piece the loss."""
        y = self.modules[action.chunk](x)
        if self.piece_of(action) < self.last_piece:
            return y
        return loss_of(y, self.targets[action.microbatch], self.batch_size)

    def computed_again(self, action, x, state):
        """``end_of_graph`` with the random numbers of the first time."""
        now = torch.get_rng_state()
        torch.set_rng_state(state)
        end = self.end_of_graph(action, x)
        torch.set_rng_state(now)
        return end

    # What passes from piece to piece

    def piece_of(self, action):
        return action.chunk * self.num_stages + self.rank

    def maker(self, action):
        """The piece that makes what the action needs; None: the action needs nothing."""
        piece = self.piece_of(action)
        if isinstance(action, Forward):
            return piece - 1 if piece > 0 else None
        return piece + 1 if piece < self.last_piece else None

    def tag(self, action, maker):
        """Of a message: which piece made it, of which microbatch, on the way forward or back."""
        number = action.microbatch * (self.last_piece + 1) + maker
        return 2 * number + isinstance(action, Forward)

    def rank_of(self, piece):
        return dist.get_global_rank(self.group, piece % self.num_stages)

    def expect(self, action):
        """Post the receive for what the action needs."""
        maker = self.maker(action)
        if maker is None or self.num_stages == 1:
            return
        module = self.modules[action.chunk]
        width = module.width_in if isinstance(action, Forward) else module.width_out
        weight = next(module.parameters())  # the buffer lies where it lies
        buffer = weight.new_empty(self.batch_sizes[action.microbatch], width)
        tag = self.tag(action, maker)
        self.arriving[action] = buffer, dist.irecv(buffer, self.rank_of(maker), self.group, tag)

    def take(self, action):
        """What the action needs, once it is here; None: it needs nothing."""
        maker = self.maker(action)
        if maker is None:
            return None
        if self.num_stages == 1:
            return self.here.pop(self.tag(action, maker))
        buffer, request = self.arriving.pop(action)
        request.wait()
        return buffer

    def give(self, action, tensor):
        """Pass an activation to the next piece, or a gradient to the one before."""
        maker = self.piece_of(action)
        taker = maker + 1 if isinstance(action, Forward) else maker - 1
        if not 0 <= taker <= self.last_piece:
            return
        tag = self.tag(action, maker)
        if self.num_stages == 1:
            self.here[tag] = tensor
        else:
            request = dist.isend(tensor, self.rank_of(taker), self.group, tag)
            self.sending.append((request, tensor))

    ### END SOLUTION
