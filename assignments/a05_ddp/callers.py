"""Functions that call yours inside a rank, for the tests: supplied, nothing to write.

The tests run outside and see only messages and results. What must be looked at from inside, such
as memory and arrays that share it, they ask for here. The ``try_...`` functions are for you: they
make inputs of their own, and run what a verdict names.
"""

import tracemalloc
from copy import deepcopy
from importlib import import_module
from pathlib import Path

import numpy as np
from model import Model, loss_gradient, random_parameters

import ringside
from ringside.checking import find

BATCH = 3  # samples of a rank, where inputs are made here


def several(comm, target, calls):
    """Call a function that needs no ranks with each of a list of arguments.

    Returns:
        Per call ``(result, None, changed)``, or ``(None, "ValueError", changed)``: the exception's
        type; and whether an argument was changed.
    """
    answers = []
    for arguments in calls:
        before = deepcopy(arguments)
        try:
            answer = find(target)(*arguments), None
        except Exception as error:
            answer = None, type(error).__name__
        answers.append((*answer, arguments != before))
    return answers


def inside(arrays, strided):
    """The arrays, or with ``strided`` parts of larger ones that are not contiguous, and these."""
    if not strided:
        return [np.array(array) for array in arrays], []
    larger = [
        np.full([2 * d + 1 for d in (*array.shape, 1)], 77, array.dtype, order="F")
        for array in arrays
    ]
    views = [
        whole[(slice(1, None, 2),) * array.ndim + (1,)]
        for whole, array in zip(larger, arrays, strict=True)
    ]
    views = [
        view if view.ndim else whole[1:2].reshape(())
        for view, whole in zip(views, larger, strict=True)
    ]
    for view, array in zip(views, arrays, strict=True):
        view[...] = array
    return views, larger


def spoilt(larger):
    """Was anything written between the elements of the views?"""
    return any(bool(np.any(whole[..., ::2] != 77)) for whole in larger)


def packed(comm, arrays, strided):
    """``pack`` and ``unpack``: the flat buffer, whether it shares memory, and it unpacked twice."""
    pack, unpack = find("buckets:pack"), find("buckets:unpack")
    views, larger = inside(arrays, strided)
    before = [np.array(view) for view in views]
    flat = pack(views)
    shared = isinstance(flat, np.ndarray) and any(np.shares_memory(flat, view) for view in views)
    changed = any(not np.array_equal(a, b) for a, b in zip(views, before, strict=True))
    flat = flat.copy() if isinstance(flat, np.ndarray) else flat  # before unpack writes
    doubled = np.concatenate([view.reshape(-1) for view in before]) * 2
    kept = doubled.copy()
    unpack(doubled, views)
    changed = changed or not np.array_equal(doubled, kept)
    refused = 0
    for wrong in (kept[:-1], np.append(kept, 1)):
        try:
            unpack(wrong * 3, views)
        except ValueError:
            refused += 1
    return flat, bool(shared), bool(changed), [np.array(v) for v in views], refused, spoilt(larger)


def averaged(comm, function, gradients, arguments, strided):
    """``average`` or ``fusion_cycle`` in place.

    Returns:
        ``(what was returned, gradients afterwards, list as it was, spoilt)``.
    """
    views, larger = inside(gradients, strided)
    given, same = list(views), list(views)
    returned = find(f"buckets:{function}")(comm, given, *arguments)
    kept = len(given) == len(same) and all(a is b for a, b in zip(given, same, strict=True))
    if returned is not None:
        returned = [int(index) for index in returned]
    return returned, [np.array(view) for view in views], kept, spoilt(larger)


class Watched:
    """A communicator that looks at memory whenever an all-reduce begins.

    ``held`` is the most that lines of your files had allocated then, in bytes, since the watch
    began; what the library holds does not count.
    """

    def __init__(self, comm):
        self._comm = comm
        self.held = 0

    def __getattr__(self, name):
        found = getattr(self._comm, name)
        if name.lower() not in ("allreduce", "iallreduce"):
            return found

        def called(*arguments, **options):
            self.held = max(self.held, held_bytes())
            return found(*arguments, **options)

        return called


def held_bytes():
    """Bytes that are allocated now, without those of the kit and of the supplied files."""
    kit, here = str(Path(ringside.__file__).parent), str(Path(__file__).parent)
    ours = [f"{kit}/*", f"{here}/model.py", f"{here}/callers.py", tracemalloc.__file__]
    filters = [tracemalloc.Filter(False, pattern) for pattern in ours]
    snapshot = tracemalloc.take_snapshot().filter_traces(filters)
    return sum(each.size for each in snapshot.statistics("filename"))


def average_memory(comm, gradients, buckets):
    """``average`` under watch: the means, and the bytes held."""
    arrays = [np.array(each) for each in gradients]
    watched = Watched(comm)
    tracemalloc.start()
    try:
        find("buckets:average")(watched, arrays, buckets)
    finally:
        tracemalloc.stop()
    return arrays, watched.held


def overlapped(comm, params, batches, buckets, lr, work=1.0, before=False):
    """Train for some steps with ``overlap``: forward, its ``backward``, and an update.

    Args:
        params: weights and biases in turn, the same on all ranks.
        batches: a list of ``(x, target)``, this rank's; one a step.
        lr: learning rate; None: no update.
        before: make a step of another model first, of the same widths.

    Returns:
        A dict: ``params`` and ``gradients`` at the end, ``flats`` (the buffers), ``inputs`` (per
        step the gradient with respect to x), ``shared`` (is every gradient a part of its buffer).
    """
    overlap = import_module("overlap")
    if before:
        first = [0.5 * np.array(each) for each in params]
        overlapped(comm, first, batches[:1], buckets, None, work)
    model = Model([np.array(each) for each in params], work)
    flats = overlap.flat_buckets(model, buckets)
    inputs = []
    for x, target in batches:
        output = model.forward(x)
        grad_output = loss_gradient(output, target)
        kept = grad_output.copy()
        inputs.append(np.array(overlap.backward(comm, model, grad_output, buckets, flats)))
        if not np.array_equal(kept, grad_output):
            raise AssertionError("backward wrote to grad_output")
        if lr is not None:
            for param, gradient in zip(model.parameters(), model.gradients(), strict=True):
                param -= lr * gradient
    return {
        "params": [np.array(each) for each in model.parameters()],
        "gradients": [np.array(each) for each in model.gradients()],
        "flats": [np.array(flat) for flat in flats],
        "inputs": inputs,
        "shared": parts_of(model, buckets, flats),
    }


def parts_of(model, buckets, flats):
    """Is every gradient of the model a part of its bucket's buffer, and contiguous?"""
    gradients = model.gradients()
    return len(flats) == len(buckets) and all(
        isinstance(flat, np.ndarray)
        and flat.ndim == 1
        and all(
            np.shares_memory(gradients[index], flat) or not gradients[index].size
            for index in bucket
        )
        for bucket, flat in zip(buckets, flats, strict=True)
    )


def overlap_memory(comm, params, batch, buckets):
    """A second ``backward`` under watch: the mean gradients, and the bytes held."""
    overlap = import_module("overlap")
    model = Model([np.array(each) for each in params])
    flats = overlap.flat_buckets(model, buckets)
    x, target = batch
    overlap.backward(comm, model, loss_gradient(model.forward(x), target), buckets, flats)
    grad_output = loss_gradient(model.forward(x), target)
    watched = Watched(comm)
    tracemalloc.start()
    try:
        overlap.backward(watched, model, grad_output, buckets, flats)
    finally:
        tracemalloc.stop()
    return [np.array(each) for each in model.gradients()], watched.held


# -- for trying out -------------------------------------------------------------------------------


def sample(rank, lengths, dtype):
    """A rank's gradients for trying out."""
    rng = np.random.default_rng([1, rank])
    return [rng.integers(-9, 10, size=length).astype(dtype) for length in lengths]


def try_average(comm, lengths, buckets, dtype="float64"):
    """``average`` on sample gradients; returns them."""
    gradients = sample(comm.Get_rank(), lengths, dtype)
    find("buckets:average")(comm, gradients, buckets)
    return gradients


def try_fusion(comm, lengths, threshold_bytes, dtype="float64"):
    """``fusion_cycle`` on sample gradients, of which one is not ready on one rank."""
    gradients = sample(comm.Get_rank(), lengths, dtype)
    ready = np.ones(len(lengths), dtype=bool)
    if lengths and comm.Get_rank() == 0:
        ready[0] = False
    agreed = find("buckets:fusion_cycle")(comm, gradients, ready, threshold_bytes)
    return list(agreed), gradients


def try_step(comm, widths, buckets, dtype="float64", work=1.0):
    """One step of ``overlap`` on a sample model and batch; returns the gradients.

    Args:
        work: how many times longer the layers take than they do.
    """
    params, batches = sample_step(widths, comm.Get_size(), dtype)
    batch = batches[comm.Get_rank()]
    return overlapped(comm, params, [batch], buckets, None, work)["gradients"]


def sample_step(widths, world_size, dtype):
    """Parameters, and every rank's batch."""
    params = random_parameters(widths, np.random.default_rng(1), dtype)
    batches = []
    for rank in range(world_size):
        rng = np.random.default_rng([2, rank])
        batch = (rng.standard_normal((BATCH, width)) for width in (widths[0], widths[-1]))
        batches.append(tuple(each.astype(dtype) for each in batch))
    return params, batches
