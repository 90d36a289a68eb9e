"""The process group: torch's calls, one by one, as operations of the link.

Reductions are made by the network, everything else is moved by it. What all members must give
alike (dtype, number of elements, operation, root) goes along with every collective, so that a
disagreement ends the run with a verdict instead of with a hang or with wrong numbers.

    all_reduce, reduce, reduce_scatter      allreduce, reduce, reduce_scatter
    all_gather, gather, scatter, broadcast  allgather, gather, scatter, bcast
    all_to_all, barrier                     alltoall, barrier
    send, recv                              isend, irecv with a wait
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable, Sequence
from functools import cache
from types import FrameType
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from ringside.arrays import Array
from ringside.network import makers
from ringside.network.link import Call, CommInfo, Completion, Link, format_call
from ringside.network.wire import ANY_SOURCE
from ringside.pytorch import sparse, tensors
from ringside.pytorch.counting import communicated
from ringside.pytorch.phantom import joined
from ringside.pytorch.work import NetworkWork, WorkPart, in_backward

NAME = "ringside"
# network/gathering.py has the same text: the network can't import this module, which needs torch.
BFLOAT16 = "bfloat16:"  # before an operation: the elements are 16 bits each of a bfloat16

_SAME_SHAPE = "Give it the shape that this rank sends."
_SIZES = {
    "all_to_all_single": "output_split_sizes[r] is what rank r sends here, its input_split_sizes "
    "at this rank's place: exchange these numbers first, by an all_to_all_single of their own."
}
_ENVELOPE = struct.Struct("<BQ")  # dtype and number of elements, in front of a message's payload
_OPS = {"PRODUCT": "PROD"}
_BITWISE = ("BAND", "BOR", "BXOR")
# Where torch makes collectives by itself.
_MAKERS = {
    os.path.join("nn", "parallel", "distributed.py"): makers.BY_DDP,
    os.path.join("distributed", "fsdp", ""): makers.BY_FSDP,
    os.path.join("distributed", "tensor", ""): makers.BY_DTENSOR,
    os.path.join("nn", "modules", "_functions.py"): makers.BY_BATCH_NORM,
    os.path.join("distributed", "pipelining", ""): makers.BY_PIPELINING,
}
_OF_OBJECTS = {
    "broadcast_object_list": makers.OF_OBJECTS,
    "recv_object_list": makers.RECEIVES_OBJECTS,
}
_UNFIT = {  # what to say of a message of another size, by what has made the call
    makers.RECEIVES_OBJECTS: "recv_object_list and send_object_list are given lists of the same "
    "length, and neither goes with send or recv.",
    makers.BY_PIPELINING: "The pipeline's schedule makes these calls: give all ranks the same "
    "num_stages, which is the number of ranks if each has one, and the same n_microbatches.",
}
_SAME_ORDER = (
    "Give both sides the same shape and dtype. If they have them, the two ranks send and receive "
    "in different orders."
)
_LENGTHS = (
    "Give both sides the same shape and dtype; what send_object_list sends, which begins with its "
    "lengths as int64, only recv_object_list takes."
)
_WHOLE = ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")

# torch's stubs for these differ between releases.
_ProcessGroup: Any = dist.ProcessGroup
_c10d: Any = c10d

Alike = tuple[tuple[str, Any], ...]


class MismatchError(RuntimeError):
    """What was received doesn't fit the tensor that it was to go into."""


class NetworkGroup(_ProcessGroup):  # type: ignore[misc]
    """A communicator of the network as torch sees it.

    Args:
        link: the rank's link.
        info: the communicator.
    """

    def __init__(self, link: Link, info: CommInfo) -> None:
        super().__init__(info.rank, len(info.members))
        self._link = link
        self._info = info
        custom = dist.ProcessGroup.BackendType.CUSTOM
        # Some of torch asks a group for its backend of a device. This one refuses all calls, so
        # that nothing is lost silently where torch goes past the methods below.
        self._refusing = _refusing_backend(info.rank, len(info.members))
        self._set_default_backend(custom)
        self._register_backend(torch.device("cpu"), custom, self._refusing)

    def rank(self) -> int:
        """This process's place in the group."""
        return self._info.rank

    def size(self) -> int:
        """How many ranks the group has."""
        return len(self._info.members)

    def getRank(self) -> int:
        return self._info.rank

    def getSize(self) -> int:
        return len(self._info.members)

    def name(self) -> str:
        """The backend's name."""
        return NAME

    def getBackendName(self) -> str:
        return NAME

    def __repr__(self) -> str:
        return f"<ringside group: rank {self.rank()} of {self.size()}>"

    def shutdown(self) -> None:
        """Nothing is held that must be given back."""

    abort = shutdown

    def among_survivors(self, name: str, *spec: int) -> Any:
        """``"agree"`` or ``"shrink"``, which all members that are alive must call."""
        call: Call = (name.capitalize(), tuple(("flag", flag) for flag in spec))
        shown = format_call(call)
        return self._link.collective(self._info.id, name, spec, call=call, shown=shown)

    def set_timeout(self, timeout: Any) -> None:
        """Time-outs have no meaning in virtual time."""

    def _start_coalescing(self, device: Any) -> None:
        """Calls need no bracket: they are posted as they come."""

    def _end_coalescing(self, device: Any) -> NetworkWork:
        return NetworkWork(self._link, [], ("coalesced", ()))

    def _get_sequence_number_for_group(self) -> int:
        return 0

    def _set_sequence_number_for_group(self) -> None:
        """The network numbers collectives."""

    # -- reductions ------------------------------------------------------------------------------

    def allreduce(self, given: Any, opts: Any = None) -> NetworkWork:
        """Reduce over all members, in place, on every member."""
        (tensor,) = [given] if isinstance(given, torch.Tensor) else given
        # Before `_listed`, which refuses all but dense tensors.
        if isinstance(tensor, torch.Tensor) and tensor.layout == torch.sparse_coo:
            return self._allreduce_sparse(tensor, opts)
        return self._allreduce(_listed(given), opts, "all_reduce")

    def allreduce_coalesced(self, given: Any, opts: Any = None) -> NetworkWork:
        """Reduce several tensors in one collective, if they are of one dtype."""
        return self._allreduce(_listed(given), opts, "all_reduce_coalesced")

    def _allreduce(self, given: list[torch.Tensor], opts: Any, shown: str) -> NetworkWork:
        parts = []
        call: Call = (shown, ())
        for tensor in given:
            tensors.check_no_gaps(tensor, shown, written=True)
        for alike in _by_dtype(given):
            op, factor = self._operation(opts, alike[0])
            call = (shown, (("op", _shown(opts)),))
            data = _reducible(alike, factor)
            spec = (_wire_op(op, alike[0]), data)

            def deliver(value: Any, into: list[torch.Tensor] = alike) -> None:
                _scatter_into(into, value)

            parts.append(
                self._join(
                    "allreduce", spec, call, _in_place(alike, _shown(opts)), deliver, received=alike
                )
            )
        return self._work(parts, call, given, opts)

    def _allreduce_sparse(self, tensor: torch.Tensor, opts: Any) -> NetworkWork:
        call: Call = ("all_reduce", (("op", _shown(opts)),))
        if _shown(opts) != "SUM":
            raise ValueError("sparse tensors can be added up, and reduced in no other way.")
        alike = (
            ("dtype", tensors.dtype_name(tensor)),
            ("shape", tuple(tensor.shape)),
            ("sparse dimensions", tensor.sparse_dim()),
        )
        part = self._join(
            "allgather",
            (sparse.packed(tensor),),
            call,
            alike,
            lambda gathered: sparse.add_up(tensor, gathered),
        )
        return self._work([part], call, [tensor], opts)

    def reduce(self, given: Any, opts: Any = None) -> NetworkWork:
        """Reduce over all members into the root's tensor."""
        (tensor,) = _listed(given)
        root = self._root(opts, "reduce", "dst")
        tensors.check_no_gaps(tensor, "reduce", written=True)
        op, factor = self._operation(opts, tensor)
        call: Call = ("reduce", (("dst", self._info.members[root]), ("op", _shown(opts))))
        spec = (root, _wire_op(op, tensor), _reducible([tensor], factor))
        mine = root == self._info.rank

        def deliver(value: Any) -> None:
            if mine:
                _put(tensor, value)

        part = self._join(
            "reduce", spec, call, _in_place([tensor], _shown(opts)), deliver,
            received=[tensor] if mine else [],
        )  # fmt: skip
        return self._work([part], call, [tensor], opts)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> NetworkWork:
        """Reduce lists of tensors; member r gets entry r."""
        (output,), (pieces,) = _listed(outputs), _nested(inputs)
        tensors.check_contiguous(output, "reduce_scatter", written=True)
        for piece in pieces:
            tensors.check_contiguous(piece, "reduce_scatter", written=False)
        return self._reduce_scatter(output, pieces, opts, "reduce_scatter")

    def reduce_scatter_single(self, output: Any, given: Any, opts: Any = None) -> NetworkWork:
        """Reduce a tensor; member r gets the r-th of equal parts."""
        parts = _equal_parts(given, self.size(), "reduce_scatter_tensor")
        return self._reduce_scatter(output, parts, opts, "reduce_scatter_tensor")

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(
        self, outputs: Any, inputs: Any, opts: Any = None
    ) -> NetworkWork:
        """Several reduce_scatter_tensor in one call."""
        return self._several(self.reduce_scatter_single, outputs, inputs, opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _reduce_scatter(
        self, output: torch.Tensor, given: Sequence[torch.Tensor], opts: Any, shown: str
    ) -> NetworkWork:
        if len(given) != self.size():
            raise ValueError(f"{shown} wants {self.size()} tensors, one per rank: {len(given)}.")
        counts = tuple(int(part.numel()) for part in given)
        call: Call = (shown, (("op", _shown(opts)),))
        _fits(output, counts[self.rank()], given[0], call)
        op, factor = self._operation(opts, output)
        spec = (_wire_op(op, output), _reducible(given, factor), counts)
        part = self._join(
            "reduce_scatter",
            spec,
            call,
            _of(given, _shown(opts)),
            lambda value: _put(output, value),
            sent=() if _share(output, given) else given,
            received=[output],
        )
        return self._work([part], call, [output], opts)

    # -- gathers ---------------------------------------------------------------------------------

    def broadcast(self, given: Any, opts: Any = None) -> NetworkWork:
        """Copy the root's tensor to all members."""
        (tensor,) = _listed(given)
        root = self._root(opts, "broadcast", "src")
        tensors.check_no_gaps(tensor, "broadcast", written=True)
        call: Call = ("broadcast", (("src", self._info.members[root]),))
        mine = root == self._info.rank
        data = tensors.elements(tensor) if mine else None

        def deliver(value: Any) -> None:
            if not mine:
                _put(tensor, value)

        part = self._join(
            "bcast",
            (root, data),
            call,
            _in_place([tensor]),
            deliver,
            sent=[tensor] if mine else [],
            received=[] if mine else [tensor],
        )
        return self._work([part], call, [tensor], opts)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> NetworkWork:
        """Collect every member's tensor on all members."""
        (into,), (tensor,) = _nested(outputs), _listed(inputs)
        _check_apart(into, "all_gather")
        return self._allgather(into, tensor, opts, "all_gather")

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> NetworkWork:
        """Several all_gather in one call; ``outputs[r][i]`` is tensor i of member r."""
        works = [
            self._allgather([of_rank[i] for of_rank in outputs], tensor, opts, "all_gather")
            for i, tensor in enumerate(inputs)
        ]
        return self._together(works, opts)

    def all_gather_single(self, output: Any, given: Any, opts: Any = None) -> NetworkWork:
        """Collect equal parts of one tensor on all members."""
        shown = "all_gather_into_tensor"
        if tensors.check(output).is_contiguous():
            into = _equal_parts(output, self.size(), shown)
            return self._allgather(into, given, opts, shown)
        staged = torch.empty(output.shape, dtype=output.dtype)
        into = _equal_parts(staged, self.size(), shown)
        work = self._allgather(into, given, opts, shown, lambda: _copy(staged, output))
        awaited = work._parts[0].awaited
        tensors.poison(output, awaited.number if awaited is not None else 0)
        return work

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(
        self, outputs: Any, inputs: Any, opts: Any = None
    ) -> NetworkWork:
        """Several all_gather_into_tensor in one call."""
        return self._several(self.all_gather_single, outputs, inputs, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _allgather(
        self,
        into: Sequence[torch.Tensor],
        given: torch.Tensor,
        opts: Any,
        shown: str,
        then: Callable[[], None] | None = None,
    ) -> NetworkWork:
        call: Call = (shown, ())
        if len(into) != self.size():
            raise ValueError(f"{shown} wants {self.size()} output tensors, got {len(into)}.")
        _fits(into[self.rank()], given.numel(), given, call)
        sizes = tuple(int(tensor.numel()) for tensor in into)
        # Uneven parts are allowed, but all members must expect the same ones.
        even = sizes[0] if len(set(sizes)) == 1 else sizes
        alike = (("dtype", tensors.dtype_name(given)), ("number of elements", even))

        def deliver(value: Any) -> None:
            _put_all(into, value, call)
            if then is not None:
                then()

        part = self._join(
            "allgather",
            (tensors.elements(tensors.check(given)),),
            call,
            alike,
            deliver,
            sent=() if _share(given, into) else [given],
            received=into,
        )
        return self._work([part], call, list(into), opts)

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> NetworkWork:
        """Collect every member's tensor on the root."""
        (tensor,) = _listed(inputs)
        root = self._root(opts, "gather", "dst")
        call: Call = ("gather", (("dst", self._info.members[root]),))
        into = _nested(outputs)[0] if root == self._info.rank else []
        if root == self._info.rank and len(into) != self.size():
            raise ValueError(f"gather wants {self.size()} output tensors, got {len(into)}.")
        _check_apart(into, "gather")
        part = self._join(
            "gather",
            (root, tensors.elements(tensor)),
            call,
            _of([tensor]),
            lambda value: _put_all(into, value or [], call),
            sent=() if _share(tensor, into) else [tensor],
            received=into,
        )
        return self._work([part], call, list(into), opts)

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> NetworkWork:
        """Give entry r of the root's list to member r."""
        (output,) = _listed(outputs)
        root = self._root(opts, "scatter", "src")
        tensors.check_no_gaps(output, "scatter", written=True)
        call: Call = ("scatter", (("src", self._info.members[root]),))
        pieces = _nested(inputs)[0] if root == self._info.rank else []
        if root == self._info.rank and len(pieces) != self.size():
            raise ValueError(f"scatter wants {self.size()} tensors, one per rank: {len(pieces)}.")
        for tensor in pieces:
            _fits(tensor, output.numel(), output, call)
            if tensors.layout(tensor) != tensors.layout(output):
                tensors.check_contiguous(tensor, "scatter", written=False)
                tensors.check_contiguous(output, "scatter", written=True)
        data = [tensors.elements(tensor) for tensor in pieces] or None
        part = self._join(
            "scatter",
            (root, data),
            call,
            _in_place([output]),
            lambda value: _put(output, value),
            sent=() if _share(output, pieces) else pieces,
            received=[output],
        )
        return self._work([part], call, [output], opts)

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> NetworkWork:
        """Give entry r to member r; entry r of the output comes from member r."""
        into = _listed(outputs)
        _check_apart(into, "all_to_all")
        return self._alltoall(into, _listed(inputs), opts, "all_to_all")

    def all_to_all_single(
        self, output: Any, given: Any, output_splits: Any, input_splits: Any, opts: Any = None
    ) -> NetworkWork:
        """As alltoall, with parts along the first dimension of one tensor."""
        name = "all_to_all_single"
        tensors.check_contiguous(tensors.check(given), name, written=False)
        tensors.check_contiguous(tensors.check(output), name, written=True)
        into = _split(output, output_splits, self.size(), name)
        return self._alltoall(into, _split(given, input_splits, self.size(), name), opts, name)

    alltoall_base = all_to_all_single

    def _alltoall(
        self, into: list[torch.Tensor], given: list[torch.Tensor], opts: Any, shown: str
    ) -> NetworkWork:
        call: Call = (shown, ())
        if len(into) != self.size() or len(given) != self.size():
            raise ValueError(
                f"{shown} wants {self.size()} tensors in and out, one per rank: "
                f"{len(given)} in, {len(into)} out."
            )
        part = self._join(
            "alltoall",
            ([tensors.elements(tensor) for tensor in given],),
            call,
            (("dtype", tensors.dtype_name(given[0])),),
            lambda value: _put_all(into, value, call),
            sent=() if any(_share(tensor, into) for tensor in given) else given,
            received=into,
        )
        return self._work([part], call, into, opts)

    def barrier(self, opts: Any = None) -> NetworkWork:
        """Wait until all members have come here."""
        call: Call = ("barrier", ())
        return self._work([self._join("barrier", (), call, ())], call, (), opts)

    def monitored_barrier(self, *args: Any, **kwargs: Any) -> None:
        """A barrier; who is missing is told by the network in any case."""
        self.barrier().wait()

    # -- point to point --------------------------------------------------------------------------

    def send(self, given: Any, dest: int, tag: int = 0) -> NetworkWork:
        """Send a tensor to a member."""
        (tensor,) = _listed(given)
        blocking = _calls("send")
        name = "send" if blocking else "isend"
        tensors.check_contiguous(tensor, name, written=False)
        dst = self._world_rank(dest, name, "dst")
        call: Call = (name, (("dst", dst), *_tagged(tag, name)))
        communicated([tensor])
        data = tensors.memory(tensor)
        envelope = _ENVELOPE.pack(tensors.CODE_OF[tensor.dtype], tensor.numel())
        # Only the elements are claimed, so the envelope isn't counted: the network lets up to
        # wire.ENVELOPE_BYTES go free.
        number = self._link.isend(
            self._info.id, dest, tag, envelope + data.tobytes(), claimed=len(data), call=call
        )
        part = WorkPart(number, sent=[tensor])
        if not blocking:
            told = self._link.told(call)
            self._link.in_flight.sends[number] = lambda: part.check_sent(told())
        return NetworkWork(self._link, [part], call, [tensor], blocking=blocking)

    def recv(self, given: Any, source: int | None, tag: int = 0) -> NetworkWork:
        """Receive a tensor from a member."""
        (tensor,) = _listed(given)
        blocking = _calls("recv")
        name = "recv" if blocking else "irecv"
        tensors.check_contiguous(tensor, name, written=True)
        whom = () if source is None else (("src", self._world_rank(source, name, "src")),)
        call: Call = (name, (*whom, *_tagged(tag, name)))
        sender = ANY_SOURCE if source is None else source
        number = self._link.irecv(self._info.id, sender, tag, -1, call=call)
        communicated([tensor])
        awaited = None if blocking else self._link.awaited(call, tensors.address(tensor))

        def deliver(completion: Completion) -> None:
            _receive(tensor, completion, call, self._info.members, self._link.libraries)

        part = WorkPart(number, deliver, received=[tensor], awaited=awaited)
        return NetworkWork(self._link, [part], call, [tensor], blocking=blocking)

    def recv_anysource(self, given: Any, tag: int = 0) -> NetworkWork:
        """Receive a tensor from any member."""
        return self.recv(given, None, tag)

    recvAnysource = recv_anysource

    # -- posting ---------------------------------------------------------------------------------

    def _root(self, opts: Any, shown: str, word: str) -> int:
        root = int(opts.rootRank) if opts is not None else 0
        self._world_rank(root, shown, word)
        return root

    def _operation(self, opts: Any, tensor: torch.Tensor) -> tuple[str, Any]:
        op, factor = _operation(opts, tensor)
        if op == "AVG" and tensors.dtype_name(tensor) in _WHOLE:
            self._link.remark(
                "average",
                f"ReduceOp.AVG at {self._link.here} is of whole numbers, so it is cut to one, "
                "and gloo refuses it: convert the tensor to float before.",
            )
        return op, factor

    def _world_rank(self, place: int, shown: str, word: str) -> int:
        """The member at a place of the group, which a call has given as ``word``."""
        members = self._info.members
        if 0 <= place < len(members):
            return members[place]
        last = len(members) - 1
        if self._info.id == self._link.world.id:
            raise ValueError(f"{shown}: {word} is {place}, and the ranks are 0 to {last}.")
        raise ValueError(
            f"{shown}: group_{word} is {place}, and the group's ranks {list(members)} have the "
            f"places 0 to {last}."
        )

    def _join(
        self,
        name: str,
        spec: tuple[Any, ...],
        call: Call,
        alike: Alike,
        deliver: Callable[[Any], None] | None = None,
        *,
        sent: Sequence[torch.Tensor] = (),
        received: Sequence[torch.Tensor] = (),
    ) -> WorkPart:
        """Post a collective; ``received`` is poisoned until its values come."""
        shown = f"{call[0]} {_made_by(self._link.libraries)}".rstrip()
        number = self._link.icollective(
            self._info.id, name, spec, call=call, shown=shown, alike=alike
        )

        def finish(completion: Completion) -> None:
            value = self._link.collective_result(completion)
            if deliver is not None:
                deliver(value)

        # In this order: post (which copies), take checksums of `sent`, poison. So `sent` may share
        # no memory with `received`: callers leave it out of a call in place.
        communicated(sent, received)
        awaited = None
        if received:
            first = tensors.check(received[0])
            awaited = self._link.awaited(call, tensors.address(first))
        return WorkPart(number, finish, sent, received, awaited)

    def _work(self, parts: Sequence[WorkPart], call: Call, results: Any, opts: Any) -> NetworkWork:
        blocking = opts is not None and not getattr(opts, "asyncOp", True)
        return NetworkWork(self._link, parts, call, results, blocking=blocking)

    def _several(
        self, one: Callable[..., NetworkWork], outputs: Any, inputs: Any, opts: Any
    ) -> NetworkWork:
        pairs = zip(outputs, inputs, strict=True)
        return self._together([one(output, tensor, opts) for output, tensor in pairs], opts)

    def _together(self, works: Sequence[NetworkWork], opts: Any) -> NetworkWork:
        parts = [part for work in works for part in work._parts]
        results = [tensor for work in works for tensor in work._results]
        return self._work(parts, works[-1]._call if works else ("coalesced", ()), results, opts)


def _refusing_backend(rank: int, size: int) -> Any:
    options = _c10d.FakeProcessGroup.Options()
    options.error_on_collective = True
    return _c10d.FakeProcessGroup._create_internal(rank, size, options)


# -- arguments -----------------------------------------------------------------------------------


def _listed(given: Any) -> list[torch.Tensor]:
    entries = [given] if isinstance(given, torch.Tensor) else list(given)
    return [tensors.check(tensor) for tensor in entries]


def _nested(given: Any) -> list[list[torch.Tensor]]:
    return [_listed(inner) for inner in given]


def _split(
    tensor: torch.Tensor, splits: Sequence[int] | None, size: int, shown: str
) -> list[torch.Tensor]:
    if not splits:
        return _equal_parts(tensor, size, shown)
    if len(splits) != size or sum(splits) != tensor.shape[0]:
        raise ValueError(
            f"{shown}: the split sizes {list(splits)} must be {size} numbers that add up to the "
            f"tensor's first dimension ({tensor.shape[0]})."
        )
    return _pieces(tensor, list(splits))


def _equal_parts(tensor: torch.Tensor, size: int, shown: str) -> list[torch.Tensor]:
    tensor = tensors.check(tensor)
    if tensor.numel() % size:
        raise ValueError(
            f"{shown}: the tensor's {tensor.numel()} elements can't be cut into {size} equal parts."
        )
    flat = tensor.detach().reshape(-1)
    return _pieces(flat, [flat.numel() // size] * size)


def _pieces(tensor: torch.Tensor, lengths: list[int]) -> list[torch.Tensor]:
    return list(torch.split(tensor.detach(), lengths))


def _by_dtype(given: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    groups: dict[torch.dtype, list[torch.Tensor]] = {}
    for tensor in given:
        groups.setdefault(tensor.dtype, []).append(tensor)
    return list(groups.values())


def _share(tensor: torch.Tensor, others: Sequence[torch.Tensor]) -> bool:
    """Whether a tensor shares its storage with others: an in-place collective."""
    return any(tensors.storage(other) == tensors.storage(tensor) for other in others)


def _check_apart(into: Sequence[torch.Tensor], shown: str) -> None:
    """Refuse a list that names one memory twice: all its entries would be what came last."""
    places = [tensors.address(tensor) for tensor in into if tensor.numel()]
    if len(set(places)) < len(places):
        raise ValueError(
            f"{shown}: the list to receive into holds one tensor more than once, as `[t] * n` "
            "does, so what comes last would be in all of them. Make one tensor for each rank: "
            "[torch.empty_like(t) for _ in range(n)]."
        )


def _tagged(tag: int, shown: str) -> tuple[tuple[str, int], ...]:
    if tag < 0:
        raise ValueError(f"{shown}: a tag is 0 or more, and this one is {tag}.")
    return (("tag", tag),) if tag else ()


def _made_by(libraries: tuple[str, ...]) -> str:
    """What makes a collective, if no call of torch.distributed in the program does.

    Args:
        libraries: folders whose files are none of the program's.
    """
    frame: FrameType | None = sys._getframe(2)
    found = ""
    while not found and frame is not None and frame.f_code.co_filename.startswith(libraries):
        code = frame.f_code
        found = _maker_in(code.co_filename, code.co_name)
        frame = frame.f_back
    return f"{found} {makers.IN_BACKWARD}".lstrip() if in_backward() else found


@cache
def _maker_in(file: str, function: str) -> str:
    """The maker of collectives whose code is in a library's function; empty if there is none."""
    if function in _OF_OBJECTS:
        return _OF_OBJECTS[function]
    found = next((name for part, name in _MAKERS.items() if part in file), "")
    return makers.MAKING_DDP if (found, function) == (makers.BY_DDP, "__init__") else found


def _calls(name: str) -> bool:
    """Whether torch's blocking call of that name is what led here."""
    frame: FrameType | None = sys._getframe(1)  # the group's method
    for _ in range(3):  # torch's send calls its isend, through a wrapper
        frame = frame.f_back if frame is not None else None
        code = frame.f_code if frame is not None else None
        if code and code.co_filename.endswith("distributed_c10d.py") and code.co_name == name:
            return True
    return False


def _op_state(opts: Any) -> tuple[str, Any]:
    if opts is None:
        return "SUM", None
    op = opts.reduceOp
    state: Any = op.__getstate__() if isinstance(op, dist.ReduceOp) else (op, None)
    return state[0].name, state[1]


def _shown(opts: Any) -> str:
    return _op_state(opts)[0]


def _operation(opts: Any, tensor: torch.Tensor) -> tuple[str, Any]:
    """The reduction and the factor of PREMUL_SUM."""
    name, factor = _op_state(opts)
    kind = tensors.dtype_name(tensor)
    if name in _BITWISE and kind not in _WHOLE:
        raise ValueError(f"ReduceOp.{name} wants integers or bools, not {kind}.")
    if name == "AVG" and kind == "bool":
        raise ValueError("ReduceOp.AVG has no meaning for bool.")
    if kind.startswith("float8"):
        raise ValueError(f"tensors of dtype {kind} can't be reduced.")
    return ("SUM", factor) if name == "PREMUL_SUM" else (_OPS.get(name, name), None)


def _wire_op(op: str, tensor: torch.Tensor) -> str:
    reduces = tensor.dtype == torch.bfloat16 and op not in _BITWISE
    return BFLOAT16 + op if reduces else op


def _reducible(given: Sequence[torch.Tensor], factor: Any) -> Array:
    if factor is not None:
        given = [tensor.detach() * factor for tensor in given]
    arrays = [tensors.elements(tensor) for tensor in given]
    return arrays[0] if len(arrays) == 1 else joined(arrays)


def _of(given: Sequence[torch.Tensor], op: str = "") -> Alike:
    """What the members must give alike."""
    count = sum(int(tensor.numel()) for tensor in given)
    alike: Alike = (("dtype", tensors.dtype_name(given[0])), ("number of elements", count))
    return (("op", op), *alike) if op else alike


def _in_place(given: Sequence[torch.Tensor], op: str = "") -> Alike:
    """As ``_of``, for a call that moves memory as it lies: so it must lie alike on all ranks."""
    layouts = [tensors.layout(tensor) for tensor in given]
    strided = [layout for layout in layouts if layout != "contiguous"]
    return (*_of(given, op), ("strides", strided[0] if strided else "contiguous"))


def _fits(into: torch.Tensor, count: int, like: torch.Tensor, call: Call) -> None:
    if into.numel() != count or into.dtype != like.dtype:
        raise ValueError(
            f"{format_call(call)}: a tensor of {into.numel()} elements of {into.dtype} is given "
            f"where {count} of {like.dtype} are needed."
        )


# -- results -------------------------------------------------------------------------------------


def _put(tensor: torch.Tensor, value: Any) -> None:
    tensors.write(tensor, np.ascontiguousarray(value).reshape(-1).view(np.uint8))


def _copy(source: torch.Tensor, into: torch.Tensor) -> None:
    tensors.write(into, tensors.memory(source))


def _put_all(into: Sequence[torch.Tensor], values: Sequence[Any], call: Call) -> None:
    for rank, (tensor, value) in enumerate(zip(into, values, strict=True)):
        if value.nbytes != tensor.numel() * tensor.element_size():
            raise MismatchError(
                f"{format_call(call)}: rank {rank} of the group gave {value.size} elements, "
                f"the tensor for them has {tensor.numel()}. {_SIZES.get(call[0], _SAME_SHAPE)}"
            )
        _put(tensor, value)


def _scatter_into(into: Sequence[torch.Tensor], value: Array) -> None:
    at = 0
    for tensor in into:
        _put(tensor, value[at : at + tensor.numel()])
        at += tensor.numel()


def _receive(
    tensor: torch.Tensor, completion: Completion, call: Call, members: Sequence[int],
    libraries: tuple[str, ...],
) -> None:  # fmt: skip
    payload = completion.payload if completion.payload is not None else memoryview(b"")
    code, count = _ENVELOPE.unpack_from(payload)
    name = tensors.NAME_OF[code] if code < len(tensors.NAME_OF) else "unknown"
    if count != tensor.numel() or name != tensors.dtype_name(tensor):
        is_length = name == "int64" != tensors.dtype_name(tensor)
        otherwise = _LENGTHS if is_length else _SAME_ORDER
        raise MismatchError(
            f"{format_call(call)}: rank {members[completion.source]} sent {count} elements of "
            f"{name}, the tensor to receive into has {tensor.numel()} of "
            f"{tensors.dtype_name(tensor)}. {_UNFIT.get(_made_by(libraries), otherwise)}"
        )
    tensors.write(tensor, np.frombuffer(payload[_ENVELOPE.size :], np.uint8))
