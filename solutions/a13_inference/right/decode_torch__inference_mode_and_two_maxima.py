"""Inference mode, and a word found by two all-reduces: the largest logit, then the lowest word."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from model import shard_bounds
from model_torch import Cache, positions_of


class _Model:
    def __init__(self, group, part, sizes):
        self.group, self.part, self.sizes = group, part, sizes

    def summed(self, y):
        y = y.contiguous()
        dist.all_reduce(y, op=dist.ReduceOp.SUM, group=self.group)
        return y

    def normal(self, x, gamma, beta):
        return F.layer_norm(x, (self.sizes.d,), self.part[gamma], self.part[beta], eps=1e-5)

    def layer(self, i, x, cache, counts):
        def w(name):
            return self.part[f"{i}.{name}"]

        n = self.normal(x, f"{i}.gamma1", f"{i}.beta1")
        joined = torch.cat([w("Wq"), w("Wk"), w("Wv")], dim=1) if len(x) > 64 else None
        if joined is None:
            q, k, v = n @ w("Wq"), n @ w("Wk"), n @ w("Wv")
        else:
            q, k, v = (n @ joined).split([w(f"W{each}").shape[1] for each in "qkv"], dim=1)
        heads = cache.attend(i, q + w("bq"), k + w("bk"), v + w("bv"), counts)
        x = self.summed(heads @ w("Wo")).add_(w("bo")).add_(x)
        n = self.normal(x, f"{i}.gamma2", f"{i}.beta2")
        return x + self.summed(F.gelu(n @ w("W1") + w("b1"), approximate="tanh") @ w("W2")) + w("b2")


@torch.inference_mode()
def forward(group, tokens, counts, cache, part, sizes):
    model = _Model(group, part, sizes)
    places = positions_of(counts, cache, tokens.device)
    x = F.embedding(tokens, part["words"]) + F.embedding(places, part["positions"])
    for i in range(sizes.layers):
        x = model.layer(i, x, cache, counts)
    cache.advance(counts)
    ends = torch.tensor(counts, device=x.device).cumsum(0) - 1
    return model.normal(x.index_select(0, ends), "gamma", "beta")


@torch.inference_mode()
def greedy(group, hidden, part, sizes):
    first, last = shard_bounds(sizes.vocabulary, dist.get_world_size(group), dist.get_rank(group))
    most = hidden.new_full((len(hidden),), -torch.inf)
    word = torch.full((len(hidden),), sizes.vocabulary, device=hidden.device)
    own = most
    if last > first:
        logits = hidden @ part["head"].mT
        own = logits.amax(dim=1)
        word = first + logits.argmax(dim=1)
        most = own.clone()
    dist.all_reduce(most, op=dist.ReduceOp.MAX, group=group)
    word = torch.where(own == most, word, sizes.vocabulary)
    dist.all_reduce(word, op=dist.ReduceOp.MIN, group=group)
    return word


@torch.inference_mode()
def generate(group, prompts, part, sizes, num_tokens):
    device, kv_width = part["head"].device, part["0.bk"].numel()
    cache = Cache(sizes, len(prompts), kv_width // sizes.head_dim, part["head"])
    found = torch.empty(len(prompts), num_tokens, dtype=torch.int64, device=device)
    new = torch.cat([torch.tensor(prompt, device=device) for prompt in prompts])
    counts = list(map(len, prompts))
    for step in range(num_tokens):
        hidden = forward(group, new, counts, cache, part, sizes)
        new = greedy(group, hidden, part, sizes)
        found[:, step] = new
        counts = [1 for _ in prompts]
    return found
