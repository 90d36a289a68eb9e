"""Library collectives: what the members must agree on, and what each of them gets.

The network computes predefined reductions itself; for a user's operation it hands out the
contributions and every member reduces them.

NumPy has no bfloat16. Such elements come as their 16 bits (uint16), with an operation whose name
begins with ``bfloat16:``: they are widened to float32 (16 zero bits below them), reduced there,
and rounded once, to the nearest and to even where two are equally near. Libraries that round after
every addition differ from that by a few units in the last place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ringside.arrays import Array
from ringside.network.wire import KINDS, OBJECT, counted_of_object
from ringside.units import ordinal

REDUCTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "SUM": np.add,
    "PROD": np.multiply,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "LAND": lambda a, b: np.logical_and(a, b).astype(a.dtype),
    "LOR": lambda a, b: np.logical_or(a, b).astype(a.dtype),
    "LXOR": lambda a, b: np.logical_xor(a, b).astype(a.dtype),
    "BAND": np.bitwise_and,
    "BOR": np.bitwise_or,
    "BXOR": np.bitwise_xor,
    "AVG": np.add,  # divided by the number of members at the end
}
BFLOAT16 = "bfloat16:"
_ON_BFLOAT16 = ("SUM", "PROD", "MAX", "MIN", "AVG")
TIMED_AS = {
    "dup": "allgather",
    "split": "allgather",
    "create": "allgather",
    "create_group": "allgather",
    "agree": "allreduce",
    "shrink": "allgather",
    "win": "allgather",
    "fence": "barrier",
    "win_free": "barrier",
}
MAKES_COMM = frozenset({"dup", "split", "create", "create_group", "win", "shrink"})
AMONG_SURVIVORS = frozenset({"agree", "shrink"})  # ended by all that are alive
_EMPTY = frozenset({"barrier", "fence", "win_free"})
NAMES = frozenset(
    {
        *("barrier", "bcast", "reduce", "allreduce", "reduce_scatter", "allgather", "gather"),
        *("scatter", "alltoall", "scan", "exscan", "dup", "split", "create", "create_group"),
        *("win", "fence", "win_free", "agree", "shrink"),
    }
)
_ROOTED = {"bcast": 0, "reduce": 0, "gather": 0, "scatter": 0}
_OP_AT = {"reduce": 1, "allreduce": 0, "scan": 0, "exscan": 0, "reduce_scatter": 0}


_MAX_TOLD = 4096  # values that a member tells beside its contribution


class BadSpec(Exception):
    """A member's contribution that no front end of ours would send."""


@dataclass(eq=False)
class Gathering:
    """One collective on one communicator while its members come in."""

    name: str
    sequence: int
    size: int
    path: str = ""  # of the communicator
    members: tuple[int, ...] = ()  # world ranks
    specs: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    shown_by: dict[int, str] = field(default_factory=dict)
    alike: dict[int, tuple[tuple[str, Any], ...]] = field(default_factory=dict)
    requests: dict[int, Any] = field(default_factory=dict)
    kinds: dict[int, int] = field(default_factory=dict)  # of the members' buffers, of wire.KINDS
    begins: dict[int, bool] = field(default_factory=dict)  # by a non-blocking call, as Ibcast
    held_bytes: int = 0  # of the contributions
    failed: bool = False  # it will never have a result

    def join(
        self,
        member: int,
        name: str,
        spec: tuple[Any, ...],
        request: Any,
        shown: str = "",
        alike: tuple[tuple[str, Any], ...] = (),
    ) -> None:
        """Take a member's contribution.

        Args:
            shown: what this member calls the collective; default: ``name``.
            alike: names and values that all members must give alike.

        Raises:
            BadSpec: the contribution is malformed.
        """
        _check_form(name, spec, self.size)
        _check_told(shown, alike)
        self.shown_by[member] = shown or name
        self.alike[member] = alike
        self.requests[member] = request
        self.specs[member] = spec
        self.names[member] = name

    def missing(self) -> list[int]:
        """The members, as world ranks, that haven't come."""
        return [rank for member, rank in enumerate(self.members) if member not in self.specs]

    @property
    def complete(self) -> bool:
        """Whether every member has come, and all agree."""
        return len(self.specs) == self.size and not self.failed and self.disagreement() is None

    def disagreement(self) -> str | None:
        """What the members that have come don't agree on; None if they do."""
        members = sorted(self.specs)
        first = members[0]
        expected = _agreed(self.names[first], self.specs[first])
        for member in members[1:]:
            if self.names[member] != self.names[first]:
                return self._other_call(member, first)
            if self.begins.get(member) != self.begins.get(first):
                begun, other = (member, first) if self.begins.get(member) else (first, member)
                name = self.shown_by[first]
                return (
                    f"rank {begun} calls the non-blocking form of {name} where rank {other} calls "
                    "the blocking one, and the two don't match"
                )
            agreed = _agreed(self.names[member], self.specs[member])
            pairs = zip(
                [*self.alike[member], *agreed], [*self.alike[first], *expected], strict=False
            )
            for (what, value), (_, other) in pairs:
                if value != other and self.shown_by[member] != self.shown_by[first]:
                    return self._other_call(member, first)
                if value != other:
                    return (
                        f"in {self.shown_by[first]}, rank {member} gives {what} {value} "
                        f"and rank {first} {what} {other}"
                    )
        return None

    def _other_call(self, member: int, first: int) -> str:
        return (
            f"rank {member} calls {self.shown_by[member]} "
            f"where rank {first} calls {self.shown_by[first]}"
        )

    @property
    def told(self) -> str:
        """Which it is, by its place on its communicator."""
        return (
            f"{self.shown}, the {ordinal(self.sequence + 1)} collective on communicator "
            f"{self.path} (ranks {', '.join(map(str, self.members))})"
        )

    @property
    def shown(self) -> str:
        """What the first member that came calls it."""
        return next(iter(self.shown_by.values()), self.name)

    @property
    def root(self) -> int:
        """The root, or 0 where there is none."""
        return int(next(iter(self.specs.values()))[0]) if self.name in _ROOTED else 0

    @property
    def by_members(self) -> bool:
        """Whether this is a reduction that the members do themselves, on everybody's parts."""
        return self.name in _OP_AT and self.specs[0][_OP_AT[self.name]] == "USER"

    def sizes(self) -> tuple[int, ...]:
        """Counted bytes, in the form that ``ringside.timing.collectives`` wants."""
        p, specs, name = self.size, self.specs, self.name
        if name in _EMPTY:
            return (0,)
        if name in MAKES_COMM:
            return (8,) * p
        if name == "bcast":
            return (_nbytes(specs[self.root][1]),)
        if name in ("reduce", "allreduce", "scan", "exscan"):
            return (max(_nbytes(specs[r][-1]) for r in range(p)),)  # objects may differ in size
        if name == "reduce_scatter":
            array, counts = specs[0][1], specs[0][2]
            return tuple(int(count) * _itemsize(array) for count in counts)
        if name == "allgather":
            return tuple(_nbytes(specs[r][0]) for r in range(p))
        if name == "gather":
            return tuple(_nbytes(specs[r][1]) for r in range(p))
        if name == "scatter":
            return tuple(_nbytes(part) for part in specs[self.root][1])
        return tuple(_nbytes(part) for r in range(p) for part in specs[r][0])

    def values(self) -> list[Any]:
        """What each member gets, communicators excepted."""
        p, specs, name, root = self.size, self.specs, self.name, self.root
        if name in _EMPTY:
            return [None] * p
        if name == "bcast":
            return [specs[root][1]] * p
        if name == "allgather":
            parts = [specs[r][0] for r in range(p)]
            return [parts] * p
        if name == "gather":
            gathered = [specs[r][1] for r in range(p)]
            return [gathered if r == root else None for r in range(p)]
        if name == "scatter":
            return list(specs[root][1])
        if name == "alltoall":
            return [[specs[s][0][r] for s in range(p)] for r in range(p)]
        return self._reduced()

    def _reduced(self) -> list[Any]:
        p, name = self.size, self.name
        op = self.specs[0][_OP_AT[name]]
        data = [self.specs[r][-2 if name == "reduce_scatter" else -1] for r in range(p)]
        by_members = op == "USER"  # they reduce the contributions themselves
        if name in ("scan", "exscan"):
            prefixes: list[Any] = (
                [data[: r + 1] for r in range(p)] if by_members else _prefixes(op, data)
            )
            return prefixes if name == "scan" else [None, *prefixes[:-1]]
        whole = data if by_members else _whole(op, data)
        if name == "allreduce" or (name == "reduce_scatter" and by_members):
            return [whole] * p
        if name == "reduce":
            return [whole if r == self.root else None for r in range(p)]
        bounds = np.cumsum([0, *self.specs[0][2]])
        return [whole[bounds[r] : bounds[r + 1]] for r in range(p)]


def _whole(op: str, data: list[Array]) -> Array:
    """The reduction of all members' arrays; of running sums only the last is kept."""
    if op.endswith("AVG"):
        return _average(op, data)
    (last,) = deque(_running(op, data), maxlen=1)
    return last


def _prefixes(op: str, data: list[Array]) -> list[Array]:
    """Running reductions in rank order; the last one of an average is the average."""
    prefixes = list(_running(op, data))
    if op.endswith("AVG"):
        prefixes[-1] = _average(op, data)
    return prefixes


def _running(op: str, data: Iterable[Array]) -> Iterator[Array]:
    """The reductions of the first, the first two, ... of the arrays."""
    if op.startswith(BFLOAT16):
        wide = _running(op.removeprefix(BFLOAT16), map(_widened, data))
        yield from map(_narrowed, wide)
        return
    result: Array | None = None
    for item in data:
        with np.errstate(all="ignore"):
            if result is None:
                result = np.array(item)
            elif op in ("MAXLOC", "MINLOC"):
                result = _located(op, result, item)
            else:
                result = REDUCTIONS[op](result, item).astype(item.dtype, copy=False)
        yield result


def _average(op: str, data: list[Array]) -> Array:
    """The sum divided by the number of members; whole numbers are cut towards zero."""
    if op.startswith(BFLOAT16):
        return _narrowed(_average("AVG", [_widened(item) for item in data]))
    dtype = data[0].dtype
    # The sum of a few float16 is past their largest number, 65504, before it is divided.
    wide = [item.astype(np.float32) for item in data] if dtype == np.float16 else data
    total = _whole("SUM", wide)
    with np.errstate(all="ignore"):
        if dtype.kind not in "iu":
            mean: Array = (total / len(data)).astype(dtype)
        else:
            mean = (np.sign(total) * (np.abs(total) // len(data))).astype(dtype)
    return mean


def _widened(bits: Array) -> Array:
    """bfloat16, given as its bits, as float32."""
    wide: Array = (bits.astype(np.uint32) << 16).view(np.float32)
    return wide


def _narrowed(values: Array) -> Array:
    """The bits of the nearest bfloat16, of the even one where two are equally near."""
    bits = values.astype(np.float32, copy=False).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    quiet_nan = ((bits >> 16) | 0x40).astype(np.uint16)
    return np.where(np.isnan(values), quiet_nan, rounded)


def _located(op: str, a: Array, b: Array) -> Array:
    """Pairs (value, index), one after the other: the better value, the lower index if equal."""
    first, second = a.reshape(-1, 2), b.reshape(-1, 2)
    better = second[:, 0] > first[:, 0] if op == "MAXLOC" else second[:, 0] < first[:, 0]
    tie = (second[:, 0] == first[:, 0]) & (second[:, 1] < first[:, 1])
    return np.where((better | tie)[:, None], second, first).reshape(a.shape)


def _is_object(data: Any) -> bool:
    return isinstance(data, tuple) and len(data) == 3 and data[0] == "object"


def _nbytes(data: Any) -> int:
    """Counted bytes of a contribution; an object's claim holds within the envelope."""
    if data is None:
        return 0
    if isinstance(data, np.ndarray):
        return int(data.nbytes)
    if _is_object(data):
        return counted_of_object(len(data[2]), int(data[1]))
    return len(data)


def dtype_and_count(
    name: str, spec: tuple[Any, ...], alike: tuple[tuple[str, Any], ...], kind: int
) -> tuple[Any, Any]:
    """The dtype and the number of elements of a member's part, as far as it tells them.

    Args:
        kind: of its buffer, of ``wire.KINDS``.
    """
    told = dict(alike)
    if "dtype" in told:
        return told["dtype"], told.get("number of elements", -1)
    if name in _EMPTY or name in MAKES_COMM:
        return "", 0
    data = spec[-2] if name == "reduce_scatter" else spec[-1]
    parts = data if isinstance(data, list) else [data]
    if data is None:  # of others than the root
        return (KINDS[kind] if kind < len(KINDS) else ""), -1
    if all(isinstance(part, np.ndarray) for part in parts) and parts:
        return parts[0].dtype, sum(part.size for part in parts)
    if any(map(_is_object, parts)):
        return "object", 1
    dtype = KINDS[kind] if OBJECT < kind < len(KINDS) else "uint8"
    return dtype, sum(map(len, parts)) // np.dtype(dtype).itemsize


def _itemsize(data: Any) -> int:
    return int(data.itemsize) if isinstance(data, np.ndarray) else 1


def _agreed(name: str, spec: tuple[Any, ...]) -> list[tuple[str, Any]]:
    """What all members must give alike."""
    agreed: list[tuple[str, Any]] = []
    if name in _ROOTED:
        agreed.append(("root", spec[_ROOTED[name]]))
    if name in _OP_AT:
        agreed.append(("op", spec[_OP_AT[name]]))
        data = spec[-2] if name == "reduce_scatter" else spec[-1]
        if isinstance(data, np.ndarray):
            agreed.append(("dtype", str(data.dtype)))
            agreed.append(("count", int(data.size)))
        else:
            agreed += [("dtype", "object"), ("count", 1)]
    if name == "reduce_scatter":
        agreed.append(("counts", tuple(spec[2])))
    return agreed


def _is_data(data: Any) -> bool:
    if isinstance(data, (bytes, np.ndarray)):
        return True
    return _is_object(data) and isinstance(data[1], int) and isinstance(data[2], bytes)


def _check_form(name: str, spec: Any, size: int) -> None:
    """Refuse what a front end of ours would never send; specs are written by student processes."""
    if not isinstance(spec, tuple) or name not in NAMES:
        raise BadSpec(f"unknown collective {name!r}")
    good = {
        **dict.fromkeys(_EMPTY, lambda: len(spec) == 0),
        "win": lambda: len(spec) == 2 and all(_is_number(x) and x >= 0 for x in spec),
        "dup": lambda: len(spec) == 0,
        "shrink": lambda: len(spec) == 0,
        "agree": lambda: len(spec) == 1 and _is_number(spec[0]),
        "split": lambda: len(spec) == 2 and all(x is None or _is_number(x) for x in spec),
        "create": lambda: len(spec) == 1 and _is_members(spec[0], size),
        "create_group": lambda: 1 <= len(spec) <= 3 and all(_is_number(x) for x in spec[1:]),
        "bcast": lambda: len(spec) == 2 and (spec[1] is None or _is_data(spec[1])),
        "allgather": lambda: len(spec) == 1 and _is_data(spec[0]),
        "gather": lambda: len(spec) == 2 and _is_data(spec[1]),
        "scatter": lambda: len(spec) == 2 and (spec[1] is None or _is_parts(spec[1], size)),
        "alltoall": lambda: len(spec) == 1 and _is_parts(spec[0], size),
        "reduce": lambda: len(spec) == 3 and _is_reducible(spec[1], spec[2]),
        "allreduce": lambda: len(spec) == 2 and _is_reducible(spec[0], spec[1]),
        "scan": lambda: len(spec) == 2 and _is_reducible(spec[0], spec[1]),
        "exscan": lambda: len(spec) == 2 and _is_reducible(spec[0], spec[1]),
        "reduce_scatter": lambda: (
            len(spec) == 3
            and _is_reducible(spec[0], spec[1])
            and _is_counts(spec[2], spec[1], size)
        ),
    }[name]()
    if good and name in _ROOTED:
        root = spec[0]
        good = type(root) is int and 0 <= root < size
    if not good:
        raise BadSpec(f"malformed contribution to {name}")


def _check_told(shown: Any, alike: Any) -> None:
    """Refuse what isn't a name and a few pairs of a name and a plain value."""
    good = isinstance(shown, str) and len(shown) < 100 and isinstance(alike, tuple)
    if not good or len(alike) > 8 or not all(_is_pair(pair) for pair in alike):
        raise BadSpec("malformed description of a collective")


def _is_pair(pair: Any) -> bool:
    if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str):
        return False
    values = pair[1] if isinstance(pair[1], tuple) else (pair[1],)
    return (
        len(pair[0]) < 100
        and len(values) <= _MAX_TOLD
        and all(
            len(value) < 100 if isinstance(value, str) else _is_number(value) for value in values
        )
    )


def _is_number(value: Any) -> bool:
    """A whole number of 64 bits: longer ones are slow to write down, or can't be."""
    return isinstance(value, int) and -(1 << 63) <= value < 1 << 63


def _is_members(value: Any, size: int) -> bool:
    """Distinct members of a communicator of so many."""
    if not isinstance(value, tuple) or not all(type(m) is int and 0 <= m < size for m in value):
        return False
    return len(set(value)) == len(value)


def group_of(spec: Any, size: int, member: int) -> tuple[int, ...]:
    """The members that a ``create_group`` names, this one among them.

    Behind them come a tag and, where all ranks must make every group, its number in their order.

    Raises:
        BadSpec: they are no group of members of a communicator of ``size``.
    """
    if not isinstance(spec, tuple) or not spec or not _is_members(spec[0], size):
        raise BadSpec("malformed contribution to create_group")
    if member not in spec[0]:
        raise BadSpec("makes a group that it is no member of")
    members: tuple[int, ...] = spec[0]
    return members


def _is_parts(value: Any, size: int) -> bool:
    return isinstance(value, list) and len(value) == size and all(_is_data(part) for part in value)


def _is_reducible(op: Any, data: Any) -> bool:
    if op == "USER":
        return _is_data(data)
    if op in ("MAXLOC", "MINLOC"):
        return isinstance(data, np.ndarray) and data.ndim == 1 and data.size % 2 == 0
    # Of two dimensions, (n, 1) and (1, n) would add up to n * n.
    if not isinstance(data, np.ndarray) or data.ndim != 1 or not isinstance(op, str):
        return False
    if op.startswith(BFLOAT16):
        return data.dtype == np.uint16 and op.removeprefix(BFLOAT16) in _ON_BFLOAT16
    if op not in REDUCTIONS or (op == "AVG" and data.dtype.kind == "b"):
        return False
    return not (op in ("BAND", "BOR", "BXOR") and data.dtype.kind in "fc")


def _is_counts(counts: Any, data: Any, size: int) -> bool:
    if not isinstance(counts, tuple) or len(counts) != size:
        return False
    if not all(type(count) is int and count >= 0 for count in counts):
        return False
    # Of anything but an array the members get the whole, so that is what is counted.
    return sum(counts) == (data.size if isinstance(data, np.ndarray) else _nbytes(data))
