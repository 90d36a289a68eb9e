"""Rank 0 puts residual and bias into its summand; sums are started and waited for."""

import torch
import torch.distributed as dist
from model import shard_bounds
from model_torch import Cache, gelu, last_rows, layer_norm, positions_of


def _joined(group, y, x, bias):
    """The all-reduce of y, x and the bias, of which rank 0 has the last two."""
    if dist.get_rank(group) == 0:
        y = y + x + bias
    work = dist.all_reduce(y, group=group, async_op=True)
    work.wait()
    return y


def forward(group, tokens, counts, cache, part, sizes):
    w = {name: each.detach() for name, each in part.items()}
    rows = positions_of(counts, cache, tokens.device)
    x = w["words"].index_select(0, tokens) + w["positions"].index_select(0, rows)
    for i in range(sizes.layers):
        n = layer_norm(x, w[f"{i}.gamma1"], w[f"{i}.beta1"])
        qkv = [torch.nn.functional.linear(n, w[f"{i}.W{c}"].T, w[f"{i}.b{c}"]) for c in "qkv"]
        x = _joined(group, cache.attend(i, *qkv, counts) @ w[f"{i}.Wo"], x, w[f"{i}.bo"])
        n = layer_norm(x, w[f"{i}.gamma2"], w[f"{i}.beta2"])
        y = gelu(n @ w[f"{i}.W1"] + w[f"{i}.b1"]) @ w[f"{i}.W2"]
        x = _joined(group, y, x, w[f"{i}.b2"])
    cache.advance(counts)
    return layer_norm(x, w["gamma"], w["beta"])[last_rows(counts)]


def greedy(group, hidden, part, sizes):
    p, me = dist.get_world_size(group), dist.get_rank(group)
    lo, hi = shard_bounds(sizes.vocabulary, p, me)
    pairs = hidden.new_zeros(len(hidden), 2, dtype=torch.float64)
    if lo == hi:
        pairs[:, 0] = float("-inf")
    else:
        best = (hidden @ part["head"].detach().T).max(dim=1)
        pairs[:, 0], pairs[:, 1] = best.values, best.indices + lo
    everyone = [torch.zeros_like(pairs) for _ in range(p)]
    dist.all_gather(everyone, pairs, group=group)
    found = everyone[0]
    for other in everyone[1:]:
        found = torch.where(other[:, :1] > found[:, :1], other, found)
    return found[:, 1].to(torch.int64)


def generate(group, prompts, part, sizes, num_tokens):
    like = part["head"].detach()
    cache = Cache(sizes, len(prompts), part["0.Wk"].shape[1] // sizes.head_dim, like)
    flat = sum(map(list, prompts), [])
    hidden = forward(
        group, torch.tensor(flat, device=like.device), [len(p) for p in prompts], cache, part, sizes
    )
    found = [greedy(group, hidden, part, sizes)]
    while len(found) < num_tokens:
        hidden = forward(group, found[-1], [1] * len(prompts), cache, part, sizes)
        found.append(greedy(group, hidden, part, sizes))
    return torch.stack(found).T.contiguous()
