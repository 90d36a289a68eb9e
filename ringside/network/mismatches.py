"""Messages that don't fit the buffers that take them, in a sentence for whoever asks why.

MPI takes bytes as they come: it doesn't see that they were of another type, and it allows a message
shorter than its buffer. So none of this ends a run. It is told beside a verdict that there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ringside.network.matching import Posted, Sent
from ringside.network.wire import KINDS, OBJECT
from ringside.trace import CallSite

# In what messages didn't fit -> where the first of them was taken, and a sentence on it.
Notes = dict[str, tuple[tuple[int, int], str]]

_KINDS = ["bytes", "a pickled object", *KINDS[OBJECT + 1 :]]
_SIZES = [0, 0, *(np.dtype(name).itemsize for name in KINDS[OBJECT + 1 :])]  # 0: of no number


def misfit(message: Sent, receive: Posted, sites: Sequence[CallSite]) -> str:
    """In what a message differs from its buffer: in "kind", "length" or "count"; else empty.

    A message is allowed to be shorter than its buffer. But where the buffer has as many numbers as
    the message has bytes, after a probe, these were counted for those.

    Args:
        sites: the calls of the rank that receives.
    """
    if message.kind != receive.kind:
        return "kind" if message.kind and receive.kind else ""
    if message.kind == OBJECT or len(message.payload) >= receive.capacity:
        return ""
    bytes_for_numbers = receive.capacity == len(message.payload) * _SIZES[message.kind]
    if bytes_for_numbers and any("probe(" in site.call.lower() for site in sites):
        return "count"
    return "length"


def sentence(what: str, message: Sent, receive: Posted, send: CallSite, take: CallSite) -> str:
    """What a misfit is.

    Args:
        what: what ``misfit`` calls it.
        send: the call that sent the message.
        take: the call that received it.
    """
    sender = f"rank {message.world_source}'s {_shown(send)}"
    taker = f"rank {receive.request.rank}'s {_shown(take)}"
    sent, take_kind = message.kind, receive.kind
    if sent == take_kind:
        text = (
            f"{sender} sent {len(message.payload)} bytes, {taker} has a buffer of "
            f"{receive.capacity}: the rest of it stayed as it was."
        )
        if what == "count":
            text += " Status.Get_count() counts bytes: give it the datatype, such as MPI.DOUBLE."
        return text
    cure = "Give both arrays the same dtype."
    if OBJECT in (sent, take_kind):
        cure = "Use send with recv, or Send with Recv."
        if receive.source < 0:
            cure = (
                f"A receive from anybody takes the first message that fits: is rank "
                f"{message.world_source}'s meant for another receive? Give that one's source or a "
                "tag. Else use send with recv, or Send with Recv."
            )
    return f"{sender} sent {_KINDS[sent]}, {taker} took its bytes for {_KINDS[take_kind]}. {cure}"


def unlike(members: Sequence[int], kinds: Mapping[int, int], calls: Mapping[int, CallSite]) -> str:
    """A sentence on the first two members of a collective whose buffers are of two kinds."""
    typed = sorted(member for member, kind in kinds.items() if kind)
    other = next(member for member in typed if kinds[member] != kinds[typed[0]])
    ones, others = (
        f"rank {members[member]}'s {_shown(calls[member])} has an array of {_KINDS[kinds[member]]}"
        for member in (typed[0], other)
    )
    return f"{ones}, {others}. Give all ranks' arrays the same dtype."


def _shown(site: CallSite) -> str:
    return f"{site.call} at {site.where}" if site.where else site.call
