"""Tracing torch code on fake tensors: every rank's calls are written down, nothing is computed.

    student's code     as on the network, and unchanged
    FakeTensorMode     works out shapes; no tensor has memory
    Meter              counts operators, as in a real rank
    group.Group        a ProcessGroup; every call is an operation of the link
    RecordingLink      writes it down, and says that it is complete

One rank after another runs in this process, and must keep nothing in globals for the next. What
depends on other ranks can't be known: values, who comes first, and how long something takes;
asking for them is an error that says what to do. FSDP2 runs too; where its shards are uneven it
pads fake ones once more than real ones, so that such a trace doesn't agree with the network's.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, cast

import numpy as np
import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.distributed.device_mesh import DeviceMesh
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import _disable_current_modes

import ringside.network.link
from ringside.network.gathering import TIMED_AS
from ringside.network.link import Call, CommInfo, Completion, Link, format_call
from ringside.network.ranklog import MAKES_GROUP, Collective, RankLog
from ringside.network.wire import ANY_SOURCE
from ringside.pytorch import front, tensors
from ringside.pytorch.counting import Meter
from ringside.pytorch.group import NetworkGroup
from ringside.pytorch.shapes import Shapes
from ringside.pytorch.work import NetworkWork, WorkPart
from ringside.scale.symmetry import Grid, trace_kinds
from ringside.trace import Kind

_COMPUTE, _ISEND, _IRECV, _WAIT, _COLLECTIVE = (
    int(Kind.COMPUTE),
    int(Kind.ISEND),
    int(Kind.IRECV),
    int(Kind.WAIT),
    int(Kind.COLLECTIVE),
)


_DEVICE = torch.ops.prim.device.default


class FakeTensorError(RuntimeError):
    """Code that needs what fake tensors don't have."""


_NO_TIME = (
    "{call} asks about time, and a trace has none before it is replayed. Wait for the work "
    "instead: work.wait()."
)
_NO_ORDER = (
    "{call} takes the message that comes first, and on fake tensors nothing comes. Name the "
    "source: dist.recv(tensor, src=...)."
)


class RecordingLink(Link):
    """A link that writes a rank's calls down, with nobody at its other end."""

    def __init__(self, rank: int, world_size: int, folder: str, libraries: Sequence[str]) -> None:
        # There is no socket: what of Link writes or waits for an answer must be overridden below.
        super().__init__(cast(socket.socket, None), rank, world_size, folder)
        self.libraries = tuple(libraries)
        self._rows: list[list[int]] = []
        self._amounts: list[tuple[float, float, float, float, float]] = []
        self._waits: list[int] = []
        self._shared: dict[Collective, int] = {}
        self._labels: dict[str, int] = {}
        self._infos = [self.world]
        self._made: list[tuple[int, np.ndarray[Any, Any]]] = []
        self._times_made: dict[tuple[int, ...], int] = {}

    def log(self, memory: dict[str, Any]) -> RankLog:
        """What was written down."""
        self._end_work()
        sites = []
        for (call, file, line), _ in sorted(self._sites.items(), key=lambda item: item[1]):
            short = file.removeprefix(self._folder) if self._folder else file
            sites.append((format_call(call)[:200], short[:200], int(line)))
        return RankLog(
            rank=self.rank,
            rows=np.array(self._rows, np.int64).reshape(-1, 8),
            work=np.array(self._amounts, np.float64).reshape(-1, 5),
            waits=np.array(self._waits, np.int64),
            shared=tuple(self._shared),
            comms=tuple(self._made),
            sites=tuple(sites),
            labels=tuple(self._labels),
            memory=memory,
        )

    def _row(
        self, kind: int, call: Call | int, *, peer: int = -1, tag: int = 0, nbytes: int = 0,
        comm: int = 0, ref: int = 0, count: int = 0,
    ) -> None:  # fmt: skip
        site = call if isinstance(call, int) else self.site(call)
        self._rows.append([kind, peer, tag, nbytes, comm, ref, count, site])

    def _append(self, part: bytes | memoryview) -> None:
        """Descriptions of sites are for the network; here they are kept."""

    # -- messages --------------------------------------------------------------------------------

    def isend(
        self, comm: int, dest: int, tag: int, data: Any, mode: str = "standard", *,
        kind: int = 0, claimed: int | None = None, borrowed: bool = False, call: Call | int,
    ) -> int:  # fmt: skip
        """Write a send down."""
        self._begin_call()
        self._requests += 1
        peer = self._infos[comm].members[dest]
        nbytes = len(data) if claimed is None else claimed
        self._row(_ISEND, call, peer=peer, tag=tag, nbytes=nbytes, comm=comm)
        return self._requests

    def irecv(
        self, comm: int, source: int, tag: int, capacity: int, *, kind: int = 0, call: Call | int
    ) -> int:  # fmt: skip
        """Write a receive down; ``expect`` tells how much of it."""
        if source == ANY_SOURCE:
            raise FakeTensorError(_NO_ORDER.format(call=_name(call)))
        self._begin_call()
        self._requests += 1
        peer = self._infos[comm].members[source]
        self._row(_IRECV, call, peer=peer, tag=tag, nbytes=max(capacity, 0), comm=comm)
        return self._requests

    def expect(self, nbytes: int) -> None:
        """The receive written down last is for so many bytes."""
        self._rows[-1][3] = nbytes

    def wait(
        self, requests: Sequence[int], how: str = "all", *, call: Call | int
    ) -> list[Completion]:
        """Write a wait down; everything is complete."""
        if not requests:
            return []
        if how != "all" and len(requests) > 1:
            raise FakeTensorError(_NO_TIME.format(call=_name(call)))
        self._begin_call()
        self._row(_WAIT, call, ref=len(self._waits), count=len(requests))
        self._waits += requests
        return [Completion(number, -1, 0, 0, 0, None, False) for number in requests]

    def test(self, requests: Sequence[int], how: str = "all", *, call: Call) -> NoReturn:
        """Refuse: who knows when."""
        raise FakeTensorError(_NO_TIME.format(call=_name(call)))

    def probe(self, comm: int, source: int, tag: int, *, blocking: bool, call: Call) -> NoReturn:
        """Refuse: who knows when."""
        raise FakeTensorError(_NO_TIME.format(call=_name(call)))

    def wtime(self) -> NoReturn:
        """Refuse: who knows when."""
        raise FakeTensorError(_NO_TIME.format(call="Wtime()"))

    def free(self, comm: int, *, call: Call) -> None:
        """Nothing is held."""

    def abort(self, code: int) -> NoReturn:
        """End the trace."""
        raise FakeTensorError(f"the code aborts the run with error code {code}.")

    # -- collectives -----------------------------------------------------------------------------

    def icollective(
        self, comm: int, name: str, spec: tuple[Any, ...], *, call: Call, kind: int = 0,
        shown: str = "", alike: tuple[tuple[str, Any], ...] = (), begins: bool = False,
    ) -> int:  # fmt: skip
        """Write down a rank's side of a collective."""
        self._begin_call()
        self._requests += 1
        members = tuple(spec[0]) if name == MAKES_GROUP else ()
        side = Collective(
            name,
            shown or name,
            int(spec[0]) if name in ("bcast", "reduce", "gather", "scatter") else 0,
            members,
            _own_sizes(name, spec),
            tuple((what, str(value)[:200]) for what, value in alike),
        )
        ref = self._shared.setdefault(side, len(self._shared))
        self._row(_COLLECTIVE, call, comm=comm, ref=ref)
        return self._requests

    def collective(
        self, comm: int, name: str, spec: tuple[Any, ...], *, call: Call, kind: int = 0,
        shown: str = "",
    ) -> Any:  # fmt: skip
        """Write down a collective and the wait for it; a new group is made at once."""
        request = self.icollective(comm, name, spec, call=call, shown=shown)
        self.wait([request], "all", call=call)
        if name != MAKES_GROUP:
            return None
        members = tuple(self._infos[comm].members[rank] for rank in spec[0])
        count = self._times_made.get(members, 0)
        self._times_made[members] = count + 1
        info = CommInfo(len(self._infos), members, members.index(self.rank))
        self._infos.append(info)
        self._made.append((count, np.array(members, np.int64)))
        return info

    @staticmethod
    def collective_result(completion: Completion) -> Any:
        """Nothing: there are no values."""
        return None

    # -- computing -------------------------------------------------------------------------------

    def compute(self, flops: float, nbytes: float, seconds: float | None, label: str) -> None:
        """Write declared work down."""
        self._begin_call()
        self._amount(flops, nbytes, -1, 0.0, -1.0 if seconds is None else seconds, label)

    def _end_work(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            self._amount(work.flops, work.nbytes, work.num_kernels, work.moved, -1.0, work.label)

    def _amount(
        self, flops: float, nbytes: float, kernels: int, moved: float, seconds: float, label: str
    ) -> None:
        number = self._labels.setdefault(label[:80], len(self._labels))
        call = ("compute", (("phase", label),))
        self._row(_COMPUTE, call, tag=number, ref=len(self._amounts))
        self._amounts.append((float(flops), float(nbytes), kernels, float(moved), float(seconds)))


def _name(call: Call | int) -> str:
    return "this call" if isinstance(call, int) else format_call(call)


def _own_sizes(name: str, spec: tuple[Any, ...]) -> tuple[int, ...]:
    """Bytes of this rank's part or parts."""
    if name in TIMED_AS or name == "barrier":
        return ()
    if name == "reduce_scatter":
        return tuple(int(count) * int(spec[1].itemsize) for count in spec[2])
    data = spec[0] if name in ("allgather", "alltoall") else spec[-1]
    if data is None:
        return ()
    return tuple(_nbytes(part) for part in (data if isinstance(data, list) else [data]))


def _nbytes(data: Any) -> int:
    return int(data.nbytes) if isinstance(data, np.ndarray) else len(data)


class FakeGroup(NetworkGroup):
    """The process group of ranks on fake tensors: what is delivered has no values."""

    def _join(
        self, name: str, spec: Any, call: Call, alike: Any, deliver: Any = None, **told: Any
    ) -> WorkPart:
        return super()._join(name, spec, call, alike, None, **told)

    def recv(self, given: Any, source: int | None, tag: int = 0) -> NetworkWork:
        """Receive a tensor from a member."""
        work = super().recv(given, source, tag)
        (tensor,) = [given] if isinstance(given, torch.Tensor) else given
        # torch's receive names no length (-1), and its row is still the last one.
        cast(RecordingLink, self._link).expect(tensor.numel() * tensor.element_size())
        work._parts[0].deliver = None
        return work


# -- one rank --------------------------------------------------------------------------------------


def trace_rank(
    run: Callable[[Any, FakeTensorMode], Any], rank: int, world_size: int, folder: str, comm: bool
) -> RankLog:
    """Call ``run(group, mode)`` as one rank of many, on fake tensors, and return its log.

    Args:
        run: what the rank does; ``mode`` is for making its arguments fake.
        folder: the student's folder, which file names are told relative to.
        comm: initialise torch.distributed and pass the group of all ranks; else pass None.

    Raises:
        FakeTensorError: the code needs what fake tensors don't have.
    """
    around = ringside.network.link.current()
    link = RecordingLink(rank, world_size, folder, around.libraries)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    meter = _FakeMeter(link, mode)
    with _in_place_of(around, link), _refusals(), _mended():
        group = front.begin(link.world if comm else None)
        try:
            run_fakes = run(group, mode)
            meter.memory.given(tensors.tensors_in(run_fakes.given))
            # The mode that is entered last is asked first: the meter sees an operator before the
            # fake mode does, and a second entry of the fake mode can only be a library's.
            with mode, meter:
                run_fakes()
        except Exception as error:
            _explain(error, rank)
            raise
        return link.log(meter.memory.report())


@contextlib.contextmanager
def _in_place_of(around: Link, link: RecordingLink) -> Iterator[None]:
    """While this lasts, the process is the traced rank and not the real one."""
    before = front.group_class
    ringside.network.link.set_current(link)
    front.group_class = FakeGroup
    try:
        yield
    finally:
        front.group_class = before
        ringside.network.link.set_current(around)
        # Last: it sets RANK and its kin by the link that is current.
        front.begin(None)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """While this lasts, what would silently trace nothing is an error."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise FakeTensorError(
            "DistributedDataParallel can't be traced on fake tensors: its reducer, in C++, reads "
            "memory. Reduce the gradients by hand (dist.all_reduce in hooks of "
            "register_post_accumulate_grad_hook, or after backward), which the trace sees, or run "
            "DistributedDataParallel on up to some tens of real ranks with ringside.run."
        )

    with _replaced(DistributedDataParallel, "__init__", refuse):
        yield


@contextlib.contextmanager
def _mended() -> Iterator[None]:
    """While this lasts, parts of torch that stumble over fake tensors don't.

    Module.double() and its kin swap fake parameters, which torch's own references to them forbid;
    real ones get new data, and so do these. Meshes of devices read the tensor of their ranks, so
    that one stays real.
    """
    swap = torch.utils.swap_tensors
    make_mesh, take_mesh = DeviceMesh.__init__, DeviceMesh.__getitem__

    def swap_tensors(a: torch.Tensor, b: torch.Tensor) -> None:
        if isinstance(a, FakeTensor):
            a.data = b
        else:
            swap(a, b)  # type: ignore[no-untyped-call]

    def init(*args: Any, **kwargs: Any) -> None:
        with unset_fake_temporarily():
            ranks = kwargs.get("_rank_map")
            if isinstance(ranks, FakeTensor):
                with _disable_current_modes():  # the fake one has been counted
                    kwargs["_rank_map"] = torch.arange(ranks.numel(), dtype=ranks.dtype)
            make_mesh(*args, **kwargs)

    def getitem(*args: Any) -> Any:
        with unset_fake_temporarily():
            return take_mesh(*args)

    with (
        _replaced(torch.utils, "swap_tensors", swap_tensors),
        _replaced(DeviceMesh, "__init__", init),
        _replaced(DeviceMesh, "__getitem__", getitem),
    ):
        yield


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


class _FakeMeter(Meter):
    """A meter that refuses collectives which torch would trace without asking the group.

    Where a fake tensor pretends to be is asked twice for each operator, so it is answered at once.
    """

    def __init__(self, link: Link, fakes: FakeTensorMode) -> None:
        super().__init__(link, fakes)
        self._mode = fakes
        self._shapes = Shapes(fakes)

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The operator's result, as torch or ``Shapes`` makes it."""
        if len(self._mode.enter_stack) > 1:  # a library works out shapes by itself
            return func(*args, **kwargs)
        return self._shapes.call(func, args, kwargs)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _DEVICE and not self._mode.in_kernel_invocation:
            return args[0].fake_device
        if func.namespace in ("_c10d_functional", "_c10d_functional_autograd"):
            raise FakeTensorError(
                f"{func.__name__} is a functional collective (DTensor, parallelize_module and "
                "torch.distributed._functional_collectives use them); on fake tensors it never "
                "reaches the process group. Call dist.all_reduce and its kin, or run at up to "
                "some tens of ranks with ringside.run."
            )
        return self.count(func, types, args, kwargs)


_VALUES = (
    "this line needs the values of a tensor ({what}), and a fake tensor has only a shape. Don't "
    "let .item(), .tolist(), bool() or printing steer the traced step: keep numbers in tensors, "
    "give sizes as arguments, and report losses outside of the traced function."
)
_SHAPES = (
    "the shape of this line's result depends on the values of a tensor ({what}), and a fake "
    "tensor has none. Use masks of fixed shape (torch.where, masked_fill) instead."
)


def _explain(error: Exception, rank: int) -> None:
    """Raise a clearer error, at the student's line, if fake tensors are the reason."""
    text = str(error)
    clear = None
    if isinstance(error, fake_tensor.DynamicOutputShapeException):
        clear = _SHAPES.format(what=text)
    elif isinstance(error, fake_tensor.DataDependentOutputException):
        clear = _VALUES.format(what=text)
    elif isinstance(error, FakeTensorError):
        return
    elif isinstance(error, fake_tensor.UnsupportedFakeTensorException) or (
        isinstance(error, (RuntimeError, ValueError, NotImplementedError, TypeError))
        and any(sign in text for sign in ("data_ptr", "storage", ".numpy()", "fake", "Fake"))
    ):
        clear = _VALUES.format(what=text.splitlines()[0][:200])
    if clear is not None:
        raise FakeTensorError(f"on fake tensors, as rank {rank}: {clear}").with_traceback(
            error.__traceback__
        ) from error


# -- all ranks -------------------------------------------------------------------------------------


class _Run:
    """The student's function with its arguments, as fake tensors."""

    def __init__(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self.given = [args, kwargs]

    def __call__(self) -> Any:
        return self._function(*self._args, **self._kwargs)


def trace_call(
    call: dict[str, Any], folder: str, function: Callable[..., Any]
) -> tuple[dict[int, RankLog], list[str]]:
    """Trace a call of the run; ``call["fakes"]`` says at how many ranks, and which are alike.

    Returns:
        Logs by rank, this process's share of them, and the axes along which ranks are alike.
    """
    fakes = call["fakes"]

    def trace_one(rank: int) -> RankLog:
        def prepare(group: Any, mode: FakeTensorMode) -> _Run:
            args = [_fake(tensors.from_arrays(item), mode) for item in call["args"]]
            kwargs = {
                name: _fake(tensors.from_arrays(item), mode)
                for name, item in call["kwargs"].items()
            }
            return _Run(function, [group, *args] if call["comm"] else args, kwargs)

        return trace_rank(prepare, rank, fakes["world_size"], folder, call["comm"])

    grid = Grid.of(fakes["grid"], fakes["world_size"])
    logs, alike = trace_kinds(
        trace_one, grid, fakes["alike"], witnesses=fakes["witnesses"], share=fakes["share"]
    )
    return logs, list(alike)


def _fake(value: Any, mode: FakeTensorMode) -> Any:
    """``value`` with fake tensors for tensors, in tuples, lists and dicts too."""
    if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
        return mode.from_tensor(value)
    if isinstance(value, (tuple, list)):
        return type(value)(_fake(item, mode) for item in value)
    if isinstance(value, dict):
        return {key: _fake(item, mode) for key, item in value.items()}
    return value
