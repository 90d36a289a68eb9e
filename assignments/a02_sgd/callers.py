"""Functions that call yours inside a rank, for the tests: supplied, nothing to write.

Your modules run in a process of their own (a "rank"; here there is one). What must be looked at
from inside, such as memory or inputs that can't be written to, the tests ask for here.

``show`` is for you: it draws inputs, calls a function and, where it can, compares::

    python -c "import callers; callers.show('conv:conv_forward', [2, 3, 7, 5], [4, 3, 3, 2], [4])"
"""

import gc
import os
import random
import sys
import tracemalloc
from importlib import import_module

import numpy as np

from ringside.checking.callers import arrays_in, copied, find, lists_differ, lists_in

FOREIGN = ("scipy", "sklearn", "torch")  # what does the work in NumPy's place


def answers(comm, target, calls):
    """Call with each of a list of argument tuples.

    Returns:
        Per call ``(result, "")``, or ``(None, what it raised)``.
    """
    return [_tried(target, arguments) for arguments in calls]


def looked_at(comm, target, calls, strided=False):
    """Call with arguments that can't be written to, and look at them afterwards.

    Args:
        strided: let arrays be slices of larger ones, whose elements lie column by column.

    Returns:
        Per call ``((result, "") or (None, what it raised), complaint)``; the complaint is "" where
        arguments and global random generators stay as they were and results are new, writable
        arrays.
    """
    seen = []
    for arguments in calls:
        arguments = _guarded(_inside_larger(arguments) if strided else arguments)
        given = list(arrays_in(arguments))
        before = [array.copy() for array in given]
        lists = [(each, list(each)) for each in lists_in(arguments)]
        for array in given:
            array.flags.writeable = False
        generators = _seeded(987_654)
        answer = _tried(target, arguments)
        made = list(arrays_in(answer[0]))
        complaint = ""
        if any(not np.array_equal(a, b) for a, b in zip(given, before, strict=True)):
            complaint = "an argument was changed; all must stay as they were"
        elif lists_differ(lists):
            complaint = "a list that was given holds something else now; make a new list"
        elif generators != _global_generators():
            complaint = "a global random generator was drawn from or seeded; leave it alone"
        elif any(np.shares_memory(a, b) for a in made for b in given):
            complaint = "a result shares memory with an argument; it must be a new array"
        elif any(not array.flags.writeable for array in made):
            complaint = "a result can't be written to; it must be an array of the caller's own"
        seen.append((answer, complaint))
    return seen


def twice(comm, target, first, second):
    """Call with one tuple of arguments, then another.

    Returns:
        ``(first then, first now, second)``: the first result as it was and after the second call.
    """
    early = find(target)(*first)
    then = copied(early)
    late = find(target)(*second)
    return then, early, late


def measured(comm, target, arguments):
    """Call twice: once counting the lines of your file that run, once watching the memory.

    Returns:
        ``(result, lines, peak_bytes, kept_bytes)``: the most memory that was in use above what was
        there before the call, the result included; and what is still in use when the result is
        gone.
    """
    function = find(target)
    lines = _Lines(import_module(target.partition(":")[0]).__file__)
    outer = sys.gettrace()
    sys.settrace(lines.enter)
    try:
        function(*arguments)
    finally:
        sys.settrace(outer)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    result = function(*arguments)
    peak = tracemalloc.get_traced_memory()[1]
    own = copied(result)
    del result
    gc.collect()
    after = tracemalloc.get_traced_memory()[0] - sum(array.nbytes for array in arrays_in(own))
    tracemalloc.stop()
    return own, lines.count, peak - before, after - before


def helpers(comm, target, arguments):
    """Call twice, and name the libraries whose functions run: SciPy's, torch's, not NumPy's."""
    function, found = find(target), set()

    def note(frame, event, called):
        names = [frame.f_globals.get("__name__")]
        if event == "c_call":
            owner = getattr(called, "__self__", None)
            names += [called.__module__, type(owner).__module__, getattr(owner, "__name__", "")]
        found.update(name.partition(".")[0] for name in names if isinstance(name, str))

    function(*arguments)  # what it imports isn't looked at: that would take long
    sys.setprofile(note)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return [name for name in FOREIGN if name in found]


class _Lines:
    """Counts the lines of one file as they run."""

    def __init__(self, path):
        self.path, self.count = os.path.abspath(path), 0

    def enter(self, frame, event, argument):
        if os.path.abspath(frame.f_code.co_filename) != self.path:
            return None
        return self.line

    def line(self, frame, event, argument):
        self.count += event == "line"
        return self.line


def epochs(comm, calls):
    """``minibatches`` for each ``(n, batch_size, seed, times)``: several epochs from one generator.

    Returns:
        ``(answers, moved)``: per call a list of epochs; and did a call move NumPy's or Python's
        global generator?
    """
    found, moved = [], False
    for n, batch_size, seed, times in calls:
        rng = np.random.default_rng(seed)
        before = _seeded(len(found))
        found.append([_tried("sgd:minibatches", (n, batch_size, rng)) for _ in range(times)])
        moved = moved or before != _global_generators()
    return found, moved


def counted(comm, function, calls):
    """A function of ``account.py`` for a list of calls, whose networks and machines are told.

    ``("layer", "Conv", {...})``, ``("network", name, shape, layers)`` and ``("machine", {...})``
    stand for the objects; all else is passed as it is.

    Returns:
        ``(answers, peak_bytes)``: and the most memory that a call had in use.
    """
    found, peak = [], 0
    for told in calls:
        arguments = tuple(map(_made, told))
        tracemalloc.start()
        found.append(_tried(f"account:{function}", arguments))
        peak = max(peak, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        del arguments  # the next ones may lie where these did
    return found, peak


def _made(told):
    import networks

    from ringside import Machine

    match told:
        case ("layer", kind, fields):
            return getattr(networks, kind)(**fields)
        case ("network", name, shape, layers):
            return networks.Network(name, tuple(shape), tuple(map(_made, layers)))
        case ("machine", fields):
            return Machine("asked", alpha_s=1e-6, beta_s_per_byte=1e-9, **fields)
    return told


def _tried(target, arguments):
    try:
        return find(target)(*arguments), ""
    except Exception as error:
        at, here = error.__traceback__, import_module(target.partition(":")[0]).__file__
        number = 0
        while at is not None:
            if at.tb_frame.f_code.co_filename == here:
                number = at.tb_lineno
            at = at.tb_next
        place = os.path.basename(here) + (f":{number}" if number else "")
        said = f": {error}" if str(error) else ""
        return None, f"it raised {type(error).__name__} at {place}{said}"


def _seeded(seed):
    """NumPy's and Python's global generators, after they were seeded."""
    np.random.seed(seed)
    random.seed(seed)
    return _global_generators()


def _global_generators():
    _, words, place, *_ = np.random.get_state()
    return words.tobytes(), place, random.getstate()


def _inside_larger(value):
    if isinstance(value, np.ndarray) and value.ndim:
        larger = np.zeros([2 * n + 1 for n in value.shape], value.dtype, order="F")
        view = larger[tuple(slice(1, None, 2) for _ in value.shape)]
        view[...] = value
        return view
    if isinstance(value, list | tuple):
        return type(value)(_inside_larger(item) for item in value)
    return value


class _Guarded(list):
    """A list that can't be changed; copies of it can."""

    def _refuse(self, *arguments, **named):
        raise TypeError("a list that was given is changed; make a new list")

    append = extend = insert = pop = remove = clear = reverse = sort = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse

    def __reduce__(self):
        return list, (list(self),)


def _guarded(value):
    if isinstance(value, list | tuple):
        items = map(_guarded, value)
        return _Guarded(items) if isinstance(value, list) else tuple(items)
    return value


# -- for you: inputs of given shapes, and comparisons ----------------------------------------------


def show(target, *arguments, dtype="float64", seed=0):
    """Call a function on random inputs, print the result, and compare it where that is possible.

    Args:
        arguments: ``[4, 3]`` stands for an array of that shape, ``[[4, 3], [3]]`` for a list of
            arrays, ``"5 of 10"`` for five classes out of ten, ``"uint8 4 3"`` for whole numbers;
            all else is passed as it is.
    """
    rng = np.random.default_rng(seed)
    drawn = [_drawn(argument, rng, dtype) for argument in arguments]
    result = find(target)(*drawn)
    print(result)
    if target == "conv:conv_forward":
        print(f"off from SciPy's correlation by at most {_off_from_scipy(result, *drawn):.1e}")
    if target == "sgd:loss_and_gradients":
        params, x, y = drawn
        off = _off_from_differences(lambda: find(target)(params, x, y)[0], params, result[1])
        print(f"gradients off from finite differences by at most {off:.1e}")
    if target == "conv:conv_backward":
        dy, x, w, *rest = drawn
        b = np.zeros(len(w))
        off = _off_from_differences(
            lambda: float((find("conv:conv_forward")(x, w, b, *rest) * dy).sum()), [x, w, b], result
        )
        print(f"gradients off from finite differences by at most {off:.1e}")


def _drawn(argument, rng, dtype):
    if isinstance(argument, str):
        first, *rest = argument.split()
        if first.isdigit():
            return rng.integers(int(rest[1]), size=int(first))
        return rng.integers(17, size=[int(n) for n in rest]).astype(first)
    if isinstance(argument, list):
        if argument and isinstance(argument[0], list):
            return [_drawn(shape, rng, dtype) for shape in argument]
        return rng.standard_normal(argument).astype(dtype)
    return argument


def _off_from_scipy(y, x, w, b, stride=1, pad=0):
    from scipy.signal import correlate

    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    right = np.stack([correlate(image, w_o, "valid")[0] for image in padded for w_o in w])
    right = right.reshape(len(x), len(w), *right.shape[1:])[:, :, ::stride, ::stride]
    return float(np.abs(y - right - b[:, None, None]).max())


def _off_from_differences(loss, arrays, gradients, step=1e-6):
    """The largest difference of a few elements of each gradient."""
    worst, rng = 0.0, np.random.default_rng(1)
    for array, gradient in zip(arrays, gradients, strict=True):
        for _ in range(5):
            at = tuple(int(rng.integers(n)) for n in array.shape)
            kept = array[at]
            array[at] = kept + step
            above = loss()
            array[at] = kept - step
            below = loss()
            array[at] = kept
            worst = max(worst, abs((above - below) / (2 * step) - gradient[at]))
    return worst
