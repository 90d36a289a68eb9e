"""The calls of buckets.py and overlap.py that the tests make, and what must come of them."""

import itertools
from dataclasses import dataclass

import numpy as np
from given.model import Model, loss_gradient, random_parameters

from ringside.checking import Verdict, announced, assert_declared_at_once, assert_ran, one_line
from ringside.checking.cases import Case, Formula, assert_like, cast, machine_of
from ringside.checking.suite import called
from ringside.errors import RankError
from ringside.trace import Kind

SHAPES = ((3, 4), (4,), (4, 5), (5,), (), (0, 3), (2, 3, 2), (1,))
BATCH = 3  # samples of a rank
SUMS = "These are the sums of the ranks' gradients; their mean is asked for."
OWN = "These are the rank's own gradients; the mean over all ranks is asked for."


# -- buckets ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AssignBuckets(Formula):
    """A division of parameters into buckets; several may be right."""

    target = "buckets:assign_buckets"
    sizes: tuple = ()
    bucket_bytes: int = 1000
    first_bucket_bytes: int | None = None

    def arguments(self):
        first = () if self.first_bucket_bytes is None else (self.first_bucket_bytes,)
        return (list(self.sizes), self.bucket_bytes, *first)

    def right(self):
        """One with as few buckets as the caps allow."""
        return greedy(self.sizes, self.bucket_bytes, self.first_bucket_bytes)

    def check_value(self, value):
        lists = isinstance(value, list) and all(isinstance(each, list) for each in value)
        if not lists or not all(value):
            raise Verdict(f"{self} must be a list of lists, none of them empty.")
        order = [index for bucket in value for index in bucket]
        wanted = list(range(len(self.sizes)))[::-1]
        if order != wanted:
            raise Verdict(
                f"{self}: read one after another, the buckets hold {order[:12]}; it must be "
                f"{wanted[:12]}: every parameter once, the last first."
            )


@dataclass(frozen=True)
class Gradients(Case):
    """Gradients of some shapes, each rank's own.

    Attributes:
        strided: they are parts of larger arrays, and not contiguous.
    """

    shapes: tuple = SHAPES
    dtype: str = "float64"
    strided: bool = False

    def gradients(self, rank):
        rng = self.rng(rank)
        return [np.asarray(rng.standard_normal(shape)).astype(self.dtype) for shape in self.shapes]

    def nbytes(self, bucket):
        """Bytes of the gradients in a bucket."""
        unit = np.dtype(self.dtype).itemsize
        return unit * sum(int(np.prod(self.shapes[index])) for index in bucket)

    def reduced(self, inside, reduce=np.mean):
        """Per rank its gradients, those in ``inside`` reduced over all ranks."""
        own = [self.gradients(rank) for rank in range(self.p)]
        found = [reduce(np.array(each, "float64"), axis=0) for each in zip(*own, strict=True)]
        places = range(len(self.shapes))
        return [
            cast([found[i] if i in inside else each[i] for i in places], self.dtype) for each in own
        ]

    def check_gradients(self, run, right):
        """Every rank's gradients are those of ``right``; the list is the same."""
        assert_ran(run, self)
        for rank, value in enumerate(run.values):
            assert_like(value["gradients"], right[rank], self, f"rank {rank}'s gradient")
            if not value["kept"] or value["spoilt"]:
                what = "wrote beside an array" if value["kept"] else "replaced entries of the list"
                raise self.fail(f"rank {rank} {what}; the arrays themselves must be written to.")


@dataclass(frozen=True)
class Pack(Gradients):
    """``pack``, and then ``unpack`` of twice the buffer into the same arrays."""

    target = "buckets:pack"
    through = "checks/inside.py:packed"

    def inputs(self, rank):
        return self.gradients(rank), self.strided

    def check(self, run):
        assert_ran(run, self)
        for rank, value in enumerate(run.values):
            arrays = self.gradients(rank)
            whole = np.concatenate([array.reshape(-1) for array in arrays])
            assert_like(value["flat"], whole, self, "the buffer", tolerance=0)
            doubled = [2 * array for array in arrays]
            assert_like(value["doubled"], doubled, self, "after unpack, array", tolerance=0)
            for what in ("shares memory with", "changed", "wrote beside"):
                if value[what]:
                    raise self.fail(f"pack or unpack {what} its input.")


@dataclass(frozen=True)
class Average(Gradients):
    """``average`` in place.

    Attributes:
        watched: look at the memory that is held when an all-reduce begins.
    """

    target = "buckets:average"
    through = "checks/inside.py:averaged"
    buckets: tuple = ((7, 6, 5), (4, 3), (2, 1, 0))
    watched: bool = False

    def inputs(self, rank):
        buckets = [list(bucket) for bucket in self.buckets]
        return "average", self.gradients(rank), (buckets,), self.strided, self.watched

    @property
    def inside(self):
        """What is in a bucket."""
        return {index for bucket in self.buckets for index in bucket}

    def right(self):
        return self.reduced(self.inside)

    def wrong(self):
        return {SUMS: self.reduced(self.inside, np.sum), OWN: self.reduced(())}

    def check(self, run):
        self.check_gradients(run, self.right())


@dataclass(frozen=True)
class Fusion(Gradients):
    """One ``fusion_cycle``.

    Attributes:
        share: the part of the gradients that is ready on a rank.
        idle: a rank on which nothing is ready.
    """

    target = "buckets:fusion_cycle"
    through = "checks/inside.py:averaged"
    threshold_bytes: int = 150
    share: float = 0.8
    idle: int | None = None

    @property
    def ready(self):
        """Which gradients are ready on each rank: shape (p, n)."""
        ready = self.rng().random((self.p, len(self.shapes))) < self.share
        if self.idle is not None:
            ready[self.idle] = False
        return ready

    @property
    def agreed(self):
        """What is ready everywhere, from high to low."""
        return np.flatnonzero(self.ready.all(axis=0)).tolist()[::-1]

    @property
    def buckets(self):
        """The buckets of what is ready everywhere."""
        sizes = [self.nbytes([index]) for index in self.agreed[::-1]]
        return [
            [self.agreed[::-1][place] for place in each]
            for each in greedy(sizes, self.threshold_bytes)
        ]

    def inputs(self, rank):
        given = (self.ready[rank], self.threshold_bytes)
        return "fusion_cycle", self.gradients(rank), given, self.strided, False

    def right(self):
        """What is returned, and every rank's gradients."""
        return self.agreed, self.reduced(self.agreed)

    def wrong(self):
        somewhere = np.flatnonzero(self.ready.any(axis=0)).tolist()[::-1]
        return {
            SUMS: (self.agreed, self.reduced(self.agreed, np.sum)),
            "These are ready on some rank; what is ready on all of them is asked for.": (
                somewhere, self.reduced(somewhere),
            ),
        }  # fmt: skip

    def check(self, run):
        assert_ran(run, self)
        agreed, gradients = self.right()
        for rank, value in enumerate(run.values):
            if value["returned"] != agreed:
                raise self.fail(
                    f"rank {rank} returned {value['returned']}; ready on all ranks are "
                    f"{agreed}, from high to low."
                )
        self.check_gradients(run, gradients)


def greedy(sizes, bucket_bytes, first_bucket_bytes=None):
    """Buckets in reverse order under a cap, as few as there can be.

    >>> greedy([400, 40, 4000, 40, 80], 1000)
    [[4, 3], [2], [1, 0]]
    """
    buckets, room = [], -1
    for index in reversed(range(len(sizes))):
        if not buckets or sizes[index] > room:
            buckets.append([])
            first = len(buckets) == 1 and first_bucket_bytes is not None
            room = first_bucket_bytes if first else bucket_bytes
        buckets[-1].append(index)
        room -= sizes[index]
    return buckets


# -- overlap ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step(Case):
    """Steps with ``overlap``: forward, its ``backward``, and an update.

    Attributes:
        widths: of the layers' inputs and of the output.
        buckets: of parameters; (): by ``cap``, in bytes.
        lr: learning rate; 0: no update.
        balanced: the layers' operations count so many times that all backward passes take as long
            as all all-reduces.
        before: a step of another model is made first.
        watched: the last step looks at the memory that is held when an all-reduce begins.
    """

    target = "overlap:backward"
    through = "checks/inside.py:overlapped"
    widths: tuple = (5, 4, 6, 3)
    buckets: tuple = ()
    cap: int = 200
    dtype: str = "float64"
    steps: int = 1
    lr: float = 0.0
    balanced: bool = False
    before: bool = False
    watched: bool = False

    @property
    def params(self):
        return random_parameters(self.widths, self.rng(), self.dtype)

    def batches(self, rank):
        """Per step ``(x, target)`` of a rank."""
        rng, ends = self.rng(rank), (self.widths[0], self.widths[-1])
        return [
            tuple(rng.standard_normal((BATCH, d)).astype(self.dtype) for d in ends)
            for _ in range(self.steps)
        ]

    @property
    def divided(self):
        """The buckets, as lists."""
        if self.buckets:
            return [list(bucket) for bucket in self.buckets]
        return greedy([param.nbytes for param in self.params], self.cap)

    @property
    def bucket_nbytes(self):
        """Bytes of each bucket."""
        return [sum(self.params[index].nbytes for index in bucket) for bucket in self.divided]

    def inputs(self, rank):
        given = (self.params, self.batches(rank), self.divided)
        return *given, self.lr or None, self.work, self.before, self.watched

    def right(self):
        return self.trained(lambda of_ranks: np.mean(of_ranks, axis=0))

    def wrong(self):
        alone = [self.trained(lambda each, rank=rank: each[rank]) for rank in range(self.p)]
        return {
            SUMS: self.trained(lambda of_ranks: np.sum(of_ranks, axis=0)),
            OWN: [every[rank] for rank, every in enumerate(alone)],
        }

    def trained(self, reduce):
        """Serial training on all ranks' batches; the input's gradients are of a rank's own loss.

        Args:
            reduce: makes one gradient of those of all ranks.
        """
        params = [np.array(each, "float64") for each in self.params]
        models = [Model(params) for _ in range(self.p)]  # which share the parameters
        inputs = [[] for _ in range(self.p)]
        for batches in zip(*map(self.batches, range(self.p)), strict=True):
            for rank, (x, target) in enumerate(batches):
                with self.passes_of(rank):
                    output = models[rank].forward(np.asarray(x, "float64"))
                    inputs[rank].append(models[rank].backward(loss_gradient(output, target)))
            of_ranks = zip(*(model.gradients() for model in models), strict=True)
            gradients = [reduce(each) for each in of_ranks]
            for param, gradient in zip(params, gradients, strict=True):
                param -= self.lr * gradient
        right = [{"gradients": gradients, "params": params, "inputs": each} for each in inputs]
        return cast(right, self.dtype)

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            assert_like(value["gradients"], right["gradients"], self, f"rank {rank}'s gradient")
            assert_like(value["params"], right["params"], self, f"rank {rank}'s parameter")
        if hasattr(run, "trace"):  # real ranks have none
            self.check_work(run)

    def check_inputs(self, run):
        """Every rank returned the gradient with respect to its input: of its own loss."""
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            what = f"rank {rank}'s gradient with respect to the input, step"
            assert_like(value["inputs"], right["inputs"], self, what)

    def check_passes(self, run):
        """The passes that were announced are those that were computed.

        They show in the means or in the gradient with respect to the input: one of them is enough.
        """
        self.check_work(run)
        if run.error is None:
            try:
                self.check_inputs(run)
            except Verdict:
                self.check(run)

    def check_work(self, run):
        """Every layer's backward pass was computed once a step, last layer first, and declared."""
        flops = [2 * each * self.work for each in self.flops]
        order = list(range(len(flops)))[::-1] * (self.steps + self.before + self.watched)
        for place in self.members or range(self.p):
            ops = run.trace.ops[place]
            phases = backward_phases(ops)
            at_phases = [ops[at + (ops[at].kind == Kind.PASS)] for at, _ in phases]
            wanted = [flops[number] for _, number in phases]
            numbers = [number for _, number in phases]
            if numbers != order or not np.allclose(
                [op.detail[0] for op in at_phases], wanted, 1e-9
            ):
                raise self.fail(
                    f"rank {place} called backward of layers {numbers[:12]}; it must be "
                    f"{order[:12]}, each once."
                )

    @property
    def flops(self):
        """Per layer, the operations of its forward pass; the backward pass has twice as many."""
        return [2 * BATCH * d_in * d_out for d_in, d_out in itertools.pairwise(self.widths)]

    @property
    def work(self):
        """How many times the layers' operations count."""
        if not self.balanced:
            return 1.0
        machine = machine_of(self)
        comm_s = sum(ring_s(each, self.p, machine) for each in self.bucket_nbytes)
        return comm_s * machine.flop_per_s / (2 * sum(self.flops))

    def step_s(self):
        """The time of one step in which all-reduces follow one another."""
        machine = machine_of(self)
        flops = [each * self.work for each in self.flops]
        forward_s = [machine.compute_s(each, 0) for each in flops]
        ready_s, end_s = [0.0] * len(self.params), 0.0
        for layer in reversed(range(len(forward_s))):
            end_s += machine.compute_s(2 * flops[layer], 0)
            ready_s[2 * layer] = ready_s[2 * layer + 1] = end_s
        bucket_s = [ring_s(each, self.p, machine) for each in self.bucket_nbytes]
        return sum(forward_s) + finish_s(ready_s, end_s, self.divided, bucket_s)


@dataclass(frozen=True)
class Parts(Step):
    """``flat_buckets``, and then the serial backward pass of each rank's own model."""

    target = "overlap:flat_buckets"
    through = "checks/inside.py:parted"

    def inputs(self, rank):
        return self.params, self.batches(rank)[0], self.divided

    def right(self):
        found = []
        for rank in range(self.p):
            every = self.trained(lambda each, rank=rank: each[rank])
            found.append(every[rank]["gradients"])
        return found

    def wrong(self):
        return {}

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            what = f"after a serial backward pass, rank {rank}'s gradient"
            assert_like(value["gradients"], right, self, what)


@dataclass(frozen=True)
class FinishS(Formula):
    """The time of a backward pass and its all-reduces."""

    target = "overlap:finish_s"
    ready_s: tuple = ()
    end_s: float = 1.0
    buckets: tuple = ()
    bucket_s: tuple = ()

    def arguments(self):
        buckets = [list(bucket) for bucket in self.buckets]
        return list(self.ready_s), self.end_s, buckets, list(self.bucket_s)

    def right(self):
        return finish_s(*self.arguments())

    def wrong(self):
        ready_s, end_s, buckets, bucket_s = self.arguments()
        alone_s = [
            max(ready_s[index] for index in bucket) + duration_s
            for bucket, duration_s in zip(buckets, bucket_s, strict=True)
        ]
        return {
            "That is the time if no all-reduce waits for the one before it.": max(
                [end_s, *alone_s]
            ),
            "That is the time if all-reduces begin when the pass ends.": end_s + sum(bucket_s),
        }


@dataclass(frozen=True)
class MeasuredStep(Case):
    """``measured_step`` of four layers of width n, for runs and jobs."""

    target = "overlap:measured_step"
    n: int = 16
    dtype: str = "float64"
    bucket_bytes: int = 25 * 2**20

    @property
    def params(self):
        return random_parameters([self.n] * 5, self.rng(), self.dtype)

    def batch(self, rank):
        x, target = self.rng(rank).standard_normal((2, 16, self.n)).astype(self.dtype)
        return x, target

    def inputs(self, rank):
        sizes = [param.nbytes for param in self.params]
        return self.params, *self.batch(rank), greedy(sizes, self.bucket_bytes)

    def right(self):
        parts = [self.batch(rank) for rank in range(self.p)]
        x, target = (np.concatenate(each) for each in zip(*parts, strict=True))
        model = Model(self.params)
        model.backward(loss_gradient(model.forward(x), target))
        return [model.gradients()] * self.p


def finish_s(ready_s, end_s, buckets, bucket_s):
    """When everything is done, if all-reduces follow one another."""
    free_s = 0.0
    for bucket, duration_s in zip(buckets, bucket_s, strict=True):
        free_s = max([free_s, *(ready_s[index] for index in bucket)]) + duration_s
    return max(end_s, free_s)


def ring_s(nbytes, p, machine, itemsize=8):
    """A ring's all-reduce of one bucket: the closed form that the docstrings state."""
    shard = -(-(nbytes // itemsize) // p) * itemsize
    return 2 * (p - 1) * (machine.alpha_s + shard * machine.beta_s_per_byte)


# -- what the network saw --------------------------------------------------------------------------


def collectives(run, rank):
    """A rank's library collectives, as the network counted them."""
    return [op for op in run.trace.ops[rank] if op.kind == Kind.COLLECTIVE]


def assert_all_reduces(run, case, wanted, free=()):
    """Each rank took part in all-reduces of so many bytes, in this order, and sent nothing else.

    Args:
        free: bounds of all-reduces that come before those of ``wanted``.
    """
    if run.comm_calls:
        raise case.fail("communicators were made; none is allowed.")
    if sum(run.sent_messages()):
        raise case.fail("messages were sent point to point; only all-reduces are allowed.")
    for rank in range(case.p):
        ops = collectives(run, rank)
        for op in ops:
            if op.detail[0] != "allreduce":
                name = one_line(str(op.detail[0]), 40)
                raise case.fail(f"the library's {name} was called; only all-reduces are allowed.")
            call = run.trace.sites[op.site].call if op.site >= 0 else ""
            if call.startswith(("allreduce(", "iallreduce(")):
                raise case.fail(
                    f"rank {rank} called {call.partition('(')[0]}, which pickles what it sends; "
                    "Allreduce and Iallreduce are allowed."
                )
        expected = [*free, *wanted]
        if len(ops) != len(expected):
            raise case.fail(
                f"rank {rank} took part in {len(ops)} all-reduces; {len(expected)} are asked for: "
                f"one a bucket{' and one to agree' if free else ''}."
            )
        for number, (op, bound) in enumerate(zip(ops, expected, strict=True)):
            exact = number >= len(free)
            if op.nbytes > bound or (exact and op.nbytes != bound):
                raise case.fail(
                    f"rank {rank}'s all-reduce number {number} has {op.nbytes} bytes; "
                    f"{'' if exact else 'at most '}{bound} are asked for."
                )


_USED_TOO_EARLY = ("BufferRaceError", "EarlyUseError")


def started(ranks, case):
    """A run that is asked what it launched, and when: whether its means are right is asked apart.

    Where a buffer is used while it travels, the run ends behind its launches.
    """
    run = called(ranks, case)
    if not (isinstance(run.error, RankError) and run.error.type_name in _USED_TOO_EARLY):
        assert_ran(run, case)
    if case.announced:
        assert_declared_at_once(run, case, case.declared_like)
        case.check_passes(run)
    return run


def backward_phases(ops):
    """Places of the layers' backward passes among a rank's operations, and their numbers.

    In a test of order it is the network that says where they are: where each was announced first.
    """
    named = [(place, phase) for place, phase, _ in announced(ops)]
    if not named:
        named = [(k, str(op.detail[3])) for k, op in enumerate(ops) if op.kind == Kind.COMPUTE]
    return [
        (place, int(phase.rpartition(" ")[2]))
        for place, phase in named
        if phase.startswith("backward layer ")
    ]


def assert_overlaps(run, case, waited=True):
    """On each rank, gradients are under way while a layer's backward pass computes.

    Args:
        waited: what began must not be complete before; else it is enough that it began.
    """
    for rank in range(case.p):
        ops = run.trace.ops[rank]
        passes = [place for place, _ in backward_phases(ops)] or [len(ops)]
        done = {each: k for k, op in enumerate(ops) if op.kind == Kind.WAIT for each in op.detail}
        begun = [
            (place, done.get(op.request, len(ops)) if waited else len(ops))
            for place, op in enumerate(ops)
            if op.kind in (Kind.COLLECTIVE, Kind.ISEND) and place > passes[0]
        ]
        if not any(start < at < end for start, end in begun for at in passes):
            what = "was under way" if waited else "had begun"
            raise case.fail(
                f"no all-reduce of rank {rank} {what} while a layer's backward pass computed."
            )
