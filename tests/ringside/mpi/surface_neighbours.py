"""Checks: neighbours on grids and graphs."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from surface import raises


def _around(comm):
    return (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size


def check_a_periodic_grid_exchanges_halos(comm):
    ring = comm.Create_cart([comm.size], periods=[True])
    before, after = _around(comm)
    assert ring.inoutedges == ([before, after], [before, after])
    assert ring.degrees == (2, 2)
    edges = np.array([[10.0 * comm.rank, 1], [10.0 * comm.rank, 2]])  # first row, last row
    halo = np.zeros((2, 2))
    ring.Neighbor_alltoall(edges, halo)
    assert halo.tolist() == [[10 * before, 2], [10 * after, 1]]
    halo[:] = 0
    ring.Ineighbor_alltoall(edges, halo).Wait()
    assert halo.tolist() == [[10 * before, 2], [10 * after, 1]]
    ring.Free()


def check_an_edge_of_the_grid_has_no_neighbour(comm):
    line = comm.Create_cart([comm.size])
    got = np.full(2, -1)
    line.Neighbor_allgather(np.array([comm.rank]), got)
    last = comm.size - 1
    assert got.tolist() == [comm.rank - 1, comm.rank + 1 if comm.rank < last else -1]
    line.Free()


def check_neighbours_in_two_dimensions(comm):
    grid = comm.Create_cart(MPI.Compute_dims(comm.size, 2), periods=[True, True])
    sent = np.arange(4) + 10 * grid.rank
    got = np.zeros(4, dtype=int)
    grid.Neighbor_alltoall(sent, got)
    up, down, left, right = grid.inedges
    assert got.tolist() == [10 * up + 1, 10 * down, 10 * left + 3, 10 * right + 2]
    grid.Free()


def check_neighbour_blocks_of_any_length(comm):
    ring = comm.Create_cart([comm.size], periods=[True])
    before, after = _around(comm)
    got = np.zeros(3)
    ring.Neighbor_alltoallv(
        [np.array([1.0, 2, 3]) + 10 * comm.rank, [1, 2]], [got, [2, 1]]
    )  # one entry backwards, two forwards
    assert got.tolist() == [10 * before + 2, 10 * before + 3, 10 * after + 1]
    request = ring.Neighbor_allgather_init(np.array([float(comm.rank)]), got[:2])
    for _ in range(2):
        got[:] = -1
        request.Start()
        request.Wait()
        assert got.tolist() == [before, after, -1]
    ring.Free()


def check_objects_among_neighbours(comm):
    ring = comm.Create_cart([comm.size], periods=[True])
    before, after = _around(comm)
    assert ring.neighbor_allgather(("rank", comm.rank)) == [("rank", before), ("rank", after)]
    got = ring.neighbor_alltoall([f"{comm.rank} back", f"{comm.rank} on"])
    assert got == [f"{before} on", f"{after} back"]
    ring.Free()


def check_neighbour_messages_are_hidden_from_wildcards(comm):
    if comm.size == 1:
        return  # one rank with itself for a neighbour hangs here on real MPI (MPICH)
    ring = comm.Create_cart([comm.size], periods=[True])
    mine = np.zeros(1)
    request = ring.Irecv(mine, MPI.ANY_SOURCE, MPI.ANY_TAG)
    assert len(ring.neighbor_allgather(comm.rank)) == 2
    ring.Send(np.array([7.0]), (comm.rank + 1) % comm.size, tag=1)
    request.Wait()
    assert mine[0] == 7
    ring.Free()


def check_a_graph_names_its_neighbours(comm):
    index = [2 * (r + 1) for r in range(comm.size)]
    edges = [n for r in range(comm.size) for n in ((r - 1) % comm.size, (r + 1) % comm.size)]
    graph = comm.Create_graph(index, edges)
    assert graph.topology == MPI.GRAPH and graph.dims == (comm.size, len(edges))
    assert graph.neighbors == list(_around(comm)) == graph.inedges
    assert graph.Get_neighbors_count(0) == 2
    assert graph.neighbor_allgather(comm.rank) == graph.neighbors
    graph.Free()


def check_a_distributed_graph_has_directions(comm):
    before, after = _around(comm)
    graph = comm.Create_dist_graph_adjacent([before], [after])
    assert graph.topology == MPI.DIST_GRAPH
    assert graph.Get_dist_neighbors_count() == (1, 1, False)
    assert graph.Get_dist_neighbors() == ([before], [after], None)
    assert graph.neighbor_alltoall([comm.rank]) == [before]
    copy = graph.Dup()
    assert copy.inoutedges == ([before], [after])
    copy.Free()
    graph.Free()
    mine = ([0], [comm.size], list(range(comm.size))) if comm.rank == comm.size - 1 else ([],) * 3
    star = comm.Create_dist_graph(*mine)
    assert star.indegree == 1 and star.outdegree == (comm.size if comm.rank == 0 else 0)
    star.Free()
    with raises(ValueError):
        comm.Create_dist_graph_adjacent([0], [0], MPI.WEIGHTS_EMPTY, MPI.WEIGHTS_EMPTY)


def check_cart_map_is_the_rank_in_the_grid(comm):
    assert comm.Cart_map([comm.size]) == comm.rank
    grid = comm.Create_cart([1])
    assert (grid == MPI.COMM_NULL) == (comm.rank > 0)
    assert comm.Cart_map([1]) == (0 if comm.rank == 0 else MPI.UNDEFINED)
    if grid:
        grid.Free()
