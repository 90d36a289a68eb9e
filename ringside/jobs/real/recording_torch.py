"""Writing down what torch's process groups do in a real run: ``recording``.

Every call of a process group, whoever makes it (``dist.all_reduce``, DDP's reducer in C++, FSDP2,
DTensor), becomes an operator of torch's dispatcher in the namespace ``c10d``. While a recording
lasts, these operators have one more kernel, at the key ``BackendSelect`` that every call passes on
its way to gloo or NCCL: it writes the call down and lets it go on. So results, and the process
groups, are what they are without it, other operators cost nothing more, and none is missed.

    all_reduce, reduce, reduce_scatter      allreduce, reduce, reduce_scatter
    all_gather, gather, scatter, broadcast  allgather, gather, scatter, bcast
    all_to_all, barrier                     alltoall, barrier
    send, recv                              isend, irecv

Who waits, and when:

    work.wait() in Python                   seen where it is called
    dist.all_reduce(...), dist.send(...)    wait for what they start: one call
    functional collectives, DTensor         wait_tensor
    the reducer, and hooks of it            at the end of backward: the recording waits there
                                            itself, just before the reducer does
    other C++ code                          waits for what it starts: the recording does so at once

On a GPU a call returns as soon as it is queued. With ``DeviceClock`` the times are those at which
the current stream gets to a call, and to what comes after its wait.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd import Variable

from ringside.jobs.real.torch_calls import READERS, peer
from ringside.pytorch import tensors
from ringside.session.recorder import CallRecord, HostClock, Recorder
from ringside.trace import Mode

_KEY = "BackendSelect"
_C10D = dist.distributed_c10d.__file__
_DISTRIBUTED = os.path.dirname(_C10D)
_FUNCTIONAL = ("_ops.py", "_functional_collectives.py")
_WRAPPERS = ("eval_frame.py", "_compile.py")  # torch's own, round a mode's method
_engine: Any = Variable._execution_engine
_ProcessGroup: Any = dist.ProcessGroup
_Work: Any = dist.Work
_Event: Any = torch.cuda.Event
_Library: Any = torch.library.Library


class DeviceClock(HostClock):
    """Time as a GPU's current stream sees it: marks are CUDA events."""

    def restart(self) -> None:
        torch.cuda.synchronize()
        self._origin: Any = self.mark()

    def mark(self) -> Any:
        event = _Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, mark: Any) -> float:
        mark.synchronize()
        return float(self._origin.elapsed_time(mark)) / 1e3


@dataclass
class _Started:
    """What was started and not yet waited for."""

    call: CallRecord
    requests: list[int]
    work: Any = None  # keeps the identity of the Python object that the program has
    receives: list[list[Any]] = field(default_factory=list)  # from anybody

    @property
    def is_message(self) -> bool:
        """Point to point: nobody may wait for it out of turn."""
        return self.call.ops[-1][0] in ("isend", "irecv")


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Write down all calls of process groups until the end, while ``recorder.enabled``."""
    hooks = _Recording(recorder)
    hooks.begin()
    try:
        yield
    finally:
        hooks.end()


@contextmanager
def counted_operators(recorder: Recorder) -> Iterator[None]:
    """Count the work of torch's operators; every one takes some microseconds longer."""
    from ringside.pytorch.counting import Meter

    class Counter:
        def work(self, flops: float, nbytes: float, moved: float, phase: str) -> None:
            recorder.counted(flops, nbytes, moved)

    meter: Any = Meter(Counter())  # type: ignore[arg-type]
    with meter:
        yield


class _Recording:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.started: dict[int, _Started] = {}  # by the work's identity
        self.by_storage: dict[int, _Started] = {}  # functional: by the result's memory
        self.coalescing: dict[int, list[_Started]] = {}  # by thread
        self.sequences: dict[str, int] = {}
        self.groups: dict[str, tuple[str, tuple[int, ...]]] = {}
        # The keys behind ours: with its own key, a redispatch would come back to our kernel.
        self.after = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
        self.libraries: list[Any] = []
        self.replaced: list[tuple[Any, str, Any]] = []

    # -- begin and end ---------------------------------------------------------------------------

    def begin(self) -> None:
        """Put the kernels and the methods in their places."""
        calls = _Library("c10d", "IMPL")
        waits = _Library("_c10d_functional", "IMPL")
        self.libraries = [calls, waits]
        for name, read in READERS.items():
            operator = getattr(torch.ops.c10d, name, None)
            if operator is not None:
                calls.impl(name, self._kernel(operator.default, read), _KEY, with_keyset=True)
        wait = torch.ops._c10d_functional.wait_tensor.default
        waits.impl("wait_tensor", self._wait_tensor(wait), _KEY, with_keyset=True)
        for of, name, wrapper in (
            (_Work, "wait", self._wait),
            (_Work, "synchronize", self._wait),
            (_Work, "is_completed", self._is_completed),
            (_Work, "get_future", self._get_future),
            (_ProcessGroup, "_start_coalescing", self._start_coalescing),
            (_ProcessGroup, "_end_coalescing", self._end_coalescing),
        ):
            # Subclasses bind some of these methods themselves, past a wrapper on the base.
            for kind in (of, *of.__subclasses__()):
                if name in vars(kind):
                    self.replaced.append((kind, name, vars(kind)[name]))
                    setattr(kind, name, wrapper(getattr(kind, name)))

    def end(self) -> None:
        """Take them away again."""
        for of, name, original in reversed(self.replaced):
            setattr(of, name, original)
        for library in self.libraries:
            library._destroy()
        self._forget()

    def _forget(self) -> None:
        """Works that nobody has waited for keep their tensors alive."""
        self.started.clear()
        self.by_storage.clear()

    # -- starting --------------------------------------------------------------------------------

    def _kernel(self, operator: Any, read: Callable[..., Any]) -> Callable[..., Any]:
        names = [argument.name for argument in operator._schema.arguments]

        def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            rest = keyset & self.after
            if not self.recorder.enabled:
                self._forget()
                return operator.redispatch(rest, *args, **kwargs)
            # None in autograd's threads of a GPU: DDP's reducer calls from there.
            frame = _caller(sys._getframe().f_back)
            caller = frame.f_code.co_filename if frame is not None else ""
            arguments = dict(zip(names, args, strict=False)) | kwargs
            path, members = self._group(arguments["process_group"])
            label, ops = read(arguments, members)
            if caller == _C10D:
                label = _called(frame) or label
            with self.recorder.call(f"{label}{peer(ops)}") as call:
                started = self._write(call, path, members, ops)
                result = operator.redispatch(rest, *args, **kwargs)
                self._keep(started, caller, arguments, result)
            return result

        return kernel

    def _group(self, boxed: Any) -> tuple[str, tuple[int, ...]]:
        group = _ProcessGroup.unbox(boxed)
        name = group.group_name
        if name not in self.groups:
            members = tuple(dist.get_process_group_ranks(group))
            whole = group == dist.group.WORLD
            self.groups[name] = ("world" if whole else f"world/{name}", members)
        return self.groups[name]

    def _write(
        self, call: CallRecord, path: str, members: tuple[int, ...], ops: list[tuple[Any, ...]]
    ) -> _Started:
        started = _Started(call, [])
        for kind, *fields in ops:
            request = self.recorder.request()
            started.requests.append(request)
            if kind == "isend":
                peer, tag, nbytes = fields
                call.ops.append(["isend", path, peer, tag, nbytes, request, int(Mode.STANDARD)])
            elif kind == "irecv":
                peer, tag, nbytes = fields
                op = ["irecv", path, peer, tag, nbytes, request, (peer, tag), members]
                call.ops.append(op)
                if peer < 0:
                    started.receives.append(op)
            else:
                name, root, part = fields
                number = self.sequences.get(path, 0)
                self.sequences[path] = number + 1
                call.ops.append(["collective", path, request, name, root, number, members, part])
        return started

    def _keep(self, started: _Started, caller: str, given: dict[str, Any], result: Any) -> None:
        """Remember who waits for what was started, or that nobody needs to."""
        boxed = result[-1] if isinstance(result, tuple) else result
        work = started.work = _unboxed(boxed)
        open_block = self.coalescing.get(threading.get_ident())
        if open_block is not None:
            open_block.append(started)
        elif work is None:  # NCCL: the current stream has been told to wait
            self._waited(started.call, started)
        elif caller == _C10D or started.is_message:
            self.started[id(work)] = started
        elif caller.endswith(_FUNCTIONAL):
            started.work = None  # it would keep its tensors
            for tensor in _results(given):
                self.by_storage[tensor.untyped_storage().data_ptr()] = started
        elif torch._C._current_graph_task_id() != -1:
            self.started[id(work)] = started
            self._wait_after_backward(started)
        else:
            work.wait()
            self._waited(started.call, started)

    # -- waiting ---------------------------------------------------------------------------------

    def _waited(self, call: CallRecord, started: _Started) -> None:
        for op in started.receives:
            source = started.work._source_rank()
            op[2] = op[-1][source]
        call.ops.append(["wait", started.requests])

    def _wait(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            started = self.started.pop(id(work), None)
            if started is None:
                return original(work, *args, **kwargs)
            above = sys._getframe().f_back
            blocking = above is not None and above.f_code.co_filename == _C10D
            name = started.call.name if blocking else f"{started.call.name}.wait()"
            with self.recorder.call(name, more=blocking) as call:
                result = original(work, *args, **kwargs)
                self._waited(call, started)
            if blocking:
                self._join(started.call, call)
            return result

        return wait

    def _join(self, first: CallRecord, second: CallRecord) -> None:
        """A blocking call starts and waits: let it stand as one."""
        calls = self.recorder.calls
        if len(calls) >= 2 and calls[-2] is first and calls[-1] is second:
            calls.pop()
            first.end_s = second.end_s
            first.ops += second.ops

    def _is_completed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def is_completed(work: Any) -> Any:
            done = original(work)
            started = self.started.pop(id(work), None) if done else None
            if started is not None:
                with self.recorder.call(f"{started.call.name}.is_completed()") as call:
                    self._waited(call, started)
            return done

        return is_completed

    def _get_future(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def get_future(work: Any) -> Any:
            started = self.started.get(id(work))
            if started is not None and torch._C._current_graph_task_id() != -1:
                self._wait_after_backward(started)
            return original(work)

        return get_future

    def _wait_after_backward(self, started: _Started) -> None:
        def wait() -> None:
            # A hook of the same backward may have waited for it meanwhile.
            if id(started.work) in self.started:
                started.work.wait()

        _engine.queue_callback(wait)

    def _wait_tensor(self, operator: Any) -> Callable[..., Any]:
        def kernel(keyset: Any, tensor: torch.Tensor) -> Any:
            started = self.by_storage.pop(tensor.untyped_storage().data_ptr(), None)
            if started is None or not self.recorder.enabled:
                return operator.redispatch(keyset & self.after, tensor)
            with self.recorder.call(f"{started.call.name}.wait()") as call:
                result = operator.redispatch(keyset & self.after, tensor)
                if started.requests:
                    self._waited(call, started)
                    started.requests = []  # a coalesced call has several tensors
            return result

        return kernel

    # -- coalescing, which NCCL does -------------------------------------------------------------

    def _start_coalescing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def start(group: Any, *args: Any) -> Any:
            self.coalescing[threading.get_ident()] = []
            return original(group, *args)

        return start

    def _end_coalescing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def end(group: Any, *args: Any) -> Any:
            inside = self.coalescing.pop(threading.get_ident(), [])
            with self.recorder.call("coalesced") as call:
                work = original(group, *args)
                whole = _Started(call, [], work)
                for started in inside:
                    whole.requests += started.requests
                    whole.receives += started.receives
                if work is None and whole.requests:
                    self._waited(call, whole)
                elif whole.requests:
                    self.started[id(work)] = whole
            return work

        return end


def _unboxed(boxed: Any) -> Any:
    """The work as Python has it; None where there is none to wait for."""
    try:
        return None if boxed is None else _Work.unbox(boxed)
    except RuntimeError:  # a box with nothing in it
        return None


def _results(given: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors that a call writes to."""
    written = [given[name] for name in given if name.startswith(("output", "tensor"))]
    return tensors.tensors_in(written)


def _caller(frame: FrameType | None) -> FrameType | None:
    """Who called an operator, past the dispatch modes that the call went through."""
    if frame is None or frame.f_code.co_filename == _C10D:
        return frame
    above: FrameType | None = frame
    for _ in range(4):
        if above is None:
            break
        if above.f_code.co_name == "__torch_dispatch__":
            above = above.f_back
            while above is not None and above.f_code.co_filename.endswith(_WRAPPERS):
                above = above.f_back
            return _caller(above)
        above = above.f_back
    return frame


def _called(frame: FrameType | None) -> str:
    """The function of torch.distributed that the program called."""
    name = ""
    while frame is not None and frame.f_code.co_filename.startswith(_DISTRIBUTED):
        called = frame.f_code.co_name
        public = called != "batch_isend_irecv" and not called.startswith("_")
        if public and frame.f_code.co_filename == _C10D:
            name = called
        frame = frame.f_back
    return name
