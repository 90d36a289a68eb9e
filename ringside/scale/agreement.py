"""Whether a trace may be believed: laws that every trace obeys, and agreement with a counted one.

A trace made on fake tensors is written by the student's process. It is believed at 512 ranks if
the same code's traces at 2 to 8 ranks agree, operation by operation, with what the network counted,
and if the large one obeys the conservation laws:

    each message sent is received once, with as many bytes
    members of a collective give the same name, bytes and root, each of them once
    every request is waited for at most once, after it was posted
    the work of all ranks together is at least the serial program's
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

from ringside.errors import TraceError
from ringside.timing.fold import Fold
from ringside.trace import CallSite, Kind, Op, Trace

_SEND, _RECEIVE, _COLLECTIVE = int(Kind.ISEND), int(Kind.IRECV), int(Kind.COLLECTIVE)


class DisagreementError(TraceError):
    """A trace isn't what the network counted, or breaks a law that all traces obey."""


# -- conservation ----------------------------------------------------------------------------------


def check_conservation(
    trace: Trace, *, serial_flops: float | None = None, fold: Fold | None = None
) -> None:
    """Check the laws in the module's docstring.

    Args:
        fold: which ranks stand for others, if only they have operations.
        serial_flops: FLOPs of the serial program, at which the sum over ranks may not fall short.

    Raises:
        DisagreementError: a law is broken; names ranks, lines and both values.
    """
    _check_messages(trace, fold)
    _check_collectives(trace, fold)
    _check_requests(trace)
    if serial_flops is not None:
        # Only the first move leaves any rank in its place: each stands for one rank a move.
        total = sum(num_flops(trace)) * (1 if fold is None else len(fold.moves))
        if total < serial_flops:
            raise DisagreementError(
                f"all ranks together do {total:.6g} FLOPs, the serial program {serial_flops:.6g}: "
                "some of the work is missing."
            )


def num_flops(trace: Trace) -> list[float]:
    """Floating-point operations of each rank."""
    return [sum(float(op.detail[0]) for op in ops if op.kind == Kind.COMPUTE) for ops in trace.ops]


def _check_messages(trace: Trace, fold: Fold | None) -> None:
    sent: dict[int, tuple[int, Op]] = {}
    for rank, ops in enumerate(trace.ops):
        for op in ops:
            if op[0] == _SEND:
                if op.message in sent:
                    raise DisagreementError(f"message {op.message} is sent twice.")
                sent[op.message] = rank, op
    for rank, ops in enumerate(trace.ops):
        for op in ops:
            if op[0] != _RECEIVE:
                continue
            source, send = sent.pop(op.message, (-1, op))
            where = _where(trace, op)
            if source < 0:
                raise DisagreementError(
                    f"rank {rank} waits for a message from rank {op.peer} with tag {op.tag} that "
                    f"is never sent{where}."
                )
            if fold is None or fold.stand_in[op.peer] == op.peer:
                envelope = rank, op.peer, op.comm, op.tag
            else:
                home = fold.home(op.peer)
                envelope = home[rank], home[op.peer], fold.home_comm(op.comm, op.peer), op.tag
            if (send.peer, source, send.comm, send.tag) != envelope:
                raise DisagreementError(
                    f"rank {rank} receives{where} a message that rank {source} sends to rank "
                    f"{send.peer}, with tag {send.tag}, on {send.comm}; it asked for one from "
                    f"rank {op.peer} with tag {op.tag} on {op.comm}."
                )
            if send.nbytes != op.nbytes:
                raise DisagreementError(
                    f"rank {source} sends {send.nbytes} bytes to rank {rank}, which counts "
                    f"{op.nbytes}{where}."
                )
    if sent:
        number = min(sent)
        source, send = sent[number]
        raise DisagreementError(
            f"rank {source} sends {send.nbytes} bytes with tag {send.tag} to rank {send.peer} that "
            f"are never received{_where(trace, send)}; so are {len(sent) - 1} more messages."
        )


def _check_collectives(trace: Trace, fold: Fold | None) -> None:
    open_: dict[tuple[Any, ...], tuple[Op, int, set[int]]] = {}
    for rank, ops in enumerate(trace.ops):
        for op in ops:
            if op[0] != _COLLECTIVE:
                continue
            if not op.detail:
                raise DisagreementError(
                    f"rank {rank} takes part in a collective on {op.comm} that not all members "
                    f"call{_where(trace, op)}."
                )
            name, sequence, root, members, sizes = op.detail
            key = (op.comm, sequence) if sequence >= 0 else (op.comm, sequence, members)
            first, other, came = open_.setdefault(key, (op, rank, set()))
            same = op.detail is first.detail or op.detail == first.detail
            if not same or op.nbytes != first.nbytes:
                expected = first.detail
                raise DisagreementError(
                    f"collective {sequence} on {op.comm} is {name} of {sum(sizes)} bytes with "
                    f"root {root} on rank {rank} and {expected[0]} of {sum(expected[4])} bytes "
                    f"with root {expected[2]} on rank {other}{_where(trace, op)}."
                )
            if rank in came or rank not in members:
                raise DisagreementError(
                    f"rank {rank} calls collective {sequence} on {op.comm} "
                    f"{'twice' if rank in came else 'of which it is no member'}."
                )
            came.add(rank)
    for (comm, sequence, *_), (op, _, came) in open_.items():
        missing = [member for member in op.detail[3] if member not in came]
        if fold is not None:  # of the others the assembly has told
            missing = [member for member in missing if fold.stand_in[member] == member]
        if missing:
            raise DisagreementError(
                f"rank {missing[0]} never calls {op.detail[0]} number {sequence} on {comm}, which "
                f"{len(came)} other members call{_where(trace, op)}."
            )


def _check_requests(trace: Trace) -> None:
    for rank, ops in enumerate(trace.ops):
        free: set[int] = set()
        for op in ops:
            if op[0] == Kind.WAIT:
                for number in op.detail:
                    if number not in free:
                        raise DisagreementError(
                            f"rank {rank} waits for request {number}, which is not open"
                            f"{_where(trace, op)}."
                        )
                    free.remove(number)
            elif op.request >= 0:
                free.add(op.request)


# -- agreement -------------------------------------------------------------------------------------


def compare(fakes: Trace, network: Trace) -> None:
    """Compare a trace made on fake tensors with what the network recorded, one by one.

    The same operations in the same order on every rank, with the same peers, tags, bytes,
    communicators, members, FLOPs and bytes of work, at the same lines.

    Raises:
        DisagreementError: they differ; names the first operation that does, and both values.
    """
    if fakes.world_size != network.world_size:
        raise DisagreementError(
            f"the trace on fake tensors has {fakes.world_size} ranks, the network's "
            f"{network.world_size}."
        )
    for rank in range(fakes.world_size):
        pairs = zip_longest(fakes.ops[rank], network.ops[rank])
        for index, (op, counted) in enumerate(pairs):
            what = _difference(op, counted, fakes, network)
            if what:
                operation = op if op is not None else counted
                where = _where(fakes if op is not None else network, operation)
                raise DisagreementError(
                    f"rank {rank}, operation {index}{where}: {what}. The code does something else "
                    "on fake tensors than on real ones, or the trace was not made by running it."
                )


def _site(trace: Trace, op: Op) -> CallSite | None:
    return trace.sites[op.site] if 0 <= op.site < len(trace.sites) else None


def _where(trace: Trace, op: Op) -> str:
    site = _site(trace, op)
    return f" at {site.where}" if site is not None and site.where else ""


_FIELDS: tuple[tuple[str, Callable[[Op], Any]], ...] = (
    ("peer", lambda op: op.peer),
    ("tag", lambda op: op.tag),
    ("bytes", lambda op: op.nbytes),
    ("communicator", lambda op: op.comm),
    ("request", lambda op: op.request),
    ("message", lambda op: op.message),
)
_PARTS = {
    Kind.COMPUTE: ("FLOPs", "bytes", "declared time", "phase", "operators", "moved bytes"),
    Kind.COLLECTIVE: ("collective", "sequence", "root", "members", "sizes"),
}


def _difference(op: Op | None, counted: Op | None, fakes: Trace, network: Trace) -> str:
    """What two operations don't have in common, in words; empty if they are the same."""
    if op is None or counted is None:
        return (
            f"{_say(op, fakes) if op else 'nothing'} on fake tensors, "
            f"{_say(counted, network) if counted else 'nothing'} on the network"
        )
    if op.kind != counted.kind:
        return f"{_say(op, fakes)} on fake tensors, {_say(counted, network)} on the network"
    for name, get in _FIELDS:
        if get(op) != get(counted):
            return f"{_say(op, fakes)} with {name} {get(op)}; the network counted {get(counted)}"
    if tuple(op.detail) != tuple(counted.detail):
        names = _PARTS.get(Kind(op.kind), ())
        for number, (a, b) in enumerate(zip_longest(op.detail, counted.detail)):
            if a != b:
                name = names[number] if number < len(names) else f"part {number}"
                return f"{_say(op, fakes)} with {name} {a}; the network counted {b}"
    if _site(fakes, op) != _site(network, counted):
        return f"{_site(fakes, op)} on fake tensors is {_site(network, counted)} on the network"
    return ""


def _say(op: Op, trace: Trace) -> str:
    site = _site(trace, op)
    return (site.call if site is not None else "") or Kind(op.kind).name.lower()
