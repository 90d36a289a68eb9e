r"""Layouts (extra): name the dimensions, lay them on a mesh of ranks, and the messages follow.

A *mesh* gives ranks coordinates along named axes. A *layout* says which dimensions are cut, and
along which axis. Here are six ranks and the product ``y[batch, hidden] = x[batch, wide]
w[wide, hidden]``:

    mesh {"rows": 2, "columns": 3}          layout {"batch": "rows", "hidden": "columns"}

    rank 0  1  2        x: batch cut in 2, the same on all columns
         3  4  5        w: hidden cut in 3, the same on all rows;  y: cut in 6, and nothing is sent

With ``{"wide": "columns"}`` each column has a third of the summands instead, so y is summed over
the columns by an all-reduce. Rank numbers run fastest along the last axis. Data, tensor and expert
parallelism are layouts of the same program, and no line of the program changes.

``graph``, ``Step``, ``AllReduce`` and ``along`` are those of ``given/einsum_graph.py``. ``sizes``
gives each dimension's length in the whole tensor; ``layout`` maps some of the dimensions to axes;
``mesh`` maps axes to how many ranks they have, in order.

Source: Shazeer et al. 2018, "Mesh-TensorFlow: deep learning for supercomputers"; for placements
the documentation of torch's DTensor.
"""

from math import prod

import numpy as np
from given.einsum_graph import AllReduce, Graph, along
from mpi4py import MPI


def local_shape(
    dims: tuple[str, ...], sizes: dict[str, int], layout: dict[str, str], mesh: dict[str, int]
) -> tuple[int, ...]:
    """A rank's part of a tensor, or of all dimensions of a step: its shape, a tuple.

    Raises:
        ValueError: two of ``dims`` lie on one axis, so that most of the tensor would be nowhere;
            an axis isn't in the mesh; or a dimension's length isn't a multiple of its axis.
    """
    ### BEGIN SOLUTION
    axes = [layout[dim] for dim in dims if dim in layout]
    for axis in axes:
        if axis not in mesh:
            raise ValueError(f"axis {axis!r} must be one of the mesh's: {', '.join(mesh)}.")
        if axes.count(axis) > 1:
            raise ValueError(f"axis {axis!r} cuts two of {dims}: lay one of them elsewhere.")
    for dim in dims:
        if dim in layout and sizes[dim] % mesh[layout[dim]]:
            raise ValueError(
                f"{dim} ({sizes[dim]}) must be a multiple of its axis {layout[dim]!r} "
                f"({mesh[layout[dim]]} ranks)."
            )
    return tuple(sizes[dim] // mesh[layout[dim]] if dim in layout else sizes[dim] for dim in dims)
    ### END SOLUTION


def forward(
    graph: Graph, sizes: dict[str, int], layout: dict[str, str], mesh: dict[str, int]
) -> list[AllReduce]:
    """The forward pass's all-reduces, a list of ``AllReduce`` in the order of the steps.

    A rank multiplies its parts. Where a dimension that a step sums over is cut, the product is a
    rank's share of the sum. An all-reduce along the axes of all such dimensions, in the mesh's
    order, completes it at once. An axis with one rank needs none.

    Example: ``MLP`` with ``MLP_SIZES`` on ``{"all": 4}``. ``{"hidden": "all"}`` gives
    ``[AllReduce("y", ("all",), 32)]``: y has 8 x 4 elements on each rank.

    Raises:
        ValueError: as ``local_shape``, of any tensor, or of all dimensions of a step together.
            For instance two dimensions on one axis that meet in a step, though no tensor has both.
    """
    ### BEGIN SOLUTION
    found = [_reduction(graph, step, step.output, sizes, layout, mesh) for step in graph.steps]
    return [each for each in found if each.axes]


def _reduction(graph, step, result, sizes, layout, mesh):
    """The sum that completes one of a step's tensors when it is computed from the others."""
    dims = graph.dims(step)
    local_shape(dims, sizes, layout, mesh)
    summed = {layout.get(dim) for dim in dims if dim not in graph.tensors[result]}
    axes = tuple(axis for axis in mesh if axis in summed and mesh[axis] > 1)
    return AllReduce(result, axes, prod(local_shape(graph.tensors[result], sizes, layout, mesh)))
    ### END SOLUTION


def backward(
    graph: Graph, sizes: dict[str, int], layout: dict[str, str], mesh: dict[str, int]
) -> list[AllReduce]:
    """The backward pass's all-reduces: steps in reverse, and each step's inputs in their order.

    An input's gradient is an einsum, too: of the output's gradient and the other inputs. What has
    no gradient (``graph.data``) is left out. A tensor that goes into two steps is summed in each.

    Example: as above, ``{"batch": "all"}`` gives ``[AllReduce("w2", ("all",), 48),
    AllReduce("w1", ("all",), 48)]``: data parallelism.

    Raises:
        ValueError: as ``forward``.
    """
    ### BEGIN SOLUTION
    found = [
        _reduction(graph, step, name, sizes, layout, mesh)
        for step in reversed(graph.steps)
        for name in step.inputs
        if name not in graph.data
    ]
    return [each for each in found if each.axes]
    ### END SOLUTION


def execute(
    comm: MPI.Comm,
    graph: Graph,
    layout: dict[str, str],
    mesh: dict[str, int],
    parts: dict[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """Run the forward pass on a mesh of ranks.

    Args:
        comm: as many ranks as the mesh has.
        parts: name -> this rank's part of each tensor that no step makes; not modified.

    Returns:
        Name -> this rank's part of each tensor that a step makes, complete.

    - Messages: the all-reduces that ``forward`` lists, of exactly these elements, by the library's
      ``Allreduce`` (upper case: no pickle) on ``along(comm, mesh, axes)``. A sum over two axes is
      one all-reduce.
    """
    ### BEGIN SOLUTION
    known = dict(parts)
    for step in graph.steps:
        y = np.einsum(graph.subscripts(step), *(known[name] for name in step.inputs))
        summed = {layout.get(dim) for dim in graph.dims(step)}
        summed -= {layout.get(dim) for dim in graph.tensors[step.output]}
        if prod(mesh[axis] for axis in mesh if axis in summed) > 1:
            share, y = np.ascontiguousarray(y), np.empty(y.shape, y.dtype)
            along(comm, mesh, summed).Allreduce(share, y)
        known[step.output] = y
    return {step.output: known[step.output] for step in graph.steps}
    ### END SOLUTION


def collective(source, target) -> str:
    """The collective that turns one placement of a tensor along an axis into another one.

    A placement is ``"R"`` (replicated: each rank has all of it), ``"P"`` (partial: the tensor is
    the sum of what the ranks have) or ``"S(0)"``, ``"S(1)"``, ... (that dimension is cut).

    Returns:
        ``"all-gather"``, ``"all-reduce"``, ``"reduce-scatter"``, ``"all-to-all"``, or ``""`` if
        each rank has what it needs.

    Raises:
        ValueError: ``target`` is partial and ``source`` is not: no program needs that.
    """
    ### BEGIN SOLUTION
    if source == target:
        return ""
    if target == "P":
        raise ValueError(f"nothing is made partial: keep it {source!r}.")
    if source == "P":
        return "all-reduce" if target == "R" else "reduce-scatter"
    if source == "R":
        return ""
    return "all-gather" if target == "R" else "all-to-all"
    ### END SOLUTION
