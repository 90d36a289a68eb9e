"""Calls of ``layout.py`` as the tests make them, and their checks: supplied, nothing to write."""

import json
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from einsum_graph import ATTENTION, ATTENTION_SIZES, MLP, MLP_SIZES, Graph, Step, place

from ringside.checking import Call, Verdict, assert_array, assert_ran, one_line
from ringside.checking.formulas import evaluated
from ringside.checking.ring_bytes import sent_as_ring

GRAPHS = {"MLP": (MLP, MLP_SIZES), "ATTENTION": (ATTENTION, ATTENTION_SIZES)}


def layout_graph(told):
    """A graph by its name, or as plain lists: tensors, steps, data; and its sizes."""
    if isinstance(told, str):
        return GRAPHS[told]
    tensors, steps, data, sizes = told
    steps = tuple(Step(output, tuple(inputs)) for output, inputs in steps)
    named = {name: tuple(dims) for name, dims in tensors.items()}
    return Graph(named, steps, tuple(data)), dict(sizes)


def layout_told(graph, sizes):
    """A graph as plain lists."""
    tensors = {name: list(dims) for name, dims in graph.tensors.items()}
    return [tensors, [[s.output, list(s.inputs)] for s in graph.steps], list(graph.data), sizes]


def layout_words(function):
    """How a sentence names a call, and the line that makes it."""
    head = "from layout import *; from einsum_graph import *"

    def words_of(call):
        if function in ("forward", "backward"):
            told, layout, mesh = call
            if isinstance(told, str):
                words = f"{function}({told}, {told}_SIZES, {layout}, {mesh})"
            else:
                graph, sizes = layout_graph(told)
                words = f"{function}({graph}, {sizes}, {layout}, {mesh})"
        else:
            words = f"{function}({', '.join(map(repr, call))})"
        return words, f'python -c "{head}; print({words})"'

    return words_of


def layout_ask(ranks, function, calls):
    """What the student's function gives; errors by their type."""
    given = [list(call) for call in calls]
    return evaluated(
        ranks, "callers:layout_numbers", f"layout:{function}", given, layout_words(function)
    )


def layout_check(ranks, function, calls, rights):
    """Every answer is the right one."""
    calls = list(calls)
    for call, value, right in zip(calls, layout_ask(ranks, function, calls), rights, strict=True):
        value = tuple(value) if function == "local_shape" and isinstance(value, list) else value
        if isinstance(right, float):
            same = isinstance(value, (int, float)) and abs(value - right) <= 1e-9 * abs(right)
        else:
            same = value == right
        if not same:
            words, line = layout_words(function)(call)
            wants = "raise ValueError" if right == "ValueError" else f"be {right!r}"
            said = one_line(repr(value), 200)
            raise Verdict(f"{words} gives {said}; it must {wants}.", reproduce=line)


@dataclass(frozen=True)
class LayoutCase(Call):
    """A run of ``layout.execute``; its tensors are drawn from the seed in its line."""

    told: object = "MLP"
    layout: dict = None
    mesh: dict = None
    seed: int = 0

    def via(self, function, about=""):
        """The same by way of another function of ``callers.py``."""
        line = self.line.replace("callers.py:layout_executed", f"callers.py:{function}", 1)
        return replace(self, line=line, about=self.about + about)

    @property
    def graph(self):
        """The graph."""
        return layout_graph(self.told)[0]

    def whole(self, change=np.asarray):
        """All tensors, given and made, as one process has them; the given ones may be changed."""
        graph, sizes = layout_graph(self.told)
        rng, known = np.random.default_rng(self.seed), {}
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
        for axis_of_array, dim in enumerate(self.graph.tensors[name]):
            if dim in self.layout:
                axis = self.layout[dim]
                whole = np.split(whole, self.mesh[axis], axis_of_array)[here[axis]]
        return np.ascontiguousarray(whole)

    def arguments_of_ranks(self):
        """What ``layout_executed`` of ``callers.py`` gets on each rank after ``comm``."""
        whole = self.whole()
        names = self.graph.given()
        return [
            (self.told, self.layout, self.mesh,
             {name: self.part(name, whole[name], rank) for name in names})
            for rank in range(self.world_size)
        ]  # fmt: skip

    def check(self, rank, value):
        """What came back on a rank is right."""
        made = [step.output for step in self.graph.steps]
        if not isinstance(value, dict) or sorted(value) != sorted(made):
            said = sorted(value) if isinstance(value, dict) else type(value).__name__
            raise self.fail(f"Rank {rank}: the result must map {made} to arrays; it has {said}.")
        whole, scales = self.whole(), self.whole(np.abs)  # rounding grows with what is summed
        for name in made:
            right, scale = (self.part(name, each[name], rank) for each in (whole, scales))
            assert_array(value[name], right, scale, self, f"{name} on rank {rank}")


def layout_case(told, layout, mesh, seed=0, dtype="float64"):
    """A run on a mesh of ranks."""
    world_size = prod(mesh.values())
    words = " ".join(
        f"--{key} '{json.dumps(value)}'"
        for key, value in (("graph", told), ("layout", layout), ("mesh", mesh))
        if not (key == "graph" and value == "MLP")
    )
    line = f"ringside run callers.py:layout_executed --ranks {world_size} -- {words} --seed {seed}"
    line += f" --dtype {dtype}" if dtype != "float64" else ""
    named = told if isinstance(told, str) else "a graph"
    return LayoutCase(
        "layout:execute", world_size, 0, dtype, line=line,
        about=f"{named}, layout {layout} on the mesh {mesh}",
        told=told, layout=layout, mesh=mesh, seed=seed,
    )  # fmt: skip


def layout_ran(ranks, case, **options):
    """Run a case; every rank's parts are right."""
    arguments = case.arguments_of_ranks()
    world_size = options.pop("world_size", case.world_size)
    result = ranks.call("callers:layout_executed", world_size, arguments, **options)
    assert_ran(result, case)
    for rank, value in enumerate(result.values):
        case.check(rank, value)
    return result


def layout_counted(ranks, case, nbytes, **options):
    """As ``layout_ran``, and all ranks together have sent so many bytes, as rings do."""
    result = layout_ran(ranks, case, **options)
    assert_layout_bytes(result, case.asking(f"layout_bytes={round(nbytes)}"), nbytes)
    return result


def assert_layout_bytes(result, case, nbytes):
    """All ranks together have sent so many bytes, where an all-reduce counts as a ring's."""
    sent = sum(sent_as_ring(result))
    if round(sent) != round(nbytes):
        raise case.fail(
            f"all ranks together send {sent:,.0f} bytes, where an all-reduce counts as a "
            f"ring's; the layout needs {nbytes:,.0f}."
        )
