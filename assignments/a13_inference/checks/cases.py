"""The calls of kv_cache.py and batching.py that the tests make, and what must come of them."""

from dataclasses import dataclass

import numpy as np
from given.batching_server import Request, Server, Step, replay, static, stream

from ringside.checking import Verdict
from ringside.checking.cases import Formula
from ringside.units import format_count

ERRORS = {"full": "RuntimeError", "unknown": "ValueError"}
SEEDED = tuple(name for name in Formula.unsaid if name != "seed")  # of cases that draw something


# -- kv_cache --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TokenBytes(Formula):
    """Bytes of one position."""

    target = "kv_cache:token_bytes"
    layers: int = 2
    kv_heads: int = 1
    head_dim: int = 3
    element_bytes: int | None = None

    def arguments(self):
        sizes = self.layers, self.kv_heads, self.head_dim
        return sizes if self.element_bytes is None else (*sizes, self.element_bytes)


@dataclass(frozen=True)
class Script(Formula):
    """Steps, one after another, on a cache of their own.

        new a                  a new sequence, called a here
        append a 5             5 positions, drawn from the seed
        gather a               the caller writes into what comes
        fork a b               b is a fork of a
        free a
        used 3                 3 pages must be in use now
        bytes 768              used_bytes must be 768 now
        full: append a 9       a call that must raise RuntimeError, and change nothing
        full 2 1: append a 9   the same, and its message must have the numbers 2 and 1
        unknown: free a        a call that must raise ValueError

    After each step every sequence is gathered and compared with a plain list of positions.

    Attributes:
        beside: another cache of these sizes has been filled before.
    """

    target = "kv_cache:PagedCache"
    through = "checks/inside.py:scripted"
    unsaid = SEEDED
    steps: str = ""
    num_pages: int = 8
    page_size: int = 4
    layers: int = 2
    kv_heads: int = 1
    head_dim: int = 3
    dtype: str = "float64"
    beside: bool = False

    def __str__(self):
        return f"a cache with {self.num_pages} pages of {self.page_size}"

    def parsed(self):
        """Per step its text, the exception that must come, numbers of its message, and words."""
        steps = []
        for text in map(str.strip, self.steps.split(",")):
            head, colon, rest = text.partition(": ")
            kind, *numbers = head.split() if colon else [""]
            steps.append((text, ERRORS.get(kind, ""), numbers, (rest if colon else head).split()))
        return steps

    def positions(self, number):
        """Keys and values that a step appends."""
        count = int(self.parsed()[number][3][2])
        shape = (2, count, self.layers, self.kv_heads, self.head_dim)
        return np.random.default_rng([self.seed, number]).standard_normal(shape).astype(self.dtype)

    def arguments(self):
        sizes = self.num_pages, self.page_size, self.layers, self.kv_heads, self.head_dim
        steps = []
        for number, (*_, words) in enumerate(self.parsed()):
            steps.append([*words, self.positions(number)] if words[0] == "append" else words)
        return (*sizes, self.dtype), steps, self.beside

    def check_value(self, value):
        """Nothing was raised that must not be, and the sequences are those that there must be."""
        self.look(value)

    def look(self, value, *parts):
        """Compare, step by step, what came: verdicts name the step.

        Args:
            parts: "gather" (what sequences hold), "empty" (those without positions, too), "pool"
                (what the pages of their tables hold), "pages" (no table is too long), "counts",
                "used", "bytes" and "error".
        """
        lists, mute = {}, ""
        for number, (text, must_raise, numbers, words) in enumerate(self.parsed()):
            error, where, message, seen = value[number]
            step = f"at step {number + 1}, '{text}', of {self}:"
            if error and not must_raise:
                raise Verdict(f"{step} {error} was raised{where}; it must not be.")
            if must_raise and "error" in parts and error != must_raise:
                what = f"{error or 'nothing'} was raised{where}"
                raise Verdict(f"{step} {what}; it must be {must_raise}.")
            if not all(each in message for each in numbers):
                mute = (
                    f"{step} the message of {error} is {message!r:.150}; it must say how many "
                    f"pages are needed, {numbers[0]}, and how many are free, {numbers[1]}."
                )
            if not must_raise:
                self._follow(lists, number, words)
            fault = self._fault(lists, seen, words, parts)
            if fault:
                raise Verdict(f"{step} {fault}")
        if mute and "error" in parts:
            raise Verdict(mute, fraction=0.5)

    def _follow(self, lists, number, words):
        """The same with plain arrays: no pages, nothing shared."""
        if words[0] == "new":
            shape = (2, 0, self.layers, self.kv_heads, self.head_dim)
            lists[words[1]] = np.zeros(shape, self.dtype)
        elif words[0] == "append":
            lists[words[1]] = np.concatenate([lists[words[1]], self.positions(number)], axis=1)
        elif words[0] == "fork":
            lists[words[2]] = lists[words[1]]
        elif words[0] == "free":
            del lists[words[1]]

    def _fault(self, lists, seen, words, parts):
        """What isn't as it must be after a step: a sentence, or nothing."""
        if set(seen["sequences"]) != set(lists):
            return f"the sequences {sorted(seen['sequences'])} exist; it must be {sorted(lists)}."
        for name, right in lists.items():
            gathered, *held, table = seen["sequences"][name]
            fault = ""
            if "gather" in parts and (right.size or "empty" in parts):
                fault = _gather_fault(name, gathered, right)
            if "pool" in parts and not fault:
                fault = self._pool_fault(name, held, table, right, "pages" in parts)
            if fault:
                return fault
        if "counts" in parts:
            tables = [page for *_, table in seen["sequences"].values() for page in table]
            right = [tables.count(page) for page in range(self.num_pages)]
            if seen["counts"] != right:
                return f"counts are {seen['counts']}; the tables name the pages {right} times."
        for part, what in (("used", "pages are in use"), ("bytes", "bytes are in use")):
            if words[0] == part and part in parts and seen[part] != int(words[1]):
                return f"{seen[part]} {what}; it must be {words[1]}."
        return ""

    def _pool_fault(self, name, held, table, right, at_most):
        pages = -(-right.shape[1] // self.page_size)
        if len(table) < pages or (at_most and len(table) > pages):
            return f"the table of {name} has {len(table)} pages; {pages} are needed."
        if len(set(table)) != len(table):
            return f"the table of {name} names a page twice: {table}."
        if any(not np.array_equal(a, b) for a, b in zip(held, right, strict=True)):
            return f"the pages {table} of {name}'s table don't hold its keys and values."
        return ""


def _gather_fault(name, gathered, right):
    if isinstance(gathered, str):
        return f"gather of {name} raised {gathered}; it must not."
    for what, values, wanted in zip(("keys", "values"), gathered, right, strict=True):
        if values.shape != wanted.shape or values.dtype != wanted.dtype:
            return (
                f"gather gives {what} of {name} with shape {values.shape} and dtype "
                f"{values.dtype}; it must be {wanted.shape} and {wanted.dtype}."
            )
        wrong = np.flatnonzero((values != wanted).any(axis=(1, 2, 3)))
        if len(wrong):
            return f"the {what} of {name} at position {wrong[0]} are not those appended."
    return ""


# -- batching --------------------------------------------------------------------------------------

AMPLE = 100_000  # tokens: all requests of a stream fit


class Plans(Formula):
    """Plans of ``serve`` for one server or several, one after another: their steps are replayed."""

    target = "batching:serve"
    through = "checks/inside.py:planned"
    unsaid = SEEDED

    @property
    def servers(self):
        """The ``Serve`` of each plan."""
        raise NotImplementedError

    def arguments(self):
        told = []
        for case in self.servers:
            numbers = [(r.arrival_s, r.prompt_tokens, r.output_tokens) for r in case.stream]
            told.append((numbers, case.capacity))
        return (told,)

    def check_value(self, value):
        """Every request starts once, and some while others are under way."""
        for case, steps in zip(self.servers, value, strict=True):
            if steps is None:
                raise Verdict(f"{case} changed the list of requests; it must stay as it was.")
            started = sorted(k for _, prefill, _ in steps for k in prefill)
            if started != list(range(len(case.stream))):
                raise Verdict(
                    f"{case}: {format_count(len(started), 'request')} start; each of the "
                    f"{len(case.stream)} must, once."
                )
            if (count := joined(steps)) < case.joins // 8:
                raise Verdict(
                    f"{case}: {format_count(count, 'request')} joined the batch after another one "
                    f"had ended and while others were under way; by the docstring {case.joins} can."
                )

    def look(self, value, *kinds):
        """The logs of the plans, in which nothing of these kinds is wrong: see ``replay``."""
        logs = []
        for case, steps in zip(self.servers, value, strict=True):
            if steps is None:
                raise Verdict(f"{case} changed the list of requests; it must stay as it was.")
            plan = [Step(*step) for step in steps]
            log = replay(case.stream, plan, Server(case.capacity))
            for kind in kinds:
                if kind in log.wrong:
                    raise Verdict(f"{case}: {log.wrong[kind]}.")
            logs.append(log)
        return logs


def joined(steps):
    """How many requests start after another one has ended, while a third is under way."""
    first, last = {}, {}
    for at, (_, prefill, decode) in enumerate(steps):
        for k in (*prefill, *decode):
            first.setdefault(k, at)
            last[k] = at
    count = 0
    for at in first.values():
        going = [i for i in first if first[i] < at <= last[i]]
        ended = [i for i in first if last[i] < at]
        # Those that left the same batch: it wasn't empty since.
        count += bool(going) and any(last[i] >= min(first[j] for j in going) for i in ended)
    return count


@dataclass(frozen=True)
class Serve(Plans):
    """One server.

    Attributes:
        requests: of each ``(arrival_s, prompt_tokens, output_tokens)``; (): a stream is drawn.
        count: so many requests; none has an answer of one token.
        rate: so many arrive in a second.
        prompt, output: tokens, about the mean.
        capacity: tokens that the cache holds.
        again: the same is asked once more after another stream was planned.
        joins: requests that join others in the docstring's server; of 8 or more, an eighth must.
        first_s: 95 % wait at most so long for their first token there.
    """

    requests: tuple = ()
    count: int = 0
    rate: float = 20.0
    prompt: int = 200
    output: int = 80
    capacity: int = AMPLE
    again: bool = False
    joins: int = 0
    first_s: float = 0.0

    def __str__(self):
        number = format_count(len(self.requests) or self.count, "request")
        return f"serve({number}, a server of {self.capacity} tokens)"

    @property
    def stream(self):
        """The requests."""
        if self.requests or not self.count:
            return [Request(*each) for each in self.requests]
        rng = self.rng()
        while True:
            sizes = self.count, self.rate, self.prompt, self.output
            drawn = stream(int(rng.integers(2**31)), *sizes)
            if all(request.output_tokens > 1 for request in drawn):
                return drawn

    @property
    def servers(self):
        other = self.with_(seed=self.seed + 1, count=20, capacity=3000, joins=0, again=False)
        return [self, other, self] if self.again else [self]


@dataclass(frozen=True)
class Busy(Plans):
    """Servers at which 100 requests wait all the time, and memory is what limits the batch."""

    capacities: tuple = (5000, 6000, 8000)

    def __str__(self):
        return f"serve(100 requests, servers of {', '.join(map(str, self.capacities))} tokens)"

    @property
    def servers(self):
        seeds = self.rng().integers(2**31, size=len(self.capacities)).tolist()
        return [
            Serve(count=100, rate=30.0, output=150, capacity=capacity, seed=seed)
            for capacity, seed in zip(self.capacities, seeds, strict=True)
        ]

    @property
    def static(self):
        """The logs of static batching."""
        plans = []
        for case in self.servers:
            requests, server = case.stream, Server(case.capacity)
            plans.append(replay(requests, static(requests, server), server))
        return plans
