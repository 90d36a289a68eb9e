"""Functions that call ``decode_torch`` inside a rank, for the tests: nothing to write.

``measured_tokens`` is for real ranks, on CPUs or GPUs::

    ringside launch checks/inside_torch.py:measured_tokens --site zaratan --gpus-per-node 4
"""

from importlib import import_module

import torch
from given.model import Sizes
from given.model_torch import Cache


def stepped(group, sizes, part, prompts, later):
    """What ``decode_torch.forward`` returns for the prompts, then for each list of new tokens."""
    sizes = Sizes(*sizes)
    cache = _cache(sizes, part, len(prompts))
    return [_forward(group, new, cache, part, sizes).clone() for new in [prompts, *later]]


def chosen(group, sizes, part, hidden):
    """What ``decode_torch.greedy`` returns."""
    return import_module("decode_torch").greedy(group, hidden, part, Sizes(*sizes))


def generated(group, sizes, part, texts, num_tokens, watched):
    """What ``decode_torch.generate`` returns for lists of prompts, one after another.

    Returns:
        ``tokens`` of each list; ``changed``: whether a prompt or a weight isn't as it was. With
        ``watched``, where weights require gradients: ``saved``, how many tensors were kept for a
        backward pass, and ``graph``, whether what ``forward`` gives has one.
    """
    sizes, generate = Sizes(*sizes), import_module("decode_torch").generate
    before = [[list(prompt) for prompt in prompts] for prompts in texts]
    weights = {name: each.clone() for name, each in part.items()}
    saved, graph = [], False
    if watched:
        part = {name: each.detach().clone().requires_grad_() for name, each in part.items()}
    with torch.autograd.graph.saved_tensors_hooks(saved.append, lambda _: None):
        tokens = [generate(group, prompts, part, sizes, num_tokens) for prompts in texts]
        if watched:
            cache = _cache(sizes, part, len(texts[0]))
            graph = _forward(group, texts[0], cache, part, sizes, detached=False).requires_grad
    same = all(torch.equal(part[name].detach(), each) for name, each in weights.items())
    changed = not same or before != texts
    return {"tokens": tokens, "changed": changed, "saved": len(saved), "graph": graph}


def _forward(group, new, cache, part, sizes, detached=True):
    """``forward`` of new tokens of each sequence."""
    device = part["head"].device
    tokens = torch.tensor([token for each in new for token in each], device=device)
    counts = [len(each) for each in new]
    hidden = import_module("decode_torch").forward(group, tokens, counts, cache, part, sizes)
    return hidden.detach() if detached else hidden


def _cache(sizes, part, batch):
    return Cache(sizes, batch, part["0.Wk"].shape[1] // sizes.head_dim, like=part["head"].detach())


def measured_tokens(group, sizes, part, prompts, num_tokens):
    """What ``decode_torch.generate`` returns, on the device of the weights."""
    generate = import_module("decode_torch").generate
    return generate(group, prompts, part, Sizes(*sizes), num_tokens)
