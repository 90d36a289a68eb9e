"""Functions that call yours inside a rank, for the tests: supplied, nothing to write."""

from einsum_graph import AllReduce
from layout_cases import layout_graph

from ringside.checking import find

# -- layout ----------------------------------------------------------------------------------------


def layout_numbers(comm, target, calls):
    """Call a function of ``layout.py`` with each of a list of arguments.

    Returns:
        Per call the result, lists in place of tuples; or the type of an exception.
    """
    answers, function = [], find(target)
    for call in calls:
        if target.endswith(("forward", "backward")):
            told, *others = call
            given = (*layout_graph(told), *others)
        elif target.endswith("sent_bytes"):
            reductions, *others = call
            given = ([AllReduce(name, tuple(axes), n) for name, axes, n in reductions], *others)
        else:
            given = [tuple(each) if isinstance(each, list) else each for each in call]
        try:
            answers.append(layout_plain(function(*given)))
        except ValueError as error:
            answers.append(type(error).__name__)
    return answers


def layout_plain(value):
    """Lists in place of tuples, at any depth."""
    return [layout_plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def layout_executed(comm, told, layout, mesh, parts):
    """``layout.execute`` of a graph that is told by its name or in lists."""
    return find("layout:execute")(comm, layout_graph(told)[0], layout, mesh, parts)


def layout_kept(comm, told, layout, mesh, parts):
    """Two runs with arrays that can't be written to.

    Returns:
        Both results, after the second run.
    """
    for part in parts.values():
        part.flags.writeable = False
    return [layout_executed(comm, told, layout, mesh, parts) for _ in range(2)]
