"""Arranging ranks as a grid or a graph: what makes a Cartcomm, Graphcomm or Distgraphcomm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ringside.mpi.constants import ERR_ARG, ERR_DIMS, ERR_RANK, UNDEFINED
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.membership import Membership
from ringside.mpi.rare.info import Info
from ringside.network.link import Call


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


class Arranging(Membership):
    """Create_cart, Create_graph and their kin."""

    __slots__ = ()

    def Create_cart(self, dims: Any, periods: Any = None, reorder: bool = False) -> Any:
        """Return the ranks as a grid with these extents; COMM_NULL on ranks left over."""
        self._check_comm()
        dims, periods = _checked_grid(dims, periods)
        count = math.prod(dims)
        if count > self._size:
            raise MPIException(
                ERR_ARG, f"a grid {dims} needs {count} ranks, there are {self._size}"
            )
        call: Call = ("Create_cart", (("dims", tuple(dims)),))
        inside = 0 if self._rank < count else None
        info = self._join("split", (inside, self._rank), call)
        grid = self._made("Cartcomm", info)
        if info is not None:
            grid._dims, grid._periods = dims, periods
        return grid

    def Cart_map(self, dims: Any, periods: Any = None) -> int:
        """Return the rank that Create_cart would give us, or UNDEFINED."""
        self._check_comm()
        count = math.prod(_checked_grid(dims, periods)[0])
        return self._rank if self._rank < count else UNDEFINED

    def Create_graph(self, index: Any, edges: Any, reorder: bool = False) -> Any:
        """Return the ranks as a graph, which all give alike; COMM_NULL on ranks left over."""
        self._check_comm()
        return _create_graph(self, index, edges)

    def Graph_map(self, index: Any, edges: Any) -> int:
        """Return the rank that Create_graph would give us, or UNDEFINED."""
        self._check_comm()
        return self._rank if self._rank < len(_checked_graph(self, index, edges)[0]) else UNDEFINED

    def Create_dist_graph_adjacent(
        self,
        sources: Any,
        destinations: Any,
        sourceweights: Any = None,
        destweights: Any = None,
        info: Info | None = None,
        reorder: bool = False,
    ) -> Any:
        """Return the ranks as a graph: we receive from ``sources``, send to ``destinations``."""
        return _create_adjacent(self, sources, destinations, sourceweights, destweights)

    def Create_dist_graph(
        self,
        sources: Any,
        degrees: Any,
        destinations: Any,
        weights: Any = None,
        info: Info | None = None,
        reorder: bool = False,
    ) -> Any:
        """Return the ranks as a graph; each gives edges from ``sources``, ``degrees`` each."""
        return _create_distributed(self, sources, degrees, destinations, weights)


def _checked_grid(dims: Any, periods: Any) -> tuple[list[int], list[int]]:
    """Return a grid's extents and periodicity as lists.

    Raises:
        MPI.Exception: an extent isn't positive.
    """
    extents = [int(extent) for extent in ([dims] if isinstance(dims, int) else dims)]
    if periods is None:
        wrap = [0] * len(extents)
    elif isinstance(periods, (bool, int)):
        wrap = [int(bool(periods))] * len(extents)
    else:
        wrap = [int(bool(periodic)) for periodic in periods]
    if len(wrap) != len(extents):
        raise ValueError(
            f"expecting {len(extents)} items, got {len(wrap)}: periods has one for each dimension"
        )
    if any(extent <= 0 for extent in extents):
        raise MPIException(ERR_DIMS, f"the extents of a grid are positive, not {extents}")
    return extents, wrap


def _checked_graph(comm: Any, index: Any, edges: Any) -> tuple[list[int], list[int]]:
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


def _create_graph(comm: Any, index: Any, edges: Any) -> Any:
    """Return the ranks as a graph; COMM_NULL on ranks left over."""
    totals, targets = _checked_graph(comm, index, edges)
    call: Call = ("Create_graph", (("nodes", len(totals)),))
    inside = 0 if comm._rank < len(totals) else None
    info = comm._join("split", (inside, comm._rank), call)
    graph = comm._made("Graphcomm", info)
    if info is not None:
        graph._index, graph._targets = totals, targets
    return graph


def _create_adjacent(
    comm: Any, sources: Any, destinations: Any, sourceweights: Any, destweights: Any
) -> Any:
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


def _create_distributed(
    comm: Any, sources: Any, degrees: Any, destinations: Any, weights: Any
) -> Any:
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
    edges = np.array(
        [np.repeat(origins, counts), targets, _weights(weights, len(targets))], dtype=np.int64
    )
    call: Call = ("Create_dist_graph", (("edges", len(targets)),))
    data = bytes([weighted]) + edges.tobytes()
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
) -> Any:
    sources, destinations = neighbours
    call: Call = (name, (("sources", len(sources)), ("destinations", len(destinations))))
    graph = comm._made("Distgraphcomm", comm._join("dup", (), call))
    graph._neighbours, graph._weights = neighbours, weights
    return graph


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
