"""Ranks with any neighbours: Graphcomm, where every rank knows all, and Distgraphcomm, where each
knows its own.

A graph's ``index`` holds running totals of the ranks' numbers of neighbours, ``edges`` the
neighbours one after the other::

    0 - 1 - 2      index [1, 3, 4]      edges [1, 0, 2, 1]
"""

from __future__ import annotations

from ringside.mpi.comm import Comm
from ringside.mpi.constants import DIST_GRAPH, ERR_RANK, GRAPH
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.rare.topocomm import Edge, Topocomm


class Graphcomm(Topocomm):
    """A communicator whose ranks form a graph that every rank knows."""

    __slots__ = ("_index", "_targets")

    def __init__(self, comm: Comm | None = None) -> None:
        super().__init__(comm)
        self._index: list[int] = list(comm._index) if isinstance(comm, Graphcomm) else []
        self._targets: list[int] = list(comm._targets) if isinstance(comm, Graphcomm) else []

    def Get_topology(self) -> int:
        """Return GRAPH."""
        self._check_comm()
        return GRAPH

    def Get_dims(self) -> tuple[int, int]:
        """Return the numbers of nodes and of edges."""
        self._check_comm()
        return len(self._index), len(self._targets)

    def Get_topo(self) -> tuple[list[int], list[int]]:
        """Return index and edges."""
        self._check_comm()
        return list(self._index), list(self._targets)

    def Get_neighbors(self, rank: int) -> list[int]:
        """Return the neighbours of a rank."""
        self._check_comm()
        if not 0 <= rank < self._size:
            raise MPIException(ERR_RANK, f"{rank}, but the graph has the ranks {self._ranks()}")
        first = self._index[rank - 1] if rank else 0
        return self._targets[first : self._index[rank]]

    def Get_neighbors_count(self, rank: int) -> int:
        """Return the number of neighbours of a rank."""
        return len(self.Get_neighbors(rank))

    def _edges(self) -> tuple[list[Edge], list[Edge]]:
        edges = [(rank, 0) for rank in self.Get_neighbors(self.Get_rank())]
        return edges, edges

    @property
    def dims(self) -> tuple[int, int]:
        """The numbers of nodes and of edges."""
        return self.Get_dims()

    @property
    def nnodes(self) -> int:
        """The number of nodes."""
        return self.Get_dims()[0]

    @property
    def nedges(self) -> int:
        """The number of edges."""
        return self.Get_dims()[1]

    @property
    def topo(self) -> tuple[list[int], list[int]]:
        """Index and edges."""
        return self.Get_topo()

    @property
    def index(self) -> list[int]:
        """Running totals of the numbers of neighbours."""
        return self.Get_topo()[0]

    @property
    def edges(self) -> list[int]:
        """The neighbours of all ranks."""
        return self.Get_topo()[1]

    @property
    def nneighbors(self) -> int:
        """The number of our neighbours."""
        return len(self.neighbors)

    @property
    def neighbors(self) -> list[int]:
        """Our neighbours."""
        return self.Get_neighbors(self.Get_rank())


class Distgraphcomm(Topocomm):
    """A communicator whose ranks each know whom they receive from and send to."""

    __slots__ = ("_neighbours", "_weights")

    _neighbours: tuple[list[int], list[int]]
    _weights: tuple[list[int], list[int]] | None

    def __init__(self, comm: Comm | None = None) -> None:
        super().__init__(comm)
        is_graph = isinstance(comm, Distgraphcomm)
        self._neighbours = comm._neighbours if isinstance(comm, Distgraphcomm) else ([], [])
        self._weights = comm._weights if is_graph and isinstance(comm, Distgraphcomm) else None

    def Get_topology(self) -> int:
        """Return DIST_GRAPH."""
        self._check_comm()
        return DIST_GRAPH

    def Get_dist_neighbors_count(self) -> tuple[int, int, bool]:
        """Return how many ranks we receive from and send to, and whether there are weights."""
        self._check_comm()
        sources, destinations = self._neighbours
        return len(sources), len(destinations), self._weights is not None

    def Get_dist_neighbors(
        self,
    ) -> tuple[list[int], list[int], tuple[list[int], list[int]] | None]:
        """Return the ranks that we receive from and send to, and the weights."""
        self._check_comm()
        sources, destinations = self._neighbours
        return list(sources), list(destinations), self._weights

    def _edges(self) -> tuple[list[Edge], list[Edge]]:
        self._check_comm()
        sources, destinations = self._neighbours
        return [(rank, 0) for rank in sources], [(rank, 0) for rank in destinations]
