"""How long a decoding step takes on p GPUs, from what must be read and sent: supplied.

    time  =  (weights of the part + its keys and values so far) / bytes per second
             +  2 layers all-reduces of B d elements  +  an all-gather of 2 B numbers

Weights and sizes are float32. The messages are timed by a trace in which nothing is computed.
"""

from importlib import import_module

import torch
import torch.distributed as dist

from given.model import Sizes, shapes, shard_bounds
from given.model_torch import CUTS
from ringside import replay
from ringside.errors import RunError

UNIT = 4
# Four layers as those of Llama 3 8B have: 3.3 GB of weights in float32, with the words' head.
LARGE = Sizes(vocabulary=128_256, d=4096, heads=32, kv_heads=8, layers=4, longest=1040)
PROMPTS = (1024,)


def part_shapes(sizes, world_size, rank):
    """The shape of each weight of a rank's part, by name."""
    extents = {
        "keys": (sizes.kv_heads, sizes.head_dim),
        "queries": (sizes.kv_heads, sizes.head_dim * (sizes.heads // sizes.kv_heads)),
        "units": (sizes.hidden, 1),
        "words": (sizes.vocabulary, 1),
    }
    found = {}
    for name, shape in shapes(sizes).items():
        short = name.rpartition(".")[2]
        if short in CUTS:
            place, kind = CUTS[short]
            count, width = extents[kind]
            lo, hi = shard_bounds(count, world_size, rank)
            whole = list(shape)
            whole[place] = (hi - lo) * width
            shape = tuple(whole)
        found[name] = shape
    return found


def read_s(sizes, lengths, num_steps, world_size, machine):
    """Seconds in which rank 0 reads what ``num_steps`` decoding steps behind a prefill read."""
    made = part_shapes(sizes, world_size, 0)
    cut = {name: shape for name, shape in made.items() if name.rpartition(".")[2] in CUTS}
    weights = sum(torch.Size(shape).numel() for shape in cut.values())
    positions = sum(n + step for n in lengths for step in range(1, num_steps + 1))
    cached = 2 * sizes.layers * positions * made["0.Wk"][1]
    return UNIT * (num_steps * weights + cached) / machine.memory_bytes_per_s


def messages_alone(group, sizes, batch, num_steps):
    """The collectives of so many decoding steps, with nothing computed between them."""
    sizes, own = Sizes(*sizes), torch.zeros(2, batch, dtype=torch.float64)
    for _ in range(num_steps):
        for _ in range(2 * sizes.layers):
            dist.all_reduce(torch.zeros(batch, sizes.d), group=group)
        dist.all_gather([torch.empty_like(own) for _ in range(group.size())], own, group=group)


def traced(group, sizes, lengths, num_tokens):
    """``decode_torch.generate`` with weights of zeros, for a trace on fake tensors.

    Args:
        lengths: of the prompts.
    """
    sizes = Sizes(*sizes)
    shapes_of_part = part_shapes(sizes, group.size(), group.rank())
    part = {name: torch.zeros(shape) for name, shape in shapes_of_part.items()}
    prompts = [[0] * n for n in lengths]
    return import_module("decode_torch").generate(group, prompts, part, sizes, num_tokens)


def step_times(trace, machine, world_size, num_steps=4, sizes=LARGE, lengths=PROMPTS):
    """Seconds of a decoding step on p GPUs: of ``decode_torch.generate``, and what it may take.

    Args:
        trace: ``ringside.trace_torch``, or what does the same.
    """

    def traced_s(function, *given):
        call = function, world_size, (tuple(vars(sizes).values()), *given)
        try:
            traced = trace(*call, grid={"rank": world_size}, alike=("rank",))
        except RunError:  # ranks do different things; then each one is traced, which takes longer
            traced = trace(*call)
        return replay(traced.trace, machine).makespan_s

    function = "given/decode_time_torch.py:traced"
    # The first token takes the prefill; what the others take is the rest.
    took_s = traced_s(function, lengths, 1 + num_steps) - traced_s(function, lengths, 1)
    sent_s = traced_s("given/decode_time_torch.py:messages_alone", len(lengths), num_steps)
    allowed_s = read_s(sizes, lengths, num_steps, world_size, machine) + sent_s
    return took_s / num_steps, allowed_s / num_steps
