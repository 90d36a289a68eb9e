"""Calls of ``conv.py`` as the tests make them, and their checks: supplied, nothing to write.

In a test of order each rank's passes are announced, and the network scales their inputs. Then the
same passes are made here, on one process, with the same factors.
"""

import itertools
import re
from dataclasses import dataclass

import numpy as np
from halo_cases import PartsCall, assert_linked
from layers import Conv, random_conv

from ringside.checking import announced, assert_declared_at_once, assert_ran, buffered
from ringside.factors import Factors
from ringside.trace import Kind

TOLERANCE = {"float64": 1e-12, "float32": 1e-5}
NAMES = ("y", "dx", "dw", "db")
PASSES = ("forward", "backward weight", "backward input")
PASS = re.compile(r"(forward|backward weight|backward input), rows (-?\d+) to (-?\d+)")


@dataclass(frozen=True)
class ConvCase(PartsCall):
    """Both passes through one convolution."""

    heights: tuple = ()
    k: int = 3
    stride: int = 1
    shape: tuple = ()  # images, channels in, channels out, columns
    seed: int = 0

    def __str__(self):
        if "conv_forward" in self.line:
            return super().__str__()
        return super().__str__().replace("forward on", "both passes on", 1)

    @property
    def itemsize(self):
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize

    @property
    def bounds(self):
        """Per rank the first row of its part, and the one after its last."""
        ends = np.cumsum([0, *self.heights]).tolist()
        return list(itertools.pairwise(ends))

    @property
    def outputs(self):
        """Per rank its first row of the output, and the one after its last."""
        return [tuple(-(-row // self.stride) for row in own) for own in self.bounds]

    def interior(self, rank):
        """Output rows of a rank that need no halo: the first, and the one after the last."""
        (top, bottom), (first, end), pad = self.bounds[rank], self.outputs[rank], self.k // 2
        lo = first if rank == 0 else min(end, -(-(top + pad) // self.stride))
        last = rank == self.world_size - 1
        return lo, end if last else max(lo, (bottom - 1 - pad) // self.stride + 1)

    def inputs(self, dtype=None):
        """The convolution, the whole images and dL/dy."""
        dtype, (B, C, out, W) = dtype or self.dtype, self.shape
        rng, s = np.random.default_rng(self.seed), self.stride
        conv = random_conv(C, out, self.k, rng, self.dtype, s)
        height = sum(self.heights)
        x = rng.standard_normal((B, C, height, W)).astype(self.dtype)
        dy = rng.standard_normal((B, out, -(-height // s), -(-W // s))).astype(self.dtype)
        conv = Conv(conv.weight.astype(dtype), conv.bias.astype(dtype), s)
        return conv, x.astype(dtype), dy.astype(dtype)

    def arguments_of_ranks(self):
        """What ``callers.conv_both`` gets on each rank, after ``comm``."""
        conv, x, dy = self.inputs()
        return [
            (
                conv.weight.copy(), conv.bias.copy(), self.stride, x[:, :, top:bottom].copy(), top,
                dy[:, :, first:end].copy(),
            )
            for (top, bottom), (first, end) in zip(self.bounds, self.outputs, strict=True)
        ]  # fmt: skip

    def halo_bytes(self, passes="both"):
        """Per rank ``{neighbour: bytes}`` that it may send."""
        B, C, out, W = self.shape
        channels = {"forward": C, "backward": max(C, out), "both": C + max(C, out)}[passes]
        nbytes = B * channels * W * (self.k // 2) * self.itemsize
        near = [(rank - 1, rank + 1) for rank in range(self.world_size)]
        return [{r: nbytes for r in own if 0 <= r < self.world_size} for own in near]

    def numbers(self, parts):
        """The case in a word, for ``--check passes=...``; ``case_of`` reads it."""
        lists = [",".join(map(str, each)) for each in (parts, self.heights, self.shape)]
        return ":".join([*lists, *map(str, (self.k, self.stride, self.seed, self.dtype))])

    @property
    def num_weights(self):
        """Elements of filters and biases."""
        _, C, out, _ = self.shape
        return out * C * self.k**2 + out

    @property
    def allowed_bytes(self):
        """Per rank what it may send in both passes, the all-reduce as a ring's."""
        p = self.world_size
        ring = 2 * (p - 1) * self.num_weights * self.itemsize // p
        return [sum(own.values()) + ring for own in self.halo_bytes()]


def case_of(numbers):
    """The parts that are compared, and the case, from ``numbers`` of one."""
    parts, heights, shape, k, stride, seed, dtype = numbers.split(":")
    heights, shape = (tuple(map(int, each.split(","))) for each in (heights, shape))
    return parts.split(","), ConvCase(
        "conv:forward", len(heights), sum(heights), dtype, heights=heights, k=int(k),
        stride=int(stride), shape=shape, seed=int(seed),
    )  # fmt: skip


def conv_case(heights, rng, k=3, stride=1, shape=(2, 3, 2, 5), dtype="float64"):
    """Both passes on parts of these heights; ``shape``: images, channels in and out, columns."""
    seed, p = int(rng.integers(2**31)), len(heights)
    words = f"--heights '{list(heights)}' --k {k} --stride {stride} --shape '{list(shape)}'"
    return ConvCase(
        "conv:forward", p, sum(heights), dtype,
        about=f"heights {list(heights)}, k = {k}, stride {stride}, x of shape "
        f"({shape[0]}, {shape[1]}, h, {shape[3]}), {shape[2]} channels out, {dtype}",
        line=f"ringside run callers.py:conv_both --ranks {p} -- {words} --seed {seed} "
        f"--dtype {dtype}",
        heights=tuple(heights), k=k, stride=stride, shape=tuple(shape), seed=seed,
    )  # fmt: skip


def convolved(ranks, case, rng=None, caller="conv_both", parts=NAMES, **options):
    """Run both passes, or ``conv_forward`` alone; compare those of y, dx, dw, db that are named.

    Args:
        rng: draws factors, where passes are to be announced.

    Returns:
        The case, and the result.
    """
    options.setdefault("machine", buffered())
    case = case.via(caller)
    given, parts = case.arguments_of_ranks(), list(parts)
    if caller == "conv_forward":
        given, parts = [each[:-1] for each in given], ["y"]
    if rng is not None:
        options["factors"] = Factors.drawn(rng)
    world_size = options.pop("world_size", case.world_size)
    result = ranks.call(f"callers:{caller}", world_size, given, **options)
    assert_ran(result, case)
    if rng is None:
        check_values(result.values, case, case.seen_in(result), parts)
    else:
        check_observed(result, case, case, parts)
        assert_declared_at_once(result, case)
    assert_halos_only(result, case, 0 if caller == "conv_forward" else case.num_weights)
    return case, result


# -- what is right ---------------------------------------------------------------------------------


def serial(asked, factors=None, passes=None):
    """``(y, dx, dw, db)`` for each rank, from one process that has the whole images.

    Args:
        factors: of a run whose passes were announced.
        passes: of its ranks, from ``passes_of``.
    """
    conv, x, dy = asked.inputs("float64")
    pad, s, height = conv.pad, conv.stride, x.shape[2]
    padded = np.pad(x, [(0, 0), (0, 0), (pad, pad), (0, 0)])
    passes = passes or tuple(tuple((name, *own) for name in PASSES) for own in asked.outputs)
    y, scaled_dy, dw, db = np.zeros((len(passes), *dy.shape)), [], 0.0, 0.0

    def scaled(rank, name, start, stop, array):
        phase = f"{name}, rows {start} to {stop - 1}"
        return array if factors is None else factors.scaled(rank, phase, 0, array)

    for rank, own in enumerate(passes):
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
        zip(asked.bounds, asked.outputs, strict=True)
    ):
        if factors is not None or dx is None:
            dx = _seen_by(rank, asked, conv, dy, scaled_dy)[:, :, pad : pad + height]
        results.append((y[rank][:, :, first:end], dx[:, :, top:bottom], dw, db))
    return results


def _seen_by(rank, asked, conv, dy, scaled_dy):
    """dL/dx of all rows: a rank's own pass of a row of dy counts; without one, its owner's."""
    used = np.zeros_like(dy)
    for owner, (first, end) in enumerate(asked.outputs):
        for row in range(first, end):
            used[:, :, row] = scaled_dy[rank].get(row, scaled_dy[owner].get(row, 0.0))
    width, height = asked.shape[3], sum(asked.heights) + 2 * conv.pad
    found = np.zeros((*used.shape[:1], asked.shape[1], height + 1, width))
    part = conv.backward_input(used, width, 0)
    found[:, :, : part.shape[2]] = part
    return found


def check_observed(result, asked, case, parts=NAMES):
    """Each rank's passes, and its results where the inputs of these passes were scaled."""
    passes, case = passes_of(result, asked), case.seen_in(result)
    case = case.asking(f"passes={asked.numbers(parts)}")
    assert_passes(passes, asked, case, parts)
    rights = serial(asked, result.factors, passes)
    for rank, value in enumerate(result.values):
        check_convolved(value, rights[rank], rank, case, parts)


def check_values(values, asked, case, parts=NAMES):
    """All ranks' results, where nothing was scaled."""
    rights = serial(asked)
    for rank, value in enumerate(values):
        check_convolved(value, rights[rank], rank, case, parts)


def check_convolved(value, right, rank, case, parts=NAMES):
    """One rank's results; ``right`` is ``(y, dx, dw, db)``."""
    value = (value,) if isinstance(value, np.ndarray) else value
    if not isinstance(value, list | tuple) or len(value) not in (1, 4):
        raise case.fail(f"rank {rank}: forward must return (y, saved), backward (dx, dw, db).")
    for name, array, wanted in zip(NAMES, value, right, strict=False):
        if name in parts:
            _assert_near(array, wanted, case, f"rank {rank}'s {name}")


def _assert_near(array, right, case, what):
    if not isinstance(array, np.ndarray):
        raise case.fail(f"{what} is of type {type(array).__name__}; it must be an array.")
    if array.dtype != case.dtype or array.shape != right.shape:
        raise case.fail(
            f"{what} is {array.dtype} of shape {array.shape}; it must be {case.dtype} of shape "
            f"{right.shape}."
        )
    off = np.abs(array.astype("float64") - right)
    allowed = TOLERANCE[case.dtype] * max(1.0, float(np.abs(right).max(initial=0)))
    if not (off <= allowed).all():  # a NaN is wrong too
        wrong = np.argwhere(~(off <= allowed))
        at = tuple(int(k) for k in wrong[0])
        raise case.fail(
            f"{what} is wrong in {len(wrong)} of {off.size} elements: element {list(at)} is "
            f"{array[at]:.12g}; it must be {right[at]:.12g}."
        )


# -- what was sent, and when -----------------------------------------------------------------------


def assert_halos_only(result, case, num_elements):
    """Messages between neighbours or end to end, and collectives of at most so many elements."""
    p = case.world_size
    near = [{(rank - 1) % p, (rank + 1) % p} for rank in range(p)]
    seen = case.seen_in(result).asking(f"halos={num_elements}")
    assert_linked(result, case, near)
    bound = num_elements * np.dtype(case.dtype).itemsize
    for record in result.collectives:
        if record.nbytes > bound:
            allowed = f"an all-reduce of {num_elements} elements" if bound else "no collective"
            raise seen.fail(
                f"the library's {record.name} of {record.nbytes} bytes was called; {allowed} is "
                "allowed."
            )


def assert_one_all_reduce(result, case):
    """One all-reduce, of filters and biases together."""
    called = sum(each.name == "allreduce" for each in result.collectives)
    if called != 1 and case.world_size > 1:
        raise (
            case.seen_in(result)
            .asking("one_all_reduce")
            .fail(f"{called} all-reduces were called; one of dw and db together is asked for.")
        )


def passes_of(result, asked):
    """Per rank of comm ``(name, first row, the one after the last)`` of its announced passes."""
    world, found = list(result.members or range(asked.world_size)), []
    for rank in world:
        own = [PASS.fullmatch(phase) for _, phase, _ in announced(result.trace.ops[rank])]
        found.append(tuple((m[1], int(m[2]), int(m[3]) + 1) for m in own if m))
    return tuple(found)


def assert_passes(passes, asked, case, parts):
    """Each rank computed its own rows: all of them, and no others."""
    for rank, own in enumerate(passes):
        first, end = asked.outputs[rank]
        for name in PASSES if "dx" in parts or "dw" in parts else PASSES[:1]:
            rows = [r for n, start, stop in own if n == name for r in range(start, stop)]
            mine = [row for row in rows if first <= row < end]
            far = asked.k if name == "backward input" else 0  # rows of dy that were fetched
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


def assert_interior_first(result, case, interiors):
    """Rows that need no halo were begun before the first wait for a message that comes.

    Args:
        interiors: per rank of comm the first of these rows, and the one after the last.
    """
    world = list(result.members or range(case.world_size))
    words = ",".join(f"{lo}:{hi}" for lo, hi in interiors)
    for rank, (lo, hi) in enumerate(interiors):
        ops = result.trace.ops[world[rank]]
        places = {place: phase for place, phase, _ in announced(ops)}
        receives, begun = set(), set()
        for place, op in enumerate(ops):
            if place in places and (found := PASS.fullmatch(places[place])):
                begun.update(range(int(found[2]), int(found[3]) + 1))
            elif op.kind == Kind.IRECV:
                receives.add(op.request)
            elif op.kind == Kind.WAIT and receives.intersection(op.detail):
                break
        late = sorted(set(range(lo, hi)) - begun)
        if late:
            raise (
                case.seen_in(result)
                .asking(f"interior={words}")
                .fail(
                    f"rank {rank} waited for its halo before it began output row {late[0]}, which "
                    "needs none."
                )
            )


def forward_s(case, machine):
    """The reference's time of the forward pass."""
    return max(_forward_s(case, machine, rank) for rank in range(case.world_size))


def _forward_s(case, machine, rank):
    lo, hi = case.interior(rank)
    first, end = case.outputs[rank]
    edges_s = rows_s(case, machine, end - first - (hi - lo))
    return max(halo_s(case, machine, "forward"), rows_s(case, machine, hi - lo)) + edges_s


def backward_s(case, machine):
    """The reference's time of the backward pass: the filters' all-reduce beside the rows of dx."""
    p, times = case.world_size, []
    ring = -(-case.num_weights // p) * case.itemsize * machine.beta_s_per_byte
    ring_s = 2 * (p - 1) * (machine.alpha_s + ring)
    for rank in range(p):
        lo, hi = case.interior(rank)
        first, end = case.outputs[rank]
        edges_s = rows_s(case, machine, end - first - (hi - lo))
        weights_s, interior_s = (rows_s(case, machine, n) for n in (end - first, hi - lo))
        own_s = weights_s + max(interior_s, ring_s)
        times.append(edges_s + max(own_s, halo_s(case, machine, "backward")))
    return max(times)


def halo_s(case, machine, passes):
    """What a halo takes, both neighbours' at once; ``passes`` is "forward" or "backward"."""
    nbytes = max((sum(own.values()) for own in case.halo_bytes(passes)), default=0)
    return machine.alpha_s + nbytes * machine.beta_s_per_byte


def rows_s(case, machine, num_rows):
    """What one pass of so many output rows takes."""
    B, C, out, W = case.shape
    windows = B * num_rows * -(-W // case.stride)
    return 2 * out * C * case.k**2 * windows / machine.flop_per_s
