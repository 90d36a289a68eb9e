"""The all-reduce is a ring of the submission's own messages."""

from math import prod

import numpy as np
from einsum_graph import AllReduce, along


def local_shape(dims, sizes, layout, mesh):
    used, shape = [], []
    for dim in dims:
        axis = layout.get(dim)
        if axis is not None and (axis not in mesh or axis in used or sizes[dim] % mesh[axis]):
            raise ValueError(f"{dim} of {dims} can't lie on {axis}.")
        used += [axis] if axis is not None else []
        shape.append(sizes[dim] // mesh.get(axis, 1))
    return tuple(shape)


def _sums(graph, step, name, sizes, layout, mesh):
    local_shape(graph.dims(step), sizes, layout, mesh)
    missing = [layout.get(d) for d in graph.dims(step) if d not in graph.tensors[name]]
    axes = tuple(filter(lambda a: a in missing and mesh[a] > 1, mesh))
    shape = local_shape(graph.tensors[name], sizes, layout, mesh)
    return [AllReduce(name, axes, prod(shape))] if axes else []


def forward(graph, sizes, layout, mesh):
    return sum((_sums(graph, s, s.output, sizes, layout, mesh) for s in graph.steps), [])


def backward(graph, sizes, layout, mesh):
    for step in graph.steps:
        local_shape(graph.dims(step), sizes, layout, mesh)
    pairs = [(s, n) for s in reversed(graph.steps) for n in s.inputs if n not in graph.data]
    return sum((_sums(graph, s, n, sizes, layout, mesh) for s, n in pairs), [])


def ring(comm, y):
    p, r = comm.Get_size(), comm.Get_rank()
    flat = np.array(y).reshape(-1)
    cut = np.linspace(0, flat.size, p + 1).astype(int)
    for phase in range(2):
        for step in range(p - 1):
            out, into = (r - step + phase) % p, (r - step - 1 + phase) % p
            came = np.empty(cut[into + 1] - cut[into], flat.dtype)
            sent = flat[cut[out] : cut[out + 1]].copy()
            comm.Sendrecv(sent, (r + 1) % p, recvbuf=came, source=(r - 1) % p)
            here = flat[cut[into] : cut[into + 1]]
            here[...] = came + here if phase == 0 else came
    return flat.reshape(np.shape(y))


def execute(comm, graph, layout, mesh, parts):
    known = {**parts}
    for step in graph.steps:
        y = np.einsum(graph.subscripts(step), *[known[n] for n in step.inputs])
        inside = {layout.get(d) for d in graph.tensors[step.output]}
        over = {layout.get(d) for d in graph.dims(step)} - inside - {None}
        known[step.output] = ring(along(comm, mesh, over), y) if over else y
    return {name: known[name] for name in known if name not in parts}


def collective(source, target):
    if source == target:
        return ""
    match source[0], target[0]:
        case "P", "R":
            return "all-reduce"
        case "P", "S":
            return "reduce-scatter"
        case "S", "R":
            return "all-gather"
        case "S", "S":
            return "all-to-all"
        case "R", "S":
            return ""
    raise ValueError(f"no program needs {source} as {target}")
