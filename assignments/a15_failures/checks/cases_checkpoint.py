"""The calls of checkpoint.py that the tests make: runs that save, then runs that load."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ringside import Machine
from ringside.checking import assert_ran
from ringside.checking.cases import Case, assert_like
from ringside.checking.kills import every_kill, line_of, some
from ringside.checking.suite import called, filled, right_run
from ringside.errors import RankError
from ringside.network.storage import Stores
from ringside.session.session import Result
from ringside.trace import Kind

NOTE = 1024  # bytes of what says that a checkpoint is whole
SLOW_STORE = Machine(  # a call costs 10 µs, a million bytes a second
    "slow store", alpha_s=1e-6, beta_s_per_byte=1e-9, store_alpha_s=1e-5,
    store_beta_s_per_byte=1e-6,
)  # fmt: skip


@dataclass(frozen=True)
class Spread(Case):
    """A vector that is spread over ranks, and saved at some steps.

    Attributes:
        length: of the vector.
    """

    stored = True
    silent = True
    machines: ClassVar = {"slow_store": SLOW_STORE}
    length: int = 11
    dtype: str = "float64"
    machine: str = field(default="buffered", kw_only=True)

    def vector(self, step):
        """The vector at a step."""
        drawn = np.random.default_rng([self.seed, step]).standard_normal(self.length)
        return (1000 * drawn).astype(self.dtype)

    def shard(self, step, rank, num_ranks):
        """A rank's part of it."""
        s = math.ceil(self.length / num_ranks)
        return self.vector(step)[rank * s : (rank + 1) * s].copy()

    def shard_nbytes(self, rank):
        """Bytes of a rank's part."""
        return self.shard(0, rank, self.p).nbytes

    @property
    def room(self):
        """Bytes of two checkpoints, which may be left in the store."""
        return 2 * (self.length * np.dtype(self.dtype).itemsize + NOTE)

    def assert_room(self, stores):
        """At most two checkpoints are left."""
        if stores.nbytes > self.room:
            raise self.fail(
                f"the store holds {stores.nbytes} bytes at the end; two checkpoints have at most "
                f"{self.room}. Remove what is older once the new checkpoint is whole."
            )


@dataclass(frozen=True)
class Save(Spread):
    """One ``save``, into a store that may hold the checkpoints of earlier steps.

    Attributes:
        before: those steps.
    """

    target = "checkpoint:save"
    through = "checks/inside_store.py:save"
    step: int = 8
    before: tuple = ()

    def earlier(self):
        return [self.with_(step=step, before=(), kill="") for step in self.before]

    def inputs(self, rank):
        return self.step, self.shard(self.step, rank, self.p), self.length

    def right(self):
        return [None] * self.p

    def time_s(self, machine):
        """What the docstring allows."""
        return (
            (self.p + 6) * machine.store_alpha_s
            + self.shard_nbytes(0) * machine.store_beta_s_per_byte
            + 4 * math.ceil(math.log2(self.p)) * machine.alpha_s
        )


@dataclass(frozen=True)
class Load(Spread):
    """A ``load`` on p ranks of what others have saved.

    Attributes:
        writers: how many ranks saved.
        steps: when.
        dies: who died in the last ``save``, and when.
        gone: what the dead rank had sent by then never arrived.
        moments: of so many deaths, drawn; 0: of all.
    """

    target = "checkpoint:load"
    through = "checks/inside_store.py:load"
    writers: int = 4
    steps: tuple = (4, 8)
    dies: str = ""
    gone: bool = False
    moments: int = 0

    def earlier(self):
        return [
            Save(
                self.writers, self.length, self.dtype, step, seed=self.seed,
                kill=self.dies if step == self.steps[-1] else "", lost=self.gone,
                collectives=self.collectives,
            )
            for step in self.steps
        ]  # fmt: skip

    def inputs(self, rank):
        return (self.length,)

    def right(self):
        return self.loaded(self.steps[-1] if self.steps else None)

    def loaded(self, step):
        """What ``load`` gives on each rank."""
        if step is None:
            return [None] * self.p
        return [(step, self.shard(step, rank, self.p)) for rank in range(self.p)]

    @property
    def possible(self):
        """The steps that may be found, the newest first."""
        if not self.dies:
            return [self.steps[-1] if self.steps else None]
        return [self.steps[-1], self.steps[-2] if len(self.steps) > 1 else None]

    @property
    def death(self):
        """Who died in ``save``, for a sentence; empty: nobody."""
        if not self.dies:
            return ""
        rank, _, op = self.dies.partition("@op")
        return (
            f"rank {rank} of {self.writers} was killed in save of step {self.steps[-1]}, in its "
            f"operation {op}. Then "
        )

    def check(self, run):
        if self.dies and isinstance(run.error, RankError):
            says = f": {run.error.message[:120]}" if run.error.message else ""
            raise self.fail(
                f"{self.death}load raised {run.error.type_name}{says.rstrip('.')}. A checkpoint "
                "counts only when all of its pieces are there."
            )
        assert_ran(run, self)
        for rank, value in enumerate(run.values):
            if value is not None and not _is_found(value):
                raise self.fail(f"rank {rank} must return None or a step and its shard.")
        steps = [None if value is None else int(value[0]) for value in run.values]
        step = steps[0]
        if other := next((rank for rank, found in enumerate(steps) if found != step), 0):
            raise self.fail(
                f"{self.death}rank 0 returned {_told(step)}, and rank {other} "
                f"{_told(steps[other])}. All ranks must return one step."
            )
        if step not in self.possible:
            raise self.fail(self._not_possible(step))
        for rank, right in enumerate(self.loaded(step)):
            if right is not None:
                self._check_mixture(run.values, step)
                words = f"{self.death}rank {rank}'s shard of step {step}"
                assert_like(run.values[rank][1], right[1], self, words, tolerance=0)

    def _not_possible(self, step):
        newest, *before = self.possible
        if before and step is None:
            return (
                f"{self.death}no whole checkpoint was found. Step {before[0]} must stay until step "
                f"{newest} is whole."
            )
        may_be = " or ".join(_told(each) for each in self.possible)
        return f"{self.death}load returned {_told(step)}; the newest whole one is {may_be}."

    def _check_mixture(self, values, step):
        """Of two saved vectors, no parts of both."""
        if not self.dies or len(self.steps) < 2:
            return
        shards = [np.asarray(value[1]).ravel() for value in values]
        found = np.concatenate(shards)
        mine, other = (self.vector(each) for each in self.possible)
        if found.shape != mine.shape:
            return
        of_new, of_old = int((found == mine).sum()), int((found == other).sum())
        if of_new and of_old and of_new + of_old == len(found):
            raise self.fail(
                f"{self.death}{of_new} elements are those of step {self.possible[0]}, and {of_old} "
                f"those of step {self.possible[1]}. Let each checkpoint have names of its own."
            )


def _is_found(value):
    is_pair = isinstance(value, tuple | list) and len(value) == 2
    return is_pair and isinstance(value[0], int | np.integer) and not isinstance(value[0], bool)


def _told(step):
    return "None" if step is None else f"step {step}"


@dataclass(frozen=True)
class Both(Spread):
    """Two ``save`` calls on all ranks, and a ``load`` on the last of them, in one run.

    Attributes:
        readers: how many load.
    """

    target = "checkpoint:load"
    through = "checks/inside_store.py:both"
    readers: int = 2
    steps: tuple = (4, 8)

    def inputs(self, rank):
        shards = [(step, self.shard(step, rank, self.p)) for step in self.steps]
        return self.readers, shards, self.length

    def right(self):
        step = self.steps[-1]
        shards = [self.shard(step, rank, self.readers) for rank in range(self.readers)]
        return [None] * (self.p - self.readers) + [(step, shard) for shard in shards]

    def check(self, run):
        super().check(run)
        put = sum(run.put_bytes()) if isinstance(run, Result) else math.inf  # real ranks' unknown
        saved = len(self.steps) * self.vector(0).nbytes
        if put < saved:
            raise self.fail(
                f"the ranks put {put} bytes into the store; the vectors that they saved have "
                f"{saved}. What isn't in the store is lost with the ranks."
            )


# -- who dies when ---------------------------------------------------------------------------------


def restarts(ranks, case):
    """The case with each death of its last ``save``, on other numbers of ranks by turns."""
    if case.dies:
        yield case
        return
    *before, last = case.earlier()
    stores = Stores()
    for save in [*before, last]:
        run = called(ranks, save, stores=stores)
        with line_of(save):
            assert_ran(run, save)
    kills = [kill for rank in range(case.writers) for kill in every_kill(run, rank)]
    kills = some(kills, case.moments, case.seed)
    readers = [case.p, case.writers + 1, case.writers, 1]
    for number, kill in enumerate(kills):
        yield case.with_(dies=kill, gone=number % 2 == 1, p=readers[number % 4])


def assert_restarts(ranks, case):
    """After each death, ``load`` finds a checkpoint; and where nobody dies, the newest."""
    if not case.dies:
        right_run(ranks, case)
    for killed in restarts(ranks, case):
        with line_of(killed):
            killed.compare(called(ranks, killed))


def goes_on(ranks, case, skipped=False):
    """After each death, the ranks that load save the next step, and that is found.

    Args:
        skipped: a step that was not whole is not saved again, but one after it.

    Yields:
        the case with the death, and what is in the store at the end.
    """
    for killed in restarts(ranks, case):
        with line_of(killed):
            stores = filled(ranks, killed)
            run = called(ranks, killed, stores=stores)
            killed.compare(run)
            found = run.values[0]
            old, new = killed.steps
            step = new if found[0] == old and not skipped else new + 4
            again = Save(killed.p, case.length, case.dtype, step, seed=case.seed)
            called(ranks, again, stores=stores)
            later = killed.with_(dies="", steps=(step,), p=case.writers)
            try:
                later.compare(called(ranks, later, stores=stores))
            except Exception as verdict:
                words = f"{killed.death}{killed.p} ranks saved step {step}, and then: "
                raise killed.fail(words + getattr(verdict, "sentence", str(verdict))) from None
            yield killed, stores


def in_put(run, rank):
    """The death of a rank when it puts its piece."""
    puts = [n for n, op in enumerate(run.trace.ops[rank]) if op.kind == Kind.STORE and op.nbytes]
    return f"{rank}@op{puts[0] + 1 if puts else 1}"


def assert_of_one_save(ranks, case):
    """Two saves of the same step, a rank dies in each: what is found is of one of them.

    The second is on as many ranks, whose numbers differ from the first's: a run that goes on from
    the step before needn't come to the same bits.
    """
    old, new = case.steps
    again = Save(case.writers, case.length, case.dtype, new, seed=case.seed + 1)
    run = called(ranks, again, stores=filled(ranks, case.with_(steps=(old,))))
    assert_ran(run, again)
    deaths = [in_put(run, rank) for rank in range(again.p)]
    for first in deaths if not case.dies else [case.dies]:
        killed = case.with_(dies=first)
        stores = filled(ranks, killed)
        for second in deaths:
            left = stores.copy()
            called(ranks, again.with_(kill=second), stores=left)
            with line_of(killed):
                run = called(ranks, killed, stores=left)
                assert_ran(run, killed)
                found = run.values[0]
                of = case if found is not None and found[0] == old else case.with_(seed=again.seed)
                right = of.loaded(old if of is case else new)
                if not all(map(_is_the_same, run.values, right)):
                    raise killed.fail(
                        f"{killed.death}{again.p} ranks saved step {new} again, with other "
                        f"numbers, and rank {second.partition('@')[0]} was killed in that. Then "
                        f"load returned neither step {old} nor step {new} as one save wrote it. "
                        "What a failed save has left doesn't count."
                    )


def _is_the_same(value, right):
    return (
        value is not None
        and value[0] == right[0]
        and np.array_equal(np.asarray(value[1]), right[1])
    )


# -- what the docstring allows ---------------------------------------------------------------------


def assert_written(run, case):
    """Each rank has put its own shard, and one rank a little more."""
    put, got = run.put_bytes(), run.got_bytes()
    if max(got) > NOTE:
        raise case.fail(
            f"rank {got.index(max(got))} got {max(got)} bytes from the store in save; at most "
            f"{NOTE} are allowed."
        )
    beside = 0
    for rank, nbytes in enumerate(put):
        own = case.shard_nbytes(rank)
        if nbytes < own:
            raise case.fail(
                f"rank {rank} put {nbytes} bytes into the store; its shard has {own}. Each rank "
                "writes its own shard."
            )
        beside += nbytes > own
        if nbytes > own + NOTE or beside > 1:
            raise case.fail(
                f"rank {rank} put {nbytes} bytes into the store; its shard has {own}, and one rank "
                f"may put at most {NOTE} besides."
            )


def assert_read(run, case):
    """Each rank has got its own shard, and little more."""
    for rank, nbytes in enumerate(run.got_bytes()):
        own = case.shard_nbytes(rank)
        if not own <= nbytes <= own + NOTE:
            raise case.fail(
                f"rank {rank} got {nbytes} bytes from the store; its shard of {case.length} "
                f"elements on {case.p} ranks has {own}, and at most {NOTE} are allowed besides."
            )
