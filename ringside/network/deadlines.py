"""How long the network waits for ranks: whoever starts a run may hand it a ``Patience``.

A deadline alone depends on what else the machine does. So a grader counts what ranks take for
themselves: the CPU time that they burn, and the time for which all of them sleep though the next
word is theirs. A rank that waits in a receive burns nothing, and it isn't its turn; one that waits
for a processor is awake. Neither count grows while a busy machine lets ranks wait.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from typing import Protocol

from ringside.network.peers import Peer


class Patience(Protocol):
    """What a run may take for itself.

    Attributes:
        every_s: seconds between two looks.
    """

    every_s: float

    def awake(self) -> bool:
        """Take note of what the ranks have used, and tell whether one of them is awake."""

    def over(self, asleep: bool) -> str | None:
        """Why the run has to end, such as ``within 60 s of CPU time``; None while it may go on.

        Args:
            asleep: whether all ranks sleep, and nothing but themselves can wake them.
        """


def ends(patience: Patience, peers: Sequence[Peer]) -> str | None:
    """Look once, while it is the turn of one of the ranks; what ``over`` tells."""
    # The order matters: a rank that has spoken since its sleep was seen is not asleep.
    return patience.over(not patience.awake() and not _our_turn(peers))


def _our_turn(peers: Sequence[Peer]) -> bool:
    """Whether a rank has said something, or has room for what it is still to hear."""
    poll = select.poll()
    for peer in peers:
        if not peer.gone:
            poll.register(peer.sock, select.POLLIN | (select.POLLOUT if peer.outbox else 0))
    return bool(poll.poll(0))
