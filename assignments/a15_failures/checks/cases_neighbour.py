"""The calls of neighbour.py that the tests make, and what ranks must hold afterwards."""

import functools
from dataclasses import dataclass, field

from given.training import next_state

from ringside.arrays import arrays_in
from ringside.checking import assert_ran
from ringside.checking.cases import Case, assert_like, brief
from ringside.checking.inside import same
from ringside.checking.order import announced
from ringside.checking.suite import called, right_run
from ringside.errors import TargetError
from ringside.trace import Kind

# By the number of nodes: the node that keeps the copies of each one.
KEEPERS = {
    2: [1, 0],
    3: [1, 2, 0],
    4: [1, 0, 3, 2],
    5: [1, 0, 3, 4, 2],
    6: [1, 0, 3, 2, 5, 4],
    7: [1, 0, 3, 2, 5, 6, 4],
}


@dataclass(frozen=True)
class Nodes(Case):
    """Ranks on nodes, and the states that they have in a training run.

    Attributes:
        per_node: ranks of a node.
        n: elements of a state.
    """

    per_node: int = 2
    n: int = 11
    announced: bool = field(default=True, kw_only=True)
    machine: str = field(default="buffered", kw_only=True)

    def __post_init__(self):
        if self.p % self.per_node or self.p // self.per_node not in KEEPERS:
            raise TargetError(f"p={self.p} per_node={self.per_node}: take 2 to 7 whole nodes.")

    def keeper(self, rank):
        """The rank that keeps the copy of this one's state."""
        node, place = divmod(rank, self.per_node)
        return KEEPERS[self.p // self.per_node][node] * self.per_node + place

    def ward(self, rank):
        """The rank whose copy this one keeps."""
        return next(other for other in range(self.p) if self.keeper(other) == rank)

    def state(self, rank, step):
        """A rank's state at a step of a run that begins at step 0."""
        return self._states(rank, step)[step]

    @functools.cache  # noqa: B019  # there are few cases
    def _states(self, rank, num_steps):
        return self.states(rank, self.rng(rank).standard_normal(self.n), 0, num_steps)

    def states(self, rank, state, first, num_steps):
        """A rank's states from a step on, in a run of this case."""
        states = [state]
        with self.passes_of(rank):
            for step in range(first, first + num_steps):
                states.append(next_state(states[-1], step))
        return states

    def pair(self, rank, step):
        """What a rank's memory has of a step."""
        return self.state(rank, step), self.state(self.ward(rank), step)


@dataclass(frozen=True)
class Copies(Nodes):
    """A run with a copy of each step's state.

    Attributes:
        num_flops: of a step.
        in_place: a step changes the array that holds the state.
        dying: ranks that die, where some do.
    """

    target = "neighbour:start"
    through = "checks/inside.py:copied"
    num_steps: int = 3
    num_flops: int = 0
    in_place: bool = False
    dying: tuple[int, ...] = (2,)

    def inputs(self, rank):
        return self.state(rank, 0), 0, None, self.per_node, *self.more

    @property
    def more(self):
        """How each rank goes on from its state."""
        return self.num_steps, self.num_flops, self.in_place

    def right(self):
        """The pairs of the last step."""
        return [self.pair(rank, self.num_steps - 1) for rank in range(self.p)]

    def wrong(self):
        last = self.num_steps - 1
        others = {
            "another rank of its own node": [
                rank // self.per_node * self.per_node + (rank + 1) % self.per_node
                for rank in range(self.p)
            ],
            "itself": list(range(self.p)),
            "a rank of the next node, as in a ring of all nodes": [
                (rank - self.per_node) % self.p for rank in range(self.p)
            ],
        }
        return {
            f"Each rank keeps the copy of {what}.": [
                (self.state(rank, last), self.state(of[rank], last)) for rank in range(self.p)
            ]
            for what, of in others.items()
        } | {
            "This is the state of the next step: start must copy it.": [
                (self.state(rank, last + 1), self.state(self.ward(rank), last + 1))
                for rank in range(self.p)
            ]
        }

    def check(self, run):
        if self.kill:
            self.check_left(run)
            return
        assert_ran(run, self)
        last = self.num_steps - 1
        for rank, (memory, pair) in enumerate(zip(run.values, self.right(), strict=True)):
            assert_steps(memory, self, rank)
            if last not in memory:
                raise self.fail(
                    f"rank {rank}'s memory has steps {sorted(memory)}; the last one is {last}."
                )
            assert_pair(memory[last], pair, self, f"rank {rank}'s memory of step {last}")

    def check_left(self, run):
        """Raise a verdict unless survivors can give all ranks one of the latest steps."""
        assert_ran(run, self)
        step = common_step(run, self)
        for rank, memory in enumerate(held(run, self)):
            if memory:
                what = f"rank {rank}'s memory of step {step}, when somebody died"
                assert_pair(memory[step], self.pair(rank, step), self, what)


def assert_steps(memory, case, rank):
    """A memory is a dict."""
    if not isinstance(memory, dict):
        raise case.fail(
            f"rank {rank}'s memory must be a dict of pairs (own state, copy), by their steps."
        )


def assert_pair(pair, right, case, what):
    """A pair in a memory has the right own state and the right copy."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise case.fail(f"{what} is {brief(pair)}; it must be (own state, copy).")
    for value, expected, which in zip(pair, right, ("own state", "copy"), strict=True):
        assert_like(value, expected, case, f"{what}: the {which}")


def assert_travelled(run, case):
    """Each rank has a copy of the last state of some other rank, whichever it is."""
    last = case.num_steps - 1
    for rank, memory in enumerate(run.values):
        assert_steps(memory, case, rank)
        others = [case.state(other, last) for other in range(case.p) if other != rank]
        if not any(same(copy, other) for copy in arrays_in(memory.get(last)) for other in others):
            raise case.fail(f"rank {rank} has no copy of another rank's state of step {last}.")


def held(run, case):
    """What each rank has after a run: None who is dead."""
    alive = case.survivors(run)
    return [run.values[rank] if rank in alive else None for rank in range(case.p)]


def common_step(run, case):
    """The newest step that survivors can give to all.

    Raises:
        Verdict: there is none, or a later one had been finished by all.
    """
    memories = held(run, case)
    for rank, memory in enumerate(memories):
        if memory is not None:
            assert_steps(memory, case, rank)
    givers = [rank if memories[rank] else case.keeper(rank) for rank in range(case.p)]
    steps = [set(memories[rank] or ()) for rank in givers]
    common = set.intersection(*steps)
    # Who has begun a step has seen that all had finished the one before it.
    begun = [number for ops in run.trace.ops for _, _, number in announced(ops)]
    finished = max(begun, default=0) - 1
    if not common or max(common) < finished:
        told = "; ".join(
            f"rank {giver}'s memory has {', '.join(map(str, sorted(of))) or 'none'}"
            for giver, of in sorted(dict(zip(givers, steps, strict=True)).items())
        )
        raise case.fail(
            f"no step from {finished} on can be given to all ranks, though all had finished step "
            f"{finished} when somebody died: of steps, {told}."
        )
    return max(common)


@dataclass(frozen=True)
class Recovery(Nodes):
    """A recovery from memories that are given.

    Attributes:
        new: ranks that are new.
        ahead: ranks that have finished a step more.
        step: the newest that all have finished.
        in_place: the next step changes the array that comes back.
    """

    target = "neighbour:recover"
    through = "checks/inside.py:recovered"
    announced: bool = field(default=False, kw_only=True)
    new: tuple[int, ...] = (2,)
    ahead: tuple[int, ...] = (0,)
    step: int = 6
    in_place: bool = False

    def inputs(self, rank):
        newest = self.step + (rank in self.ahead)
        memory = {step: self.pair(rank, step) for step in (newest - 1, newest)}
        return None if rank in self.new else memory, self.n, self.per_node, self.in_place

    @property
    def gone(self):
        """Whether a state is in nobody's memory."""
        return any(self.keeper(rank) in self.new for rank in self.new)

    def right(self):
        """Step and state of each rank, and what its memory has of the step."""
        if self.gone:
            return ["LookupError"] * self.p
        return [
            (self.step, self.state(rank, self.step), self.pair(rank, self.step))
            for rank in range(self.p)
        ]

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            if self.gone or value == "LookupError":
                self._check_error(value, rank)
                continue
            step, state, _ = value
            if step != self.step:
                raise self.fail(
                    f"rank {rank} goes on with step {step}; {self.step} is the newest that every "
                    "rank can be given."
                )
            assert_like(state, right[1], self, f"rank {rank}'s state of step {step}")

    def _check_error(self, value, rank):
        if self.gone != (value == "LookupError"):
            raise self.fail(
                f"rank {rank} must raise LookupError: a state is in nobody's memory."
                if self.gone
                else f"rank {rank} raised LookupError; each state is in somebody's memory."
            )

    def check_memory(self, run):
        """Raise a verdict unless each rank has the pair of the step again, and no later one."""
        for rank, (_, _, memory) in enumerate(run.values):
            assert_steps(memory, self, rank)
            if self.step not in memory or max(memory) > self.step:
                raise self.fail(
                    f"after recover rank {rank}'s memory has steps {sorted(memory)}; it must have "
                    f"{self.step}, and no later one, which is computed again."
                )
            what = f"after recover rank {rank}'s memory of step {self.step}"
            assert_pair(memory[self.step], self.pair(rank, self.step), self, what)

    def num_states(self, rank):
        """The states that a rank may send, and those that it may receive."""
        given = (self.keeper(rank) in self.new) + (self.ward(rank) in self.new)
        return (0, 2) if rank in self.new else (given, 0)


# -- who dies when ---------------------------------------------------------------------------------


def at_each_operation(case):
    """Ranks die at each of their operations, once all have finished step 0.

    Of several each dies an operation later than the one before it, as a node goes down. Each time
    what is on its way arrives, and then it is lost.
    """

    def choose(run):
        ops = run.trace.ops[case.dying[0]]
        begins = place(run, case, case.dying[0], 1)
        sums = [index for index, op in enumerate(ops[:begins]) if op.kind == Kind.COLLECTIVE]
        last = min(len(run.trace.ops[rank]) for rank in case.dying) + 2 - len(case.dying)
        for number in range(max(sums, default=0) + 3, last + 1):
            kills = [f"{rank}@op{number + later}" for later, rank in enumerate(case.dying)]
            yield from [",".join(kills)] * 2

    return choose


def place(run, case, rank, step):
    """Where a rank announced a step, among its operations."""
    passes = announced(run.trace.ops[rank])
    places = [index for index, phase, number in passes if (phase, number) == ("step", step)]
    if not places:
        raise case.fail(f"rank {rank} did not come to step {step}.")
    return places[0]


def in_step(case, step):
    """The first of them dies when it computes a step."""
    rank = case.dying[0]
    return lambda run: [f"{rank}@op{place(run, case, rank, step) + 1}"]


def assert_two_losses(ranks, case):
    """After the first loss all go on; then another rank dies, before a step has been copied."""
    second, length = case.dying[1], (case.n, case.per_node)
    run = right_run(ranks, case)
    step = common_step(run, case)
    later = case.with_(kill="", seed=case.seed + 1)
    arguments = [(memory, *length, *later.more) for memory in held(run, case)]
    whole = called(ranks, later, RESUMED, arguments)
    assert_ran(whole, case)
    later = later.with_(kill=f"{second}@op{place(whole, case, second, step) + 1}")
    run = called(ranks, later, RESUMED, arguments)
    assert_ran(run, case)
    arguments = [(memory, *length, False) for memory in held(run, later)]
    last = called(ranks, later.with_(kill=""), Recovery.through, arguments)
    assert_ran(last, case)
    for rank, value in enumerate(last.values):
        after = f"after a second loss, of rank {second},"
        if value == "LookupError":
            raise case.fail(f"{after} rank {rank} raised LookupError: copies weren't renewed.")
        right = step, case.state(rank, step)
        assert_like(value[:2], right, case, f"{after} rank {rank}'s step and state")


RESUMED = "checks/inside.py:resumed"
