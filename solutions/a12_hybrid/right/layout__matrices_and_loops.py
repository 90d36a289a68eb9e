"""Written with loops, sets of axes for each dimension, and tensordot's own way to sum."""

import numpy as np
from einsum_graph import AllReduce, place


def axes_of(dims, layout, mesh):
    cut = [layout[d] for d in dims if d in layout]
    if len(cut) != len(set(cut)) or set(cut) - set(mesh):
        raise ValueError(f"{dims} can't be laid out by {layout} on {mesh}.")
    return set(cut)


def local_shape(dims, sizes, layout, mesh):
    axes_of(dims, layout, mesh)
    shape = []
    for d in dims:
        parts = mesh[layout[d]] if d in layout else 1
        length, rest = divmod(sizes[d], parts)
        if rest:
            raise ValueError(f"{d}: {sizes[d]} isn't a multiple of {parts}.")
        shape.append(length)
    return tuple(shape)


def one(graph, step, name, sizes, layout, mesh):
    every = graph.dims(step)
    local_shape(every, sizes, layout, mesh)
    over = axes_of(every, layout, mesh) - axes_of(graph.tensors[name], layout, mesh)
    over = tuple(a for a in mesh if a in over and mesh[a] != 1)
    n = 1
    for length in local_shape(graph.tensors[name], sizes, layout, mesh):
        n *= length
    if over:
        yield AllReduce(name, over, n)


def forward(graph, sizes, layout, mesh):
    found = []
    for step in graph.steps:
        found += one(graph, step, step.output, sizes, layout, mesh)
    return found


def backward(graph, sizes, layout, mesh):
    found = []
    for step in graph.steps[::-1]:
        for name in step.inputs:
            made = list(one(graph, step, name, sizes, layout, mesh))
            found += made if name not in graph.data else []
    return found


def execute(comm, graph, layout, mesh, parts):
    here, made, groups = place(comm.rank, mesh), {}, {}
    for step in graph.steps:
        arrays = [made[n] if n in made else parts[n] for n in step.inputs]
        y = np.array(np.einsum(graph.subscripts(step), *arrays), order="C")
        over = axes_of(graph.dims(step), layout, mesh)
        over = frozenset(over - axes_of(graph.tensors[step.output], layout, mesh))
        if any(mesh[a] > 1 for a in over):
            if over not in groups:
                color = hash(tuple(here[a] for a in mesh if a not in over)) % 2**30
                groups[over] = comm.Split(color, comm.rank)
            from mpi4py import MPI

            groups[over].Allreduce(MPI.IN_PLACE, y)
        made[step.output] = y
    return made


def collective(source, target):
    if target == "P" and source != "P":
        raise ValueError("nothing becomes partial")
    table = {"PR": "all-reduce", "PS": "reduce-scatter", "SR": "all-gather", "SS": "all-to-all"}
    return "" if source == target else table.get(source[0] + target[0], "")
