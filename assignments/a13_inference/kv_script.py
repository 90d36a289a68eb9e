"""Scripts of calls on a paged cache, and what must come of them: supplied, nothing to write.

    show("new a, append a 5, fork a b, append b 1, used 3, free a", num_pages=6, page_size=4)

    new a              a new sequence, called a here
    append a 5         5 positions, drawn from the seed
    fork a b           b is a fork of a
    free a
    used 3             3 pages must be in use now
    full: append a 9   a call that must raise RuntimeError, and change nothing
    unknown: free a    a call that must raise ValueError

After each step every sequence is gathered and compared with a plain list of positions; those
without positions only where ``looks`` has "empty", as it has here.
"""

from dataclasses import dataclass
from importlib import import_module

import numpy as np

ERRORS = {"full": "RuntimeError", "unknown": "ValueError"}
LOOKS = ("gather", "empty", "pool", "pages", "used", "counts", "error")


@dataclass(frozen=True)
class Script:
    """Steps, and the cache that they are for."""

    steps: str
    num_pages: int = 8
    page_size: int = 4
    layers: int = 2
    kv_heads: int = 1
    head_dim: int = 3
    dtype: str = "float64"
    seed: int = 0
    looks: tuple = LOOKS  # what is compared

    @property
    def shape(self):
        """What ``PagedCache`` takes."""
        sizes = self.num_pages, self.page_size, self.layers, self.kv_heads, self.head_dim
        return (*sizes, self.dtype)

    @property
    def line(self):
        """The line that shows what happens."""
        usual = Script("")
        more = "".join(
            f", {name}={value!r}"
            for name, value in vars(self).items()
            if name != "steps" and value != getattr(usual, name)
        ).replace('"', "'")
        return f"python -c \"from kv_script import show; show('{self.steps}'{more})\""

    def words(self):
        """Per step ``(must_raise, verb, names_and_numbers)``."""
        found = []
        for step in self.steps.split(","):
            head, colon, rest = step.strip().partition(": ")
            verb, *more = (rest if colon else head).split()
            found.append((ERRORS[head] if colon else None, verb, more))
        return found

    def positions(self, step):
        """Keys and values that the step appends."""
        count = int(self.words()[step][2][1])
        rng = np.random.default_rng([self.seed, step])
        shape = (2, count, self.layers, self.kv_heads, self.head_dim)
        return rng.standard_normal(shape).astype(self.dtype)


def perform(script):
    """Make the calls on ``kv_cache.PagedCache``, inside a rank or out of it.

    Returns:
        Per step ``(error, message, seen)``: the type and the text of what was raised, or None
        twice; and for each sequence ``(keys, values, pool_keys, pool_values, pages)``: what
        ``gather`` gives, and what the pages of its table hold; besides ``counts`` and ``used``.
    """
    cache, names, found = import_module("kv_cache").PagedCache(*script.shape), {}, []
    for step, (_, verb, words) in enumerate(script.words()):
        error = message = None
        try:
            _call(cache, names, script, step, verb, words)
        except Exception as raised:
            error, message = type(raised).__name__, str(raised)
        found.append((error, message, _look(cache, names, script)))
    return found


def _call(cache, names, script, step, verb, words):
    if verb == "new":
        names[words[0]] = cache.new()
    elif verb == "append":
        keys, values = script.positions(step)
        cache.append(names[words[0]], keys, values)
        keys[...], values[...] = 77, 77  # the caller's arrays: the cache has copies
    elif verb == "fork":
        names[words[1]] = cache.fork(names[words[0]])
    elif verb == "gather":
        for each in cache.gather(names[words[0]]):
            each[...] = 77  # results are the caller's
    elif verb == "free":
        cache.free(names[words[0]])


def _look(cache, names, script):
    seen = {"used": int(cache.used_pages), "bytes": int(cache.used_bytes), "sequences": {}}
    seen["counts"] = [int(count) for count in cache.counts]
    for word, name in names.items():
        if name not in cache.tables:
            continue
        table, length = [int(page) for page in cache.tables[name]], int(cache.lengths[name])
        if length == 0 and "empty" not in script.looks:
            keys, values = _nothing(script)
        else:
            keys, values = cache.gather(name)
        held = [_held(pool, table, length, script) for pool in (cache.keys, cache.values)]
        seen["sequences"][word] = (np.array(keys), np.array(values), *held, table)
    return seen


def _nothing(script):
    """Keys and values of no positions."""
    return np.zeros((2, 0, script.layers, script.kv_heads, script.head_dim), script.dtype)


def _held(pool, table, length, script):
    """The positions that the pages of a table hold; NaN where a page is missing."""
    found = np.full((length, script.layers, script.kv_heads, script.head_dim), np.nan)
    for i in range(length):
        page, place = divmod(i, script.page_size)
        if page < len(table) and 0 <= table[page] < len(pool):
            found[i] = pool[table[page], place]
    return found


def fault(script, found):
    """The first thing that is not as it must be, a sentence; None if all is right."""
    lists = {}
    for step, (must_raise, verb, words) in enumerate(script.words()):
        error, _, seen = found[step]
        said = script.steps.split(",")[step].strip()
        after = f"at step {step + 1}, '{said}', of a cache with {script.num_pages} pages of "
        after += f"{script.page_size}:"
        if must_raise is None and error:
            return f"{after} {error} was raised; it must not be."
        if must_raise and "error" in script.looks and error != must_raise:
            return f"{after} {error or 'nothing'} was raised; it must be {must_raise}."
        if must_raise is None:
            _follow(lists, script, step, verb, words)
        problem = _compare(script, lists, seen, verb, words)
        if problem:
            return f"{after} {problem}"
    return None


def _follow(lists, script, step, verb, words):
    """The same with plain arrays: no pages, nothing shared."""
    if verb == "new":
        lists[words[0]] = _nothing(script)
    elif verb == "append":
        lists[words[0]] = np.concatenate([lists[words[0]], script.positions(step)], axis=1)
    elif verb == "fork":
        lists[words[1]] = lists[words[0]]
    elif verb == "free":
        del lists[words[0]]


def _compare(script, lists, seen, verb, words):
    if set(seen["sequences"]) != set(lists):
        return f"the sequences {sorted(seen['sequences'])} exist; it must be {sorted(lists)}."
    for word, right in lists.items():
        keys, values, *held, table = seen["sequences"][word]
        if "gather" in script.looks:
            for what, got, wanted in zip(("keys", "values"), (keys, values), right, strict=True):
                if got.shape != wanted.shape or got.dtype != wanted.dtype:
                    return (
                        f"gather gives {what} of {word} with shape {got.shape} and dtype "
                        f"{got.dtype}; it must be {wanted.shape} and {wanted.dtype}."
                    )
                wrong = np.flatnonzero((got != wanted).any(axis=(1, 2, 3)))
                if len(wrong):
                    return f"the {what} of {word} at position {wrong[0]} are not those appended."
        if "pool" in script.looks:
            pages = -(-right.shape[1] // script.page_size)
            if len(table) < pages or ("pages" in script.looks and len(table) > pages):
                return f"the table of {word} has {len(table)} pages; {pages} are needed."
            if len(set(table)) != len(table):
                return f"the table of {word} names a page twice: {table}."
            if any(not np.array_equal(a, b) for a, b in zip(held, right, strict=True)):
                return f"the pages {table} of {word}'s table don't hold its keys and values."
    if "counts" in script.looks:
        tables = [page for *_, table in seen["sequences"].values() for page in table]
        right = [tables.count(page) for page in range(script.num_pages)]
        if seen["counts"] != right:
            return f"counts are {seen['counts']}; the tables name the pages {right} times."
    if verb == "used" and "used" in script.looks and seen["used"] != int(words[0]):
        return f"{seen['used']} pages are in use; it must be {words[0]}."
    return None


def show(steps, **settings):
    """Make the calls and say what is wrong, if anything is."""
    script = Script(steps, **settings)
    print(fault(script, perform(script)) or "as it must be")


def bytes_after(steps, **settings):
    """Print ``used_bytes`` after each step."""
    print([seen["bytes"] for _, _, seen in perform(Script(steps, **settings))])
