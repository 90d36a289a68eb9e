"""The calls of halo.py and conv.py that the tests make, and what must come of them."""

import functools
import itertools
import re
from dataclasses import dataclass, field

import numpy as np
from given.layers import Conv, random_conv

from ringside.checking import (
    Verdict,
    announced,
    assert_own_messages,
    assert_peers,
    assert_ran,
)
from ringside.checking.cases import Case, assert_like, cast, machine_of
from ringside.checking.suite import arguments, called, called_by, check_other_values
from ringside.trace import Kind


def assert_shares(*shares):
    """What is right of a run earns its share of the points.

    Args:
        shares: pairs of a weight and a function that raises a verdict.

    Raises:
        Verdict: the first one, with the share that the others earn.
    """
    verdicts, lost = [], 0
    for weight, ask in shares:
        try:
            ask()
        except Verdict as verdict:
            verdicts.append(verdict)
            lost += weight
    if verdicts:
        verdicts[0].fraction = 1 - lost / sum(weight for weight, _ in shares)
        raise verdicts[0]


class InParts:
    """A case whose results have parts, which ``check_parts(run, parts)`` compares.

    Attributes:
        shares: groups of parts.
    """

    shares = ()

    def _own(self):
        """Sentences name the part that is wrong, and not all that are compared."""
        return [(name, value) for name, value in super()._own() if name != "parts"]

    def check_each(self, run):
        """Each group of parts that is right earns its share."""
        assert_shares(*((1, functools.partial(self.check_parts, run, own)) for own in self.shares))


@dataclass(frozen=True)
class Rows(Case):
    """Images of which each rank has some whole rows.

    Attributes:
        heights: of the ranks' parts; rank r has ``heights[r % len(heights)]`` rows.
    """

    machine: str = field(default="buffered", kw_only=True)
    heights: tuple = (4,)
    dtype: str = field(default="float64", kw_only=True)

    @property
    def itemsize(self):
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize

    @property
    def ends(self):
        """Where the ranks' parts end in the image, from 0 on."""
        rows = [self.heights[rank % len(self.heights)] for rank in range(self.p)]
        return np.cumsum([0, *rows]).tolist()

    def bytes_to(self, neighbours):
        """``[source, dest]``: bytes that each rank may send each other one."""
        allowed = np.zeros((self.p, self.p))
        for rank, own in enumerate(neighbours):
            for other, nbytes in own.items():
                allowed[rank, other] = nbytes
        return allowed

    def check_linked(self, run, neighbours):
        """Messages between neighbours alone, or from end to end."""
        world = list(run.members or range(self.p))
        allowed = [set() for _ in range(run.world_size)]
        for rank, own in enumerate(neighbours):
            allowed[world[rank]] |= {world[other] for other in own}
        for end, other in ((0, -1), (-1, 0)):
            allowed[world[end]].add(world[other])
        assert_peers(run, allowed, self, "messages go to neighbours only")


# -- halo ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exchange(Rows):
    """``exchange``.

    Attributes:
        shape: images, channels and columns.
    """

    target = "halo:exchange"
    what = "array"
    halo_width: int = 1
    shape: tuple = (1, 2, 4)

    @property
    def bounds(self):
        """Per rank ``(top, bottom, left, right)`` in the image."""
        return [(*each, 0, self.shape[2]) for each in itertools.pairwise(self.ends)]

    @functools.cached_property
    def image(self):
        """The whole images."""
        _, bottom, _, right = self.bounds[-1]
        shape = (*self.shape[:2], bottom, right)
        return self.rng().standard_normal(shape).astype(self.dtype)

    def inputs(self, rank):
        top, bottom, left, right = self.bounds[rank]
        return self.image[:, :, top:bottom, left:right].copy(), self.halo_width

    def right(self):
        d = max(0, self.halo_width)
        return [
            self.image[:, :, max(0, top - d) : bottom + d, max(0, left - d) : right + d]
            for top, bottom, left, right in self.bounds
        ]

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            assert_like(value, right, self, f"rank {rank}'s {self.what}", tolerance=0)
        if hasattr(run, "trace"):  # real ranks have none
            if any(each.nbytes for each in run.collectives) or not run.collectives:
                assert_own_messages(run, self)
            self.check_linked(run, self.neighbours())

    def neighbours(self):
        """Per rank ``{neighbour: bytes}``."""
        nbytes = self.shape[0] * self.shape[1] * self.halo_width * self.shape[2] * self.itemsize
        near = ((rank - 1, rank + 1) for rank in range(self.p))
        return [{r: nbytes for r in own if nbytes and 0 <= r < self.p} for own in near]


@dataclass(frozen=True)
class ExchangeGrid(Exchange):
    """``exchange_grid``.

    Attributes:
        heights: of the grid's rows, as many as there are.
        shape: images and channels.
        widths: of its columns; column j has ``widths[j % len(widths)]``.
    """

    target = "halo:exchange_grid"
    shape: tuple = (1, 2)
    widths: tuple = (4,)

    @property
    def grid(self):
        """Its rows and columns."""
        return len(self.heights), self.p // len(self.heights)

    @property
    def bounds(self):
        across = [self.widths[column % len(self.widths)] for column in range(self.grid[1])]
        rows, columns = (np.cumsum([0, *each]).tolist() for each in (self.heights, across))
        return [
            (*down, *sides)
            for down in itertools.pairwise(rows)
            for sides in itertools.pairwise(columns)
        ]

    def inputs(self, rank):
        return *super().inputs(rank), self.grid

    def neighbours(self):
        (B, C), d, (_, columns), found = self.shape, self.halo_width, self.grid, []
        _, height, _, width = self.bounds[-1]
        for rank, (top, bottom, left, right) in enumerate(self.bounds):
            wide = min(width, right + d) - max(0, left - d)
            sides = (
                (rank - columns, top > 0, d * wide), (rank + columns, bottom < height, d * wide),
                (rank - 1, left > 0, d * (bottom - top)),
                (rank + 1, right < width, d * (bottom - top)),
            )  # fmt: skip
            found.append({r: B * C * n * self.itemsize for r, there, n in sides if there})
        return found


@dataclass(frozen=True)
class Refused(Exchange):
    """``exchange`` where a part may be too low, or the halo's width below 0."""

    through = "checks/inside.py:refused_halo"

    def check(self, run):
        assert_ran(run, self)
        heights, d = np.diff(self.ends), self.halo_width
        for rank, ((error, value), right) in enumerate(zip(run.values, self.right(), strict=True)):
            near = heights[max(0, rank - 1) : rank + 2]
            if d < 0 or (self.p > 1 and min(near) < d):
                if error != "ValueError":
                    raise self.fail(
                        f"rank {rank} raised {error or 'nothing'}; it must be ValueError: its own "
                        "part or a neighbour's is lower than the halo, or halo_width is below 0."
                    )
            elif error:
                raise self.fail(
                    f"rank {rank} raised {error}; its part and its neighbours' are high enough, so "
                    "it must get its halo."
                )
            else:
                assert_like(value, right, self, f"rank {rank}'s {self.what}", tolerance=0)


# -- conv ------------------------------------------------------------------------------------------

NAMES = ("y", "dx", "dw", "db")
PASSES = ("forward", "backward weight", "backward input")
PASS = re.compile(r"(forward|backward weight|backward input), rows (-?\d+) to (-?\d+)")


@dataclass(frozen=True)
class Both(InParts, Rows):
    """``forward`` and ``backward`` of one convolution.

    Attributes:
        k: rows and columns of a filter.
        stride: 1 or 2.
        shape: images, channels in, channels out, columns.
        parts: what is compared.
    """

    target = "conv:backward"
    shares = (("y",), ("dx",), ("dw", "db"))
    through = "checks/inside.py:both_passes"
    k: int = 3
    stride: int = 1
    shape: tuple = (2, 3, 2, 5)
    parts: tuple = NAMES

    def __str__(self):
        return super().__str__().replace("backward on", "both passes on", 1)

    @property
    def bounds(self):
        """Per rank the first row of its part, and the one after its last."""
        return list(itertools.pairwise(self.ends))

    @property
    def outputs(self):
        """Per rank its first row of the output, and the one after its last."""
        return [tuple(-(-row // self.stride) for row in own) for own in self.bounds]

    def interior(self, rank):
        """Output rows of a rank that need no halo: the first, and the one after the last."""
        (top, bottom), (first, end), pad = self.bounds[rank], self.outputs[rank], self.k // 2
        lo = first if rank == 0 else min(end, -(-(top + pad) // self.stride))
        last = rank == self.p - 1
        return lo, end if last else max(lo, (bottom - 1 - pad) // self.stride + 1)

    @functools.cached_property
    def whole(self):
        """The convolution, the whole images and dL/dy."""
        (B, C, out, W), rng, s = self.shape, self.rng(), self.stride
        conv = random_conv(C, out, self.k, rng, self.dtype, s)
        x = rng.standard_normal((B, C, self.ends[-1], W)).astype(self.dtype)
        dy = rng.standard_normal((B, out, -(-self.ends[-1] // s), -(-W // s))).astype(self.dtype)
        return conv, x, dy

    def inputs(self, rank):
        (conv, x, dy), (top, bottom) = self.whole, self.bounds[rank]
        rows = dy[:, :, slice(*self.outputs[rank])]
        return conv.weight, conv.bias, self.stride, x[:, :, top:bottom].copy(), top, rows.copy()

    @property
    def num_weights(self):
        """Elements of filters and biases."""
        _, C, out, _ = self.shape
        return out * C * self.k**2 + out

    @functools.cached_property
    def rights(self):
        """``(y, dx, dw, db)`` for each rank, where nothing is announced."""
        return serial(self)

    def right(self):
        return self.rights

    def wrong(self):
        if self.announced or self.stride > 1 or self.parts == ("y",):
            return {}
        return {
            "These are the sums over this rank's rows alone; sums over all ranks' are asked for.": [
                (y, dx, *own[2:]) for (y, dx, *_), own in zip(self.rights, self._alone, strict=True)
            ],
            "What the neighbours' outputs add at this part's edges is missing.": [
                (y, own[1], *sums)
                for (y, _, *sums), own in zip(self.rights, self._alone, strict=True)
            ],
        }

    @functools.cached_property
    def _alone(self):
        """``(y, dx, dw, db)`` for each rank, of its own outputs alone."""
        conv, x, dy = self.whole
        padded = np.pad(x, [(0, 0), (0, 0), (conv.pad, conv.pad), (0, 0)])
        found = []
        for first, end in self.outputs:
            own, seen = dy[:, :, first:end], padded[:, :, first : end - 1 + conv.k]
            dx = conv.backward_input(own, x.shape[3], first)[:, :, conv.pad :]
            dx = dx[:, :, : end - first]
            found.append((None, dx, *conv.backward_weight(seen, own, first)))
        return found

    def check(self, run):
        self.check_parts(run, self.parts)

    def check_parts(self, run, parts):
        """Compare these parts; look at passes and messages, too."""
        assert_ran(run, self)
        rights = self.right()
        if self.announced:
            passes = passes_of(run)
            assert_passes(self, passes)
            rights = serial(self, passes)
        for rank, (value, right) in enumerate(zip(run.values, rights, strict=True)):
            value = [value] if isinstance(value, np.ndarray) else value
            for name, array, wanted in zip(NAMES, value, right, strict=False):
                if name in parts:
                    assert_like(array, wanted, self, f"rank {rank}'s {name}")
        if hasattr(run, "trace"):  # real ranks have none
            self._check_messages(run)

    def _check_messages(self, run):
        """Messages between neighbours or end to end, and collectives of filters alone."""
        self.check_linked(run, self.halo_bytes())
        bound = self.num_summed * self.itemsize
        for record in run.collectives:
            if record.nbytes > bound:
                what = f"an all-reduce of {self.num_summed} elements" if bound else "no collective"
                raise self.fail(
                    f"the library's {record.name} of {record.nbytes} bytes was called; {what} is "
                    "allowed."
                )

    @property
    def num_summed(self):
        """Elements that all ranks sum."""
        return self.num_weights

    # -- what the docstring allows -----------------------------------------------------------------

    def halo_bytes(self, passes="both"):
        """Per rank ``{neighbour: bytes}`` that it may send."""
        B, C, out, W = self.shape
        channels = {"forward": C, "backward": max(C, out), "both": C + max(C, out)}[passes]
        nbytes = B * channels * W * (self.k // 2) * self.itemsize
        near = ((rank - 1, rank + 1) for rank in range(self.p))
        return [{r: nbytes for r in own if 0 <= r < self.p} for own in near]

    @property
    def ring_bytes(self):
        """What a rank sends in the all-reduce, as a ring's."""
        return 2 * (self.p - 1) * self.num_weights * self.itemsize / self.p

    def halo_s(self, passes):
        """What a halo takes, both neighbours' at once; ``passes`` is "forward" or "backward"."""
        machine = machine_of(self)
        nbytes = max(sum(own.values()) for own in self.halo_bytes(passes))
        return machine.alpha_s + nbytes * machine.beta_s_per_byte

    def rows_s(self, num_rows):
        """What one pass of so many output rows takes."""
        B, C, out, W = self.shape
        windows = B * num_rows * -(-W // self.stride)
        return 2 * out * C * self.k**2 * windows / machine_of(self).flop_per_s

    def _counts(self, rank):
        """How many output rows need no halo, and how many need one."""
        (lo, hi), (first, end) = self.interior(rank), self.outputs[rank]
        return hi - lo, end - first - (hi - lo)

    def forward_s(self):
        """The reference's time of the forward pass."""
        halo_s, counts = self.halo_s("forward"), map(self._counts, range(self.p))
        return max(max(halo_s, self.rows_s(lone)) + self.rows_s(edges) for lone, edges in counts)

    def backward_s(self):
        """The reference's time of the backward pass: the filters' sum beside the rows of dx."""
        machine, times = machine_of(self), []
        shard = -(-self.num_weights // self.p) * self.itemsize
        ring_s = 2 * (self.p - 1) * (machine.alpha_s + shard * machine.beta_s_per_byte)
        for lone, edges in map(self._counts, range(self.p)):
            own_s = self.rows_s(lone + edges) + max(self.rows_s(lone), ring_s)
            times.append(self.rows_s(edges) + max(own_s, self.halo_s("backward")))
        return max(times)


@dataclass(frozen=True)
class Forward(Both):
    """``forward``, of which y is compared."""

    target = "conv:forward"
    through = "checks/inside.py:forward_pass"
    num_summed = 0
    parts: tuple = ("y",)

    def inputs(self, rank):
        return super().inputs(rank)[:-1]


@dataclass(frozen=True)
class MeasuredLayer(Both):
    """``measured_layer`` of 8 channels in and out and images of n x n, for runs and jobs."""

    target = "conv:measured_layer"
    through = ""
    n: int = 64

    def sized(self):
        """The passes that it stands for."""
        ends = [self.n * rank // self.p for rank in range(self.p + 1)]
        heights = tuple(np.diff(ends).tolist())
        return Both(self.p, heights, shape=(1, 8, 8, self.n), dtype=self.dtype, seed=self.seed)

    def inputs(self, rank):
        weight, bias, _, *others = self.sized().inputs(rank)
        return weight, bias, *others

    def right(self):
        return self.sized().right()

    def check(self, run):
        self.sized().check(run)


def serial(case, passes=None):
    """``(y, dx, dw, db)`` for each rank, from one process that has the whole images.

    Args:
        passes: of a run in which they were announced, from ``passes_of``: they have factors.
    """
    conv, x, dy = case.whole
    conv = Conv(conv.weight.astype("float64"), conv.bias.astype("float64"), case.stride)
    x, dy = x.astype("float64"), dy.astype("float64")
    pad, s, height = conv.pad, conv.stride, x.shape[2]
    padded = np.pad(x, [(0, 0), (0, 0), (pad, pad), (0, 0)])
    every = passes or [[(name, *own) for name in PASSES] for own in case.outputs]
    y, scaled_dy, dw, db = np.zeros((case.p, *dy.shape)), [], 0.0, 0.0

    def scaled(rank, name, start, stop, array):
        phase = f"{name}, rows {start} to {stop - 1}"
        return case.factors.scaled(rank, phase, 0, array) if passes else array

    for rank, own in enumerate(every):
        rows = {}
        for name, start, stop in own:
            seen = padded[:, :, start * s : (stop - 1) * s + conv.k]
            if name == "forward":
                seen = scaled(rank, name, start, stop, seen)
                y[rank][:, :, start:stop] = conv.forward(seen, start)
                continue
            part = scaled(rank, name, start, stop, dy[:, :, start:stop])
            if name == "backward weight":
                more = conv.backward_weight(seen, part, start)
                dw, db = dw + more[0], db + more[1]
            else:
                rows.update((start + k, part[:, :, k]) for k in range(stop - start))
        scaled_dy.append(rows)
    results, dx = [], None
    for rank, ((top, bottom), (first, end)) in enumerate(
        zip(case.bounds, case.outputs, strict=True)
    ):
        if passes or dx is None:
            dx = _seen_by(rank, case, conv, dy, scaled_dy)[:, :, pad : pad + height]
        results.append((y[rank][:, :, first:end], dx[:, :, top:bottom], dw, db))
    return cast(results, case.dtype)


def _seen_by(rank, case, conv, dy, scaled_dy):
    """dL/dx of all rows: a rank's own pass of a row of dy counts; without one, its owner's."""
    used = np.zeros_like(dy)
    for owner, (first, end) in enumerate(case.outputs):
        for row in range(first, end):
            used[:, :, row] = scaled_dy[rank].get(row, scaled_dy[owner].get(row, 0.0))
    height, width = case.ends[-1] + 2 * conv.pad, case.shape[3]
    found = np.zeros((*used.shape[:1], case.shape[1], height + 1, width))
    part = conv.backward_input(used, width, 0)
    found[:, :, : part.shape[2]] = part
    return found


def passes_of(run):
    """Per rank of comm ``(name, first row, the one after the last)`` of its announced passes."""
    found = []
    for rank in run.members or range(run.world_size):
        own = [PASS.fullmatch(phase) for _, phase, _ in announced(run.trace.ops[rank])]
        found.append(tuple((m[1], int(m[2]), int(m[3]) + 1) for m in own if m))
    return tuple(found)


def assert_passes(case, passes):
    """Each rank computed its own rows: all of them, and no others."""
    for rank, own in enumerate(passes):
        first, end = case.outputs[rank]
        for name in PASSES[:1] if isinstance(case, Forward) else PASSES:
            rows = [r for n, start, stop in own if n == name for r in range(start, stop)]
            mine = [row for row in rows if first <= row < end]
            far = case.k if name == "backward input" else 0  # rows of dy that were fetched
            others = [row for row in rows if not first - far <= row < end + far]
            if others:
                raise case.fail(
                    f"rank {rank} computed the {name} pass of output row {others[0]}; its own "
                    f"rows are {first} to {end - 1}."
                )
            if sorted(set(mine)) != list(range(first, end)):
                raise case.fail(
                    f"rank {rank} announced the {name} pass of output rows {sorted(set(mine))}; "
                    f"its own are {first} to {end - 1}. Compute each with the supplied Conv."
                )
            if len(set(mine)) < len(mine) and name != "forward":
                raise case.fail(
                    f"rank {rank} made the {name} pass of an output row twice; each adds to a sum."
                )


def assert_interior_first(run, case):
    """Rows that need no halo were begun before the first wait for a message that comes."""
    for rank in range(case.p):
        ops = run.trace.ops[rank]
        places = {place: phase for place, phase, _ in announced(ops)}
        receives, begun = set(), set()
        for place, op in enumerate(ops):
            if place in places and (found := PASS.fullmatch(places[place])):
                begun.update(range(int(found[2]), int(found[3]) + 1))
            elif op.kind == Kind.IRECV:
                receives.add(op.request)
            elif op.kind == Kind.WAIT and receives.intersection(op.detail):
                break
        late = sorted(set(range(*case.interior(rank))) - begun)
        if late:
            raise case.fail(
                f"rank {rank} waited for its halo before it began output row {late[0]}, which "
                "needs none."
            )


# -- what several modules need ---------------------------------------------------------------------


def assert_kept(case, ranks):
    """Two calls with arrays that have gaps are right, change nothing, and give new arrays."""
    second = case.with_(seed=case.seed + 1)
    both = zip(arguments(case), arguments(second), strict=True)
    given = [(called_by(case), *pair) for pair in both]
    run = called(ranks, case, "checks/inside.py:looked_at", given)
    assert_ran(run, case)
    for name, of in (("first", case), ("early", case), ("second", second)):
        values = [value[name] for value in run.values]
        check_other_values(case, of, run, values, WORDS[name])
    for rank, value in enumerate(run.values):
        if value["changed"]:
            raise case.fail(f"rank {rank} changed what it was given; it must stay as it was.")
        if value["shared"]:
            raise case.fail(
                f"rank {rank} returned an array that shares memory with what it was given, or with "
                "the result of another call; results must be new arrays."
            )


WORDS = {
    "early": "called twice, the first result:",
    "first": "called twice, the first result as it is after the second call:",
    "second": "called twice, the second result:",
}
