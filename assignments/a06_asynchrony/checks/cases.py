"""The calls of server.py and local_sgd.py that the tests make, and what must come of them."""

import functools
from dataclasses import dataclass, field

import numpy as np
from given import wire
from given.local_loss import FLOPS_PER_ELEMENT
from given.server_problem import Problem, seed_apart, trained

from ringside import Machine
from ringside.checking import assert_own_messages, assert_ran
from ringside.checking.cases import Case, assert_like, cast, machine_of
from ringside.checking.inside import same
from ringside.checking.ring_bytes import received_as_ring, sent_as_ring

# -- what several modules need ---------------------------------------------------------------------


@dataclass(frozen=True)
class Refused(Case):
    """A call that must raise ValueError on all ranks, before any message and any gradient."""

    def check(self, run):
        assert_ran(run, self)
        for rank, (error, count) in enumerate(run.values):
            if error != "ValueError":
                raise self.fail(
                    f"rank {rank} raised {error or 'nothing'}; it must be ValueError, on all ranks."
                )
            if count:
                raise self.fail(f"rank {rank} computed {count} gradients before it raised.")
        if run.collectives or any(run.sent_messages()):
            raise self.fail("it must raise ValueError before any message.")


def check_looked_at(case, rank, value):
    """What a function ``..._looked_at`` of ``inside.py`` says of arguments and results."""
    if value["changed"]:
        raise case.fail(f"rank {rank} changed what it was given; it must stay as it was.")
    if value["shared"]:
        raise case.fail(
            f"rank {rank} returned an array that shares memory with what it was given, or with "
            "another result; results must be new."
        )


def assert_repeated(case, run):
    """What came of a call the first time comes of it the second time."""
    for rank, (first, second) in enumerate(run.values):
        if not same(first, second):
            raise case.fail(
                f"rank {rank} has another result where the same training is made a second time; "
                "nothing may be kept from one call to the next."
            )


def assert_equal_copies(case, of_ranks, what):
    """All ranks have the same arrays, bit for bit."""
    for rank, own in enumerate(of_ranks):
        for number, (array, first) in enumerate(zip(own, of_ranks[0], strict=True)):
            if not np.array_equal(array, first, equal_nan=True):
                raise case.fail(
                    f"rank {rank}'s {what} {number} is not rank 0's bit for bit: copies that "
                    "differ drift apart."
                )


# -- server ----------------------------------------------------------------------------------------

TEXTBOOK = Machine.load("textbook")


@functools.cache
def problem_seed(seed, n, steps, paces, staleness, late):
    """A seed of pushes whose order messages don't decide; it follows from the case's."""
    rng = np.random.default_rng(seed)
    return seed_apart(rng, n, steps, paces, staleness, TEXTBOOK, late)


@dataclass(frozen=True)
class Training(Case):
    """``serve`` and ``work`` train together.

    Attributes:
        steps: worker k makes ``steps[k % len(steps)]`` steps.
        paces: and takes about ``paces[k % len(paces)]`` ms for each; (): k + 2 ms.
        fixed: gradients don't depend on the weights, so that the order of pushes doesn't matter.
    """

    target = "server:serve"
    through = "checks/inside.py:server_training"
    steps: tuple = (3,)
    staleness: int | None = None
    paces: tuple = ()
    n: int = 4
    fixed: bool = False
    late = 0

    @property
    def told(self):
        return super().told + (", asynchronous" if self.staleness is None else "")

    @property
    def num_steps(self):
        """Per worker, how many steps it makes."""
        return tuple(self.steps[k % len(self.steps)] for k in range(self.p - 1))

    @property
    def worker_paces(self):
        """Per worker, ms a step."""
        return tuple(
            self.paces[k % len(self.paces)] if self.paces else k + 2 for k in range(self.p - 1)
        )

    @property
    def problem_seed(self):
        if self.fixed or self.p < 3:
            return self.seed
        of = self.num_steps, self.worker_paces, self.staleness, self.late
        return problem_seed(self.seed, self.n, *of)

    @functools.cached_property
    def problem(self):
        return Problem(
            self.n, self.num_steps, self.worker_paces, self.problem_seed, fixed=self.fixed
        )

    @functools.cached_property
    def training(self):
        """The same in one process."""
        return self.trained(self.staleness)

    def trained(self, staleness, **combined):
        """A training in one process, this one or one that is mistaken for it."""
        return trained(self.problem, staleness, TEXTBOOK, self.factors, self.late, **combined)

    def right(self):
        return self.training

    def wrong(self):
        if self.staleness == 0:
            added = "This comes of the sum of a round's gradients; their mean is asked for."
            return {added: self.trained(0, combined=sum)}
        if self.staleness is None:
            waits = "This is synchronous training; here each push is applied at once, as it comes."
            return {waits: self.trained(0)}
        return {
            "This is asynchronous training: no pull was held back.": self.trained(None),
            "This is synchronous training; here each push is applied at once.": self.trained(0),
        }

    def inputs(self, rank):
        given = self.num_steps, self.worker_paces, self.staleness, self.n, self.problem_seed
        return *given, self.fixed

    def check(self, run):
        assert_ran(run, self)
        self.check_weights(run.values[0])
        for rank in range(1, self.p):
            self.check_worker(rank, run.values[rank])
        if hasattr(run, "trace"):
            assert_own_messages(run, self)

    def check_weights(self, value):
        """What ``serve`` returned, and what it did to its arguments."""
        assert_like(value["weights"], self.right().weights, self, "what serve returned")
        if not value["kept"]:
            raise self.fail("serve changed the weights that it was given; they must stay.")
        if value["shared"]:
            raise self.fail("serve returned the array that it was given; it must be a new one.")

    def check_worker(self, rank, value):
        """What ``work`` returned."""
        if not self.fixed:
            assert_versions(self, rank, value, self.right().versions[rank - 1])


def assert_versions(case, rank, value, wanted):
    """The versions that ``work`` returned."""
    if not isinstance(value, list) or value != wanted:
        raise case.fail(
            f"rank {rank}'s work returned {_short(value)}; its gradients must be computed on the "
            f"versions {_short(wanted)}."
        )


@dataclass(frozen=True)
class TrainingTwice(Training):
    """The same training twice."""

    through = "checks/inside.py:server_twice"

    def check(self, run):
        assert_ran(run, self)
        assert_repeated(self, run)
        for rank, (_, value) in enumerate(run.values):
            if rank == 0:
                self.check_weights(value)
            else:
                self.check_worker(rank, value)


@dataclass(frozen=True)
class ScriptedWorkers(Training):
    """``serve`` alone; workers send what a script says.

    Attributes:
        late: how many ms after its last step a worker's END comes.
    """

    through = "checks/inside.py:scripted_workers"
    late: int = 0

    def inputs(self, rank):
        return *super().inputs(rank)[:5], self.late

    def check_worker(self, rank, value):
        """What a worker received: versions first, then the weights of each."""
        answers = self.right().answers[rank - 1]
        tags = [tag for _, tag, _, _ in value]
        if any(tag != wire.STATE for tag in tags):
            raise self.fail(f"rank {rank} received messages of tags {_short(tags)}; only STATE is.")
        versions = [version for _, _, version, _ in value]
        wanted = [version for version, _ in answers]
        if versions != wanted:
            raise self.fail(
                f"the server answered rank {rank}'s pulls with the versions {_short(versions)}; "
                f"they must be {_short(wanted)}."
            )
        for step, ((*_, version, weights), (_, exact)) in enumerate(
            zip(value, answers, strict=True)
        ):
            what = f"the weights that rank {rank} got in step {step}, as version {version},"
            assert_like(weights, exact, self, what)


@dataclass(frozen=True)
class ScriptedServer(Case):
    """``work`` alone; the server sends what a script says.

    Attributes:
        steps: as ``Training``'s.
    """

    target = "server:work"
    through = "checks/inside.py:scripted_server"
    steps: tuple = (3,)
    n: int = 4

    @property
    def num_steps(self):
        return Training(self.p, self.steps).num_steps

    @property
    def answers(self):
        """Worker, version and weights of each answer, step by step."""
        rng = self.rng(0)
        return [
            (worker, int(rng.integers(2**40)), rng.standard_normal(self.n))
            for step in range(max(self.num_steps, default=0))
            for worker, count in enumerate(self.num_steps)
            if count > step
        ]

    def inputs(self, rank):
        return self.num_steps, self.n, self.seed, self.answers

    def check(self, run):
        assert_ran(run, self)
        self.check_messages(run.values[0])
        for rank in range(1, self.p):
            wanted = [version for worker, version, _ in self.answers if worker == rank - 1]
            assert_versions(self, rank, run.values[rank], wanted)
        assert_own_messages(run, self)

    def check_messages(self, came):
        """What the server received, in the order of its script."""
        problem = Problem(self.n, self.num_steps, [0.1] * (self.p - 1), self.seed)
        wanted, taken = [], dict.fromkeys(range(self.p - 1), 0)
        for worker, version, weights in self.answers:
            step = taken[worker]
            taken[worker] += 1
            gradient = problem.gradient(worker)(weights, step)
            wanted += [(worker, step, wire.PULL, None, None)]
            wanted += [(worker, step, wire.PUSH, version, gradient)]
        wanted += [(w, count, wire.END, None, None) for w, count in enumerate(self.num_steps)]
        names = {wire.PULL: "PULL", wire.STATE: "STATE", wire.PUSH: "PUSH", wire.END: "END"}
        for (_, tag, version, array), (worker, step, *right) in zip(came, wanted, strict=True):
            what = f"rank {worker + 1} in step {step}"
            if tag != right[0]:
                raise self.fail(f"{what} sent {names.get(tag, tag)}; it must be {names[right[0]]}.")
            if version != right[1]:
                raise self.fail(
                    f"{what} sent a {names[tag]} with version {version}; "
                    + (f"it pulled version {right[1]}." if tag == wire.PUSH else "it is empty.")
                )
            if right[2] is not None:
                assert_like(array, right[2], self, f"the gradient that {what} pushed")


@dataclass(frozen=True)
class RefusedTraining(Refused):
    """``serve`` and ``work`` with numbers that can't be right."""

    target = "server:serve"
    through = "checks/inside.py:server_refusals"
    staleness: int = -1
    num_steps: int = -1

    def inputs(self, rank):
        return self.staleness, self.num_steps


@dataclass(frozen=True)
class MeasuredTraining(Case):
    """``measured_training``, for runs and jobs: any order of pushes gives the same."""

    target = "server:measured_training"
    n: int = 16
    steps: int = 6
    staleness: int | None = None
    slow: int = 4

    def targets(self, rank):
        """What a rank pushes, step by step; means over all workers are whole numbers."""
        drawn = self.rng(rank).integers(-9, 10, size=(self.steps, self.n))
        return max(1, self.p - 1) * drawn.astype("float64")

    def inputs(self, rank):
        matrix = self.rng().standard_normal((self.n, self.n))
        return matrix, self.targets(rank), self.staleness, self.slow

    def right(self):
        targets = np.array([self.targets(rank) for rank in range(1, self.p)])
        pushed = targets.reshape(-1, self.steps, self.n).sum(axis=(0, 1))
        weights = -pushed / (max(1, self.p - 1) if self.staleness == 0 else 1)
        return [weights, *[self.steps] * (self.p - 1)]


def _short(value):
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# -- local_sgd -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LocalSgd(Case):
    """Training on losses of the ranks' own.

    Attributes:
        shapes: of the parameters.
        nan_of: one of this rank's targets is not a number; -1: all are.
    """

    target = "local_sgd:train"
    through = "checks/inside.py:local_sgd_trained"
    num_steps: int = 6
    period: int = 3
    shapes: tuple = ((3, 4), (4,), (2,))
    dtype: str = "float64"
    nan_of: int = -1
    machine: str = field(default="buffered", kw_only=True)

    @property
    def told(self):
        arrays = f"{len(self.shapes)} arrays{'' if self.nan_of < 0 else ' with NaN'}"
        return f"num_steps {self.num_steps}, period {self.period}, {arrays}, {self.dtype}"

    def drawn(self, rng, low, high):
        """Arrays of the shapes."""
        return [np.asarray(rng.uniform(low, high, each)).astype(self.dtype) for each in self.shapes]

    @property
    def params(self):
        """The initial parameters."""
        return self.drawn(self.rng(), -1, 1)

    @property
    def lr(self):
        return float(self.rng().uniform(0.1, 0.4))

    def loss(self, rank):
        """A rank's curvatures, and four samples of targets."""
        rng = self.rng(rank)
        curvatures = self.drawn(rng, 0.2, 2.0)
        samples = [self.drawn(rng, -3, 3) for _ in range(4)]
        if rank == self.nan_of:
            samples[0][0].reshape(-1)[:1] = np.nan
        return curvatures, samples

    def inputs(self, rank):
        return self.params, *self.loss(rank), self.num_steps, self.period, self.lr

    def right(self):
        return [cast(own, self.dtype) for own in self.recursion()]

    def wrong(self):
        found = {
            "This is the sum of the ranks' parameters; their mean is asked for.": self.recursion(
                combined=np.sum
            ),
            "All gradients of a period were taken where it began; each step begins where the one "
            "before it ended.": self.recursion(moves=False),
        }
        if self.num_steps % self.period:
            found["After the last period, which is shorter, an average is missing."] = (
                self.recursion(rounds=self.num_steps // self.period)
            )
        return {says: [cast(own, self.dtype) for own in ranks] for says, ranks in found.items()}

    def recursion(self, combined=np.mean, moves=True, rounds=-1):
        """The recursion of all ranks on one: each rank's parameters.

        Args:
            combined: of the ranks' parameters, what all of them have after a period.
            moves: whether a gradient is taken where the step before it ended.
            rounds: how many averages there are; -1: all.
        """
        own, lr = [[np.asarray(param, "float64") for param in self.params]] * self.p, self.lr
        losses = [self.loss(rank) for rank in range(self.p)]
        for number, first in enumerate(range(0, self.num_steps, self.period)):
            begun, own = own, list(own)
            for rank, (curvatures, samples) in enumerate(losses):
                for step in range(first, min(first + self.period, self.num_steps)):
                    at = own[rank] if moves else begun[rank]
                    of_arrays = zip(
                        own[rank], at, curvatures, samples[step % len(samples)], strict=True
                    )
                    own[rank] = [w - lr * a * (v - c) for w, v, a, c in of_arrays]
            if number != rounds:
                mean = [combined(column, axis=0) for column in zip(*own, strict=True)]
                own = [mean] * self.p
        return own

    def check(self, run):
        """Right parameters; and ranks meet once a period, whatever an average sends."""
        super().check(run)
        if hasattr(run, "trace"):
            loosely = 2 * self.rounds * (self.p - 1) * (self.nbytes + 8 * len(self.shapes))
            assert_averages(run, self, loosely)

    @property
    def rounds(self):
        """How many averages are taken."""
        return -(-self.num_steps // self.period)

    @property
    def sizes(self):
        """Elements of each array."""
        return [int(np.prod(shape)) for shape in self.shapes]

    @property
    def nbytes(self):
        """Bytes of all parameters."""
        return sum(self.sizes) * np.dtype(self.dtype).itemsize

    @property
    def ring_nbytes(self):
        """What a rank may send: a ring for each array and average."""
        shards = sum(-(-size // self.p) for size in self.sizes) * np.dtype(self.dtype).itemsize
        return self.rounds * 2 * (self.p - 1) * shards

    @property
    def time_s(self):
        """All gradients, and a ring of all parameters for each average."""
        machine, itemsize = machine_of(self), np.dtype(self.dtype).itemsize
        gradient_s = machine.compute_s(FLOPS_PER_ELEMENT * sum(self.sizes), 0)
        shard_s = -(-sum(self.sizes) // self.p) * itemsize * machine.beta_s_per_byte
        ring_s = 2 * (self.p - 1) * (machine.alpha_s + shard_s)
        return self.num_steps * gradient_s + self.rounds * ring_s


@dataclass(frozen=True)
class LocalSgdTwice(LocalSgd):
    """Two calls, the second with all arrays in the reverse order, looked at from inside."""

    through = "checks/inside.py:local_sgd_looked_at"

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            assert_like(value["first"], right, self, f"rank {rank}'s parameter")
            what = f"in a second call, with the arrays in the reverse order, rank {rank}'s"
            assert_like(value["second"], right[::-1], self, f"{what} parameter")
            check_looked_at(self, rank, value)


@dataclass(frozen=True)
class RefusedLocalSgd(Refused):
    """``train`` with numbers that can't be right."""

    target = "local_sgd:train"
    through = "checks/inside.py:local_sgd_refused"
    num_steps: int = 5
    period: int = 1

    def inputs(self, rank):
        return self.num_steps, self.period


def assert_averages(run, case, bound):
    """Each rank sent and received at most ``bound`` bytes, as a ring, for all averages."""
    members = case.members or range(case.p)
    for did, counted in (("sent", sent_as_ring(run)), ("received", received_as_ring(run))):
        for rank, member in enumerate(members):
            if counted[member] > bound + 1e-6:
                raise case.fail(
                    f"rank {rank} {did} {counted[member]:.0f} bytes, collectives counted as a "
                    f"ring's; {case.rounds} averages may take {bound}."
                )
