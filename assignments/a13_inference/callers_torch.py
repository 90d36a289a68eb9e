"""Functions that call yours of ``decode_torch.py`` inside a rank, for the tests: supplied.

ringside run callers_torch.py:torch_generate --ranks 3 -- --lengths '[4, 2]' --tokens 5
"""

import torch
from decode_time_torch import messages_alone, part_shapes
from model import Sizes
from model_torch import Cache

from ringside.checking import find

__all__ = ["messages_alone"]  # the tests trace it from here


def torch_steps(group, sizes, part, prompts, later):
    """What ``decode_torch.forward`` returns for the prompts, then for each list of new tokens."""
    sizes, forward, found = Sizes(*sizes), find("decode_torch:forward"), []
    cache = _cache(sizes, part, len(prompts))
    for new in [prompts, *later]:
        counts = [len(each) for each in new]
        tokens = torch.tensor([token for each in new for token in each], device=_device(part))
        found.append(forward(group, tokens, counts, cache, part, sizes).detach().clone())
    return found


def torch_greedy(group, sizes, part, hidden):
    """What ``decode_torch.greedy`` returns."""
    return find("decode_torch:greedy")(group, hidden, part, Sizes(*sizes))


def torch_generate(group, sizes, part, prompts, num_tokens):
    """What ``decode_torch.generate`` returns."""
    return find("decode_torch:generate")(group, prompts, part, Sizes(*sizes), num_tokens)


def torch_twice(group, sizes, part, prompts, others, num_tokens):
    """Generate with some prompts, with others, and with the first ones again.

    Returns:
        ``(first, second, third, changed)``: was a prompt or a weight changed?
    """
    sizes, generate = Sizes(*sizes), find("decode_torch:generate")
    prompts, others = ([list(each) for each in some] for some in (prompts, others))
    before = [list(each) for each in (*prompts, *others)]
    weights = {name: each.clone() for name, each in part.items()}
    found = [generate(group, each, part, sizes, num_tokens) for each in (prompts, others, prompts)]
    same = all(torch.equal(part[name], each) for name, each in weights.items())
    return *found, not same or before != [*prompts, *others]


def torch_graph(group, sizes, part, prompts, num_tokens):
    """Generate with weights that require gradients.

    Returns:
        ``(saved, graph, tokens)``: how many tensors were kept for a backward pass, and whether
        ``forward`` gave a tensor that has one.
    """
    shape, saved = Sizes(*sizes), []
    part = {name: each.detach().clone().requires_grad_() for name, each in part.items()}
    with torch.autograd.graph.saved_tensors_hooks(saved.append, lambda _: None):
        tokens = find("decode_torch:generate")(group, prompts, part, shape, num_tokens)
        flat = torch.tensor([token for each in prompts for token in each], device=_device(part))
        counts, cache = [len(each) for each in prompts], _cache(shape, part, len(prompts))
        hidden = find("decode_torch:forward")(group, flat, counts, cache, part, shape)
    return len(saved), hidden.requires_grad, tokens


def torch_traced(group, sizes, lengths, num_tokens):
    """Generate with weights of zeros, for a trace on fake tensors; see ``decode_time_torch``.

    Args:
        lengths: of the prompts.
    """
    sizes = Sizes(*sizes)
    shapes = part_shapes(sizes, group.size(), group.rank())
    part = {name: torch.zeros(shape) for name, shape in shapes.items()}
    prompts = [[0] * n for n in lengths]
    return find("decode_torch:generate")(group, prompts, part, sizes, num_tokens)


def _cache(sizes, part, batch):
    return Cache(sizes, batch, part["0.Wk"].shape[1] // sizes.head_dim, like=part["head"].detach())


def _device(part):
    return part["head"].device
