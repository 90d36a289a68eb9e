"""Calls of ``train2d.py`` as the tests make them, and their checks: supplied, nothing to write."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
from train2d_layers import (
    cross_entropy,
    draw_params,
    part_of_params,
    part_sizes,
    relu,
    relu_backward,
    sgd,
)

from ringside.checking import Call, assert_ran, buffered
from ringside.checking.ring_bytes import bytes_of
from ringside.timing.replay import replay
from ringside.trace import Kind, Op, Trace

TOLERANCE = {"float64": 1e-10, "float32": 1e-4}
RATE = 0.5
FREE = 128  # bytes in a column, and in a row, of a step
SMALL = 64  # bytes of a message that may go anywhere: a loss, a number of samples


@dataclass(frozen=True)
class Train2dCase(Call):
    """A training on a grid; its model and its samples come from ``seed``."""

    grid: tuple = ()  # Pr, Pc
    widths: tuple = ()
    samples: tuple = ()  # of each column
    steps: int = 2
    seed: int = 0

    @property
    def itemsize(self):
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize

    def row_and_column(self, rank):
        """``(r, c)`` of a rank."""
        column, row = divmod(rank, self.grid[0])
        return row, column

    def params(self):
        """The whole model."""
        return draw_params(self.widths, self.seed, self.dtype)

    def batches(self):
        """For each step all samples and their labels."""
        rng, count = np.random.default_rng(self.seed + 1), sum(self.samples)
        return [
            (
                rng.standard_normal((count, self.widths[0])).astype(self.dtype),
                rng.integers(0, self.widths[-1], count),
            )
            for _ in range(self.steps)
        ]

    def arguments_of_ranks(self):
        """What ``train`` gets on each rank, after ``comm``."""
        params, batches = self.params(), self.batches()
        ends, given = np.cumsum([0, *self.samples]).tolist(), []
        for rank in range(self.world_size):
            row, column = self.row_and_column(rank)
            own = slice(ends[column], ends[column + 1])
            part = [(x[own].copy(), labels[own].copy()) for x, labels in batches]
            mine = part_of_params(params, self.grid[0], row)
            given.append((*self.grid, list(self.widths), mine, part, RATE))
        return given

    def via(self, function, about=""):
        """The same by way of a function of ``callers.py``."""
        _, _, rest = self.line.removeprefix("ringside run ").partition(" ")
        line = f"ringside run callers.py:{function} {rest}"
        return replace(self, line=line, about=self.about + about)

    @property
    def numbers(self):
        """What a line's ``--check`` is told, so that it knows the grid and its sizes."""
        lists = ("-".join(map(str, each)) for each in (self.grid, self.widths, self.samples))
        return ":".join([*lists, str(self.steps), str(self.seed), self.dtype])

    # -- what the docstring allows, in bytes of a step ---------------------------------------------

    def gathered(self, rank):
        """Forward, in the column."""
        return self._in_column(rank, self.widths[1:])

    def scattered(self, rank):
        """Backward, in the column."""
        return self._in_column(rank, self.widths[1:-1])

    def _in_column(self, rank, widths):
        parts, n = self.grid[0], self.samples[self.row_and_column(rank)[1]]
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
            2 * self.samples[column] * part_sizes(d_out, self.grid[0])[row] * d_in
            for d_in, d_out in itertools.pairwise(self.widths)
        ]

    def work(self, rank):
        """Operations of a rank in a step."""
        first, *others = self.products(rank)
        return 2 * first + 3 * sum(others)


def train2d_case(grid, widths, samples, rng, *, steps=2, dtype="float64"):
    """``train2d.train`` on a grid; ``samples``: of each column, or a number for all."""
    samples = (samples,) * grid[1] if isinstance(samples, int) else tuple(samples)
    return train2d_made(grid, widths, samples, steps, int(rng.integers(2**31)), dtype)


def train2d_made(grid, widths, samples, steps, seed, dtype):
    """The case of these numbers."""
    p = grid[0] * grid[1]
    words = f"--grid '{list(grid)}' --widths '{list(widths)}' --samples '{list(samples)}'"
    words += f" --steps {steps} --seed {seed} --dtype {dtype}"
    return Train2dCase(
        "train2d:train", p, sum(samples), dtype,
        about=f"a grid of {grid[0]} x {grid[1]}, widths {list(widths)}, samples {list(samples)}, "
        f"{steps} steps, {dtype}",
        line=f"ringside run train2d.py:train --ranks {p} -- {words}",
        grid=tuple(grid), widths=tuple(widths), samples=tuple(samples), steps=steps, seed=seed,
    )  # fmt: skip


def train2d_of(numbers):
    """The case, from its ``numbers``; and what stands behind them."""
    *lists, steps, seed, dtype, more = numbers.split(":")
    return train2d_made(*(_numbers(each) for each in lists), int(steps), int(seed), dtype), more


def _numbers(words):
    return tuple(int(word) for word in words.split("-"))


def train2d_refusal(world_size, grid):
    """A grid that hasn't as many ranks as ``comm``."""
    words = f"--ranks {world_size} -- --grid '{list(grid)}'"
    return Call(
        "train2d:communicators", world_size, 1, about=f"with a grid of {grid[0]} x {grid[1]}",
        line=f"ringside run callers.py:train2d_refused {words}",
    )  # fmt: skip


def trained(ranks, case, *, losses=False, **options):
    """Run it: the parameters, and that the messages stay in rows and columns.

    Args:
        losses: compare the losses, too.
    """
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", case.world_size)
    result = ranks.call(case.target, world_size, case.arguments_of_ranks(), **options)
    assert_ran(result, case)
    check_trained(result.values, case.seen_in(result), losses)
    assert_scheme(result, case)
    return result


# -- what is right ---------------------------------------------------------------------------------


def serial(case):
    """``(params, losses)`` of one rank, computed in float64."""
    params = [tuple(each.astype("float64") for each in pair) for pair in case.params()]
    losses = []
    for x, labels in case.batches():
        loss, gradients = _gradients(params, x.astype("float64"), labels)
        losses.append(loss / len(labels))
        params = sgd(params, gradients, RATE / len(labels))
    return params, losses


def _gradients(params, x, labels):
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


def check_trained(values, case, losses=False):
    """All ranks' parameters, and their losses if asked for."""
    right = serial(case)
    for rank, value in enumerate(values):
        check_rank(value, right, rank, case, losses)


def check_rank(value, right, rank, case, losses=True):
    """What ``train`` returned on a rank; ``right`` is what ``serial`` gave."""
    params, found = _pair(value, rank, case)
    wanted = part_of_params(right[0], case.grid[0], case.row_and_column(rank)[0])
    if not isinstance(params, list | tuple) or len(params) != len(wanted):
        raise case.fail(f"rank {rank}: params must be a list of {len(wanted)} pairs (W, b).")
    for number, (pair, rights) in enumerate(zip(params, wanted, strict=True)):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise case.fail(f"rank {rank}: params[{number}] must be a pair (W, b).")
        for name, array, each in zip("Wb", pair, rights, strict=True):
            what = f"rank {rank} (row {case.row_and_column(rank)[0]}): {name} of layer {number}"
            _assert_near(array, each, case, f"{what} after {case.steps} steps")
    if losses:
        _check_losses(found, right[1], rank, case)


def _pair(value, rank, case):
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise case.fail(f"rank {rank}: train must return (params, losses).")
    return value


def _check_losses(found, rights, rank, case):
    if not isinstance(found, list | tuple) or len(found) != len(rights):
        raise case.fail(f"rank {rank}: losses must be a list of {len(rights)} numbers.")
    for step, (loss, right) in enumerate(zip(found, rights, strict=True)):
        number = np.asarray(loss)
        allowed = TOLERANCE[case.dtype] * max(1.0, abs(right))
        if number.ndim or number.dtype.kind != "f" or not abs(number - right) <= allowed:
            raise case.fail(
                f"rank {rank}: the loss of step {step} is {number!s:.40}; it must be "
                f"{right:.9g}, the mean over all {sum(case.samples)} samples."
            )


def _assert_near(array, right, case, what):
    if not isinstance(array, np.ndarray):
        raise case.fail(f"{what} is of type {type(array).__name__}; it must be an array.")
    if array.shape != right.shape or str(array.dtype) != case.dtype:
        raise case.fail(
            f"{what} is {array.dtype} of shape {array.shape}; it must be {case.dtype} of shape "
            f"{right.shape}."
        )
    off = np.abs(array.astype("float64") - right)
    allowed = TOLERANCE[case.dtype] * max(1.0, float(np.abs(right).max(initial=0)))
    if not (off <= allowed).all():  # a NaN is wrong too
        at = tuple(int(k) for k in np.argwhere(~(off <= allowed))[0])
        raise case.fail(
            f"{what} is wrong in {int((~(off <= allowed)).sum())} of {off.size} elements: element "
            f"{list(at)} is {array[at]:.9g}; it must be {right[at]:.9g}."
        )


def check_logits(value, rank, case):
    """What ``forward`` returned on a rank, of the first step's samples."""
    column = case.row_and_column(rank)[1]
    lo = sum(case.samples[:column])
    x = case.batches()[0][0].astype("float64")
    for number, (W, b) in enumerate(case.params()):
        x = (relu(x) if number else x) @ W.astype("float64").T + b
    _assert_near(value, x[lo : lo + case.samples[column]], case, f"rank {rank}: logits")


def assert_kept(value, right, rank, case):
    """What ``callers.train2d_looked_at`` gave back on a rank."""
    first, second, changed, shared = value
    for each in (first, second):
        check_rank(each, right, rank, case, losses=False)
    if changed:
        raise case.fail(f"rank {rank} changed what it was given; it must stay as it was.")
    if shared:
        raise case.fail(
            f"rank {rank} returned an array that shares memory with what it was given, or with "
            "the result of another call; results must be new arrays."
        )


def assert_refused(value, rank, case):
    """What ``callers.train2d_refused`` gave back on a rank."""
    if value != "ValueError":
        raise case.fail(f"rank {rank} raised {value or 'nothing'}; it must be ValueError.")


# -- what was sent ---------------------------------------------------------------------------------


def sent_on_axes(result, case):
    """Per rank of comm the bytes that it sent or received, the larger: ``(column, row)``.

    Raises:
        Verdict: more than a few bytes went between ranks of different rows and columns.
    """
    world = list(result.members or range(case.world_size))
    where = {member: case.row_and_column(rank) for rank, member in enumerate(world)}
    moved = np.zeros((2, 2, case.world_size))  # column or row; sent or received

    def axis_of(members, nbytes, what):
        rows, columns = ({where[each][k] for each in members} for k in (0, 1))
        if len(columns) == 1:
            return 0
        if len(rows) == 1:
            return 1
        if nbytes > SMALL:
            places = ", ".join(f"(row {r}, column {c})" for r, c in map(where.get, members))
            raise (
                case.seen_in(result)
                .asking(f"scheme={case.numbers}:")
                .fail(
                    f"{what} of {nbytes} bytes joined the ranks {places}; messages stay in a "
                    "row or a column of the grid."
                )
            )
        return None

    for rank, member in enumerate(world):
        for op in result.trace.ops[member]:
            if op.kind == Kind.ISEND and op.peer in where:
                axis = axis_of([member, op.peer], op.nbytes, "a message")
                if axis is not None:
                    moved[axis, 0, rank] += op.nbytes
                    moved[axis, 1, world.index(op.peer)] += op.nbytes
    for record in result.collectives:
        if len(record.members) > 1 and set(record.members) <= set(where):
            axis = axis_of(record.members, record.nbytes, f"the library's {record.name}")
            if axis is not None:
                moved[axis, :, [world.index(each) for each in record.members]] += bytes_of(record)
    return moved.max(axis=1)


def assert_scheme(result, case):
    """Messages stay in rows and columns, and are those of this scheme: no weights in a column."""
    column, row = sent_on_axes(result, case)
    for rank in range(case.world_size):
        in_column = 2 * (case.gathered(rank) + case._in_column(rank, case.widths)) + 2 * FREE
        in_row = 2 * case.summed(rank) + 2 * FREE
        for axis, found, allowed in (
            ("column", column[rank], in_column * case.steps),
            ("row", row[rank], in_row * case.steps),
        ):
            if found > allowed:
                raise (
                    case.seen_in(result)
                    .asking(f"scheme={case.numbers}:")
                    .fail(
                        f"rank {rank} sent or received {found:.0f} bytes in its {axis}: this isn't "
                        f"integrated parallelism, for which twice the bound, {allowed}, is ample."
                    )
                )


def assert_axis(result, case, axis, allowed):
    """In its column (``axis`` 0) or its row (1) each rank moved at most ``allowed`` bytes."""
    found = sent_on_axes(result, case)[axis]
    name = ("column", "row")[axis]
    for rank, (nbytes, bound) in enumerate(zip(found, allowed, strict=True)):
        if nbytes > bound:
            words = ",".join(str(int(each)) for each in allowed)
            raise (
                case.seen_in(result)
                .asking(f"{name}={case.numbers}:{words}")
                .fail(
                    f"rank {rank} sent or received {nbytes:.0f} bytes in its {name}; at "
                    f"most {bound:.0f} are allowed."
                )
            )


def assert_work(result, case, least=False):
    """Each rank's products are those of its rows and its samples.

    Args:
        least: more is right, too.
    """
    world = list(result.members or range(case.world_size))
    declared = result.num_flops()
    for rank, member in enumerate(world):
        found, wanted = declared[member], case.steps * case.work(rank)
        if found < wanted - 0.5 or (not least and found > wanted + 0.5):
            raise (
                case.seen_in(result)
                .asking(f"work={case.numbers}:{'least' if least else ''}")
                .fail(
                    f"rank {rank} declared {found:.0f} operations in {case.steps} steps; its own "
                    f"products take {wanted}: {case.products(rank)} for one of each layer."
                )
            )


# -- time ------------------------------------------------------------------------------------------


def step_s(case, machine):
    """The reference's time: products and rings in turn, replayed on a machine."""
    return replay(_reference(case), machine).makespan_s


def train2d_miniature(machine, bytes_each=4000, flops_each=1_000_000):
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


def _reference(case):
    """A trace of what the reference does; nothing of it was run."""
    return Trace(case.world_size, [_ops(case, rank) for rank in range(case.world_size)])


def _ops(case, rank):
    ops, counts = [], {}
    rows, columns = case.grid
    r, c = case.row_and_column(rank)
    everyone = tuple(range(case.world_size))
    column = tuple(c * rows + k for k in range(rows))
    row = tuple(k * rows + r for k in range(columns))
    n = case.samples[c]

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
