# fails: test_time_of_a_step
"""No cache: each step sends all positions through the layers again."""

import torch
import torch.distributed as dist
from model import shard_bounds
from model_torch import Cache, gelu, last_rows, layer_norm, of_layer, positions_of


def forward(group, tokens, counts, cache, part, sizes):
    with torch.no_grad():
        x = part["words"][tokens] + part["positions"][positions_of(counts, cache, tokens.device)]
        for layer in range(sizes.layers):
            w = of_layer(part, layer)
            n = layer_norm(x, w["gamma1"], w["beta1"])
            q, k, v = (n @ w["W" + each] + w["b" + each] for each in "qkv")
            y = cache.attend(layer, q, k, v, counts) @ w["Wo"]
            dist.all_reduce(y, group=group)
            x = x + y + w["bo"]
            y = gelu(layer_norm(x, w["gamma2"], w["beta2"]) @ w["W1"] + w["b1"]) @ w["W2"]
            dist.all_reduce(y, group=group)
            x = x + y + w["b2"]
        cache.advance(counts)
        return layer_norm(x[last_rows(counts)], part["gamma"], part["beta"])


def greedy(group, hidden, part, sizes):
    p, rank = dist.get_world_size(group), dist.get_rank(group)
    lo, hi = shard_bounds(sizes.vocabulary, p, rank)
    with torch.no_grad():
        best = torch.full((2, len(hidden)), -torch.inf, dtype=torch.float64, device=hidden.device)
        if hi > lo:
            logits, words = (hidden @ part["head"].T).max(dim=1)
            best = torch.stack([logits.double(), (words + lo).double()])
        everyone = [torch.empty_like(best) for _ in range(p)]
        dist.all_gather(everyone, best, group=group)
        everyone = torch.stack(everyone)
        winner = everyone[:, 0].argmax(dim=0)
        return everyone[winner, 1, torch.arange(len(hidden), device=hidden.device)].long()


def generate(group, prompts, part, sizes, num_tokens):
    head, found = part["head"], []
    rows = [torch.tensor(prompt, device=head.device) for prompt in prompts]
    for _ in range(num_tokens):
        cache = Cache(sizes, len(prompts), part["0.Wk"].shape[1] // sizes.head_dim, like=head)
        counts = [len(row) for row in rows]
        hidden = forward(group, torch.cat(rows), counts, cache, part, sizes)
        found.append(greedy(group, hidden, part, sizes))
        rows = [torch.cat([row, new[None]]) for row, new in zip(rows, found[-1], strict=True)]
    return torch.stack(found, dim=1)
