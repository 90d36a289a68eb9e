"""A communicator that writes down what a real run does: `record`.

`record(MPI.COMM_WORLD, recorder)` is a communicator of mpi4py's own class, on the same
handle; its calls do what they always do, and leave on the recorder

- while a call lasts, its name: the deadline's report says which rank is in which call;
- afterwards a `Call` with its real times and what it sent, received or waited for, from
  which `ringside.jobs.real.measured` makes the same kind of trace as that of simulated ranks.

Only real ranks import this module: it loads the machine's MPI.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from mpi4py import MPI

from ringside.session.recorder import CallRecord, Recorder
from ringside.trace import Mode

# A member's part of these collectives is what it gets, of all others what it gives.
_GETS = ("reduce_scatter", "scatter")

# The names of each call's parameters, which a program may use in place of their order.
_RECEIVE = ("buf", "source", "tag", "status")
_SENDRECV = ("sendbuf", "dest", "sendtag", "recvbuf", "source", "recvtag", "status")
_COLLECTIVES: dict[str, tuple[str, tuple[str, ...]]] = {
    "Barrier": ("barrier", ()),
    "Bcast": ("bcast", ("buf", "root")),
    "Reduce": ("reduce", ("sendbuf", "recvbuf", "op", "root")),
    "Allreduce": ("allreduce", ("sendbuf", "recvbuf", "op")),
    "Scan": ("scan", ("sendbuf", "recvbuf", "op")),
    "Exscan": ("exscan", ("sendbuf", "recvbuf", "op")),
    "Reduce_scatter": ("reduce_scatter", ("sendbuf", "recvbuf", "recvcounts", "op")),
    "Reduce_scatter_block": ("reduce_scatter", ("sendbuf", "recvbuf", "op")),
    "Allgather": ("allgather", ("sendbuf", "recvbuf")),
    "Allgatherv": ("allgather", ("sendbuf", "recvbuf")),
    "Gather": ("gather", ("sendbuf", "recvbuf", "root")),
    "Gatherv": ("gather", ("sendbuf", "recvbuf", "root")),
    "Scatter": ("scatter", ("sendbuf", "recvbuf", "root")),
    "Scatterv": ("scatter", ("sendbuf", "recvbuf", "root")),
    "Alltoall": ("alltoall", ("sendbuf", "recvbuf")),
    "Alltoallv": ("alltoall", ("sendbuf", "recvbuf")),
    "barrier": ("barrier", ()),
    "bcast": ("bcast", ("obj", "root")),
    "reduce": ("reduce", ("sendobj", "op", "root")),
    "allreduce": ("allreduce", ("sendobj", "op")),
    "scan": ("scan", ("sendobj", "op")),
    "exscan": ("exscan", ("sendobj", "op")),
    "allgather": ("allgather", ("sendobj",)),
    "gather": ("gather", ("sendobj", "root")),
    "scatter": ("scatter", ("sendobj", "root")),
    "alltoall": ("alltoall", ("sendobj",)),
}
_FAULT_TOLERANCE = ("Ack_failed", "Agree", "Get_failed", "Is_revoked", "Revoke", "Shrink")
# Calls that make a communicator, with the parameters that tell the new ones apart.
_DERIVING: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("Dup", "Idup", "Create", "Create_cart", "Sub", "Split_type"), ()),
    "Split": ("color", "key"),
    "Create_group": ("group", "tag"),
}


class RecordingRequest(MPI.Request):
    """A request that remembers its operation, so that waiting for it can be written down."""

    recorder: Recorder
    number: int
    receive: list[Any] | None  # the receive's operation, to be completed with who sent how much

    @classmethod
    def of(
        cls, request: MPI.Request, recorder: Recorder, number: int, receive: list[Any] | None
    ) -> RecordingRequest:
        recording = cls(request)
        recording.recorder, recording.number, recording.receive = recorder, number, receive
        return recording

    def Wait(self, status: MPI.Status | None = None) -> Any:
        return _wait(self, "Wait", super().Wait, status)

    def wait(self, status: MPI.Status | None = None) -> Any:
        return _wait(self, "wait", super().wait, status)

    def Test(self, status: MPI.Status | None = None) -> bool:
        status = status or MPI.Status()
        with self.recorder.call("Test()") as call:
            done = super().Test(status)
            if done:
                _finish(call, [self], [status])
        return done

    @classmethod
    def Waitall(cls, requests: Any, statuses: Any = None) -> Any:
        return _wait_all("Waitall", requests, statuses, super().Waitall)

    @classmethod
    def Waitany(cls, requests: Any, status: MPI.Status | None = None) -> int:
        status = status or MPI.Status()
        ours = [item for item in requests if isinstance(item, RecordingRequest)]
        if not ours:
            return super().Waitany(requests, status)
        with ours[0].recorder.call(f"Waitany({len(ours)} requests)") as call:
            index = super().Waitany(requests, status)
            if index != MPI.UNDEFINED:
                _finish(call, [requests[index]], [status])
        return index

    @classmethod
    def waitall(cls, requests: Any, statuses: Any = None) -> Any:
        return _wait_all("waitall", requests, statuses, super().waitall)


def _wait(
    request: RecordingRequest,
    name: str,
    original: Callable[[MPI.Status], Any],
    status: MPI.Status | None,
) -> Any:
    status = status or MPI.Status()
    with request.recorder.call(f"{name}()") as call:
        value = original(status)
        _finish(call, [request], [status])
    return value


def _wait_all(name: str, requests: Any, statuses: Any, original: Callable[[Any, Any], Any]) -> Any:
    ours = [item for item in requests if isinstance(item, RecordingRequest)]
    if not ours:
        return original(requests, statuses)
    filled = statuses if statuses is not None else [MPI.Status() for _ in requests]
    with ours[0].recorder.call(f"{name}({len(ours)} requests)") as call:
        value = original(requests, filled)
        by_request = dict(zip(map(id, requests), filled, strict=False))
        _finish(call, ours, [by_request[id(item)] for item in ours])
    return value


def _finish(call: CallRecord, requests: list[RecordingRequest], statuses: list[MPI.Status]) -> None:
    for request, status in zip(requests, statuses, strict=True):
        _received(request.receive, status)
    _waited(call, [request.number for request in requests])


def _waited(call: CallRecord, numbers: list[int]) -> None:
    """The wait for requests; -1 is one to or from PROC_NULL, which nothing stands for."""
    if real := [number for number in numbers if number >= 0]:
        call.ops.append(["wait", real])


def _received(op: list[Any] | None, status: MPI.Status) -> None:
    """Complete a receive's operation: [.., comm, source, tag, nbytes, ..]."""
    if op is None:
        return
    source = status.Get_source()
    members = op[-1]
    if 0 <= source < len(members):
        op[2], op[3], op[4] = members[source], status.Get_tag(), status.Get_count(MPI.BYTE)


class _Recording:
    """What the recording communicators have in common; mixed in before mpi4py's class."""

    recorder: Recorder
    path: str  # as in a trace: "world", "world/2.1"
    members: tuple[int, ...]  # world ranks
    num_collectives: int

    def _isend(self, call: CallRecord, data: Any, dest: int, tag: int, mode: Mode) -> int:
        request = self.recorder.request()
        peer = self.members[dest] if 0 <= dest < len(self.members) else -1
        if peer >= 0:
            call.ops.append(["isend", self.path, peer, tag, nbytes_of(data), request, int(mode)])
        return request if peer >= 0 else -1

    def _irecv(self, call: CallRecord, source: int, tag: int) -> tuple[int, list[Any] | None]:
        request = self.recorder.request()
        if source == MPI.PROC_NULL:
            return -1, None
        world_rank = self.members[source] if 0 <= source < len(self.members) else -1
        op = ["irecv", self.path, -1, tag, 0, request, (world_rank, tag), self.members]
        call.ops.append(op)
        return request, op

    def _collective(self, call: CallRecord, name: str, given: dict[str, Any]) -> int:
        request = self.recorder.request()
        op = ["collective", self.path, request, name, given.get("root", 0)]
        call.ops.append([*op, self.num_collectives, self.members, _part(name, given)])
        self.num_collectives += 1
        return request


def _part(name: str, given: dict[str, Any]) -> int:
    """Bytes of this member's part of a collective."""
    data = next((given[key] for key in ("sendbuf", "sendobj", "buf", "obj") if key in given), None)
    if "recvbuf" in given and (name in _GETS or data is MPI.IN_PLACE):
        data = given["recvbuf"]
    return 0 if data is None or data is MPI.IN_PLACE else nbytes_of(data)


def nbytes_of(data: Any) -> int:
    """The payload of an array or of a buffer specification such as [x, n, MPI.DOUBLE]."""
    if isinstance(data, list | tuple) and data and hasattr(data[0], "__array_interface__"):
        return _nbytes_of_specification(list(data))
    if hasattr(data, "nbytes"):
        return int(data.nbytes)
    if isinstance(data, bytes | bytearray):
        return len(data)
    try:
        return len(pickle.dumps(data))
    except Exception:
        return 0


def _nbytes_of_specification(parts: list[Any]) -> int:
    whole = np.asarray(parts[0])
    size = whole.itemsize
    if isinstance(parts[-1], MPI.Datatype):
        size = parts.pop().Get_size()
    if len(parts) < 2 or parts[1] is None:
        return int(whole.nbytes)
    counts = parts[1][0] if isinstance(parts[1], tuple) and len(parts) == 2 else parts[1]
    return int(np.sum(counts)) * size


def _bind(names: Sequence[str], args: Sequence[Any], options: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(names, args, strict=False)) | options


def _send_method(name: str, mode: Mode, blocking: bool) -> Callable[..., Any]:
    names = ("obj" if name.islower() else "buf", "dest", "tag")

    def method(self: Any, *args: Any, **options: Any) -> Any:
        # type(self) is RecordingComm or RecordingCart: in a subclass of them this would find
        # itself.
        original = getattr(super(type(self), self), name)
        arguments = _bind(names, args, options)
        dest, tag = arguments.get("dest", -1), arguments.get("tag", 0)
        with self.recorder.call(f"{name}(dest={dest}, tag={tag})") as call:
            request = self._isend(call, arguments.get(names[0]), dest, tag, mode)
            result = original(*args, **options)
            if blocking:
                _waited(call, [request])
        return result if blocking else RecordingRequest.of(result, self.recorder, request, None)

    return method


def _receive_method(name: str, blocking: bool) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **options: Any) -> Any:
        original = getattr(super(type(self), self), name)
        arguments = _bind(_RECEIVE, args, options)
        source, tag = arguments.get("source", MPI.ANY_SOURCE), arguments.get("tag", MPI.ANY_TAG)
        text = f"{name}(source={_shown(source)}, tag={_shown(tag)})"
        with self.recorder.call(text) as call:
            request, op = self._irecv(call, source, tag)
            if not blocking:
                result = original(*args, **options)
                return RecordingRequest.of(result, self.recorder, request, op)
            arguments["status"] = arguments.get("status") or MPI.Status()
            result = original(**arguments)
            _received(op, arguments["status"])
            _waited(call, [request])
        return result

    return method


def _shown(number: int) -> str:
    """ANY_SOURCE and ANY_TAG have other numbers in other MPI libraries."""
    return "ANY" if number in (MPI.ANY_SOURCE, MPI.ANY_TAG) else str(number)


def _sendrecv_method(name: str) -> Callable[..., Any]:
    names = _SENDRECV if name[0].isupper() else ("sendobj", *_SENDRECV[1:])

    def method(self: Any, *args: Any, **options: Any) -> Any:
        original = getattr(super(type(self), self), name)
        arguments = _bind(names, args, options)
        dest, source = arguments.get("dest", -1), arguments.get("source", MPI.ANY_SOURCE)
        with self.recorder.call(f"{name}(dest={dest}, source={_shown(source)})") as call:
            sent = self._isend(
                call, arguments.get(names[0]), dest, arguments.get("sendtag", 0), Mode.STANDARD
            )
            received, op = self._irecv(call, source, arguments.get("recvtag", MPI.ANY_TAG))
            arguments["status"] = arguments.get("status") or MPI.Status()
            result = original(**arguments)
            _received(op, arguments["status"])
            _waited(call, [sent, received])
        return result

    return method


def _collective_method(
    name: str, kind: str, names: Sequence[str], blocking: bool
) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **options: Any) -> Any:
        original = getattr(super(type(self), self), name)
        arguments = _bind(names, args, options)
        text = f"{name}(root={arguments.get('root', 0)})" if "root" in names else f"{name}()"
        with self.recorder.call(text) as call:
            request = self._collective(call, kind, arguments)
            result = original(*args, **options)
            if blocking:
                call.ops.append(["wait", [request]])
        return result if blocking else RecordingRequest.of(result, self.recorder, request, None)

    return method


def _derive_method(name: str, names: Sequence[str]) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **options: Any) -> Any:
        original = getattr(super(type(self), self), name)
        arguments = _bind(names, args, options)
        with self.recorder.call(f"{name}()"):
            made = original(*args, **options)
        new_comm, *request = made if name == "Idup" else (made,)
        part = str(arguments.get("color", 0))
        if name == "Create_group":  # the others don't call it: no number of theirs goes up
            part = f"group {arguments.get('tag', 0)}"
        else:
            # On every member, also on one that gets no communicator: their paths must agree.
            self.num_collectives += 1
        if new_comm == MPI.COMM_NULL:
            return made
        if name in ("Split_type", "Create_group"):  # who is together has the same first member
            part += f" of {new_comm.bcast(MPI.COMM_WORLD.rank)}"
        own = _wrap(new_comm, self.recorder, f"{self.path}/{self.num_collectives}.{part}")
        return (own, *request) if name == "Idup" else own

    return method


def _methods() -> dict[str, Any]:
    methods: dict[str, Any] = {}
    modes = {"": Mode.STANDARD, "s": Mode.SYNC, "b": Mode.BUFFERED, "r": Mode.READY}
    for letter, mode in modes.items():
        blocking, pending = (f"{letter}send", f"i{letter}send")
        for name in (blocking, blocking.capitalize()):
            methods[name] = _send_method(name, mode, True)
        for name in (pending, pending.capitalize()):
            methods[name] = _send_method(name, mode, False)
    methods |= {"Recv": _receive_method("Recv", True), "Irecv": _receive_method("Irecv", False)}
    methods |= {"recv": _receive_method("recv", True), "irecv": _receive_method("irecv", False)}
    methods |= {name: _sendrecv_method(name) for name in ("Sendrecv", "sendrecv")}
    for name, (kind, names) in _COLLECTIVES.items():
        methods[name] = _collective_method(name, kind, names, True)
        pending = f"I{name.lower()}"
        if name[0].isupper() and hasattr(MPI.Comm, pending):
            methods[pending] = _collective_method(pending, kind, names, False)
    methods |= {name: _derive_method(name, names) for name, names in _DERIVING.items()}
    if MPI.get_vendor()[0] != "Open MPI":
        methods |= {name: _stand_in(name) for name in _FAULT_TOLERANCE}
    return methods


def _stand_in(name: str) -> Callable[..., Any]:
    """A call that mpi4py has on every library, and that does something else on most."""

    def refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(
            f"comm.{name} needs a library with ULFM: Open MPI, under `mpirun --with-ft ulfm`. On "
            f"{MPI.get_vendor()[0]} mpi4py puts another call in its place: Shrink keeps the dead."
        )

    return refuse


def _recording_class(name: str, of: type[MPI.Comm]) -> type[Any]:
    offered = {key: value for key, value in _methods().items() if hasattr(of, key)}
    return type(name, (_Recording, of), offered)


RecordingComm = _recording_class("RecordingComm", MPI.Intracomm)
RecordingCart = _recording_class("RecordingCart", MPI.Cartcomm)


def _wrap(comm: Any, recorder: Recorder, path: str) -> Any:
    kind = RecordingCart if isinstance(comm, MPI.Cartcomm) else RecordingComm
    recording = kind(comm)
    recording.recorder, recording.path, recording.num_collectives = recorder, path, 0
    world, group = MPI.COMM_WORLD.Get_group(), comm.Get_group()
    recording.members = tuple(group.Translate_ranks(list(range(group.size)), world))
    return recording


def record(comm: MPI.Intracomm, recorder: Recorder) -> Any:
    """Return ``comm`` as a communicator that writes its calls down on ``recorder``."""
    MPI.Request = RecordingRequest  # type: ignore[misc]  # so that MPI.Request.Waitall is seen
    return _wrap(comm, recorder, "world")
