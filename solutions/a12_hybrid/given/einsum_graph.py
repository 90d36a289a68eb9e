"""Programs of tensors with named dimensions: supplied, nothing to write.

    graph = Graph(
        tensors={"x": ("batch", "wide"), "w": ("wide", "hidden"), "y": ("batch", "hidden")},
        steps=(Step("y", ("x", "w")),),
        data=("x",),
    )

A step is one einsum: it multiplies its inputs and sums over the dimensions that its output hasn't.
Here ``y[batch, hidden] = sum over wide of x[batch, wide] w[wide, hidden]``.
"""

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
from mpi4py import MPI


class Step(NamedTuple):
    """One einsum: the name of what it makes, and of what it multiplies."""

    output: str
    inputs: tuple


class AllReduce(NamedTuple):
    """A sum over the ranks along some axes of the mesh.

    Attributes:
        tensor: the tensor that is summed; for a backward pass, the one whose gradient is.
        axes: the mesh's axes, in its order.
        num_elements: of a rank's part of it.
    """

    tensor: str
    axes: tuple
    num_elements: int


@dataclass(frozen=True)
class Graph:
    """Tensors and steps.

    Attributes:
        tensors: name -> names of its dimensions.
        steps: in the order in which they run.
        data: tensors that need no gradient.
    """

    tensors: dict
    steps: tuple
    data: tuple = ()

    def dims(self, step):
        """All dimensions of a step, each once."""
        names = (*step.inputs, step.output)
        return tuple(dict.fromkeys(dim for name in names for dim in self.tensors[name]))

    def subscripts(self, step):
        """The step as ``np.einsum`` wants it: ``"ab,bc->ac"``."""
        letter = dict(zip(self.dims(step), "abcdefghijklmnop", strict=False))
        words = ["".join(letter[dim] for dim in self.tensors[name])
                 for name in (*step.inputs, step.output)]  # fmt: skip
        return ",".join(words[:-1]) + "->" + words[-1]

    def given(self):
        """The tensors that no step makes, in order."""
        made = {step.output for step in self.steps}
        return [name for name in self.tensors if name not in made]


def sent_bytes(reductions, mesh, itemsize):
    """Bytes that a rank sends for a list of ``AllReduce``, each done by a ring.

    A ring of p ranks sends ``2 (p - 1) / p`` times the part, on average over its ranks. p is the
    number of ranks that sum: 6 for both axes of a 2 x 3 mesh.
    """
    ranks = [prod(mesh[axis] for axis in each.axes) for each in reductions]
    return sum(
        2 * (p - 1) * each.num_elements * itemsize / p
        for p, each in zip(ranks, reductions, strict=True)
    )


def place(rank, mesh):
    """A rank's coordinates: axis -> number. Ranks run fastest along the last axis."""
    where = np.unravel_index(rank, tuple(mesh.values()))
    return {axis: int(at) for axis, at in zip(mesh, where, strict=True)}


def along(comm: MPI.Comm, mesh: dict[str, int], axes: tuple[str, ...]) -> MPI.Comm:
    """The communicator of the ranks that differ from this one along ``axes`` alone.

    All ranks of ``comm``, as many as the mesh has, call it together.
    """
    if comm.Get_size() != prod(mesh.values()):
        raise ValueError(f"{comm.Get_size()} ranks must be as many as the mesh {mesh} has.")
    here, color = place(comm.Get_rank(), mesh), 0
    for axis in mesh:
        if axis not in axes:
            color = color * mesh[axis] + here[axis]
    return comm.Split(color)


MLP = Graph(
    {
        "x": ("batch", "wide"), "w1": ("wide", "hidden"), "h": ("batch", "hidden"),
        "w2": ("hidden", "out"), "y": ("batch", "out"),
    },
    (Step("h", ("x", "w1")), Step("y", ("h", "w2"))),
    ("x",),
)  # fmt: skip
MLP_SIZES = {"batch": 8, "wide": 4, "hidden": 12, "out": 4}

# Queries and keys of one sequence, by heads: scores, then a mixture of values, then a projection.
ATTENTION = Graph(
    {
        "x": ("batch", "query", "wide"), "z": ("batch", "key", "wide"),
        "wq": ("wide", "head", "depth"), "wk": ("wide", "head", "depth"),
        "wo": ("wide", "head", "depth"),
        "q": ("batch", "query", "head", "depth"), "k": ("batch", "key", "head", "depth"),
        "scores": ("batch", "head", "query", "key"),
        "mixed": ("batch", "query", "head", "depth"), "y": ("batch", "query", "wide"),
    },
    (
        Step("q", ("x", "wq")), Step("k", ("z", "wk")), Step("scores", ("q", "k")),
        Step("mixed", ("scores", "k")), Step("y", ("mixed", "wo")),
    ),
    ("x", "z"),
)  # fmt: skip
ATTENTION_SIZES = {"batch": 4, "query": 6, "key": 8, "wide": 4, "head": 4, "depth": 2}

# A product of three tensors; the same in two steps, with a third one; a product with no dimension
# in common. The tests lay out these, too.
THREE = Graph(
    {"a": ("n", "i"), "b": ("i", "j"), "c": ("j", "k"), "u": ("n", "k")},
    (Step("u", ("a", "b", "c")),),
)
LONGER = Graph(
    {**THREE.tensors, "v": ("n", "k"), "s": ("n", "m"), "d": ("k", "m")},
    (*THREE.steps, Step("v", ("a", "b", "c")), Step("s", ("v", "d"))),
    ("a",),
)
APART = Graph({"a": ("i",), "b": ("j",), "s": ()}, (Step("s", ("a", "b")),))
LETTERS = {"n": 6, "i": 4, "j": 12, "k": 6, "m": 4}

GRAPHS = {
    "MLP": (MLP, MLP_SIZES),
    "WIDE_MLP": (MLP, {"batch": 20, "wide": 4, "hidden": 40, "out": 4}),
    "ATTENTION": (ATTENTION, ATTENTION_SIZES),
    "THREE": (THREE, LETTERS),
    "LONGER": (LONGER, LETTERS),
    "APART": (APART, {"i": 4, "j": 4}),
}
