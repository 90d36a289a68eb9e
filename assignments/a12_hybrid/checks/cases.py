"""The calls of train2d.py that the tests make, and what must come of them."""

import dataclasses
import itertools
from dataclasses import dataclass, field

import numpy as np
from given.train2d_layers import (
    cross_entropy,
    draw_params,
    pack,
    part_of_params,
    part_sizes,
    relu,
    relu_backward,
    sgd,
)

from ringside import Machine
from ringside.checking import assert_ran
from ringside.checking.cases import Case, assert_like, brief, cast, machine_of
from ringside.checking.ring_bytes import bytes_of
from ringside.errors import TargetError
from ringside.timing.replay import replay
from ringside.trace import Kind, Op, Trace

TOLERANCE = {"float64": 1e-10, "float32": 1e-4}
RATE = 0.5
FREE = 128  # bytes in a column, and in a row, of a step
SMALL = 64  # bytes of a message that may go anywhere: a loss, a number of samples


def miniature(machine, bytes_each=4000, flops_each=1_000_000):
    """A machine on which an element stands for many, so that small models take a large one's time.

    Bytes are ``bytes_each`` times as dear, and operations ``flops_each`` times.
    """
    return machine.with_(
        beta_s_per_byte=machine.beta_s_per_byte * bytes_each,
        intra_beta_s_per_byte=machine.intra_beta_s_per_byte * bytes_each,
        flop_per_s=machine.flop_per_s / flops_each,
        kernel_overhead_s=0.0,
        eager_threshold_bytes=1 << 30,  # whether sends may wait is another test's question
    )


MINIATURES = {"miniature": miniature(Machine.load("zaratan"))}


@dataclass(frozen=True)
class Train(Case):
    """Steps of training on a grid.

    Attributes:
        rows: Pr; 0: 2 where p is even, else 1.
        samples: of each column in a step; one number is that of all.
        losses: compare the losses, too; a test of its own is about them.
    """

    target = "train2d:train"
    machines = MINIATURES
    rows: int = 0
    widths: tuple = (6, 60, 60, 4)
    samples: tuple = (2,)
    steps: int = 2
    dtype: str = "float64"
    losses: bool = False
    machine: str = field(default="buffered", kw_only=True)

    @property
    def grid(self):
        """``(Pr, Pc)``.

        Raises:
            TargetError: the rows don't divide the ranks.
        """
        rows = self.rows or (2 if self.p % 2 == 0 else 1)
        if self.p % rows:
            raise TargetError(f"rows={rows}: they must divide {self.p} ranks.")
        return rows, self.p // rows

    @property
    def of_columns(self):
        """Samples of each column."""
        return self.samples * self.grid[1] if len(self.samples) == 1 else self.samples

    def row_and_column(self, rank):
        """``(r, c)`` of a rank."""
        column, row = divmod(rank, self.grid[0])
        return row, column

    @property
    def params(self):
        """The whole model."""
        return draw_params(self.widths, self.seed, self.dtype)

    @property
    def batches(self):
        """For each step all samples and their labels."""
        rng, count = self.rng(), sum(self.of_columns)
        return [
            (
                rng.standard_normal((count, self.widths[0])).astype(self.dtype),
                rng.integers(0, self.widths[-1], count),
            )
            for _ in range(self.steps)
        ]

    def column(self, rank):
        """Which samples a rank has."""
        ends = np.cumsum([0, *self.of_columns]).tolist()
        column = self.row_and_column(rank)[1]
        return slice(ends[column], ends[column + 1])

    def inputs(self, rank):
        mine = part_of_params(self.params, self.grid[0], self.row_and_column(rank)[0])
        own = self.column(rank)
        batches = [(x[own].copy(), labels[own].copy()) for x, labels in self.batches]
        return *self.grid, list(self.widths), mine, batches, RATE

    def serial(self, summed=False):
        """``(params, losses)`` of one rank, computed in float64.

        Args:
            summed: steps by the sum of the samples' gradients, and not by their mean.
        """
        params, losses = cast(self.params, "float64"), []
        for x, labels in self.batches:
            loss, gradients = _gradients(params, x.astype("float64"), labels)
            losses.append(loss / len(labels))
            params = sgd(params, gradients, RATE if summed else RATE / len(labels))
        return params, losses

    def _of_columns(self):
        """Per column its parameters if it trains alone, by a share of the mean; and its losses."""
        found = []
        for column in range(self.grid[1]):
            params, losses, own = (
                cast(self.params, "float64"),
                [],
                self.column(column * self.grid[0]),
            )
            for x, labels in self.batches:
                loss, gradients = _gradients(params, x[own].astype("float64"), labels[own])
                losses.append(loss / max(1, len(labels[own])))
                params = sgd(params, gradients, RATE / len(labels))
            found.append((params, losses))
        return found

    def _by_means(self):
        """Parameters if each column's mean counts the same."""
        params, columns = cast(self.params, "float64"), range(self.grid[1])
        for x, labels in self.batches:
            now = params
            for own in (self.column(column * self.grid[0]) for column in columns):
                _, gradients = _gradients(now, x[own].astype("float64"), labels[own])
                rate = RATE / len(columns) / max(1, len(labels[own]))
                params = sgd(params, gradients, rate)
        return params

    def wrong(self):
        (params, losses), alone = self.serial(), self._of_columns()
        at = [alone[self.row_and_column(rank)[1]] for rank in range(self.p)]

        def values(of_ranks, losses=losses):
            return [(self.own_part(each, rank), losses) for rank, each in enumerate(of_ranks)]

        return {
            "Gradients were not summed over the columns.": values([own for own, _ in at]),
            "Columns' means count alike; the mean over all samples of all columns is asked for.": (
                values([self._by_means()] * self.p)
            ),
            "This is a step by the sum over the samples; their mean is asked for.": (
                values([self.serial(summed=True)[0]] * self.p)
            ),
            "This is the mean over this column's samples; over all columns' is asked for.": [
                (own, losses)
                for (own, _), (_, losses) in zip(values([params] * self.p), at, strict=True)
            ],
        }

    def own_part(self, params, rank):
        """A rank's part of parameters, in the run's dtype."""
        part = part_of_params(params, self.grid[0], self.row_and_column(rank)[0])
        return cast(part, self.dtype)

    def right(self):
        params, losses = self.serial()
        return [(self.own_part(params, rank), losses) for rank in range(self.p)]

    def check(self, run):
        assert_ran(run, self)
        tolerance = TOLERANCE[self.dtype]
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            params, losses = right
            if not isinstance(value, list | tuple) or len(value) != 2:
                raise self.fail(f"rank {rank} returned {brief(value)}, not (params, losses).")
            who = f"rank {rank} (row {self.row_and_column(rank)[0]})"
            what = f"{who}: after {self.steps} steps (W, b) of layer"
            assert_like(value[0], params, self, what, tolerance)
            if self.losses:
                own = [each if isinstance(each, float) else np.asarray(each) for each in value[1]]
                right = [np.array(loss) for loss in losses]
                assert_like(own, right, self, f"{who}: the loss of step", tolerance)
        if hasattr(run, "trace"):  # real ranks have none
            self._check_scheme(run)

    def _check_scheme(self, run):
        """Messages stay in rows and columns, and are those of this scheme."""
        column, row = sent_on_axes(run, self)
        for rank in range(self.p):
            in_column = 2 * (self.gathered(rank) + self._in_column(rank, self.widths)) + 2 * FREE
            in_row = 2 * self.summed(rank) + 2 * FREE
            for axis, sent, allowed in (
                ("column", column[rank], in_column * self.steps),
                ("row", row[rank], in_row * self.steps),
            ):
                if sent > allowed:
                    raise self.fail(
                        f"rank {rank} sent or received {sent:.0f} bytes in its {axis}: this isn't "
                        f"integrated parallelism, for which twice the bound, {allowed}, is ample."
                    )

    @property
    def told(self):
        rows, columns = self.grid
        return (
            f"a grid of {rows} x {columns}, widths {list(self.widths)}, samples "
            f"{list(self.of_columns)}, {self.steps} steps, {self.dtype}"
        )

    # -- what the docstring allows, in bytes of a step ---------------------------------------------

    @property
    def itemsize(self):
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize

    def gathered(self, rank):
        """Forward, in the column."""
        return self._in_column(rank, self.widths[1:])

    def scattered(self, rank):
        """Backward, in the column."""
        return self._in_column(rank, self.widths[1:-1])

    def _in_column(self, rank, widths):
        parts, n = self.grid[0], self.of_columns[self.row_and_column(rank)[1]]
        return (parts - 1) * n * sum(-(-width // parts) for width in widths) * self.itemsize

    def summed(self, rank):
        """Gradients, in the row."""
        return 2 * (self.grid[1] - 1) * -(-self.own(rank) // self.grid[1]) * self.itemsize

    def own(self, rank):
        """Elements of a rank's part of all parameters."""
        return sum(
            part_sizes(d_out, self.grid[0])[self.row_and_column(rank)[0]] * (d_in + 1)
            for d_in, d_out in itertools.pairwise(self.widths)
        )

    def products(self, rank):
        """Per layer, operations of one product of a rank."""
        row, column = self.row_and_column(rank)
        return [
            2 * self.of_columns[column] * part_sizes(d_out, self.grid[0])[row] * d_in
            for d_in, d_out in itertools.pairwise(self.widths)
        ]

    def work(self, rank):
        """Operations of a rank in a step."""
        first, *others = self.products(rank)
        return 2 * first + 3 * sum(others)

    def time_s(self):
        """The reference's time: products and rings in turn, replayed on the machine."""
        ops = [_ops(self, rank) for rank in range(self.p)]
        return replay(Trace(self.p, ops), machine_of(self)).makespan_s


def _gradients(params, x, labels):
    """The loss, summed over the samples, and its gradients."""
    seen, y = [], None
    for W, b in params:
        seen.append(x if y is None else relu(y))
        y = seen[-1] @ W.T + b
    loss, grad = cross_entropy(y, labels)
    found = []
    for (W, _), x in zip(reversed(params), reversed(seen), strict=True):
        found.append((grad.T @ x, grad.sum(axis=0)))
        grad = relu_backward(x, grad @ W)
    return loss, found[::-1]


@dataclass(frozen=True)
class Logits(Train):
    """The forward pass of the first step's samples."""

    target = "train2d:forward"
    through = "checks/inside.py:logits"

    def wrong(self):
        return {}

    def right(self):
        x = self.batches[0][0].astype("float64")
        for number, (W, b) in enumerate(cast(self.params, "float64")):
            x = (relu(x) if number else x) @ W.T + b
        return [cast(x[self.column(rank)], self.dtype) for rank in range(self.p)]

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            what = f"rank {rank}'s array of logits"
            assert_like(value, right, self, what, TOLERANCE[self.dtype])

    @classmethod
    def of(cls, case):
        """The same of a training."""
        names = [each.name for each in dataclasses.fields(cls)]
        return cls(**{name: getattr(case, name) for name in names})


@dataclass(frozen=True)
class Refused(Case):
    """A grid that hasn't as many ranks as ``comm``."""

    target = "train2d:communicators"
    through = "checks/inside.py:refused"
    rows: int = 2
    columns: int = 2

    def inputs(self, rank):
        return self.rows, self.columns

    def check(self, run):
        assert_ran(run, self)
        for rank, value in enumerate(run.values):
            if value != "ValueError":
                raise self.fail(f"rank {rank} raised {value}; it must be ValueError.")


@dataclass(frozen=True)
class MeasuredSteps(Train):
    """``measured_steps`` of n samples in all, for runs and jobs."""

    target = "train2d:measured_steps"
    widths: tuple = (512, 512, 512, 64)
    n: int = 512

    @property
    def of_columns(self):
        return tuple(part_sizes(self.n, self.grid[1]))

    def wrong(self):
        return {}

    def right(self):
        params, losses = self.serial()
        return [(pack(self.own_part(params, r)), np.array(losses)) for r in range(self.p)]

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            what = f"rank {rank}'s parameters and losses:"
            assert_like(value, right, self, what, TOLERANCE[self.dtype])


# -- what the network saw --------------------------------------------------------------------------


def sent_on_axes(run, case):
    """Per rank of comm the bytes that it sent or received, the larger: ``(column, row)``.

    Raises:
        Verdict: more than a few bytes went between ranks of different rows and columns.
    """
    world = list(case.members or range(case.p))
    where = {member: case.row_and_column(rank) for rank, member in enumerate(world)}
    moved = np.zeros((2, 2, case.p))  # column or row; sent or received

    def axis_of(members, nbytes, what):
        rows, columns = ({where[each][k] for each in members} for k in (0, 1))
        if len(columns) == 1:
            return 0
        if len(rows) == 1:
            return 1
        if nbytes > SMALL:
            places = ", ".join(f"(row {r}, column {c})" for r, c in map(where.get, members))
            raise case.fail(
                f"{what} of {nbytes} bytes joined the ranks {places}; messages stay in a row or a "
                "column of the grid."
            )
        return None

    for rank, member in enumerate(world):
        for op in run.trace.ops[member]:
            if op.kind == Kind.ISEND and op.peer in where:
                axis = axis_of([member, op.peer], op.nbytes, "a message")
                if axis is not None:
                    moved[axis, 0, rank] += op.nbytes
                    moved[axis, 1, world.index(op.peer)] += op.nbytes
    for record in run.collectives:
        if len(record.members) > 1 and set(record.members) <= set(where):
            axis = axis_of(record.members, record.nbytes, f"the library's {record.name}")
            if axis is not None:
                moved[axis, :, [world.index(each) for each in record.members]] += bytes_of(record)
    return moved.max(axis=1)


def assert_axis(run, case, axis, allowed):
    """In its column (``axis`` 0) or its row (1) each rank moved at most ``allowed`` bytes."""
    name, sent = ("column", "row")[axis], sent_on_axes(run, case)[axis]
    for rank, (nbytes, bound) in enumerate(zip(sent, allowed, strict=True)):
        if nbytes > bound:
            raise case.fail(
                f"rank {rank} sent or received {nbytes:.0f} bytes in its {name}; at most "
                f"{bound:.0f} are allowed."
            )


def assert_work(run, case, least=False):
    """Each rank's products are those of its rows and its samples.

    Args:
        least: more is right, too.
    """
    for rank, declared in enumerate(run.num_flops()):
        wanted = case.steps * case.work(rank)
        if declared < wanted - 0.5 or (not least and declared > wanted + 0.5):
            raise case.fail(
                f"rank {rank} declared {declared:.0f} operations in {case.steps} steps; its own "
                f"products take {wanted}: {case.products(rank)} for one of each layer."
            )


def _ops(case, rank):
    """A rank's operations in the reference; nothing of it was run."""
    ops, counts = [], {}
    rows, columns = case.grid
    r, c = case.row_and_column(rank)
    everyone = tuple(range(case.p))
    column = tuple(c * rows + k for k in range(rows))
    row = tuple(k * rows + r for k in range(columns))
    n = case.of_columns[c]

    def collective(name, comm, members, sizes, own):
        counts[comm] = counts.get(comm, -1) + 1
        request = sum(counts.values()) + len(counts)
        detail = (name, counts[comm], 0, members, tuple(sizes))
        ops.append(Op(Kind.COLLECTIVE, nbytes=own, comm=comm, request=request, detail=detail))
        ops.append(Op(Kind.WAIT, detail=(request,)))

    def compute(flops):
        ops.append(Op(Kind.COMPUTE, detail=(float(flops), 0.0, -1, "product")))

    def cut(name, width):
        sizes = [n * size * case.itemsize for size in part_sizes(width, rows)]
        if rows > 1:
            collective(name, f"world/0.{c}", column, sizes, sizes[r])

    for _ in "cr":  # Split, twice
        collective("allgather", "world", everyone, [8] * len(everyone), 8)
    for _ in range(case.steps):
        products = case.products(rank)
        for flops, width in zip(products, case.widths[1:], strict=True):
            compute(flops)
            cut("allgather", width)
        sums = [16, case.own(rank) * case.itemsize]
        if columns > 1:
            collective("allreduce", f"world/1.{r}", row, [sums[0]], sums[0])
        for number in reversed(range(len(products))):
            compute(products[number] * (2 if number else 1))
            if number:
                cut("reduce_scatter", case.widths[number])
        if columns > 1:
            collective("allreduce", f"world/1.{r}", row, [sums[1]], sums[1])
    return ops
