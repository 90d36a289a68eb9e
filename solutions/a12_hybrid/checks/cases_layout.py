"""The calls of layout.py that the tests make, and what must come of them."""

from dataclasses import dataclass, field

import numpy as np
from given.einsum_graph import GRAPHS, MLP_SIZES, place

from ringside.checking import assert_array, assert_ran
from ringside.checking.cases import Case, Formula, brief

BOTH = {"batch": "rows", "hidden": "columns"}
ALL, GRID = {"all": 4}, {"rows": 2, "columns": 3}


@dataclass(frozen=True)
class LocalShape(Formula):
    """A rank's part of a tensor with some dimensions of ``MLP``."""

    target = "layout:local_shape"
    dims: tuple = ("batch", "hidden")
    layout: dict = field(default_factory=lambda: dict(BOTH))
    mesh: dict = field(default_factory=lambda: dict(GRID))

    def arguments(self):
        return self.dims, dict(MLP_SIZES), dict(self.layout), dict(self.mesh)


@dataclass(frozen=True)
class Pass(Formula):
    """The all-reduces of a pass; ``gives`` lists ``(tensor, axes, elements)``.

    Attributes:
        graph: a name in ``GRAPHS`` of ``given/einsum_graph.py``.
    """

    caller = "checks/inside.py:layout_calls"
    graph: str = "MLP"
    layout: dict = field(default_factory=lambda: {"batch": "all"})
    mesh: dict = field(default_factory=lambda: dict(ALL))

    def __str__(self):
        return f"{self.function} of {self.graph}, {self.layout}, {self.mesh}"


@dataclass(frozen=True)
class Forward(Pass):
    """Those of the forward pass."""

    target = "layout:forward"


@dataclass(frozen=True)
class Backward(Pass):
    """Those of the backward pass."""

    target = "layout:backward"


@dataclass(frozen=True)
class Collective(Formula):
    """What turns a placement into another one."""

    target = "layout:collective"
    source: str = "R"
    to: str = "R"


@dataclass(frozen=True)
class Execute(Case):
    """A run on the mesh.

    Attributes:
        graph: a name in ``GRAPHS``.
        sends: bytes that all ranks together must send, an all-reduce counted as a ring's; -1: any.
    """

    target = "layout:execute"
    through = "checks/inside.py:executed"
    p: int = 4
    graph: str = "MLP"
    layout: dict = field(default_factory=lambda: {"hidden": "all"})
    mesh: dict = field(default_factory=lambda: dict(ALL))
    dtype: str = "float64"
    sends: int = -1
    machine: str = field(default="buffered", kw_only=True)

    def whole(self, change=np.asarray):
        """All tensors, given and made, as one process has them; the given ones may be changed."""
        (graph, sizes), rng, known = GRAPHS[self.graph], self.rng(), {}
        for name in graph.given():
            drawn = rng.standard_normal([sizes[dim] for dim in graph.tensors[name]])
            known[name] = change(drawn.astype(self.dtype))
        for step in graph.steps:
            inputs = [known[name] for name in step.inputs]
            known[step.output] = np.einsum(graph.subscripts(step), *inputs)
        return known

    def part(self, name, whole, rank):
        """A rank's part of a tensor."""
        here = place(rank, self.mesh)
        for axis_of_array, dim in enumerate(GRAPHS[self.graph][0].tensors[name]):
            if dim in self.layout:
                axis = self.layout[dim]
                whole = np.split(whole, self.mesh[axis], axis_of_array)[here[axis]]
        return np.ascontiguousarray(whole)

    def inputs(self, rank):
        whole = self.whole()
        parts = [self.part(name, whole[name], rank) for name in GRAPHS[self.graph][0].given()]
        return self.graph, dict(self.layout), dict(self.mesh), parts

    def check(self, run):
        assert_ran(run, self)
        made = sorted(step.output for step in GRAPHS[self.graph][0].steps)
        whole, scales = self.whole(), self.whole(np.abs)  # rounding grows with what is summed
        for rank, value in enumerate(run.values):
            if not isinstance(value, dict) or sorted(value) != made:
                names = sorted(value) if isinstance(value, dict) else brief(value)
                raise self.fail(
                    f"rank {rank}: the result must map {made} to arrays; it has {names}."
                )
            for name in made:
                right, scale = (self.part(name, each[name], rank) for each in (whole, scales))
                assert_array(value[name], right, scale, self, f"{name} on rank {rank}")

    @property
    def told(self):
        return f"{self.graph}, layout {self.layout} on the mesh {self.mesh}"
