"""MPI's matching rules: source, tag, communicator and order.

A receive that names its source is matched as soon as both sides are posted; the time of the match
doesn't depend on who came first. A receive from ANY_SOURCE has to wait for the clock: until the
engine chooses its message, later receives that could take the same message wait behind it.

Receives are kept by what they ask for, messages by source and tag, each in order. A message is for
the earliest of four receives, a receive takes the first of one row of messages::

    posted     (source, tag)  (source, ANY_TAG)  (ANY_SOURCE, tag)  (ANY_SOURCE, ANY_TAG)
    waiting    (source, tag)

so that neither gets slower as more of the other wait.

A mailbox returns the matches that a call has led to; whoever called it acts on them.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ringside.network.wire import ANY_SOURCE, ANY_TAG, FIRST_INTERNAL_TAG


@dataclass(eq=False, slots=True)
class Pending:
    """A request as the network sees it: ready when its owner may go on."""

    rank: int
    number: int
    op: int
    ready: bool = False
    awaited: bool = False  # its owner is stopped until it is ready
    source: int = -1  # of what was received: its rank in the communicator
    tag: int = -1
    nbytes: int = 0
    error: int = 0
    overflow: bool = False
    payload: bytes | None = None
    held: list[int] | None = None  # of a payload that several get: how many, its bytes
    gathering: Any = None  # of a collective: what its members bring, until all have come


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
    order: int = -1  # among the receives of its mailbox


class Match(NamedTuple):
    """A message, and the receive that takes it."""

    message: Sent
    receive: Posted


class Mailbox:
    """What one rank has posted and been sent on one communicator, in order."""

    __slots__ = ("_by_tag", "_from", "_num_posted", "_posted")

    def __init__(self) -> None:
        self._num_posted = 0
        # Receives by source and tag as asked for. Empty rows are removed here and below: who uses
        # ever new tags must not leave a row of each behind.
        self._posted: dict[int, dict[int, deque[Posted]]] = {}
        self._by_tag: dict[int, dict[int, deque[Sent]]] = {}
        # The messages of a source that ANY_TAG may take, by number. An OrderedDict finds its first
        # one at once, a dict goes over the places of those that have left.
        self._from: dict[int, OrderedDict[int, Sent]] = {}

    def send(self, message: Sent) -> Posted | None:
        """A message comes in; return the receive that takes it, None if it waits for one."""
        receive = self._receive_for(message)
        if receive is None or receive.source == ANY_SOURCE or self._waits(receive):
            self._keep(message)
            return None
        self._withdraw(receive)
        return receive

    def receive(self, receive: Posted) -> Sent | None:
        """A receive is posted; return the message that it takes, None if it waits for one."""
        receive.order = self._num_posted
        self._num_posted += 1
        if receive.source != ANY_SOURCE:
            message = self._first(receive.source, receive.tag)
            # Where an earlier receive accepts it too, that one waits for the clock, and we behind.
            if message is not None and self._receive_for(message) is None:
                self._take(message)
                return message
        rows = self._posted.setdefault(receive.source, {})
        rows.setdefault(receive.tag, deque()).append(receive)
        return None

    def candidates(self, receive: Posted) -> list[Sent]:
        """Messages that a posted wildcard could take: the first acceptable one of every source."""
        return [
            message
            for message in self.visible(ANY_SOURCE, receive.tag)
            if self._receive_for(message) is receive
        ]

    def visible(self, source: int, tag: int) -> list[Sent]:
        """Messages that a probe could see: the first acceptable one of every source."""
        sources = list(self._by_tag) if source == ANY_SOURCE else [source]
        firsts = [self._first(source, tag) for source in sources]
        return [message for message in firsts if message is not None]

    def choose(self, receive: Posted, message: Sent) -> list[Match]:
        """The engine has chosen the message of a wildcard.

        Return its match, and then those of receives that waited behind it.
        """
        self._withdraw(receive)
        self._take(message)
        return [Match(message, receive), *self._matches()]

    def give_up(self, receive: Posted) -> list[Match]:
        """A wildcard gets no message; return the matches of receives that waited behind it."""
        self._withdraw(receive)
        return self._matches()

    def orphans(self, source: int) -> list[Posted]:
        """Take out the receives from a source that find no message of it."""
        rows = self._posted.get(source, {})
        alone = [tag for tag in rows if self._first(source, tag) is None]
        orphans = [receive for tag in alone for receive in rows.pop(tag)]
        if not rows:
            self._posted.pop(source, None)
        return orphans

    def drop_messages(self) -> list[Sent]:
        """Take out all messages."""
        messages = list(self.waiting())
        self._by_tag.clear()
        self._from.clear()
        return messages

    def _matches(self) -> list[Match]:
        """The matches of receives whose messages nothing holds back any more."""
        matches: list[Match] = []
        for source in list(self._by_tag):
            while more := self._matches_from(source):
                matches += more
        return matches

    def waiting(self) -> Iterator[Sent]:
        """All messages that nobody has received."""
        for rows in self._by_tag.values():
            for row in rows.values():
                yield from row

    def _matches_from(self, source: int) -> list[Match]:
        """Match the receives from a source that need not wait.

        One that waited behind a wildcard may itself have kept others waiting, of another tag.
        """
        rows = self._posted.get(source, {})
        matches = []
        for tag in list(rows):
            while row := rows.get(tag):
                receive = row[0]
                message = self._first(source, tag)
                if message is None or self._receive_for(message) is not receive:
                    break
                self._withdraw(receive)
                self._take(message)
                matches.append(Match(message, receive))
        return matches

    def _receive_for(self, message: Sent) -> Posted | None:
        """The earliest receive that accepts a message."""
        if not self._posted:
            return None
        tag, best = message.tag, None
        for source in (message.source, ANY_SOURCE):
            rows = self._posted.get(source)
            if rows is None:
                continue
            row = rows.get(tag)
            if row and (best is None or row[0].order < best.order):
                best = row[0]
            row = rows.get(ANY_TAG) if tag < FIRST_INTERNAL_TAG else None
            if row and (best is None or row[0].order < best.order):
                best = row[0]
        return best

    def _waits(self, receive: Posted) -> bool:
        """Whether a receive of any tag waits for an earlier message that a wildcard may get."""
        return receive.tag == ANY_TAG and receive.source in self._from

    def _first(self, source: int, tag: int) -> Sent | None:
        """The first message of a source that has this tag."""
        if tag == ANY_TAG:
            messages = self._from.get(source)
            return next(iter(messages.values())) if messages else None
        row = self._by_tag.get(source, {}).get(tag)
        return row[0] if row else None

    def _keep(self, message: Sent) -> None:
        source = message.source
        self._by_tag.setdefault(source, {}).setdefault(message.tag, deque()).append(message)
        if message.tag < FIRST_INTERNAL_TAG:
            self._from.setdefault(source, OrderedDict())[message.number] = message

    def _take(self, message: Sent) -> None:
        """A message leaves: it is the first of its source and tag, since nothing overtakes."""
        source, tag = message.source, message.tag
        rows = self._by_tag[source]
        first = rows[tag].popleft()
        assert first is message, "a message has overtaken another"
        if not rows[tag]:
            del rows[tag]
            if not rows:
                del self._by_tag[source]
        if tag < FIRST_INTERNAL_TAG:
            messages = self._from[source]
            del messages[message.number]
            if not messages:
                del self._from[source]

    def _withdraw(self, receive: Posted) -> None:
        """A receive leaves: it is the first of those that ask for the same."""
        rows = self._posted[receive.source]
        first = rows[receive.tag].popleft()
        assert first is receive, "a receive has overtaken another"
        if not rows[receive.tag]:
            del rows[receive.tag]
            if not rows:
                del self._posted[receive.source]
