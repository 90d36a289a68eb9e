"""Graphs of ranks, and weights of their edges: nothing to write.

A graph is a list of lists: the neighbours of rank 0, those of rank 1, and so on. Weights have the
same form: ``weights[i][k]`` belongs to the edge from rank i to ``neighbours[i][k]``.
"""

import numpy as np


def ring(world_size):
    """Each rank has the one before and the one after it as neighbours.

    >>> ring(4)
    [[1, 3], [0, 2], [1, 3], [0, 2]]
    """
    return _sorted(world_size, [(i, (i + 1) % world_size) for i in range(world_size)])


def line(world_size):
    """A ring without its last edge.

    >>> line(4)
    [[1], [0, 2], [1, 3], [2]]
    """
    return _sorted(world_size, [(i, i + 1) for i in range(world_size - 1)])


def wheel(world_size):
    """Rank 0, the hub, has all others as neighbours; these form a ring.

    >>> wheel(5)
    [[1, 2, 3, 4], [0, 2, 4], [0, 1, 3], [0, 2, 4], [0, 1, 3]]
    """
    rim = range(1, world_size)
    edges = [(i, i % (world_size - 1) + 1) for i in rim]
    return _sorted(world_size, [*edges, *((0, i) for i in rim)])


def random_graph(world_size, rng, share=0.3):
    """A connected graph: a random tree, and of the other pairs about this share."""
    edges = [(i, int(rng.integers(i))) for i in range(1, world_size)]
    pairs = [(i, j) for i in range(world_size) for j in range(i)]
    return _sorted(world_size, [*edges, *(pair for pair in pairs if rng.random() < share)])


def _sorted(world_size, edges):
    """Lists of neighbours, of edges that may come twice, or from a rank to itself."""
    both = {(i, j) for i, j in edges if i != j} | {(j, i) for i, j in edges if i != j}
    return [sorted(j for i, j in both if i == rank) for rank in range(world_size)]


def metropolis(neighbours):
    """Weights that each edge's two ends can find out alone: 1 / (1 + the larger degree).

    >>> metropolis(ring(4))[0]
    [0.3333333333333333, 0.3333333333333333]
    """
    degrees = [len(each) for each in neighbours]
    return [
        [1 / (1 + max(degrees[i], degrees[j])) for j in each] for i, each in enumerate(neighbours)
    ]


def mixing_matrix(neighbours, weights):
    """The matrix W of all weights, what remains of each row on its diagonal."""
    matrix = np.zeros((len(neighbours), len(neighbours)))
    for i, (others, own) in enumerate(zip(neighbours, weights, strict=True)):
        for j, weight in zip(others, own, strict=True):
            matrix[i, j] = weight
        matrix[i, i] = 1 - sum(own)
    return matrix


def second_eigenvalue(matrix):
    """The second largest absolute value of the eigenvalues of a symmetric matrix."""
    return float(np.sort(np.abs(np.linalg.eigvalsh(matrix)))[-2])
