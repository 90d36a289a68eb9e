"""Functions that call yours inside a rank, for the tests: supplied, nothing to write."""

import tracemalloc

import numpy as np
from kv_script import Script, perform
from model import Cache, Sizes

from ringside.checking.callers import arrays_in, find

# -- kv_cache --------------------------------------------------------------------------------------


def kv_scripts(comm, target, calls):
    """What happens in each of a list of scripts; see ``kv_script.py``."""
    return [perform(Script(*each)) for each in calls]


def kv_numbers(comm, target, calls):
    """Call a function with each of a list of argument tuples."""
    return [find(target)(*arguments) for arguments in calls]


# -- decode ----------------------------------------------------------------------------------------


def decode_steps(comm, sizes, part, prompts, later):
    """What ``decode.forward`` returns for the prompts, then for each list of new tokens."""
    sizes, forward = Sizes(*sizes), find("decode:forward")
    of_rank = part["0.bk"].size // sizes.head_dim
    room = Cache(sizes, len(prompts), of_rank, part["positions"].dtype)
    return [forward(comm, tokens, room, part, sizes) for tokens in [prompts, *later]]


def decode_greedy(comm, sizes, part, hidden):
    """What ``decode.greedy`` returns."""
    return find("decode:greedy")(comm, hidden, part, Sizes(*sizes))


def decode_generate(comm, sizes, part, prompts, num_tokens):
    """What ``decode.generate`` returns."""
    return find("decode:generate")(comm, prompts, part, Sizes(*sizes), num_tokens)


def decode_twice(comm, sizes, part, prompts, others, num_tokens):
    """Generate with some prompts, with others, and with the first ones again.

    Weights can't be written to.

    Returns:
        ``(first, second, third, changed)``: was a prompt changed?
    """
    sizes, generate = Sizes(*sizes), find("decode:generate")
    for array in part.values():
        array.flags.writeable = False
    before = [list(each) for each in (*prompts, *others)]
    found = [generate(comm, each, part, sizes, num_tokens) for each in (prompts, others, prompts)]
    return *found, before != [list(each) for each in (*prompts, *others)]


def decode_memory(comm, sizes, part, prompts, num_tokens):
    """Bytes that ``generate`` allocates at most at a time, and its tokens."""
    sizes, generate = Sizes(*sizes), find("decode:generate")
    tracemalloc.start()
    try:
        tokens = generate(comm, prompts, part, sizes, num_tokens)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return most, tokens


def decode_shards(comm, sizes, weights):
    """``(part, shared)`` of this rank: does it share memory with the whole weights?"""
    part = find("decode:shard")(weights, Sizes(*sizes), comm.Get_size(), comm.Get_rank())
    made, given = (list(arrays_in(list(each.values()))) for each in (part, weights))
    return part, any(np.shares_memory(a, b) for a in made for b in given)
