"""Mailboxes against MPI's rules, written down as plainly as they can be."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from ringside.network.matching import Mailbox, Pending, Posted, Sent
from ringside.network.wire import ANY_SOURCE, ANY_TAG, FIRST_INTERNAL_TAG

NOBODY = Pending(-1, -1, -1)


def accepts(receive: Posted, message: Sent) -> bool:
    tag = receive.tag == message.tag or (
        receive.tag == ANY_TAG and message.tag < FIRST_INTERNAL_TAG
    )
    return tag and receive.source in (ANY_SOURCE, message.source)


@dataclass
class Plain:
    """Lists that are gone through from the beginning, each time."""

    posted: list[Posted] = field(default_factory=list)
    waiting: list[Sent] = field(default_factory=list)
    pairs: set[tuple[int, int]] = field(default_factory=set)

    def candidates(self, receive: Posted) -> set[int]:
        found: dict[int, Sent] = {}
        for message in self.waiting:
            if accepts(receive, message):
                found.setdefault(message.source, message)
        earlier = self.posted[: self.posted.index(receive)]
        return {m.number for m in found.values() if not any(accepts(r, m) for r in earlier)}

    def match(self, receive: Posted, message: Sent) -> None:
        self.posted.remove(receive)
        self.waiting.remove(message)
        self.pairs.add((receive.capacity, message.number))

    def settle(self) -> None:
        """Named receives take what only they may have."""
        for receive in self.posted:
            first = next((m for m in self.waiting if accepts(receive, m)), None)
            if receive.source != ANY_SOURCE and first and self.candidates(receive):
                self.match(receive, first)
                return self.settle()
        return None


def sent(number: int, source: int, tag: int) -> Sent:
    return Sent(number, source, source, tag, b"", 0, NOBODY, True)


@pytest.mark.parametrize("seed", range(60))
def test_mailbox_keeps_the_rules(seed: int) -> None:
    rng = random.Random(seed)
    plain, pairs = Plain(), set()
    box = Mailbox()
    for number in range(120):
        tag = rng.choice([0, 1, 2, FIRST_INTERNAL_TAG])
        kind = rng.randrange(5)
        if kind < 2:
            message = sent(number, rng.randrange(3), tag)
            plain.waiting.append(message)
            if taker := box.send(message):
                pairs.add((taker.capacity, message.number))
        elif kind < 4:
            source = rng.choice([0, 1, 2, ANY_SOURCE])
            receive = Posted(source, rng.choice([tag, ANY_TAG]), number, NOBODY)
            plain.posted.append(receive)
            if taken := box.receive(receive):
                pairs.add((receive.capacity, taken.number))
        else:  # the engine answers one of the wildcards
            wildcards = [r for r in plain.posted if r.source == ANY_SOURCE]
            found = {r.capacity: sorted(plain.candidates(r)) for r in wildcards}
            for receive in wildcards:
                assert sorted(m.number for m in box.candidates(receive)) == found[receive.capacity]
            chosen = [r for r in wildcards if found[r.capacity]]
            if chosen:
                receive = rng.choice(chosen)
                wanted = rng.choice(found[receive.capacity])
                message = next(m for m in plain.waiting if m.number == wanted)
                plain.match(receive, message)
                for match in box.choose(receive, message):
                    pairs.add((match.receive.capacity, match.message.number))
        plain.settle()
        assert pairs == plain.pairs
        assert {m.number for m in box.waiting()} == {m.number for m in plain.waiting}


@pytest.mark.parametrize("order", [1, -1])
def test_a_named_receive_of_any_tag_takes_the_earlier_message_whoever_comes_first(
    order: int,
) -> None:
    """The first message may be a wildcard's, so that the second must not be given away yet."""
    box = Mailbox()
    wildcard, named = Posted(ANY_SOURCE, 7, -1, NOBODY), Posted(0, ANY_TAG, -1, NOBODY)
    assert box.receive(wildcard) is None
    assert box.send(sent(1, 0, 7)) is None
    late = [lambda: box.receive(named), lambda: box.send(sent(2, 0, 5))]
    assert [act() for act in late[::order]] == [None, None]
    other = sent(3, 1, 7)
    assert box.send(other) is None
    matches = box.choose(wildcard, other)
    assert [(m.receive.tag, m.message.number) for m in matches] == [(7, 3), (ANY_TAG, 1)]


def test_nothing_is_left_of_ever_new_tags() -> None:
    box = Mailbox()
    for tag in range(1000):
        box.send(sent(2 * tag, 0, tag))
        box.receive(Posted(0, tag, -1, NOBODY))
        box.receive(Posted(0, tag, -1, NOBODY))
        box.send(sent(2 * tag + 1, 0, tag))
    assert not box._posted and not box._by_tag and not box._from
