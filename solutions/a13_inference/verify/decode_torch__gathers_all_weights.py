# fails: test_sums_travel_and_weights_do_not
# earns: 0 to 10
"""All ranks collect the whole weights, and each computes as one rank would."""

import torch
import torch.distributed as dist
from model_torch import CUTS, Cache, gelu, last_rows, layer_norm, of_layer, positions_of


def _whole(group, part):
    found = {}
    for name, own in part.items():
        cut = CUTS.get(name.rpartition(".")[2])
        if cut is None:
            found[name] = own
            continue
        p = dist.get_world_size(group)
        length = torch.tensor([own.shape[cut[0]]])
        lengths = [torch.empty_like(length) for _ in range(p)]
        dist.all_gather(lengths, length, group=group)
        most = max(int(each) for each in lengths)
        padded = own.transpose(0, cut[0])
        padded = torch.cat([padded, padded.new_zeros(most - len(padded), *padded.shape[1:])])
        padded = padded.contiguous()
        everyone = [torch.empty_like(padded) for _ in range(p)]
        dist.all_gather(everyone, padded, group=group)
        parts = [each[: int(n)] for each, n in zip(everyone, lengths, strict=True)]
        found[name] = torch.cat(parts).transpose(0, cut[0]).contiguous()
    return found


_kept = {}


@torch.no_grad()
def forward(group, tokens, counts, cache, part, sizes):
    whole = _whole(group, part)
    if cache not in _kept:
        _kept[cache] = Cache(sizes, len(counts), sizes.kv_heads, like=part["head"])
    full = _kept[cache]
    x = whole["words"][tokens] + whole["positions"][positions_of(counts, full, tokens.device)]
    for layer in range(sizes.layers):
        w = of_layer(whole, layer)
        n = layer_norm(x, w["gamma1"], w["beta1"])
        q, k, v = (n @ w["W" + each] + w["b" + each] for each in "qkv")
        x = x + full.attend(layer, q, k, v, counts) @ w["Wo"] + w["bo"]
        x = x + gelu(layer_norm(x, w["gamma2"], w["beta2"]) @ w["W1"] + w["b1"]) @ w["W2"] + w["b2"]
    full.advance(counts)
    return layer_norm(x[last_rows(counts)], whole["gamma"], whole["beta"])


@torch.no_grad()
def greedy(group, hidden, part, sizes):
    return (hidden @ _whole(group, part)["head"].T).argmax(dim=1)


def generate(group, prompts, part, sizes, num_tokens):
    cache = Cache(sizes, len(prompts), 0, like=part["head"])
    tokens = torch.tensor([token for prompt in prompts for token in prompt])
    counts, found = [len(prompt) for prompt in prompts], []
    for _ in range(num_tokens):
        tokens = greedy(group, forward(group, tokens, counts, cache, part, sizes), part, sizes)
        found.append(tokens)
        counts = [1] * len(prompts)
    return torch.stack(found, dim=1)
