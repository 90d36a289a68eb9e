"""A sum is a reduce-scatter and an all-gather; the best words travel from rank to rank."""

import torch
import torch.distributed as dist
from model import shard_bounds
from model_torch import Cache, gelu, last_rows, layer_norm, of_layer, positions_of


def _summed(group, y):
    p = dist.get_world_size(group)
    flat = y.reshape(-1)
    short = -len(flat) % p
    flat = torch.nn.functional.pad(flat, (0, short))
    own = flat.new_empty(len(flat) // p)
    dist.reduce_scatter_tensor(own, flat, group=group)
    whole = torch.empty_like(flat)
    dist.all_gather_into_tensor(whole, own, group=group)
    return whole[: len(whole) - short].reshape(y.shape)


@torch.no_grad()
def forward(group, tokens, counts, cache, part, sizes):
    x = part["words"][tokens] + part["positions"][positions_of(counts, cache, tokens.device)]
    for layer in range(sizes.layers):
        w = of_layer(part, layer)
        n = layer_norm(x, w["gamma1"], w["beta1"])
        q, k, v = (n.matmul(w["W" + each]).add(w["b" + each]) for each in "qkv")
        x = x + _summed(group, cache.attend(layer, q, k, v, counts).matmul(w["Wo"])) + w["bo"]
        n = layer_norm(x, w["gamma2"], w["beta2"])
        x = x + _summed(group, gelu(n.matmul(w["W1"]).add(w["b1"])).matmul(w["W2"])) + w["b2"]
    cache.advance(counts)
    return layer_norm(x[last_rows(counts)], part["gamma"], part["beta"])


@torch.no_grad()
def greedy(group, hidden, part, sizes):
    p, rank = dist.get_world_size(group), dist.get_rank(group)
    lo, hi = shard_bounds(sizes.vocabulary, p, rank)
    best = torch.zeros(2, len(hidden), dtype=torch.float64, device=hidden.device)
    best[0] = -torch.inf
    if lo < hi:
        value, word = (hidden @ part["head"].T).max(dim=1)
        best[0], best[1] = value, word + lo
    everyone = [best if other == rank else torch.empty_like(best) for other in range(p)]
    calls = []
    for other in range(p):
        if other != rank:
            there = dist.get_global_rank(group, other)
            calls.append(dist.P2POp(dist.isend, best, there, group))
            calls.append(dist.P2POp(dist.irecv, everyone[other], there, group))
    for work in dist.batch_isend_irecv(calls) if calls else ():
        work.wait()
    stacked = torch.stack(everyone)
    winner = stacked[:, 0].argmax(dim=0)
    return stacked[winner, 1, torch.arange(len(hidden), device=hidden.device)].long()


def generate(group, prompts, part, sizes, num_tokens):
    head, batch = part["head"], len(prompts)
    cache = Cache(sizes, batch, part["0.Wv"].shape[1] // sizes.head_dim, head.detach())
    new = torch.tensor([token for prompt in prompts for token in prompt], device=head.device)
    found = new.new_empty(num_tokens, batch)
    for step in range(num_tokens):
        counts = [1] * batch if step else [len(prompt) for prompt in prompts]
        new = greedy(group, forward(group, new, counts, cache, part, sizes), part, sizes)
        found[step] = new
    return found.T.clone()
