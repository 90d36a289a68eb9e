"""Functions that call yours inside a rank, for the tests: nothing to write.

The tests run outside, and see only messages and results. What must be looked at from inside, such
as the pages of a cache and memory, they ask for here.
"""

import traceback
import tracemalloc
from importlib import import_module

import numpy as np
from given.batching_server import Request, Server
from given.model import Cache, Sizes

from ringside.checking.callers import arrays_in

# -- kv_cache --------------------------------------------------------------------------------------


def scripted(shape, steps, beside):
    """Make calls on a ``kv_cache.PagedCache`` one after another.

    Args:
        shape: what ``PagedCache`` takes.
        steps: of each a word, names of sequences, and what is appended.
        beside: another cache is made and filled before.

    Returns:
        Per step ``(error, where, message, seen)``: the type, the line and the text of what was
        raised, and what the cache looks like afterwards.
    """
    paged_cache, names, results = import_module("kv_cache").PagedCache, {}, []
    if beside:
        other = paged_cache(*shape)
        pages = np.zeros((2, *shape[:-1]), shape[-1])
        _tried(lambda: other.append(other.new(), *pages.reshape(2, -1, *shape[2:-1])))
    cache = paged_cache(*shape)
    for step in steps:
        error = "", "", ""
        try:
            _call(cache, names, *step)
        except Exception as raised:
            error = type(raised).__name__, _where(raised), str(raised)
        results.append((*error, _look(cache, names, shape)))
    return results


def _call(cache, names, verb, name, *more):
    if verb == "new":
        names[name] = cache.new()
    elif verb == "append":
        keys, values = np.array(more[1])
        cache.append(names[name], keys, values)
        keys[...], values[...] = 77, 77  # the caller's arrays: the cache has copies
    elif verb == "fork":
        names[more[0]] = cache.fork(names[name])
    elif verb == "gather":
        for array in cache.gather(names[name]):
            array[...] = 77  # results are the caller's
    elif verb == "free":
        cache.free(names[name])


def _look(cache, names, shape):
    """Of each sequence what ``gather`` gives, what its pages hold, and its table."""
    seen = {"used": _tried(lambda: int(cache.used_pages)), "sequences": {}}
    seen["bytes"] = _tried(lambda: int(cache.used_bytes))
    seen["counts"] = [int(count) for count in cache.counts]
    for word, name in names.items():
        if name not in cache.tables:
            continue
        table, length = [int(page) for page in cache.tables[name]], int(cache.lengths[name])
        gathered = _tried(lambda name=name: [np.array(array) for array in cache.gather(name)])
        held = [_held(pool, table, length, shape) for pool in (cache.keys, cache.values)]
        seen["sequences"][word] = gathered, *held, table
    return seen


def _held(pool, table, length, shape):
    """The positions that the pages of a table hold; NaN where a page is missing."""
    _, page_size, *of_position, _ = shape
    held = np.full((length, *of_position), np.nan)
    for i in range(length):
        page, place = divmod(i, page_size)
        if page < len(table) and 0 <= table[page] < len(pool):
            held[i] = pool[table[page], place]
    return held


def _tried(function):
    """What a function gives, or the name of what it raises, with the line."""
    try:
        return function()
    except Exception as error:
        return f"{type(error).__name__}{_where(error)}"


def _where(error):
    """The line of ``kv_cache.py`` that raised."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename.endswith("kv_cache.py")]
    return f" at kv_cache.py:{lines[-1]}" if lines else ""


# -- batching --------------------------------------------------------------------------------------


class PatientServer(Server):
    """A server that gives up where a plan of steps doesn't end."""

    def step_s(self, prompts, caches):
        left = self.__dict__.setdefault("left", 50_000)
        if left == 0:
            raise RuntimeError("50,000 steps, and the plan has no end: does a request never end?")
        self.__dict__["left"] = left - 1
        return super().step_s(prompts, caches)


def planned(servers):
    """Plans of ``batching.serve``, one after another.

    Args:
        servers: of each the numbers of its requests, and its ``capacity_tokens``.

    Returns:
        Per server ``(start_s, prefill, decode)`` of each step; None if the list of requests was
        changed.
    """
    serve, plans = import_module("batching").serve, []
    for numbers, capacity in servers:
        requests = [Request(*each) for each in numbers]
        before = list(requests)
        plan = [
            (float(step.start_s), [int(k) for k in step.prefill], [int(k) for k in step.decode])
            for step in serve(requests, PatientServer(capacity))
        ]
        plans.append(plan if requests == before else None)
    return plans


# -- decode ----------------------------------------------------------------------------------------


def sharded(comm, sizes, weights):
    """This rank's part of the weights, and whether it shares memory with the whole ones."""
    shard = import_module("decode").shard
    part = shard(weights, Sizes(*sizes), comm.Get_size(), comm.Get_rank())
    made, whole = (list(arrays_in(list(each.values()))) for each in (part, weights))
    return {"part": part, "shared": any(np.shares_memory(a, b) for a in made for b in whole)}


def stepped(comm, sizes, part, prompts, later):
    """What ``decode.forward`` returns for the prompts, then for each list of new tokens."""
    sizes, forward = Sizes(*sizes), import_module("decode").forward
    kv_heads = part["0.bk"].size // sizes.head_dim
    cache = Cache(sizes, len(prompts), kv_heads, part["positions"].dtype)
    return [forward(comm, tokens, cache, part, sizes) for tokens in [prompts, *later]]


def chosen(comm, sizes, part, hidden):
    """What ``decode.greedy`` returns."""
    return import_module("decode").greedy(comm, hidden, part, Sizes(*sizes))


def generated(comm, sizes, part, texts, num_tokens, watched):
    """What ``decode.generate`` returns for lists of prompts, one after another.

    Returns:
        ``tokens`` of each list; ``changed``: whether a prompt or a weight isn't as it was; with
        ``watched``, ``held``: the bytes that were allocated at most at a time.
    """
    sizes, generate = Sizes(*sizes), import_module("decode").generate
    before = [[list(prompt) for prompt in prompts] for prompts in texts]
    weights = {} if watched else {name: array.copy() for name, array in part.items()}
    held = 0
    if watched:
        tracemalloc.start()
    try:
        tokens = [generate(comm, prompts, part, sizes, num_tokens) for prompts in texts]
        if watched:
            held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    same = all(np.array_equal(part[name], array) for name, array in weights.items())
    return {"tokens": tokens, "changed": not same or before != texts, "held": held}
