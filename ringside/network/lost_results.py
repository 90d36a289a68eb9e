"""Results of calls that a program has lost, told beside the error that this leads to.

A lower-case call returns what it brings, an upper-case one fills a buffer and returns None, and at
most ranks reduce and gather return None. So the name on a failing line is looked up in the lines
before it::

    comm.bcast(params)         nothing takes what bcast returns
    w = comm.Bcast(w)          nothing is returned that w could take
    rows = comm.gather(row)    None at all ranks but the root
    value = comm.irecv()       a request
    total = dist.all_reduce(t) nothing is returned: the result is in t
"""

from __future__ import annotations

import ast
import linecache
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import NamedTuple

_RETURN = frozenset({
    "bcast", "scatter", "gather", "allgather", "alltoall", "reduce", "allreduce", "scan", "exscan",
    "sendrecv",
})  # fmt: skip
_FILL = frozenset({
    "Bcast", "Scatter", "Scatterv", "Gather", "Gatherv", "Allgather", "Allgatherv", "Alltoall",
    "Alltoallv", "Reduce", "Allreduce", "Reduce_scatter", "Scan", "Exscan", "Recv", "Sendrecv",
})  # fmt: skip
_TORCH = ("dist", "torch.distributed")
_ELSEWHERE_NONE = {
    "reduce": "at all ranks but the root: use it under `if rank == root:`, or call allreduce",
    "gather": "at all ranks but the root: use it under `if rank == root:`, or call allgather",
    "exscan": "at rank 0, which has no rank before it",
    **dict.fromkeys(
        ("recv", "sendrecv"), "where None was sent, and from PROC_NULL, as at the edge of a grid"
    ),
}
_BEGIN = {
    "irecv": "What has come is what `{}.wait()` returns",
    "Irecv": "Call `{}.Wait()`, and read the buffer that it was given",
}


def cure(error: BaseException, folder: str) -> str:
    """What to do about a result that was lost before the line that an error comes from; or "".

    Args:
        folder: where the student's files lie.
    """
    if not isinstance(error, (TypeError, AttributeError, LookupError, ValueError)):
        return ""
    place = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename.startswith(folder.rstrip("/") + "/"):
            place = frame, line
    if place is None:
        return ""
    frame, line = place
    text = "".join(linecache.getlines(frame.f_code.co_filename))
    if "mpi4py" not in text and "torch.distributed" not in text:
        return ""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ""
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.lineno == line}
    for call in sorted(_calls(tree), key=lambda call: -call.line):
        sentence = _sentence(call, names, frame) if call.line < line else ""
        if sentence:
            return f"Line {call.line}: {sentence}"
    return ""


class _Call(NamedTuple):
    """A statement that calls a method: ``taken = owner.method(given)``."""

    line: int
    owner: str
    taken: str | None  # None: nothing takes the result
    method: str
    given: str


def _calls(tree: ast.Module) -> Iterator[_Call]:
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Assign, ast.Expr)):
            continue
        value = node.value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            taken = _name(node.targets[0]) if isinstance(node, ast.Assign) else None
            given = _name(value.args[0]) if value.args else ""
            owner = ast.unparse(value.func.value)
            yield _Call(node.lineno, owner, taken, value.func.attr, given)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _sentence(call: _Call, names: set[str], frame: FrameType) -> str:
    method, taken, given = call.method, call.taken, call.given
    if taken is None:
        if method not in _RETURN or given not in names:
            return ""
        return (
            f"{method} returns its result and leaves what it is given as it was. Write "
            f"`{given} = comm.{method}({given}, ...)`."
        )
    if taken not in names:
        return ""
    value = frame.f_locals.get(taken, frame.f_globals.get(taken))
    if value is None and call.owner in _TORCH:
        return (
            f"{call.owner}.{method} returns None: its result is in the tensor that it is given. "
            "With async_op=True it returns a work to wait for."
        )
    if value is None and method in _FILL:
        return f"{method} returns None. It fills the array that it is given: leave out `{taken} =`."
    if value is None and method in _ELSEWHERE_NONE:
        return f"{method} returns None {_ELSEWHERE_NONE[method]}."
    if method in _BEGIN and type(value).__name__ == "Request":
        return f"{method} returns a request. {_BEGIN[method].format(taken)}."
    return ""
