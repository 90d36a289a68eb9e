"""Ranks with any neighbours: Graphcomm, where every rank knows all, and Distgraphcomm, where each
knows its own.

A graph's ``index`` holds running totals of the ranks' numbers of neighbours, ``edges`` the
neighbours one after the other::

    0 - 1 - 2      index [1, 3, 4]      edges [1, 0, 2, 1]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ringside.mpi.comm import Comm
from ringside.mpi.constants import DIST_GRAPH, ERR_ARG, ERR_RANK, GRAPH
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.topocomm import Edge, Topocomm
from ringside.network.link import Call, CommInfo, Link


class Weights:
    """UNWEIGHTED and WEIGHTS_EMPTY: values that stand where weights stand."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        return self._name


UNWEIGHTED = Weights("UNWEIGHTED")
WEIGHTS_EMPTY = Weights("WEIGHTS_EMPTY")


class Graphcomm(Topocomm):
    """A communicator whose ranks form a graph that every rank knows."""

    __slots__ = ("_index", "_targets")

    def __init__(self, comm: Comm | None = None) -> None:
        super().__init__(comm)
        self._index: list[int] = list(comm._index) if isinstance(comm, Graphcomm) else []
        self._targets: list[int] = list(comm._targets) if isinstance(comm, Graphcomm) else []

    @classmethod
    def _graph(cls, link: Link, info: CommInfo, index: list[int], edges: list[int]) -> Graphcomm:
        self: Graphcomm = cls._of(link, info)
        self._index, self._targets = index, edges
        return self

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
        given = isinstance(comm, Distgraphcomm)
        self._neighbours = comm._neighbours if isinstance(comm, Distgraphcomm) else ([], [])
        self._weights = comm._weights if given and isinstance(comm, Distgraphcomm) else None

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


# -- making them -----------------------------------------------------------------------------------


def checked_graph(comm: Any, index: Any, edges: Any) -> tuple[list[int], list[int]]:
    """Return a graph as lists, without the zero that ``index`` may begin with."""
    totals, targets = [int(total) for total in index], [int(rank) for rank in edges]
    if len(totals) > 1 and totals[0] == 0:
        totals = totals[1:]
    if len(totals) > comm._size:
        raise MPIException(
            ERR_ARG, f"a graph of {len(totals)} nodes, but there are {comm._size} ranks"
        )
    if totals != sorted(totals) or (totals[-1] if totals else 0) != len(targets):
        raise MPIException(
            ERR_ARG, f"index {totals} isn't the running total of {len(targets)} edges"
        )
    if not all(0 <= rank < len(totals) for rank in targets):
        raise MPIException(ERR_ARG, f"edges {targets} lead to ranks that the graph doesn't have")
    return totals, targets


def create_graph(comm: Any, index: Any, edges: Any) -> Graphcomm:
    """Return the ranks as a graph; COMM_NULL on ranks left over."""
    totals, targets = checked_graph(comm, index, edges)
    call: Call = ("Create_graph", (("nodes", len(totals)),))
    inside = 0 if comm._rank < len(totals) else None
    made = comm._join("split", (inside, comm._rank), call)
    return Graphcomm() if made is None else Graphcomm._graph(comm._link, made, totals, targets)


def create_adjacent(
    comm: Any, sources: Any, destinations: Any, sourceweights: Any, destweights: Any
) -> Distgraphcomm:
    """Return the ranks as a graph of which each gives its own edges."""
    comm._check_comm()
    neighbours = _ranks(comm, sources), _ranks(comm, destinations)
    weighted = any(w is not None and w is not UNWEIGHTED for w in (sourceweights, destweights))
    weights = (
        _weights(sourceweights, len(neighbours[0])),
        _weights(destweights, len(neighbours[1])),
    )
    return _distributed(
        comm, "Create_dist_graph_adjacent", neighbours, weights if weighted else None
    )


def create_distributed(
    comm: Any, sources: Any, degrees: Any, destinations: Any, weights: Any
) -> Distgraphcomm:
    """Return the ranks as a graph of which each gives any edges; all learn which are theirs."""
    comm._check_comm()
    origins, targets = _ranks(comm, sources), _ranks(comm, destinations)
    counts = [int(degree) for degree in degrees]
    if len(counts) != len(origins) or sum(counts) != len(targets):
        raise ValueError(
            f"{len(origins)} sources with {len(counts)} degrees (sum {sum(counts)}) and "
            f"{len(targets)} destinations don't fit together"
        )
    weighted = weights is not None and weights is not UNWEIGHTED
    given = np.array(
        [np.repeat(origins, counts), targets, _weights(weights, len(targets))], dtype=np.int64
    )
    call: Call = ("Create_dist_graph", (("edges", len(targets)),))
    data = bytes([weighted]) + given.tobytes()
    parts = comm._join("allgather", (data,), call)
    table = np.concatenate([np.frombuffer(part[1:], np.int64).reshape(3, -1) for part in parts], 1)
    incoming, outgoing = table[:, table[1] == comm._rank], table[:, table[0] == comm._rank]
    return _distributed(
        comm,
        "Create_dist_graph",
        (incoming[0].tolist(), outgoing[1].tolist()),
        (incoming[2].tolist(), outgoing[2].tolist()) if any(part[0] for part in parts) else None,
    )


def _distributed(
    comm: Any,
    name: str,
    neighbours: tuple[list[int], list[int]],
    weights: tuple[list[int], list[int]] | None,
) -> Distgraphcomm:
    sources, destinations = neighbours
    call: Call = (name, (("sources", len(sources)), ("destinations", len(destinations))))
    made: Distgraphcomm = Distgraphcomm._of(comm._link, comm._join("dup", (), call))
    made._neighbours, made._weights = neighbours, weights
    return made


def _ranks(comm: Any, given: Any) -> list[int]:
    ranks = [] if given is None else [int(rank) for rank in given]
    for rank in ranks:
        if not 0 <= rank < comm._size:
            raise MPIException(ERR_RANK, f"{rank}, but {comm._who()} has the ranks {comm._ranks()}")
    return ranks


def _weights(given: Any, number: int) -> list[int]:
    if given is None or given is UNWEIGHTED:
        return [1] * number
    weights = [] if given is WEIGHTS_EMPTY else [int(weight) for weight in given]
    if len(weights) != number:
        raise ValueError(f"expecting {number} weights, got {len(weights)}")
    return weights
