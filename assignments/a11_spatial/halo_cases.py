"""Calls of ``halo.py`` as the tests make them, and their checks: supplied, nothing to write."""

import itertools
from dataclasses import dataclass, replace

import numpy as np

from ringside.checking import Call, assert_own_messages, assert_peers, assert_ran, buffered


class PartsCall(Call):
    """A call on parts of images, which are drawn from a seed in its line."""

    def via(self, function, about=""):
        """The same by way of another function of ``callers.py``."""
        _, _, rest = self.line.removeprefix("ringside run ").partition(" ")
        line = f"ringside run callers.py:{function} {rest}"
        return replace(self, line=line, about=self.about + about)


@dataclass(frozen=True)
class HaloCase(PartsCall):
    """A call of ``halo.exchange``, or of ``exchange_grid`` where there are widths."""

    heights: tuple = ()  # of the ranks, or of the grid's rows
    widths: tuple = ()  # of the grid's columns; none: rows are whole
    halo_width: int = 1
    shape: tuple = ()  # images, channels, columns; without columns for a grid
    seed: int = 0

    @property
    def itemsize(self):
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize

    @property
    def bounds(self):
        """Per rank ``(top, bottom, left, right)`` in the image."""
        widths = self.widths or self.shape[2:]
        rows, columns = (np.cumsum([0, *each]).tolist() for each in (self.heights, widths))
        return [
            (top, bottom, left, right)
            for top, bottom in itertools.pairwise(rows)
            for left, right in itertools.pairwise(columns)
        ]

    def image(self):
        """The whole images."""
        shape = *self.shape[:2], sum(self.heights), sum(self.widths or self.shape[2:])
        return np.random.default_rng(self.seed).standard_normal(shape).astype(self.dtype)

    def arguments_of_ranks(self):
        """What the function gets on each rank, after ``comm``."""
        image, grid = self.image(), (len(self.heights), len(self.widths))
        return [
            (image[:, :, top:bottom, left:right].copy(), self.halo_width, *[grid][: grid[1]])
            for top, bottom, left, right in self.bounds
        ]

    def rights(self):
        """What each rank must get."""
        image, d = self.image(), self.halo_width
        return [
            image[:, :, max(0, top - d) : bottom + d, max(0, left - d) : right + d]
            for top, bottom, left, right in self.bounds
        ]

    def neighbours(self):
        """Per rank ``{neighbour: bytes}``."""
        B, C, d = *self.shape[:2], self.halo_width
        height, width = sum(self.heights), sum(self.widths or self.shape[2:])
        columns, found = max(1, len(self.widths)), []
        for rank, (top, bottom, left, right) in enumerate(self.bounds):
            wide = min(width, right + d) - max(0, left - d)
            sides = (
                (rank - columns, top > 0, d * wide), (rank + columns, bottom < height, d * wide),
                (rank - 1, left > 0, d * (bottom - top)),
                (rank + 1, right < width, d * (bottom - top)),
            )  # fmt: skip
            found.append({r: B * C * n * self.itemsize for r, there, n in sides if there})
        return found


def halo_case(heights, halo_width, shape, rng, dtype="float64"):
    """``halo.exchange`` of images of ``shape``: how many, channels, columns."""
    seed, p = int(rng.integers(2**31)), len(heights)
    words = f"--heights '{list(heights)}' --halo-width {halo_width} --shape '{list(shape)}'"
    return HaloCase(
        "halo:exchange", p, sum(heights), dtype,
        about=f"heights {list(heights)}, halo_width = {halo_width}, x of shape "
        f"({shape[0]}, {shape[1]}, h, {shape[2]}), {dtype}",
        line=f"ringside run halo.py:exchange --ranks {p} -- {words} --seed {seed} --dtype {dtype}",
        heights=tuple(heights), halo_width=halo_width, shape=tuple(shape), seed=seed,
    )  # fmt: skip


def grid_case(heights, widths, halo_width, shape, rng, dtype="float64"):
    """``halo.exchange_grid`` of images of ``shape``: how many, channels."""
    seed, p = int(rng.integers(2**31)), len(heights) * len(widths)
    words = f"--heights '{list(heights)}' --widths '{list(widths)}' --halo-width {halo_width}"
    words += f" --shape '{list(shape)}' --seed {seed} --dtype {dtype}"
    return HaloCase(
        "halo:exchange_grid", p, sum(heights), dtype,
        about=f"a grid of heights {list(heights)} and widths {list(widths)}, "
        f"halo_width = {halo_width}, x of shape ({shape[0]}, {shape[1]}, h, w), {dtype}",
        line=f"ringside run halo.py:exchange_grid --ranks {p} -- {words}",
        heights=tuple(heights), widths=tuple(widths), halo_width=halo_width, shape=tuple(shape),
        seed=seed,
    )  # fmt: skip


def exchanged(ranks, case, **options):
    """Run it: the values, and that own messages between neighbours carried them."""
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", case.world_size)
    result = ranks.call(case.target, world_size, case.arguments_of_ranks(), **options)
    assert_ran(result, case)
    check_exchanged(result.values, case.seen_in(result))
    assert_own_rows(result, case)
    return result


def check_exchanged(values, case):
    """Each rank's array, exactly."""
    for rank, (value, right) in enumerate(zip(values, case.rights(), strict=True)):
        assert_equal(value, right, rank, case)


def assert_equal(value, right, rank, case):
    """One rank's array, exactly."""
    if not isinstance(value, np.ndarray):
        raise case.fail(f"rank {rank} returned {type(value).__name__}; it must be an array.")
    if value.dtype != right.dtype or value.shape != right.shape:
        raise case.fail(
            f"rank {rank} returned {value.dtype} of shape {value.shape}; it must be {right.dtype} "
            f"of shape {right.shape}."
        )
    if not np.array_equal(value, right):
        wrong = np.argwhere(value != right)
        n, c, i, j = (int(k) for k in wrong[0])
        raise case.fail(
            f"rank {rank}'s array is wrong in {len(wrong)} of {value.size} elements: row {i}, "
            f"column {j} of image {n}, channel {c} is {value[n, c, i, j]:.6g}; it must be "
            f"{right[n, c, i, j]:.6g}."
        )


def assert_own_rows(result, case):
    """No library collective with data; messages between neighbours, or from end to end."""
    if not result.collectives or any(each.nbytes for each in result.collectives):
        assert_own_messages(result, case)
    around = [set(own) for own in case.neighbours()]
    around[0].add(case.world_size - 1)
    around[-1].add(0)
    assert_linked(result, case, around)


def assert_linked(result, case, neighbours):
    """Messages between neighbours alone; ``neighbours`` are sets or dicts of ranks of comm."""
    world = list(result.members or range(case.world_size))
    allowed = [set() for _ in range(result.world_size)]
    for rank, own in enumerate(neighbours):
        allowed[world[rank]] = {world[other] for other in own}
    assert_peers(result, allowed, case, "messages go to neighbours only")


def bytes_to(case, neighbours):
    """A matrix of the bytes that each rank may send each other one."""
    allowed = np.zeros((case.world_size, case.world_size))
    for rank, own in enumerate(neighbours):
        for other, nbytes in own.items():
            allowed[rank, other] = nbytes
    return allowed


# -- parts that are lower than the halo ------------------------------------------------------------


def low_case(heights, halo_width, rng):
    """``halo.exchange`` where a part may be too low, or the halo's width below 0."""
    case = halo_case(heights, halo_width, (1, 2, 3), rng)
    return case.via("halo_refused", ", looking for the error")


def assert_low(value, rank, asked, case):
    """What ``halo_refused`` of ``callers.py`` gave on a rank."""
    error, right = value
    d, heights = asked.halo_width, asked.heights
    near = [r for r in (rank - 1, rank, rank + 1) if 0 <= r < len(heights)]
    low = d < 0 or (len(heights) > 1 and any(heights[r] < d for r in near))
    if low and error != "ValueError":
        raise case.fail(
            f"rank {rank} raised {error or 'nothing'}; it must be ValueError: its own part or a "
            "neighbour's is lower than the halo, or halo_width is below 0."
        )
    if not low and (error or right is not True):
        raise case.fail(
            f"rank {rank} {'raised ' + error if error else 'got a wrong array'}; its part and its "
            "neighbours' are high enough, so it must get its halo."
        )
