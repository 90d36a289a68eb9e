"""Functions that call yours inside a rank, for the tests: nothing to write.

Your modules run in a process of their own (a "rank"; here there is one). What must be looked at
from inside, such as memory or inputs that can't be written to, the tests ask for here.
"""

import gc
import os
import random
import sys
import tracemalloc
from importlib import import_module

import numpy as np
from given import networks

from ringside import Machine
from ringside.checking.callers import arrays_in, copied, find, lists_differ, lists_in

FOREIGN = ("scipy", "sklearn", "torch")  # what does the work in NumPy's place


def answered(target, calls, function):
    """Per call ``(what function(target, *call) gives, "", False)``, or what it raised and where."""
    answers, here = [], import_module(target.partition(":")[0]).__file__
    for call in calls:
        try:
            answers.append((function(target, *call), "", False))
        except Exception as error:
            at, line = error.__traceback__, ""
            while at is not None:
                if at.tb_frame.f_code.co_filename == here:
                    line = f":{at.tb_lineno}"
                at = at.tb_next
            place = f"{os.path.basename(here)}{line}"
            answers.append((None, f"{type(error).__name__} at {place}", False))
    return answers


# -- sgd and conv ----------------------------------------------------------------------------------


def watched(comm, target, calls):
    """Call with each of a list of ``(watch, arguments, ...)``, and look at what ``watch`` names.

    Returns:
        Per call ``((result, seen), error, False)``.
    """
    return answered(target, calls, lambda target, watch, *given: WATCH[watch](target, *given))


def plainly(target, arguments):
    """Look at nothing."""
    return copied(find(target)(*arguments)), None


def with_kept_inputs(target, arguments):
    """Call with arguments that can't be written to, and look at them afterwards.

    Returns:
        The result and a complaint: "" where arguments and global random generators stay as they
        were and results are new, writable arrays.
    """
    arguments = _guarded(arguments)
    given = list(arrays_in(arguments))
    before = [array.copy() for array in given]
    lists = [(each, list(each)) for each in lists_in(arguments)]
    for array in given:
        array.flags.writeable = False
    generators = _seeded(987_654)
    result = find(target)(*arguments)
    made, complaint = list(arrays_in(result)), ""
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
    return copied(result), complaint


def strided(target, arguments):
    """The same, where arrays are slices of larger ones, whose elements lie column by column."""
    return with_kept_inputs(target, _inside_larger(arguments))


def twice(target, first, second):
    """Call with one tuple of arguments, then another.

    Returns:
        The first result as it was and as it is after the second call, and the second one.
    """
    early = find(target)(*first)
    then = copied(early)
    late = find(target)(*second)
    return [then, copied(early), copied(late)], None


def counting_lines(target, arguments):
    """Count the lines of your file that run."""
    lines = _Lines(import_module(target.partition(":")[0]).__file__)
    outer = sys.gettrace()
    sys.settrace(lines.enter)
    try:
        result = find(target)(*arguments)
    finally:
        sys.settrace(outer)
    return copied(result), lines.count


def measuring_memory(target, arguments):
    """Call twice, and look at the memory of the second call.

    Returns:
        The result, and ``[peak_bytes, kept_bytes]``: the most memory that was in use above what was
        there before, the result included; and what is still in use when the result is gone.
    """
    function = find(target)
    function(*arguments)
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
    return own, [peak - before, after - before]


def naming_libraries(target, arguments):
    """Call twice, and name the libraries whose functions run: SciPy's, torch's, not NumPy's."""
    function, names = find(target), set()

    def note(frame, event, called):
        modules = [frame.f_globals.get("__name__")]
        if event == "c_call":
            owner = getattr(called, "__self__", None)
            modules += [called.__module__, type(owner).__module__, getattr(owner, "__name__", "")]
        names.update(name.partition(".")[0] for name in modules if isinstance(name, str))

    function(*arguments)  # what it imports isn't looked at: that would take long
    sys.setprofile(note)
    try:
        result = function(*arguments)
    finally:
        sys.setprofile(None)
    return copied(result), [name for name in FOREIGN if name in names]


WATCH = {
    "": plainly,
    "inputs": with_kept_inputs,
    "layout": strided,
    "second": twice,
    "lines": counting_lines,
    "memory": measuring_memory,
    "libraries": naming_libraries,
    "autograd": naming_libraries,
}


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


def shuffled(comm, target, calls):
    """``minibatches`` for each ``(n, batch_size, seed, epochs)``, that many from one generator.

    Returns:
        Per call ``((orders, moved), error, False)``: epochs of ``seed``, of the next one and of
        ``seed`` again; and whether NumPy's or Python's global generator moved.
    """

    def draw(target, n, batch_size, seed, epochs):
        before, orders = _seeded(seed % 1000), []
        for each in (seed, seed + 1, seed):
            rng = np.random.default_rng(each)
            orders.append([find(target)(n, batch_size, rng) for _ in range(epochs)])
        return orders, before != _global_generators()

    return answered(target, calls, draw)


# -- account ---------------------------------------------------------------------------------------


def counted(comm, target, calls):
    """A function of ``account.py`` for each of a list of arguments; ``made`` makes objects of them.

    Returns:
        Per call ``((result, peak_bytes), error, False)``: and the most memory that it had in use.
    """

    def count(target, *given):
        arguments = tuple(map(made, given))
        tracemalloc.start()
        try:
            return find(target)(*arguments), tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return answered(target, calls, count)


def made(value):
    """What a case's value stands for.

    ``("Conv", 6, 3)`` and its like are layers; ``"ALEXNET"`` is a network of ``given/networks.py``,
    ``((4,), ("Linear", 10), ("Linear", 3))`` one of an input's shape and layers, and a machine is
    ``("Machine", flop_per_s, memory_bytes_per_s, kernel_overhead_s)``. All else is itself.
    """
    match value:
        case ("Machine", flop_per_s, memory_bytes_per_s, overhead_s):
            more = {"flop_per_s": flop_per_s, "memory_bytes_per_s": memory_bytes_per_s}
            return Machine("asked", 1e-6, 1e-9, **more, kernel_overhead_s=overhead_s)
        case (str(kind), *fields):
            return getattr(networks, kind)(*fields)
        case (tuple(shape), *layers):
            return networks.Network("drawn", shape, tuple(map(made, layers)))
        case str() if value.isupper():
            return getattr(networks, value)
    return value
