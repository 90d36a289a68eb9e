"""Inputs for a function that is tried out: every rank its own, the same each time.

``ringside run ring.py:all_reduce --ranks 5 -- --n 11`` gives rank r the arguments
``(comm, vector(11, "float64", r, seed=0))``. Parameters are filled by their names::

    x                 vector(n, dtype, rank, seed)
    shard             this rank's part of the vector of rank 0, cut as numpy.array_split cuts
    n, dtype, seed    the vector's, as given after the --
    any other name    --name VALUE after the --, else the parameter's default

An assignment's functions get what its cases say (``ringside.checking.cases``).
"""

from __future__ import annotations

import argparse
import ast
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ringside.arrays import Array
from ringside.checking import case_files
from ringside.checking.assertions import cut, total
from ringside.checking.cases import Case
from ringside.errors import CodecError, NotPythonError, TargetError
from ringside.network import codec

FIRST = ("comm", "group")  # the ranks that take part: a communicator, or a process group
DTYPES = ("float64", "float32", "int64", "int16", "complex64")
SUMS = ("all_reduce", "recursive_doubling", "halving_doubling")  # functions that sum over ranks
# Where a name has a usual value, nobody needs to give it.
USUAL = {"num_chunks": 4}
# For functions that are not written as a plain `def` at the top of their file.
SIGNATURES = {"all_gather": ("shard", "n")}


def vector(n: int, dtype: str = "float64", rank: int = 0, seed: int = 0) -> Array:
    """Return rank ``rank``'s input of length ``n``.

    Whole numbers between -1000 and 1000, so that a sum is exact in any order and dtype.

    >>> vector(3, "int64", rank=0).tolist() == vector(3, "float32", rank=0).tolist()
    True
    >>> vector(3, rank=0).tolist() == vector(3, rank=1).tolist()
    False
    """
    drawn = np.random.default_rng([seed, rank]).integers(-1000, 1001, size=n)
    return drawn.astype(dtype)


@dataclass(frozen=True)
class Options:
    """What was asked for after ``--``."""

    n: int = 16
    dtype: str = "float64"
    seed: int = 0
    others: Mapping[str, Any] = field(default_factory=dict)


_TRIED: dict[str, tuple[Any, Any]] = {"n": (2, 3), "dtype": ("float64", "float32")}
_OWN = ("n", "dtype", "seed")  # options that have a value whether or not they are given


def parse_options(words: Sequence[str]) -> Options:
    """Read ``--n 11 --dtype float32 --seed 3 --num-chunks 4``.

    Raises:
        TargetError: a word that is no option, a length below 0 or a dtype that is not offered.
    """
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    parser.add_argument("--n", type=int, default=16)
    parser.add_argument("--dtype", choices=DTYPES, default="float64")
    parser.add_argument("--seed", type=int, default=0)
    try:
        options, rest = parser.parse_known_args(list(words))
    except argparse.ArgumentError as error:
        raise TargetError(f"after `--`: {error}") from None
    if options.n < 0:
        raise TargetError(f"after `--`: --n ({options.n}) must be at least 0.")
    return Options(options.n, options.dtype, options.seed, _pairs(rest))


def vectors(world_size: int, options: Options) -> list[Array]:
    """All ranks' vectors."""
    return [vector(options.n, options.dtype, rank, options.seed) for rank in range(world_size)]


def _pairs(words: Sequence[str]) -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        name, sign, text = word.partition("=")
        if not name.startswith("--") or not (sign or remaining):
            raise TargetError(f"after `--`: {word!r} is not of the form --name VALUE.")
        value = text if sign else remaining.pop(0)
        try:
            pairs[name[2:].replace("-", "_")] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            pairs[name[2:].replace("-", "_")] = value
    return pairs


def arguments(
    path: Path, function: str, world_size: int, options: Options
) -> list[tuple[Any, ...]]:
    """Return what each rank gets after ``comm``; the file is read, never executed.

    Raises:
        TargetError: the file has no such function, or a parameter has no value.
    """
    case = _case_with_arguments(path, function, world_size, options)
    return [
        _arguments(case, path, function, world_size, rank, options) for rank in range(world_size)
    ]


def arguments_of_rank(
    path: Path, function: str, world_size: int, rank: int, options: Options
) -> tuple[Any, ...]:
    """Return what one rank gets after ``comm``, without building the others' inputs."""
    case = _case_with_arguments(path, function, world_size, options)
    return _arguments(case, path, function, world_size, rank, options)


def _arguments(
    case: Case | None, path: Path, function: str, world_size: int, rank: int, options: Options
) -> tuple[Any, ...]:
    if case is not None:
        return tuple(case.inputs(rank))
    names = _given(path, function, options)
    return tuple(_value(name, path, function, world_size, rank, options) for name in names)


def depends(path: Path, function: str, name: str, options: Options) -> bool:
    """Whether a function's inputs depend on the option ``n`` or ``dtype``; tried on short ones."""
    tried: list[dict[str, Any]] = [{"n": 2, name: value} for value in _TRIED[name]]
    try:
        one, other = (
            codec.encode(arguments_of_rank(path, function, 2, 0, replace(options, **change)))
            for change in tried
        )
    except (TargetError, CodecError):  # not made for such short ones
        return True
    return one != other


def case_of(path: Path, function: str, world_size: int, options: Options) -> Case | None:
    """The assignment's case of a function, with these options; None: there are no such cases."""
    kind = case_files.kind_of(path, function)
    if kind is None:
        return None
    usual = {"n": options.n, "dtype": options.dtype, "seed": options.seed}
    return case_files.case(kind, world_size, options.others, **usual)


def _case_with_arguments(
    path: Path, function: str, world_size: int, options: Options
) -> Case | None:
    """``case_of``; what a supplied function makes of a case can't be given from here."""
    _definition(path, function)  # the file has it
    case = case_of(path, function, world_size, options)
    if case is not None and case.through:
        raise TargetError(
            f"{path.name}: {_shown(path, function)} is called by {case.through}, on each rank: "
            "`ringside run` can do that, a job can't."
        )
    return case


def _given(path: Path, function: str, options: Options) -> list[str]:
    """The parameters that get a value: those without a default, and all before one asked for."""
    names = parameters(path, function)
    unknown = sorted(set(options.others) - {name for name, _ in names})
    if unknown:
        all_names = ", ".join(name for name, _ in names) or "none"
        raise TargetError(
            f"{function} has no parameter {unknown[0]!r}; its parameters are: {all_names}."
        )
    option_names = {*options.others}
    option_names |= {name for name in _OWN if getattr(options, name) != getattr(Options, name)}
    indices = [index for index, (name, _) in enumerate(names) if name in option_names]
    last = max(indices, default=-1)
    return [name for index, (name, default) in enumerate(names) if index <= last or not default]


def _value(
    name: str, path: Path, function: str, world_size: int, rank: int, options: Options
) -> Any:
    if name in options.others:
        return options.others[name]
    if name == "x":
        return vector(options.n, options.dtype, rank, options.seed)
    if name == "shard":
        whole = vectors(world_size, options)[0]
        return np.array_split(whole, world_size)[rank].copy()
    if name in _OWN:
        return getattr(options, name)
    default = dict(_signature(path, function) or ()).get(name)
    if default is not None:
        with contextlib.suppress(ValueError):
            return ast.literal_eval(default)
    if name in USUAL:
        return USUAL[name]
    raise TargetError(f"{function} needs a value for {name!r}: add `-- --{name} VALUE`.")


def parameters(path: Path, function: str) -> list[tuple[str, bool]]:
    """Return name and "has a default" of each parameter after ``comm`` or ``group``.

    Raises:
        TargetError: the file is missing, has no such function, or the function's first
            parameter is neither ``comm`` nor ``group``.
        NotPythonError: Python can't read the file.
    """
    listed = _signature(path, function)
    if listed is None:
        return [(name, False) for name in SIGNATURES.get(function, ("x",))]
    if not listed or listed[0][0] not in FIRST:
        raise TargetError(
            f"{_shown(path, function)} can't be run on ranks: its first parameter must be comm, or "
            "group for a function of torch.distributed."
        )
    return [(name, default is not None) for name, default in listed[1:]]


def _signature(path: Path, function: str) -> list[tuple[str, ast.expr | None]] | None:
    """Each parameter and its default as it is written, if any; None for a name without a def."""
    definition = _definition(path, function)
    return None if definition is None else _parameters(definition)


def _parameters(definition: ast.FunctionDef) -> list[tuple[str, ast.expr | None]]:
    listed = [item.arg for item in [*definition.args.posonlyargs, *definition.args.args]]
    defaults = definition.args.defaults
    without: list[ast.expr | None] = [None] * (len(listed) - len(defaults))
    return list(zip(listed, [*without, *defaults], strict=True))


def _shown(path: Path, function: str) -> str:
    """A function with its parameters' names, as ``all_reduce(comm, x)``."""
    return f"{function}({', '.join(name for name, _ in _signature(path, function) or ())})"


def takes_group(path: Path, function: str) -> bool:
    """Tell whether a function is one of torch.distributed, which may work in place."""
    return any(name == "group" for name, _ in (_signature(path, function) or ())[:1])


def functions(path: Path) -> list[str]:
    """Names of a file's functions whose first parameter is ``comm``; the file is only read."""
    return [
        node.name
        for node in ast.parse(path.read_bytes()).body
        if isinstance(node, ast.FunctionDef)
        and any(name in FIRST for name, _ in _parameters(node)[:1])
    ]


def only_defines(path: Path) -> bool:
    """Whether a file, run as a script, does nothing but define functions and names."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    return all(
        isinstance(node, kinds)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or (
            isinstance(node, ast.Assign | ast.AnnAssign)
            and not any(isinstance(part, ast.Call | ast.Await) for part in ast.walk(node))
        )
        for node in parsed(path).body
    )


def parsed(path: Path) -> ast.Module:
    """Return a file's syntax tree; nothing of it is executed.

    Raises:
        TargetError: the file can't be read.
        NotPythonError: Python can't read it.
    """
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except OSError as error:
        raise TargetError(f"{path}: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise NotPythonError(path.name, error) from None


def _definition(path: Path, function: str) -> ast.FunctionDef | None:
    """The function's ``def``, or None where the name is bound in another way."""
    tree = parsed(path)
    bound = False
    names = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            names.append(node.name)
            if node.name == function:
                return node
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.ImportFrom | ast.Import):
            bound |= any(_binds(part, function) for part in ast.walk(node))
    if bound:
        return None
    listed = f"; it has {', '.join(names)}" if names else ""
    raise TargetError(f"{path.name} has no function {function!r}{listed}.")


def _binds(part: ast.AST, name: str) -> bool:
    """Whether a part of an assignment or an import gives something this name."""
    if isinstance(part, ast.alias):
        return name == (part.asname or part.name)
    return isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Store)


def expected(function: str, world_size: int, rank: int, options: Options) -> Any:
    """What a rank should get from a collective of this name; None for other names."""
    if function not in SUMS and function not in ("all_gather", "reduce_scatter"):
        return None
    rank_inputs = vectors(world_size, options)
    whole = rank_inputs[0] if function == "all_gather" else total(rank_inputs)
    return np.array_split(whole, world_size)[rank] if function == "reduce_scatter" else whole


def is_right(
    value: Any, function: str, world_size: int, rank: int, options: Options, path: Path
) -> bool | None:
    """Whether a rank's result is what the function's case says, or its name; None: nobody does."""
    case = case_of(path, function, world_size, options)
    if case is not None:
        return _close(value, case.right()[rank])
    truth = expected(function, world_size, rank, options)
    return None if truth is None else matches(value, truth)


def parts(function: str, world_size: int, rank: int, options: Options) -> list[Array]:
    """What each rank adds to a collective's result on this rank; nothing where it is no sum."""
    if function not in SUMS and function != "reduce_scatter":
        return []
    rank_inputs = vectors(world_size, options)
    if function != "reduce_scatter":
        return rank_inputs
    return [np.array_split(array, world_size)[rank] for array in rank_inputs]


def matches(value: Any, wanted: Any) -> bool:
    """Whether a rank's result has the wanted dtype, shape and, inputs being whole, every bit.

    In a tuple, list or dict, and for a number, what rounds may differ in its last digits.
    """
    if isinstance(wanted, np.ndarray):
        return _same_kind(value, wanted) and np.array_equal(value, wanted)
    return _close(value, wanted)


def _close(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        alike = isinstance(value, dict) and value.keys() == wanted.keys()
        return alike and all(_close(value[name], wanted[name]) for name in wanted)
    if isinstance(wanted, tuple | list):
        alike = isinstance(value, tuple | list) and len(value) == len(wanted)
        return alike and all(_close(v, w) for v, w in zip(value, wanted, strict=True))
    if isinstance(wanted, np.ndarray):
        if wanted.dtype.kind != "f":
            return matches(value, wanted)
        tolerance = 1e4 * float(np.finfo(wanted.dtype).eps)
        return _same_kind(value, wanted) and np.allclose(value, wanted, tolerance, tolerance)
    if isinstance(wanted, float):
        return bool(np.isscalar(value) or np.ndim(value) == 0) and bool(np.isclose(value, wanted))
    return bool(value == wanted)


def _same_kind(value: Any, wanted: Array) -> bool:
    return (
        isinstance(value, np.ndarray)
        and value.dtype == wanted.dtype
        and value.shape == wanted.shape
    )


def short(value: Any) -> str:
    """A value for a sentence."""
    if isinstance(value, np.ndarray):
        text = np.array2string(value, threshold=8, edgeitems=3, separator=", ")
        return f"{' '.join(text.split())} ({value.dtype}, shape {value.shape})"
    return cut(repr(value), 100)
