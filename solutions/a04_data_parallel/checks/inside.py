"""Functions that call yours inside a rank, for the tests: nothing to write.

The tests run outside, and see only messages and results. What must be looked at from inside, such
as inputs that must stay as they were, they ask for here.
"""

import random
from functools import partial
from importlib import import_module

import numpy as np

from ringside.checking.callers import arrays_in, copied, find, lists_differ, lists_in


def shards(comm, calls, overwritten, alone=False):
    """Every ``shard(n, world_size, rank, epoch, seed)`` of a list of ``(n, epoch, seed)``.

    Before each call the global generators are somewhere else on every rank, and ``hash`` of a
    string is another number on each, as it is in processes that don't stem from one another.

    Args:
        overwritten: write to the first results before the calls are made again.
        alone: and as rank 0 of one rank.

    Returns:
        A dict: ``shards``, ``again`` (those of second calls), ``orders`` (those of one rank alone),
        and ``moved``: whether a call moved a global generator.
    """
    import_module("shard").hash = partial(_hash_on, comm.rank)
    moved = False

    def called(world_size, rank):
        nonlocal moved
        results, shard = [], find("shard:shard")
        for number, (n, epoch, seed) in enumerate(calls):
            np.random.seed(1000 * comm.rank + number)
            random.seed(1000 * comm.rank + number)
            before = _generators()
            results.append(shard(n, world_size, rank, epoch, seed))
            moved = moved or before != _generators()
        return results

    first = called(comm.size, comm.rank)
    result = {"shards": copied(first)}
    if overwritten:
        for array in first:
            array[:] = -1
    result["again"] = called(comm.size, comm.rank)
    result["orders"] = called(1, 0) if alone else []
    return {**result, "moved": moved}


def _generators():
    """The states of the global generators."""
    _, keys, place, *_ = np.random.get_state()
    return keys.tobytes(), place, random.getstate()


def _hash_on(rank, value):
    return hash((rank, hash(value))) if "'" in repr(value) else hash(value)


def broadcast(comm, params):
    """Call ``broadcast_parameters``; see ``watched`` for what is returned beside ``params``."""
    received, seen = watched(lambda: find("step:broadcast_parameters")(comm, params), params)
    return {"params": received, **seen}


def steps(comm, target, params, velocity, batches, lrs, momentum, others):
    """One step a batch, each on what the last one returned.

    Args:
        target: ``"step:train_step"``, whose batches are ``(x, y)``, or
            ``"accumulate:accumulated_step"``, whose batches are ``(microbatches,)``.
        batches: this rank's, one tuple a step.
        lrs: one learning rate a step.
        others: arguments of steps that are made before, and once more afterwards.

    Returns:
        A dict: ``params`` and ``velocity`` of the last step, ``losses``, and what ``watched`` saw.
    """
    function = find(target)

    def taken():
        state, losses = (params, velocity), []
        for batch, lr in zip(batches, lrs, strict=True):
            *state, loss = function(comm, *state, *batch, lr, momentum)
            losses.append(loss)
        return *state, losses

    for other in others:
        function(comm, *other)
    (new_params, new_velocity, losses), seen = watched(taken, (params, velocity, batches))
    for other in others:
        function(comm, *other)
    return {"params": new_params, "velocity": new_velocity, "losses": losses, **seen}


def watched(call, given):
    """What ``call()`` returns, and how it treats what it is given.

    Returns:
        ``(result, seen)``, a dict: did it ``change`` an array or a list; is an array of the result
        ``shared`` with it; can one not be written to, so that it is ``fixed``?
    """
    arrays, lists = list(arrays_in(given)), [(each, list(each)) for each in lists_in(given)]
    before = [array.copy() for array in arrays]
    result = call()
    made = list(arrays_in(result))
    changed = any(not np.array_equal(a, b) for a, b in zip(arrays, before, strict=True))
    return result, {
        "changed": changed or lists_differ(lists),
        "shared": any(np.shares_memory(a, b) for a in made for b in arrays),
        "fixed": any(not array.flags.writeable for array in made),
    }
