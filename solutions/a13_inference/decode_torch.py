"""Tensor-parallel generation on torch.distributed: heads, hidden units and words dealt out.

                 words, positions, norms, bo, b2: whole on every rank
    x -- norm -- q k v of my heads -- my cache -- o Wo[mine] --- all-reduce -- + bo + x
      -- norm -- gelu(n W1[mine] + b1[mine]) W2[mine] ---------- all-reduce -- + b2 + x   (a layer)
      -- norm -- logits of my words -- the best one -- all-gather -- token

The rows of x are the new positions of all sequences, one sequence after another. Prefill sends all
positions of the prompts, decoding sends one row for each of B sequences.

Rules:

- ``group`` is a process group of p >= 1 ranks. Collectives and point-to-point calls on it are
  allowed; make no group of your own.
- Each rank is handed its own part of the weights only, as ``given/model_torch.py`` cuts them. Parts
  may differ in size and may be empty: a rank may have no heads, or no words.
- Tensors are float64 or float32. Of what comes in only the cache is changed.
- Weights may require gradients. None is computed here, and nothing is kept for a backward pass.
- The tests trace the program on fake tensors, whose elements have no values. So there is no ``if``
  on a tensor's element and no ``.item()``. Sizes and numbers of tokens are Python numbers, and an
  ``if`` on them is allowed.
- Bytes of ``forward``, a rank: two all-reduces of ``rows * d`` elements in each layer, each counted
  as ``2 (p - 1) / p`` of them, and ``64 (p - 1)`` more for each all-reduce. Example: 2 layers,
  d = 24, 3 sequences that decode, p = 4, float64: 4 * 72 * 8 * 1.5 = 3,456 bytes, and 768 free.
- Bytes of ``greedy``, a rank: two numbers a sequence to each other rank, of 8 bytes in any dtype.
  These are ``16 B (p - 1)``, and ``64 (p - 1)`` more are free. Example: 3 sequences, p = 4: 144
  bytes, and 192 free.
- Time of a decoding step of B sequences on 1 to 8 GPUs: at most 1.05 times that of (1) reading this
  rank's weights, for all sequences together, and its cache once, (2) ``2 layers`` all-reduces of
  ``B d`` elements, and (3) one all-gather of 2 B numbers of 8 bytes; half the points up to 1.5
  times. ``given/decode_time_torch.py`` computes it.

Source: Pope et al., Efficiently scaling transformer inference, 2022; Shoeybi et al., Megatron-LM,
2019.
"""

import torch
import torch.distributed as dist
from given.model import Sizes, shard_bounds
from given.model_torch import Cache, gelu, last_rows, layer_norm, of_layer, positions_of


def forward(
    group: dist.ProcessGroup,
    tokens: torch.Tensor,
    counts: list[int],
    cache: Cache,
    part: dict[str, torch.Tensor],
    sizes: Sizes,
) -> torch.Tensor:
    """What comes out of the last layer norm, for each sequence's last new position.

    Args:
        tokens: the new tokens of all sequences one after another, an int64 tensor of shape
            ``(rows,)``, the same on all ranks.
        counts: how many of them belong to each sequence, a list of B numbers from 1.
        cache: a ``model_torch.Cache`` with this rank's key heads; the new positions are added.
        part: this rank's part of the weights, a dict of tensors.
        sizes: a ``model.Sizes``, of the whole model.

    Returns:
        Shape ``(B, d)``, the same on all ranks; as ``model.serial_forward``, to 1e-10 of the
        largest element (1e-4 in float32).
    """
    ### BEGIN SOLUTION
    with torch.no_grad():
        x = part["words"][tokens] + part["positions"][positions_of(counts, cache, tokens.device)]
        for layer in range(sizes.layers):
            w = of_layer(part, layer)
            n = layer_norm(x, w["gamma1"], w["beta1"])
            q, k, v = (torch.addmm(w["b" + each], n, w["W" + each]) for each in "qkv")
            y = cache.attend(layer, q, k, v, counts) @ w["Wo"]
            dist.all_reduce(y, group=group)
            x = x + y + w["bo"]  # after the sum, or bo would be added p times
            n = layer_norm(x, w["gamma2"], w["beta2"])
            y = gelu(torch.addmm(w["b1"], n, w["W1"])) @ w["W2"]
            dist.all_reduce(y, group=group)
            x = x + y + w["b2"]
        cache.advance(counts)
        return layer_norm(x[last_rows(counts)], part["gamma"], part["beta"])
    ### END SOLUTION


def greedy(
    group: dist.ProcessGroup, hidden: torch.Tensor, part: dict[str, torch.Tensor], sizes: Sizes
) -> torch.Tensor:
    """The word of the largest logit of each sequence; of equal ones the lowest.

    Args:
        hidden: what ``forward`` returned, shape ``(B, d)``.
        part: this rank's part of the weights. Its logits are ``hidden @ part["head"].T``.
        sizes: of the whole model; rank r has part r of ``sizes.vocabulary`` words.

    Returns:
        An int64 tensor of shape ``(B,)``, the same on all ranks.

    On gloo the result of ``all_gather_into_tensor`` must have p times as many rows as what a rank
    gives, and as many dimensions.
    """
    ### BEGIN SOLUTION
    p, rank = dist.get_world_size(group), dist.get_rank(group)
    lo, hi = shard_bounds(sizes.vocabulary, p, rank)
    with torch.no_grad():
        best = torch.full((2, len(hidden)), -torch.inf, dtype=torch.float64, device=hidden.device)
        if hi > lo:
            logits, words = (hidden @ part["head"].T).max(dim=1)
            best = torch.stack([logits.double(), (words + lo).double()])
        everyone = best.new_empty(2 * p, len(hidden))
        dist.all_gather_into_tensor(everyone, best, group=group)
        everyone = everyone.view(p, *best.shape)
        # max takes the first of equal ones: the lowest rank, which has the lowest words.
        winner = everyone[:, 0].max(dim=0, keepdim=True).indices
        return everyone[:, 1].gather(0, winner)[0].long()
    ### END SOLUTION


def generate(
    group: dist.ProcessGroup,
    prompts: list[list[int]],
    part: dict[str, torch.Tensor],
    sizes: Sizes,
    num_tokens: int,
) -> torch.Tensor:
    """Greedy generation: prefill once, then one token of each sequence in each step.

    Args:
        prompts: a list of B lists of tokens, each of one or more, the same on all ranks.
        num_tokens: how many tokens each sequence gets, at least 1.

    Returns:
        The new tokens, an int64 tensor of shape ``(B, num_tokens)`` on the device of the weights,
        the same on all ranks.
    """
    ### BEGIN SOLUTION
    head = part["head"]
    cache = Cache(sizes, len(prompts), part["0.Wk"].shape[1] // sizes.head_dim, like=head)
    tokens = torch.tensor([token for prompt in prompts for token in prompt], device=head.device)
    counts, found = [len(prompt) for prompt in prompts], []
    for _ in range(num_tokens):
        tokens = greedy(group, forward(group, tokens, counts, cache, part, sizes), part, sizes)
        found.append(tokens)
        counts = [1] * len(prompts)
    return torch.stack(found, dim=1)
    ### END SOLUTION
