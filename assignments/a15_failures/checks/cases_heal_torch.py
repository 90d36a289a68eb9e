"""The calls of heal_torch.py that the tests make, and what must come of them: without torch."""

import itertools
from dataclasses import dataclass, field

import numpy as np

import ringside
from ringside.checking import Verdict, assert_ran
from ringside.checking.cases import Case, assert_like
from ringside.checking.order import announced
from ringside.errors import TargetError
from ringside.trace import Kind

PARTS = ("w", "m", "v")


@dataclass(frozen=True)
class Healing(Case):
    """Steps of replicas, of which some are new, and some may die.

    Attributes:
        shards: ranks of a replica.
        n: elements of a shard.
        new: replicas whose state is any numbers.
        behind: replicas whose state is two steps old.
        newest: the step of the others.
        num_flops: of a gradient.
        dying: replicas that die, where some do.
        error: the first gradient of each rank raises a RuntimeError of this text.
    """

    target = "heal_torch:Replicated"
    through = "checks/inside_heal_torch.py:trained"
    declared_like = "nothing"  # torch's operators are counted by themselves
    shards: int = 2
    n: int = 11
    num_steps: int = 2
    new: tuple = (1,)
    behind: tuple = ()
    newest: int = 6
    num_flops: int = 0
    dying: tuple = (0,)
    error: str = ""
    announced: bool = field(default=True, kw_only=True)
    machine: str = field(default="buffered", kw_only=True)

    def __post_init__(self):
        if self.p % self.shards:
            raise TargetError(f"p={self.p} shards={self.shards}: take whole replicas.")

    @property
    def replicas(self):
        """How many there are."""
        return self.p // self.shards

    @property
    def joining(self):
        """The replicas that aren't at the newest step."""
        return sorted({*self.new, *self.behind})

    @property
    def healthy(self):
        return [each for each in range(self.replicas) if each not in self.joining]

    def state(self, rank):
        """A rank's state when the run begins."""
        replica, shard = divmod(rank, self.shards)
        own = replica if replica in self.joining else self.replicas
        rng = np.random.default_rng([self.seed, own, shard])
        w, m, v = rng.standard_normal((3, self.n))
        state = {"w": w, "m": m / 4, "v": v * v / 9, "step": self.newest}
        if replica in self.new:
            state["w"][0] = np.nan
            state["step"] = -1
        elif replica in self.behind:
            state["step"] = self.newest - 2
        return state

    def targets(self, rank):
        """What each step's gradient of a rank is made of."""
        rng = np.random.default_rng([self.seed, rank, 7])
        return rank // self.shards + rng.standard_normal((self.num_steps, self.n))

    def inputs(self, rank):
        state = self.state(rank) | {"newest": self.newest}
        more = self.num_steps, self.num_flops, self.error
        return state, self.targets(rank), self.shards, *more

    def trained(self, shard, computed, num_counted=None):
        """The state of a shard at the end, on one rank.

        Args:
            computed: per step the replicas whose gradients are in the sum.
            num_counted: per step what the sum is divided by; None: how many these are.
        """
        state = self.state(self.healthy[0] * self.shards + shard)
        w, m, v = (state[part].copy() for part in PARTS)
        for index, replicas in enumerate(computed):
            step, total = self.newest + index, np.zeros(self.n)
            for replica in replicas:
                rank = replica * self.shards + shard
                with self.passes_of(rank):
                    x = ringside.announce("gradient", w, step)
                total += x - self.targets(rank)[index]
            mean, t = total / (num_counted[index] if num_counted else len(replicas)), step + 1
            m, v = 0.9 * m + 0.1 * mean, 0.99 * v + 0.01 * mean**2
            w = w - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1)
        return {"w": w, "m": m, "v": v, "step": self.newest + self.num_steps}

    def check(self, run):
        assert_ran(run, self)
        if self.error:
            for rank, value in enumerate(run.values):
                if value != "the error came out":
                    raise self.fail(f"rank {rank}: an error of its own was taken for a death.")
            return
        values, verdicts = self.left(run), []
        for computed in self.who_computed(run):
            try:
                self._compare(values, computed)
                return
            except Verdict as verdict:
                verdicts.append(verdict)
        counted = [self.replicas] * self.num_steps
        verdict, says = verdicts[0], "The sum is divided by all replicas that take part"
        try:
            self._compare(values, self.who_computed(run)[0], counted)
            verdict.sentence += f" {says}; {len(self.healthy)} have computed in the first step."
        except (Verdict, ZeroDivisionError):
            pass
        raise verdict

    def _compare(self, values, computed, num_counted=None):
        if not all(computed):
            empty = self.newest + [bool(of) for of in computed].index(False)
            raise self.fail(f"nobody has computed a gradient for the step after {empty}.")
        for rank, value in values.items():
            right = self.trained(rank % self.shards, computed, num_counted)
            assert_like(value, right, self, f"rank {rank}'s state")

    def left(self, run):
        """What the ranks return whose replica has lost nobody.

        Raises:
            Verdict: one of them returned no state.
        """
        alive = set(self.survivors(run))
        values = {}
        for replica in range(self.replicas):
            ranks = range(replica * self.shards, (replica + 1) * self.shards)
            if alive.issuperset(ranks):
                values.update({rank: run.values[rank] for rank in ranks})
        for rank, value in values.items():
            if not isinstance(value, dict) or {*PARTS, "step"} - value.keys():
                raise self.fail(f"rank {rank} has no state of w, m, v and step any more.")
        return values

    def who_computed(self, run):
        """Per step the replicas that computed, by the network's record.

        A replica that died may or may not be in the last step that it computed: all that can be.
        """
        if not hasattr(run, "trace"):  # real ranks, of which none dies
            everyone = list(range(self.replicas))
            return [[self.healthy] + [everyone] * (self.num_steps - 1)]
        steps, alive = {}, self.left(run)
        for rank, of in enumerate(self.members or range(self.p)):
            numbers = {number for _, _, number in announced(run.trace.ops[of])}
            steps.setdefault(rank // self.shards, set()).update(numbers)
        dead = [each for each in steps if each * self.shards not in alive and steps[each]]
        possible = []
        for without in itertools.product((False, True), repeat=len(dead)):
            last = {each: max(steps[each]) for each, out in zip(dead, without, strict=True) if out}
            possible.append([
                [each for each, own in steps.items() if step in own and last.get(each) != step]
                for step in range(self.newest, self.newest + self.num_steps)
            ])  # fmt: skip
        return possible

    def check_healed(self, run):
        """Raise a verdict unless who joined has the same state as who was healthy."""
        values = self.left(run)
        for rank, value in values.items():
            peer = self.healthy[0] * self.shards + rank % self.shards
            if not np.isfinite(value["w"]).all():
                raise self.fail(
                    f"rank {rank}'s w holds NaN, as a new replica's did before it got a state."
                )
            for part in (*PARTS, "step"):
                if not np.array_equal(value[part], values[peer][part]):
                    raise self.fail(
                        f"rank {rank}'s {part} differs from that of rank {peer}, which has the "
                        f"same shard and was at step {self.newest}."
                    )
            start = self.state(peer)
            if value["step"] != self.newest + self.num_steps or np.array_equal(
                value["w"], start["w"]
            ):
                raise self.fail(
                    f"rank {rank} is at step {value['step']}, and its w has "
                    f"{'not ' if np.array_equal(value['w'], start['w']) else ''}changed; "
                    f"{self.num_steps} steps after {self.newest} were to be taken."
                )

    @property
    def copy_nbytes(self):
        """Of w, m, v and the step."""
        return 3 * 8 * self.n + 8


def in_the_sum(case):
    """Replicas die when they have given their part to the sum of a step."""

    def choose(run):
        for step in range(case.num_steps):
            yield ",".join(
                f"{rank}@op{_sums(run, case, rank)[step] + 2}" for rank in _ranks(case, case.dying)
            )

    return choose


def anywhere(case, count):
    """Replicas die in the midst of a copy, if they have one, and at drawn operations."""

    def choose(run):
        rank = case.dying[0] * case.shards
        first, last = _sums(run, case, rank)[0], len(run.trace.ops[rank])
        rng = np.random.default_rng([case.seed, 11])
        ops = run.trace.ops[case.members[rank] if case.members else rank]
        copies = [index for index, op in enumerate(ops) if op.kind in (Kind.ISEND, Kind.IRECV)]
        midst = [index + 2 for index in copies[:1]]
        early = rng.choice(np.arange(1, first + 6), count - count // 2 - len(midst), replace=False)
        late = rng.choice(np.arange(first + 6, last + 1), count // 2, replace=False)
        for op in (*midst, *early, *late):
            yield ",".join(f"{rank}@op{op}" for rank in _ranks(case, case.dying))

    return choose


def _ranks(case, replicas):
    return [each * case.shards + shard for each in replicas for shard in range(case.shards)]


def _sums(run, case, rank):
    """Where a rank joins the sums of its steps, among its operations."""
    of = case.members[rank] if case.members else rank
    sums = [
        index
        for index, op in enumerate(run.trace.ops[of])
        if op.kind == Kind.COLLECTIVE and op.nbytes >= 8 * case.n
    ]
    if len(sums) != case.num_steps:
        raise case.fail(
            f"rank {rank} joined {len(sums)} collectives of {case.n} numbers in {case.num_steps} "
            "steps; one a step is asked for."
        )
    return sums
