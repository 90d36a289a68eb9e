"""Functions that call yours inside a rank, for the tests: supplied, nothing to write.

The tests run outside and see only messages and results. What must be looked at from inside,
such as inputs that can't be written to, they ask for here.
"""

from functools import partial
from importlib import import_module

import numpy as np

from ringside.checking.callers import arrays_in, copied, find, lists_differ, lists_in


def steps(comm, target, params, velocity, batches, lrs, momentum):
    """One step a batch, each on what the last one returned.

    Args:
        target: ``"step:train_step"``, whose batches are ``(x, y)``, or
            ``"accumulate:accumulated_step"``, whose batches are ``(microbatches,)``.
        batches: this rank's, one tuple a step.
        lrs: one learning rate a step.

    Returns:
        ``(params, velocity, losses)``: of the last step, and the loss of each.
    """
    function, losses = find(target), []
    for batch, lr in zip(batches, lrs, strict=True):
        params, velocity, loss = function(comm, params, velocity, *batch, lr, momentum)
        losses.append(loss)
    return params, velocity, losses


def training(comm, target, params, batches, lrs, momentum):
    """Rank 0's parameters to all, velocity 0, then ``steps``."""
    params = find("step:broadcast_parameters")(comm, params)
    velocity = [np.zeros_like(p) for p in params]
    return steps(comm, target, params, velocity, batches, lrs, momentum)


def looked_at(comm, target, *args):
    """Call with arguments that can't be written to on even ranks, and look at them afterwards.

    Returns:
        ``(result, changed, shared, fixed)``: did an argument change, an array or a list; does the
        result share memory with one; can an array of the result not be written to?
    """
    given = list(arrays_in(args))
    before = [array.copy() for array in given]
    lists = [(each, list(each)) for each in lists_in(args)]
    for array in given:
        array.flags.writeable = comm.rank % 2 == 1
    result = find(target)(comm, *args)
    made = list(arrays_in(result))
    changed = any(not np.array_equal(a, b) for a, b in zip(given, before, strict=True))
    changed = changed or lists_differ(lists)
    shared = any(np.shares_memory(a, b) for a in made for b in given)
    fixed = any(not array.flags.writeable for array in made)
    return result, changed, shared, fixed


def twice(comm, target, first, second):
    """Call with one tuple of arguments, then another: the first result then and now."""
    function = find(target)
    early = function(comm, *first)
    then = copied(early)
    late = function(comm, *second)
    return then, early, late


def shards(comm, calls):
    """Every ``shard(n, world_size, rank, epoch, seed)`` of a list of ``(n, epoch, seed)``.

    Before each call the global generators are somewhere else on every rank, and ``hash`` of a
    string is another number on each, as it is in processes that don't stem from one another.

    Returns:
        ``(results, moved)``: and whether a call moved a global generator.
    """
    import random

    shard, results, moved = find("shard:shard"), [], False
    import_module("shard").hash = partial(_hash_on, comm.rank)
    for number, (n, epoch, seed) in enumerate(calls):
        np.random.seed(1000 * comm.rank + number)
        random.seed(1000 * comm.rank + number)
        before = (np.random.get_state()[1].tobytes(), np.random.get_state()[2], random.getstate())
        results.append(shard(n, comm.size, comm.rank, epoch, seed))
        after = (np.random.get_state()[1].tobytes(), np.random.get_state()[2], random.getstate())
        moved = moved or before != after
    return results, moved


def _hash_on(rank, value):
    return hash((rank, hash(value))) if "'" in repr(value) else hash(value)


def shards_again(comm, n, epoch, seed):
    """Call twice, overwriting the first result in between: the first one, and the second."""
    shard = find("shard:shard")
    first = shard(n, comm.size, comm.rank, epoch, seed)
    then = copied(first)
    first[:] = -1
    return then, shard(n, comm.size, comm.rank, epoch, seed)


def evaluated(comm, target, calls):
    """Call a function that needs no ranks, with each of a list of argument tuples."""
    function = find(target)
    return [function(*arguments) for arguments in calls]
