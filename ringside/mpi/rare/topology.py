"""Grids of ranks: Cartcomm, and the choice of a grid's extents.

Ranks run in row-major order; on a grid of 2 by 3::

    0 (0, 0)   1 (0, 1)   2 (0, 2)
    3 (1, 0)   4 (1, 1)   5 (1, 2)
"""

from __future__ import annotations

from collections.abc import Sequence

from ringside.mpi.comm import Comm
from ringside.mpi.constants import CART, ERR_ARG, ERR_DIMS, ERR_RANK, ERR_TOPOLOGY, PROC_NULL
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.rare.topocomm import Edge, Topocomm
from ringside.network.link import Call, CommInfo, Link

_OF_EACH_DIMENSION = "one for each dimension of the grid"


class Cartcomm(Topocomm):
    """A communicator whose ranks form a grid."""

    __slots__ = ("_dims", "_periods")

    def __init__(self, comm: Comm | None = None) -> None:
        super().__init__(comm)
        self._dims: list[int] = list(comm._dims) if isinstance(comm, Cartcomm) else []
        self._periods: list[int] = list(comm._periods) if isinstance(comm, Cartcomm) else []

    @classmethod
    def _grid(cls, link: Link, info: CommInfo, dims: list[int], periods: list[int]) -> Cartcomm:
        self: Cartcomm = cls._of(link, info)
        self._dims, self._periods = dims, periods
        return self

    def Get_topology(self) -> int:
        """Return CART."""
        self._check_comm()
        return CART

    def Get_dim(self) -> int:
        """Return the number of dimensions."""
        self._check_comm()
        return len(self._dims)

    def Get_topo(self) -> tuple[list[int], list[int], list[int]]:
        """Return the extents, whether each dimension is periodic, and our coordinates."""
        self._check_comm()
        return list(self._dims), list(self._periods), self.Get_coords(self._rank)

    def Get_coords(self, rank: int) -> list[int]:
        """Return the coordinates of a rank."""
        self._check_comm()
        if not 0 <= rank < self._size:
            raise MPIException(ERR_RANK, f"{rank}, but the grid has the ranks {self._ranks()}")
        coords = []
        for extent in reversed(self._dims):
            coords.append(rank % extent)
            rank //= extent
        return coords[::-1]

    def Get_cart_rank(self, coords: Sequence[int]) -> int:
        """Return the rank at these coordinates; periodic dimensions wrap around."""
        self._check_comm()
        if len(coords) != len(self._dims):
            raise ValueError(
                f"expecting {len(self._dims)} items, got {len(coords)}: {_OF_EACH_DIMENSION}"
            )
        rank = 0
        for coord, extent, periodic in zip(coords, self._dims, self._periods, strict=True):
            if not 0 <= coord < extent and not periodic:
                raise MPIException(
                    ERR_ARG,
                    f"coordinates {list(coords)} are outside the grid {self._dims}. A dimension "
                    "ends unless it is periodic; Shift gives PROC_NULL there.",
                )
            rank = rank * extent + coord % extent
        return rank

    def Shift(self, direction: int, disp: int) -> tuple[int, int]:
        """Return the ranks to receive from and to send to, for a step along one dimension."""
        self._check_comm()
        if not self._dims:
            raise MPIException(ERR_TOPOLOGY, "a grid of no dimensions has no neighbours")
        if not 0 <= direction < len(self._dims):
            raise MPIException(
                ERR_ARG, f"direction {direction}, but the grid has {len(self._dims)} dimensions"
            )
        coords = self.Get_coords(self._rank)
        return self._neighbour(coords, direction, -disp), self._neighbour(coords, direction, disp)

    def _neighbour(self, coords: list[int], direction: int, disp: int) -> int:
        moved = list(coords)
        moved[direction] += disp
        if not 0 <= moved[direction] < self._dims[direction] and not self._periods[direction]:
            return PROC_NULL
        return self.Get_cart_rank(moved)

    def Sub(self, remain_dims: Sequence[bool]) -> Cartcomm:
        """Return the part of the grid that keeps these dimensions and passes through us."""
        self._check_comm()
        if len(remain_dims) != len(self._dims):
            raise ValueError(
                f"expecting {len(self._dims)} items, got {len(remain_dims)}: {_OF_EACH_DIMENSION}"
            )
        coords = self.Get_coords(self._rank)
        color = key = 0
        for coord, extent, keep in zip(coords, self._dims, remain_dims, strict=True):
            if keep:
                key = key * extent + coord
            else:
                color = color * extent + coord
        axes = [i for i, keep in enumerate(remain_dims) if keep]
        call: Call = ("Sub", (("remain_dims", tuple(bool(keep) for keep in remain_dims)),))
        info = self._join("split", (color, key), call)
        dims, periods = [self._dims[i] for i in axes], [self._periods[i] for i in axes]
        return type(self)._grid(self._link, info, dims, periods)

    def _edges(self) -> tuple[list[Edge], list[Edge]]:
        """In every dimension the neighbour before us and the one behind us."""
        around = [rank for axis in range(self.Get_dim()) for rank in self.Shift(axis, 1)]
        # Message 2i goes backwards in dimension i, 2i + 1 forwards: from the rank before us
        # comes what it has sent forwards.
        incoming = [(rank, number ^ 1) for number, rank in enumerate(around)]
        return incoming, [(rank, number) for number, rank in enumerate(around)]

    @property
    def dim(self) -> int:
        """The number of dimensions."""
        return self.Get_dim()

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.Get_dim()

    @property
    def topo(self) -> tuple[list[int], list[int], list[int]]:
        """The extents, whether each dimension is periodic, and our coordinates."""
        return self.Get_topo()

    @property
    def dims(self) -> list[int]:
        """The extents."""
        return self.Get_topo()[0]

    @property
    def periods(self) -> list[int]:
        """Whether each dimension is periodic."""
        return self.Get_topo()[1]

    @property
    def coords(self) -> list[int]:
        """Our coordinates."""
        return self.Get_topo()[2]


def Compute_dims(nnodes: int, dims: int | Sequence[int]) -> list[int]:
    """Return a grid for ``nnodes`` ranks, as square as possible; extents given are kept."""
    extents = [0] * dims if isinstance(dims, int) else [int(extent) for extent in dims]
    fixed = 1
    for extent in extents:
        if extent < 0:
            raise MPIException(ERR_DIMS, f"negative extent in {extents}")
        fixed *= extent or 1
    free = [i for i, extent in enumerate(extents) if not extent]
    if nnodes < 1 or nnodes % fixed or (not free and fixed != nnodes):
        raise MPIException(ERR_DIMS, f"{nnodes} ranks don't fill a grid with the extents {extents}")
    for i, extent in zip(free, _squarest(nnodes // fixed, len(free)), strict=True):
        extents[i] = extent
    return extents


def _squarest(number: int, parts: int) -> list[int]:
    """Factors of ``number`` in falling order, with the least spread."""
    if parts < 2:
        return [number] * parts
    best: list[int] = []
    for first in range(number, 0, -1):
        if number % first or first**parts < number:
            continue
        rest = _squarest(number // first, parts - 1)
        if rest[0] <= first and (
            not best or (first - rest[-1], first) < (best[0] - best[-1], best[0])
        ):
            best = [first, *rest]
    return best
