"""Functions that call yours inside a rank, for the tests: nothing to write.

The tests run outside, and see only messages and results. What must be looked at from inside, such
as memory and arrays that share it, they ask for here.
"""

import contextlib
import tracemalloc
from importlib import import_module
from pathlib import Path

import numpy as np
from given.model import Model, loss_gradient

import ringside

WIDE = 77  # stands between the elements of arrays that aren't contiguous


def inside(arrays, strided):
    """The arrays, or with ``strided`` parts of larger ones that are not contiguous, and these."""
    if not strided:
        return [np.array(array) for array in arrays], []
    larger = [
        np.full([2 * d + 1 for d in (*array.shape, 1)], WIDE, array.dtype, order="F")
        for array in arrays
    ]
    views = []
    for whole, array in zip(larger, arrays, strict=True):
        view = whole[(slice(1, None, 2),) * array.ndim + (1,)]
        views.append(view if view.ndim else whole[1:2].reshape(()))
        views[-1][...] = array
    return views, larger


def spoilt(larger):
    """Was anything written between the elements of the views?"""
    return any(bool(np.any(whole[..., ::2] != WIDE)) for whole in larger)


def packed(comm, arrays, strided):
    """``pack`` and ``unpack``: the flat buffer, and it unpacked twice as large.

    ``refused`` counts the buffers of another length that were met by a ValueError and not
    written anywhere, of two.
    """
    buckets = import_module("buckets")
    views, larger = inside(arrays, strided)
    before = [np.array(view) for view in views]
    flat = buckets.pack(views)
    is_array = isinstance(flat, np.ndarray)
    shares = is_array and any(np.shares_memory(flat, view) for view in views)
    changed = any(not np.array_equal(a, b) for a, b in zip(views, before, strict=True))
    flat = flat.copy() if is_array else flat  # before unpack writes
    doubled = np.concatenate([view.reshape(-1) for view in before]) * 2
    kept = doubled.copy()
    buckets.unpack(doubled, views)
    changed = changed or not np.array_equal(doubled, kept)
    unpacked, refused = [np.array(view) for view in views], 0
    for wrong in (kept[:-1], np.append(kept, 1)):
        try:
            buckets.unpack(wrong * 3, views)
        except ValueError:
            refused += all(map(np.array_equal, views, unpacked))
    return {
        "flat": flat,
        "doubled": unpacked,
        "shares memory with": bool(shares),
        "changed": bool(changed),
        "wrote beside": spoilt(larger),
        "refused": refused,
    }


def averaged(comm, function, gradients, arguments, strided, watched):
    """``average`` or ``fusion_cycle``: what is returned, the gradients afterwards, and more."""
    views, larger = inside(gradients, strided)
    given, same = list(views), list(views)
    watch = Watched(comm)
    with watch.memory(watched) as comm:
        returned = getattr(import_module("buckets"), function)(comm, given, *arguments)
    return {
        "returned": None if returned is None else [int(index) for index in returned],
        "gradients": [np.array(view) for view in views],
        "kept": len(given) == len(same) and all(a is b for a, b in zip(given, same, strict=True)),
        "spoilt": spoilt(larger),
        "held": watch.held,
    }


def overlapped(comm, params, batches, buckets, lr, work, before, watched):
    """Train for some steps with ``overlap``: forward, its ``backward``, and an update.

    Returns:
        ``params`` and ``gradients`` at the end, ``inputs`` (per step the gradient with respect to
        x), ``held``.
    """
    overlap = import_module("overlap")
    if before:
        first = [0.5 * np.array(each) for each in params]
        overlapped(comm, first, batches[:1], buckets, None, work, False, False)
    model = Model([np.array(each) for each in params], work)
    flats = overlap.flat_buckets(model, buckets)
    watch, inputs = Watched(comm), []
    for number, (x, target) in enumerate([*batches[:1], *batches] if watched else batches):
        output = model.forward(x)
        grad_output = loss_gradient(output, target)
        kept = grad_output.copy()
        with watch.memory(watched and number == len(batches)) as seen:
            found = overlap.backward(seen, model, grad_output, buckets, flats)
        inputs.append(np.array(found))
        if not np.array_equal(kept, grad_output):
            raise AssertionError("backward wrote to grad_output")
        if lr is not None:
            for param, gradient in zip(model.parameters(), model.gradients(), strict=True):
                param -= lr * gradient
    return {
        "params": [np.array(each) for each in model.parameters()],
        "gradients": [np.array(each) for each in model.gradients()],
        "inputs": inputs[watched:],
        "held": watch.held,
    }


def parted(comm, params, batch, buckets):
    """``flat_buckets`` of a model, and then its serial backward pass, without messages.

    Returns:
        ``gradients``, ``flats`` (the buffers), ``shared`` (is every gradient a part of its buffer).
    """
    model = Model([np.array(each) for each in params])
    flats = import_module("overlap").flat_buckets(model, buckets)
    x, target = batch
    model.backward(loss_gradient(model.forward(x), target))
    return {
        "gradients": [np.array(each) for each in model.gradients()],
        "flats": [np.array(flat) for flat in flats],
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


class Watched:
    """A communicator that looks at memory whenever an all-reduce begins.

    ``held`` is the most that lines of your files had allocated then, in bytes, since the watch
    began; what the library holds does not count.
    """

    def __init__(self, comm):
        self._comm = comm
        self.held = 0

    @contextlib.contextmanager
    def memory(self, watched):
        """In here the communicator to use: this one, or the plain one."""
        if not watched:
            yield self._comm
            return
        tracemalloc.start()
        try:
            yield self
        finally:
            tracemalloc.stop()

    def __getattr__(self, name):
        found = getattr(self._comm, name)
        if name.lower() not in ("allreduce", "iallreduce"):
            return found

        def called(*arguments, **options):
            self.held = max(self.held, held_bytes())
            return found(*arguments, **options)

        return called


def held_bytes():
    """Bytes that are allocated now, without those of the kit and of what is given."""
    kit, here = str(Path(ringside.__file__).parent), str(Path(__file__).parents[1])
    ours = [f"{kit}/*", f"{here}/given/*", f"{here}/checks/*", tracemalloc.__file__]
    ours += [contextlib.__file__]
    filters = [tracemalloc.Filter(False, pattern) for pattern in ours]
    snapshot = tracemalloc.take_snapshot().filter_traces(filters)
    return sum(each.size for each in snapshot.statistics("filename"))
