"""The calls of your functions that the tests make, and what must come of them."""

import dataclasses
from dataclasses import dataclass, field

import numpy as np

from ringside.checking import Verdict, assert_array, assert_ran, one_line
from ringside.checking.cases import Case, Formula, brief, machine_of
from ringside.checking.suite import arguments, called, contrasted, right_run
from ringside.units import format_count

# Every send waits, and looking at the clock takes next to no time.
QUIET = "rendezvous,poll_s=1e-10"
NEAR = 0.01  # of a measured time: a poll takes a little


def vector(rng, n, dtype="float64"):
    """Numbers that no other dtype can hold, as far as that can be."""
    if np.dtype(dtype).kind == "i":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, size=n, dtype=dtype)
    return rng.standard_normal(n).astype(dtype)


def assert_none_elsewhere(values, case, but=0):
    """All ranks but one return None."""
    for rank, value in enumerate(values):
        if rank != but and value is not None:
            who = "with one rank it returns" if but is None else f"ranks other than {but} return"
            raise case.fail(f"rank {rank} returned {one_line(repr(value), 60)}; {who} None.")


def number(value):
    """A number, NumPy's too, which travel as arrays of no dimension; None for anything else."""
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iuf":
        value = value.item()
    return value if type(value) in (int, float) else None


# -- ping ------------------------------------------------------------------------------------------


class Trips(Case):
    """Messages to and fro: ``trips`` round trips of ``nbytes`` each way."""

    def trip_s(self, run):
        """A message's time between rank 0 and the partner."""
        link = run.machine.link(run.members[0], run.members[self.partner])
        return link.alpha_s + self.nbytes * link.beta_s_per_byte

    def assert_returned_on_rank_0(self, run):
        """Only rank 0 returns something, and it only where it has a partner."""
        assert_ran(run, self)
        assert_none_elsewhere(run.values, self, 0 if self.p > 1 else None)


@dataclass(frozen=True)
class Bounce(Trips):
    """``bounce`` of different arrays on every rank."""

    target = "ping:bounce"
    n: int = 5
    repetitions: int = 100
    partner: int = 1
    dtype: str = "float64"
    machine: str = field(default=QUIET, kw_only=True)

    @property
    def trips(self):
        return self.repetitions

    @property
    def nbytes(self):
        return self.n * np.dtype(self.dtype).itemsize

    def inputs(self, rank):
        return vector(self.rng(rank), self.n, self.dtype), self.repetitions, self.partner

    def right(self):
        """What rank 0 sent; None on all others."""
        return [self.inputs(0)[0] if self.p > 1 else None] + [None] * (self.p - 1)

    def wrong(self):
        if self.p == 1:
            return {}
        says = "This is the x of the partner; it sends back what it has received."
        return {says: [self.inputs(self.partner)[0]] + [None] * (self.p - 1)}

    def check(self, run):
        self.assert_returned_on_rank_0(run)
        if self.p > 1:
            assert_array(run.values[0], self.right()[0], None, self, "rank 0's result")


@dataclass(frozen=True)
class Ping(Trips):
    """``ping``; what its run took says what it must have measured."""

    target = "ping:ping"
    nbytes: int = 8
    repetitions: int = 100
    partner: int = 1
    machine: str = field(default=QUIET, kw_only=True)

    @property
    def trips(self):
        return self.repetitions + 1

    def inputs(self, rank):
        return self.nbytes, self.repetitions, self.partner

    def right(self):
        """Nothing that is known before the run."""
        return [None] * self.p

    def right_s(self, run):
        """The time of a message."""
        if run.seed is not None:  # latencies differ
            return run.makespan_s / (2 * self.trips)
        return self.trip_s(run)

    def check(self, run):
        self.assert_returned_on_rank_0(run)
        if self.p == 1:
            return
        value = number(run.values[0])
        if value is None:
            shown = one_line(repr(run.values[0]), 60)
            raise self.fail(f"rank 0 returned {shown}; it must be a number of seconds.")
        if hasattr(run, "trace"):
            self._check_time(value, self.right_s(run))
        elif not 0 < value < 10:  # on real ranks nobody knows how long it takes
            what = "0 or less" if value <= 0 else "more than 10"
            raise self.fail(f"rank 0 returned {what}; it must be the seconds that a message takes.")

    def _check_time(self, value, right_s):
        def near(wanted_s):
            return abs(value - wanted_s) <= NEAR * wanted_s + 1e-12

        if near(right_s):
            return
        units = ("nanosecond", 1e9), ("microsecond", 1e6), ("millisecond", 1e3)
        usual = {
            "This is the time of a whole round trip.": 2 * right_s,
            "This is divided by one round trip more than is timed.": (
                right_s * self.repetitions / (self.repetitions + 1)
            ),
            **{f"These are {unit}s; seconds are asked for.": by * right_s for unit, by in units},
        }
        more = next((f" {says}" for says, wrong_s in usual.items() if near(wrong_s)), "")
        raise self.fail(
            f"rank 0 returned {value:.6g} s; half of the mean round trip, the first one left out, "
            f"is {right_s:.6g} s.{more}"
        )

    @property
    def plain(self):
        """The same with nothing that disturbs it."""
        return Ping(**{item.name: getattr(self, item.name) for item in dataclasses.fields(Ping)})


@dataclass(frozen=True)
class LatePing(Ping):
    """``ping`` where rank ``who`` comes 1 ms late."""

    through = "checks/inside.py:late"
    who: int = 1

    def inputs(self, rank):
        return self.target, self.who, 1e-3, *super().inputs(rank)


@dataclass(frozen=True)
class BusyPing(Ping):
    """``ping`` while another message keeps rank 0's port busy, in one of the round trips."""

    through = "checks/inside.py:busy"
    other_nbytes: int = 15_000

    def inputs(self, rank):
        machine = machine_of(self)
        trip_s = machine.alpha_s + self.nbytes * machine.beta_s_per_byte
        return self.target, 2.5 * trip_s, self.other_nbytes, *super().inputs(rank)

    def right_s(self, run):
        return (run.makespan_s / 2 - self.trip_s(run)) / self.repetitions


# -- fit -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measurements(Formula):
    """Sizes of messages and their times.

    Attributes:
        form: of both: "list", "array", or the dtype of the array of sizes.
    """

    sizes: tuple = ()
    times_s: tuple = ()
    form: str = "list"

    def arguments(self):
        if self.form == "list":
            return list(self.sizes), list(self.times_s)
        dtype = None if self.form == "array" else self.form
        return np.array(self.sizes, dtype), np.array(self.times_s)

    def check_value(self, value):
        if fault := self.fault(value, self.right()):
            named = (says for says, other in self.wrong().items() if not self.fault(value, other))
            says = next((f" {says}" for says in named), "")
            raise Verdict(f"{self}{fault}.{says}")

    def fault(self, value, right):
        """What is wrong with a value, as a sentence goes on; "" if nothing is."""
        raise NotImplementedError

    def __str__(self):
        given = [each.tolist() if hasattr(each, "tolist") else each for each in self.arguments()]
        form = {"list": "", "array": " of arrays"}.get(self.form, f" of arrays, sizes {self.form}")
        return one_line(f"{self.function}({', '.join(map(brief, given))})") + form


@dataclass(frozen=True)
class Fit(Measurements):
    """``fit``: right to six digits; an alpha near 0 counts by the shortest time."""

    target = "fit:fit"

    def wrong(self):
        if not (right := self.right()):
            return {}
        beta, alpha_s = np.polyfit(self.sizes, self.times_s, 1)
        return {
            "These are beta and alpha; alpha comes first.": right[::-1],
            "These are the least squares of seconds, in which the largest messages decide; the "
            "residuals are fractions of the measured times.": (alpha_s, beta),
            "A number below 0 was made 0; nothing is cut off.": [max(0.0, each) for each in right],
        }

    def fault(self, value, right):
        if right and not is_line(value, right, self.sizes, self.times_s):
            return f" is {brief(value)}; it must be {brief(right)}"
        return ""


@dataclass(frozen=True)
class Residuals(Measurements):
    """``residuals`` of a model."""

    target = "fit:residuals"
    alpha_s: float = 1e-6
    beta_s_per_byte: float = 1e-9

    def arguments(self):
        return *super().arguments(), self.alpha_s, self.beta_s_per_byte

    def wrong(self):
        times_s, right = np.array(self.times_s), np.array(self.right() or self.times_s, float)
        by_model = right / np.where(right == 1, np.nan, 1 - right)
        return {
            "These are positive where a message was faster than the model says; the other way "
            "round is asked for.": -right,
            "These are seconds; fractions of the measured times are asked for.": right * times_s,
            "These are fractions of what the model says; fractions of the measured times are "
            "asked for.": by_model,
        }

    def fault(self, value, right):
        right = np.array(value if right is None else right, float)
        if not isinstance(value, np.ndarray) or value.dtype != right.dtype:
            kind = f"of dtype {value.dtype}" if isinstance(value, np.ndarray) else brief(value)
            return f" is {kind}; it must be a float64 array of {right.shape}"
        if value.shape != right.shape:
            return f" has shape {value.shape}; it must have {right.shape}"
        wrong = ~np.isclose(value, right, rtol=2e-6, atol=1e-9)
        if wrong.any():
            at = int(np.argmax(wrong))
            return f": element {at} is {value[at]:.6g}; it must be {right[at]:.6g}"
        return ""


@dataclass(frozen=True)
class TwoRegimes(Measurements):
    """``two_regimes``; what it gives is ``(threshold, short, long)``."""

    target = "fit:two_regimes"

    def wrong(self):
        if not (right := self.right()):
            return {}
        threshold, *lines = right
        below = max(n for n in self.sizes if n < threshold)
        return {
            "This is the largest size of the short messages; the threshold is the smallest of the "
            "long ones.": (below, *lines),
            "The two lines are swapped; the short messages' comes first.": (
                threshold,
                *lines[::-1],
            ),
        }

    def fault(self, value, right):
        if not isinstance(value, tuple | list) or len(value) != 3:
            return f" is {brief(value)}; it must be (threshold, short, long)"
        if right is None:
            return ""
        threshold, *lines = right
        if number(value[0]) != threshold:
            return f": the threshold is {brief(value[0])}; it must be {threshold}"
        sides = zip(("short", "long"), value[1:], lines, self.parts(threshold), strict=True)
        for name, pair, line, part in sides:
            if not is_line(pair, line, *part):
                return f": {name} is {brief(pair)}; it must be {brief(line)}"
        return ""

    def parts(self, threshold):
        """Sizes and times below it, and from it on."""
        sizes, times_s = np.array(self.sizes), np.array(self.times_s)
        return [(sizes[side], times_s[side]) for side in (sizes < threshold, sizes >= threshold)]


def is_line(value, right, sizes, times_s):
    """Whether a value is this pair, to six digits of it or of the shortest time."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        return False
    pair, least_s = [number(each) for each in value], float(np.min(times_s))
    scales = np.array([least_s, least_s / max(1, int(np.max(sizes)))])
    return None not in pair and np.allclose(pair, right, rtol=2e-6, atol=2e-6 * scales)


# -- mend ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exchange(Case):
    """``exchange`` of n numbers."""

    target = "mend:exchange"
    n: int = 16
    machine: str = field(default=QUIET, kw_only=True)

    def inputs(self, rank):
        return (vector(self.rng(rank), self.n),)

    def right(self):
        return self._of_ranks(-1)

    def wrong(self):
        return {
            "This is the next rank's x; the previous one's is asked for.": self._of_ranks(1),
            "This is the rank's own x; the previous one's is asked for.": self._of_ranks(0),
        }

    def _of_ranks(self, distance):
        return [self.inputs((rank + distance) % self.p)[0] for rank in range(self.p)]


@dataclass(frozen=True)
class Mean(Case):
    """``mean_and_deviation``.

    Attributes:
        lengths: of each rank's x, such as (3, 0, 2).
        equal: what all elements are; 0: numbers with a mean and a deviation of each rank's own.
    """

    target = "mend:mean_and_deviation"
    lengths: tuple = ()
    equal: float = 0.0
    machine: str = field(default=QUIET, kw_only=True)

    @property
    def told(self):
        lengths = ", ".join(str(len(self.inputs(rank)[0])) for rank in range(self.p))
        return f"with {lengths} elements{f', all {self.equal}' if self.equal else ''}"

    def inputs(self, rank):
        lengths = self.lengths or range(1, 3 * self.p, 3)
        n = lengths[rank] if rank < len(lengths) else 0
        if self.equal:
            return (np.full(n, self.equal),)
        return (self.rng(rank).normal(5 + rank, 1 + rank, size=n),)

    def right(self):
        everything = np.concatenate([self.inputs(rank)[0] for rank in range(self.p)])
        deviation = 0.0 if self.equal else float(everything.std())
        return [(self.equal or float(everything.mean()), deviation)] * self.p

    def wrong(self):
        parts = [self.inputs(rank)[0] for rank in range(self.p)]
        (mean, deviation), count = self.right()[0], sum(map(len, parts))
        means = float(np.mean([part.mean() for part in parts if len(part)]))
        own = [(part.mean(), part.std()) if len(part) else (mean, deviation) for part in parts]
        pairs = {
            "The second number is the variance; its root is asked for.": (mean, deviation**2),
            "The squares are divided by n - 1; numpy.std divides by n.": (
                mean, deviation * (count / max(1, count - 1)) ** 0.5,
            ),
            "The first number is the mean of the ranks' means; each element counts as much.": (
                means, deviation,
            ),
        }  # fmt: skip
        says = "These are the numbers of the rank's own elements; those of all are asked for."
        return {says: own, **{words: [pair] * self.p for words, pair in pairs.items()}}

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            if not isinstance(value, tuple | list) or len(value) != 2:
                shown = one_line(repr(value), 60)
                raise self.fail(f"rank {rank} returned {shown}; it must be (mean, deviation).")
            for name, each, wanted in zip(("mean", "deviation"), value, right, strict=True):
                found, near = number(each), 1e-5 * self.equal or 1e-9 * (1 + abs(wanted))
                if found is None or not abs(found - wanted) <= near:
                    shown = one_line(repr(each if found is None else found), 40)
                    raise self.fail(f"rank {rank}'s {name} is {shown}; it must be {wanted:.12g}.")


@dataclass(frozen=True)
class Collect(Case):
    """``collect`` of so many rows of n numbers from each rank."""

    target = "mend:collect"
    rows: int = 3
    n: int = 5
    machine: str = field(default=QUIET, kw_only=True)

    @property
    def told(self):
        return f"{format_count(self.rows, 'row')} of {self.n}"

    @property
    def silent(self):
        return self.p == 1 or not self.rows

    def inputs(self, rank):
        return (vector(self.rng(rank), self.rows * self.n).reshape(self.rows, self.n),)

    def right(self):
        """All squares on rank 0."""
        squares = np.array([self.inputs(rank)[0] for rank in range(self.p)]) ** 2
        return [squares] + [None] * (self.p - 1)

    def wrong(self):
        rows = np.array([self.inputs(rank)[0] for rank in range(self.p)])
        others = [None] * (self.p - 1)
        return {
            "These are the rows as they were; their squares are asked for.": [rows, *others],
            "The ranks' rows stand in the opposite order.": [rows[::-1] ** 2, *others],
        }

    def check(self, run):
        assert_ran(run, self)
        assert_array(run.values[0], self.right()[0], None, self, "rank 0's result")
        assert_none_elsewhere(run.values, self)


class BrokenExchange(Exchange):
    """The program as it was, for ``ringside run``."""

    target = "given/broken.py:exchange"


class BrokenMean(Mean):
    """The program as it was, for ``ringside run``."""

    target = "given/broken.py:mean_and_deviation"


class BrokenCollect(Collect):
    """The program as it was, for ``ringside run``."""

    target = "given/broken.py:collect"


# -- where -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Where(Case):
    """``where``.

    Attributes:
        visible: the GPUs that every rank sees, such as "0,1", or a tuple with each rank's.
    """

    target = "where:where"
    visible: object = None
    machine: str = field(default=QUIET, kw_only=True)

    @property
    def told(self):
        each = tuple(map(self.seen_by, range(self.p)))
        visible = f"visible = {(each[0] if len({*each}) == 1 else each)!r}"
        if "ranks_per_node" not in self.machine:
            return visible
        return f"{format_count(machine_of(self).ranks_per_node, 'rank')} a node, {visible}"

    def seen_by(self, rank):
        """A rank's CUDA_VISIBLE_DEVICES; in a line, 0 is a number and 0,1 a pair of numbers."""
        given = str(self.visible) if isinstance(self.visible, int) else self.visible
        if isinstance(given, tuple) and not all(isinstance(each, int) for each in given):
            return given[rank]
        return ",".join(map(str, given)) if isinstance(given, tuple) else given

    def inputs(self, rank):
        return (self.seen_by(rank),)

    def right(self):
        """Nothing that is known before the run: ``rows`` are where its ranks are."""
        return [None] * self.p

    def hosts(self, run):
        """Of each rank: a node of the machine; real ranks are on this computer."""
        if hasattr(run, "trace"):
            return [f"node{run.machine.node(rank)}" for rank in run.members]
        return [HERE] * self.p

    def rows(self, run):
        """The table."""
        hosts, rows = self.hosts(run), []
        for rank, host in enumerate(hosts):
            local, seen = hosts[:rank].count(host), self.seen_by(rank)
            gpus = seen.split(",") if seen else [None]
            rows.append((rank, host, local, gpus[local % len(gpus)]))
        return rows

    def check(self, run):
        assert_ran(run, self)
        values = run.values if hasattr(run, "trace") else without_name(run.values)
        value = values[0]
        if not isinstance(value, list | tuple) or len(value) != self.p:
            shown = one_line(repr(value), 80)
            raise self.fail(f"rank 0 returned {shown}; it must be a list of {self.p} tuples.")
        rows = self.rows(run)
        places = [
            tuple(map(_plain, place)) if isinstance(place, tuple | list) else place
            for place in value
        ]
        for rank, (place, row) in enumerate(zip(places, rows, strict=True)):
            if place != row:
                shown = one_line(repr(value[rank]), 100)
                sentence = f"rank {rank}'s place is {shown}; it must be {row}."
                if all(each in places for each in rows):
                    sentence += " All places are in the table; it must be in order of ranks."
                raise self.fail(sentence)


HERE = "this host"


def without_name(values):
    """What real ranks returned, without the name of their computer: another one has another."""
    try:
        name = values[0][0][1]
    except (TypeError, IndexError, KeyError):
        return values

    def renamed(value):
        if isinstance(value, list | tuple):
            return type(value)(map(renamed, value))
        return HERE if isinstance(value, str) and value == name else value

    return renamed(values)


def _plain(value):
    found = number(value)
    return value if found is None else found


# -- what several modules are asked ----------------------------------------------------------------


def assert_only_messages(run, case):
    """Point-to-point calls only: no collective, no communicator made."""
    if run.collectives:
        used = run.collectives[0].name
        raise case.fail(f"the library's {used} was called; only point-to-point calls are allowed.")
    if run.comm_calls:
        raise case.fail("a communicator was made; only point-to-point calls on comm are allowed.")


def assert_new(run, case):
    """No result shares memory with an input."""
    if any(run.aliased):
        raise case.fail("a result shares memory with an input; it must be a new array.")


def right_in_a_row(ranks, case):
    """Right where a rank is in its next call already, while another one comes late to the first."""
    second = case.with_(seed=case.seed + 1)
    both = zip(arguments(case), arguments(second), strict=True)

    def two_calls():
        args = [(case.target, *each) for each in both]
        run = called(ranks, case, "checks/inside.py:in_a_row", args)
        assert_ran(run, case)
        for place, of in ((0, case), (2, second)):
            of.check(dataclasses.replace(run, values=[value[place] for value in run.values]))
        return run

    contrasted(
        two_calls, lambda: right_run(ranks, case), case,
        "called twice in a row, so that a rank is in its second call while another one comes late "
        "to the first:",
    )  # fmt: skip
