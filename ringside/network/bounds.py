"""What one run may make the network hold: the trusted process stays as small as its ranks must.

Ranks run a student's code and write the frames that the network reads, so each thing that it keeps
has a bound, counted in bytes or in pieces, never in time. A run past one of them has failed, and is
told which bound and what its value is. Where a piece has a size here, it is what CPython takes for
it, as the tests measure.
"""

from __future__ import annotations

from dataclasses import dataclass

from ringside.errors import LimitError
from ringside.units import format_bytes

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
MOST_LOOKED_AT = 256  # requests, messages, collectives: by the verdict on a deadlock


@dataclass(frozen=True)
class Limits:
    """What one run may use, all ranks together where no other is said.

    Attributes:
        operations: of the trace, each message of a lowered collective included. Recorded and
            replayed, one takes about 0.6 KiB, and a microsecond or three.
        frame_bytes: of one frame: it is read whole before anybody looks at it.
        held_bytes: of messages that wait for their receives, collectives that wait for members,
            accesses to windows on their way, and results; the same for frames that have begun, and
            for answers that aren't read.
        result_bytes: what ranks return, as it travels; it stays as long as the result is kept.
        decoded_bytes: of objects that results, or one contribution to a collective, become when
            they are read: an empty dict travels in 5 bytes and lives in 88.
        description_bytes: of a frame that describes: a place, work, an exception. Ours are
            shorter than 64 KiB.
        site_bytes: of calls and places in words: a text of 200 characters takes up to 1 KiB.
        sites: of one rank; its link numbers no more.
        output_bytes: of what one rank prints; the rest is dropped.
        open_requests: of one rank. A wait names them all, and each takes about 1 KiB.
        unreceived: messages that nobody has received yet: a buffered send is no open request.
        communicators: and ``memberships``, their members in all: each takes 100 bytes.
        windows: whether ranks may make any. Where modules are checked they send messages: suites
            look at these, and would not see an access.
        factors: of all passes that one rank announces; each is a byte of an answer.
        stored: arrays in one store; their bytes are among those held.
    """

    operations: int = 2_000_000
    frame_bytes: int = 256 * MIB
    held_bytes: int = GIB
    result_bytes: int = GIB
    decoded_bytes: int = 64 * MIB
    description_bytes: int = MIB
    site_bytes: int = 64 * MIB
    sites: int = 60_001
    output_bytes: int = 64 * KIB
    open_requests: int = 1 << 14
    unreceived: int = 1 << 16
    communicators: int = 1 << 14
    memberships: int = 1 << 18
    windows: bool = True
    factors: int = 1 << 20
    stored: int = 1 << 12


class Ledger:
    """What a run has used of its limits so far."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.operations = 0
        self.held_bytes = 0
        self.site_bytes = 0
        self.memberships = 0

    def hold(self, rank: int, nbytes: int) -> None:
        """Bytes are kept until somebody takes them; their ``release`` is a subtraction."""
        self.held_bytes += nbytes
        if self.held_bytes > self.limits.held_bytes:
            raise LimitError(
                rank,
                f"more than {format_bytes(self.limits.held_bytes)} of messages and contributions "
                "wait to be received. Receive what is sent before more is sent.",
            )

    def release(self, nbytes: int) -> None:
        """Bytes have been taken."""
        self.held_bytes -= nbytes

    def record(self, rank: int, count: int, doing: str = "") -> None:
        """Operations go into the trace.

        Args:
            doing: where the rank is, said behind the bound.
        """
        self.operations += count
        if self.operations > self.limits.operations:
            raise LimitError(
                rank,
                f"the run made more than {self.limits.operations:,} operations (sends, receives, "
                f"waits, polls, work, messages of collectives) in all{doing}.",
            )

    def describe(self, rank: int, nbytes: int) -> None:
        """A call and its place are kept in words."""
        self.site_bytes += nbytes
        if self.site_bytes > self.limits.site_bytes:
            raise LimitError(
                rank,
                f"the calls of this run take more than {format_bytes(self.limits.site_bytes)} to "
                "describe: too many have arguments of their own.",
            )

    def join(self, rank: int, members: int) -> None:
        """A communicator is made."""
        self.memberships += members
        if self.memberships > self.limits.memberships:
            raise LimitError(
                rank,
                f"the communicators of this run have more than {self.limits.memberships:,} members "
                "together.",
            )
