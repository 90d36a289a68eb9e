"""The calls of weights.py that the tests make, and what is right."""

import math
from dataclasses import dataclass, field

import numpy as np
from given.layouts import grid

from ringside.checking import Verdict, assert_array, assert_ran
from ringside.checking.cases import Case, Formula, brief, machine_of


@dataclass(frozen=True)
class Layouts:
    """Two layouts of a matrix.

    Attributes:
        trainers, samplers: rows and columns of blocks, and how many copies of all of them.
        mixed: trainers and samplers have ranks in an order of no meaning.
    """

    trainers: tuple[int, int, int] = (4, 1, 1)
    samplers: tuple[int, int, int] = (1, 4, 1)
    shape: tuple[int, int] = (12, 8)
    mixed: bool = False

    @property
    def layouts(self):
        num_trainers, num_samplers = math.prod(self.trainers), math.prod(self.samplers)
        ranks = list(range(num_trainers + num_samplers))
        if self.mixed:
            ranks = [int(rank) for rank in np.random.default_rng(len(ranks)).permutation(ranks)]
        trainer = grid(self.shape, ranks[:num_trainers], *self.trainers[:2])
        return trainer, grid(self.shape, ranks[num_trainers:], *self.samplers[:2])

    @property
    def told(self):
        told = [f"a matrix of {self.shape[0]} x {self.shape[1]}"]
        for name in ("trainers", "samplers"):
            rows, columns, copies = getattr(self, name)
            each = f", {copies} copies of each" if copies > 1 else ""
            told.append(f"{name} have {rows} x {columns} blocks{each}")
        return "; ".join(told)

    def needs(self):
        """Per different block of the trainers: the ranks that have it, and dest -> piece."""
        trainer, sampler = self.layouts
        for block in dict.fromkeys(trainer.values()):
            pieces = {dest: common(block, needed) for dest, needed in sampler.items()}
            yield (
                [rank for rank, other in trainer.items() if other == block],
                {dest: piece for dest, piece in pieces.items() if size(piece)},
            )


def common(one, other):
    """What two blocks have in common; it may be empty."""
    return tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))


def size(block):
    """Elements of a block."""
    return math.prod(max(0, stop - start) for start, stop in block)


def cut(matrix, block):
    """A block of a matrix, as an array of its own."""
    return matrix[tuple(slice(*each) for each in block)].copy()


def words(block):
    """A block, as a sentence says it."""
    return ", ".join(
        f"{name} {start} to {stop - 1}"
        for name, (start, stop) in zip(("rows", "columns"), block, strict=True)
    )


@dataclass(frozen=True)
class Plan(Layouts, Formula):
    """A plan: any order, and any of the copies."""

    target = "weights:plan"

    def arguments(self):
        return self.layouts

    def __str__(self):
        return f"plan, {self.told}"

    def check_value(self, value):
        trainer, sampler = self.layouts
        if not isinstance(value, list) or not all(map(is_piece, value)):
            raise Verdict(
                f"{self} is {brief(value)}; it must be a list of (source, dest, (rows, columns))."
            )
        counts = {dest: np.zeros(self.shape, int) for dest in sampler}
        for source, dest, (rows, columns) in value:
            piece = tuple(rows), tuple(columns)
            if source not in trainer or dest not in sampler:
                raise Verdict(
                    f"{self}: rank {source} sends to rank {dest}; trainers send to samplers."
                )
            for rank, block in ((source, trainer[source]), (dest, sampler[dest])):
                if not size(piece) or common(piece, block) != piece:
                    raise Verdict(
                        f"{self}: rank {source} sends rank {dest} {words(piece)}; rank {rank} has "
                        f"{words(block)}. A piece is what both have in common, and isn't empty."
                    )
            counts[dest][tuple(slice(*each) for each in piece)] += 1
        for dest, block in sampler.items():
            found = cut(counts[dest], block)
            if (found != 1).any():
                row, column = np.argwhere(found != 1)[0] + [block[0][0], block[1][0]]
                raise Verdict(
                    f"{self}: rank {dest} gets the element of row {row}, column {column} "
                    f"{counts[dest][row, column]} times; it must come once, from one rank."
                )


def is_piece(value):
    """Whether it is a source, a dest and a block."""
    match value:
        case [int(), int(), [[int(), int()], [int(), int()]]]:
            return True
    return False


@dataclass(frozen=True)
class Sync(Layouts, Case):
    """The call on each rank; samplers come with the weights of the step before.

    Attributes:
        p: as many as the layouts have ranks. Without layouts, half of them are trainers.
    """

    target = "weights:sync"
    what = "block"
    trainers: tuple[int, int, int] = ()
    samplers: tuple[int, int, int] = ()
    dtype: str = "float64"
    machine: str = field(default="buffered", kw_only=True)

    def __post_init__(self):
        num_samplers = math.prod(self.samplers or (self.p // 2,))
        object.__setattr__(self, "samplers", self.samplers or (1, num_samplers, 1))
        object.__setattr__(self, "trainers", self.trainers or (self.p - num_samplers, 1, 1))

    @property
    def matrices(self):
        """The old weights and the new ones."""
        old, new = self.rng().standard_normal((2, *self.shape)).astype(self.dtype)
        return old, new

    def inputs(self, rank):
        trainer, sampler = self.layouts
        old, new = self.matrices
        block = cut(new, trainer[rank]) if rank in trainer else cut(old, sampler[rank])
        return block, trainer, sampler

    def right(self):
        sampler, new = self.layouts[1], self.matrices[1]
        return [cut(new, sampler[rank]) if rank in sampler else None for rank in range(self.p)]

    def check(self, run):
        """Each element is that of the new weights; another one is found in the matrix."""
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            what = f"rank {rank}'s block"
            if right is None:
                continue
            if isinstance(value, np.ndarray) and value.shape == right.shape:
                self._find_wrong(what, value, self.layouts[1][rank], right)
            assert_array(value, right, None, self, what)

    def check_trainers(self, run):
        """They return nothing."""
        for rank in self.layouts[0]:
            if run.values[rank] is not None:
                raise self.fail(
                    f"rank {rank}'s block is {brief(run.values[rank])}; a trainer returns None."
                )

    def _find_wrong(self, what, value, block, right):
        wrong = np.argwhere(value != right)
        for name, matrix in zip(("old", "new"), self.matrices, strict=True):
            at = np.argwhere(matrix == value[tuple(wrong[0])]) if len(wrong) else ()
            if len(at) == 1:
                place = wrong[0] + [block[0][0], block[1][0]]
                raise self.fail(
                    f"{what} is wrong in {len(wrong)} of {value.size} elements: for row "
                    f"{place[0]}, column {place[1]} of the new weights it has row {at[0][0]}, "
                    f"column {at[0][1]} of the {name} ones."
                )

    @property
    def itemsize(self):
        return np.dtype(self.dtype).itemsize

    def pair_nbytes(self):
        """Bytes that each source may send each dest: of the piece between them."""
        allowed = np.zeros((self.p, self.p))
        for holders, pieces in self.needs():
            for dest, piece in pieces.items():
                allowed[holders, dest] = self.itemsize * size(piece)
        return allowed

    @property
    def time_s(self):
        machine = machine_of(self)
        ((_, pieces), *_) = self.needs()
        w = self.itemsize * size(next(iter(pieces.values())))
        return self.p * (machine.alpha_s + w * machine.beta_s_per_byte)
