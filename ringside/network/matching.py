"""MPI's matching rules: source, tag, communicator and order.

A receive that names its source is matched as soon as both sides are posted; the time of the match
doesn't depend on who came first. A receive from ANY_SOURCE has to wait for the clock: until the
engine chooses its message, later receives that could take the same message wait behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ringside.network.wire import ANY_SOURCE, ANY_TAG, FIRST_INTERNAL_TAG


@dataclass(eq=False, slots=True)
class Pending:
    """A request as the network sees it: ready when its owner may go on."""

    rank: int
    number: int
    op: int
    ready: bool = False
    source: int = -1  # of what was received: its rank in the communicator
    tag: int = -1
    nbytes: int = 0
    error: int = 0
    overflow: bool = False
    payload: bytes | None = None
    held: list[int] | None = None  # of a payload that several get: how many, its bytes


@dataclass(eq=False, slots=True)
class Sent:
    """A message that nobody has received yet."""

    number: int
    source: int  # in the communicator
    world_source: int
    tag: int
    payload: bytes
    counted: int
    request: Pending
    eager: bool
    kind: int = 0  # of wire.KINDS


@dataclass(eq=False, slots=True)
class Posted:
    """A receive that has no message yet."""

    source: int
    tag: int
    capacity: int
    request: Pending
    kind: int = 0  # of wire.KINDS

    def accepts(self, message: Sent) -> bool:
        """Tell whether this receive may take the message."""
        return (self.source in (ANY_SOURCE, message.source)) and (
            self.tag == message.tag or (self.tag == ANY_TAG and message.tag < FIRST_INTERNAL_TAG)
        )


@dataclass(eq=False, slots=True)
class Mailbox:
    """What one rank has posted and been sent on one communicator, in order."""

    matched: Callable[[Sent, Posted], None]
    posted: list[Posted] = field(default_factory=list)
    unexpected: list[Sent] = field(default_factory=list)

    def send(self, message: Sent) -> None:
        """A message comes in."""
        for index, receive in enumerate(self.posted):
            if receive.accepts(message):
                if receive.source == ANY_SOURCE:
                    break  # the engine decides
                del self.posted[index]
                self.matched(message, receive)
                return
        self.unexpected.append(message)

    def receive(self, receive: Posted) -> None:
        """A receive is posted."""
        if receive.source == ANY_SOURCE or not self._take(receive, self.posted):
            self.posted.append(receive)

    def _take(self, receive: Posted, earlier: list[Posted]) -> bool:
        for index, message in enumerate(self.unexpected):
            if receive.accepts(message):
                if any(other.accepts(message) for other in earlier):
                    return False
                del self.unexpected[index]
                self.matched(message, receive)
                return True
        return False

    def candidates(self, receive: Posted) -> list[Sent]:
        """Messages that a posted wildcard could take: the first acceptable one of every source."""
        earlier = (
            self.posted[: self.posted.index(receive)] if receive in self.posted else self.posted
        )
        found: dict[int, Sent] = {}
        for message in self.unexpected:
            if message.source not in found and receive.accepts(message):
                found[message.source] = message
        return [m for m in found.values() if not any(other.accepts(m) for other in earlier)]

    def visible(self, source: int, tag: int) -> list[Sent]:
        """Messages that a probe could see: the first acceptable one of every source."""
        probe = Posted(source, tag, -1, Pending(-1, -1, -1))
        found: dict[int, Sent] = {}
        for message in self.unexpected:
            if message.source not in found and probe.accepts(message):
                found[message.source] = message
        return list(found.values())

    def choose(self, receive: Posted, message: Sent) -> None:
        """The engine has chosen the message of a wildcard; what waited behind it may go on."""
        self.posted.remove(receive)
        self.unexpected.remove(message)
        self.matched(message, receive)
        again = True
        while again:
            again = False
            for index, other in enumerate(self.posted):
                if other.source != ANY_SOURCE and self._take(other, self.posted[:index]):
                    self.posted.remove(other)
                    again = True
                    break
