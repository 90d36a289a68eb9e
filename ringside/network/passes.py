"""Passes that supplied layers announce: recorded where they come, answered with their factors.

An announcement takes no virtual time and counts no bytes. It is answered at once, so that the
rank goes on; and its place among the rank's messages is the network's to say, because frames of a
rank are handled in the order in which it wrote them.
"""

from __future__ import annotations

from ringside.errors import LimitError
from ringside.factors import Factors
from ringside.network.bounds import Limits
from ringside.network.peers import Peer
from ringside.network.wire import Frame, Reply, ReplyFrame
from ringside.trace import Kind, Op

_MOST_TEXT = 200  # bytes of a phase's name


class Passes:
    """Answers announcements.

    Args:
        factors: of this run; None: its ranks were told to announce nothing.
    """

    def __init__(self, limits: Limits, factors: Factors | None) -> None:
        self._limits = limits
        self._factors = factors

    def announce(self, peer: Peer, frame: Frame) -> ReplyFrame:
        """Take note of a pass, and return its factors.

        Raises:
            LimitError: nothing is observed here, or a field is impossible.
        """
        if self._factors is None:
            raise LimitError(peer.rank, "announced a pass in a run that observes none")
        number, count, body = frame.request, frame.extra, frame.body
        if not 0 <= count <= self._limits.factors - peer.num_factors:
            raise LimitError(
                peer.rank,
                f"announced a pass of {count} factors; {self._limits.factors} are given in all",
            )
        try:
            phase = bytes(body[: _MOST_TEXT + 1]).decode()
        except UnicodeDecodeError:
            phase = ""
        if not phase or len(body) > _MOST_TEXT:
            raise LimitError(peer.rank, "announced a pass without a readable name")
        peer.num_factors += count
        peer.ops.append(Op(Kind.PASS, detail=(phase, number, count)))
        factors = self._factors.sixty_fourths(peer.rank, phase, number, count)
        return ReplyFrame(Reply.FACTORS, (factors,), len(factors))
