"""The deadlock doctor: from "nobody can move" to the reason and the cure."""

from __future__ import annotations

import itertools

from ringside.errors import BlockedCall, DeadlockError
from ringside.network import makers
from ringside.network.bounds import MOST_LOOKED_AT
from ringside.network.gathering import Gathering
from ringside.network.peers import Peer
from ringside.network.wait_graph import HANGS, Standing
from ringside.network.wire import FIRST_INTERNAL_TAG, shown_tag
from ringside.trace import Kind, Mode, Op
from ringside.units import format_count, ordinal

_EXCHANGE = {"mpi": "Sendrecv", "torch": "dist.batch_isend_irecv"}
# The call that begins to receive an empty message of a window's epoch; where it waits, and for
# which call of the other side. The message of a Complete is received from the Post on.
_LETS_IN = {"Start": ("Start", "Post"), "Post": ("Wait", "Complete")}
_AMONG_SURVIVORS = ("Agree", "Shrink")
_MOST_NAMED = 3  # collectives to which ranks that hang never came
_AGREE = (
    "All ranks of a communicator must call the same collectives in the same order, "
    "with the same root, operation and size."
)


def judge(standing: Standing) -> DeadlockError:
    """Return the verdict on a run in which no rank can go on."""
    blocked = standing.blocked_calls()
    ended = [entry.rank for entry in blocked if entry.call == "(has returned)"]
    hung = [entry.rank for entry in blocked if entry.call == HANGS]
    count = len(blocked)
    if hung:
        stuck = [entry.rank for entry in blocked if entry.rank not in {*hung, *ended}]
        who = f"{_ranks(hung).lower()} hang{'s' if len(hung) == 1 else ''}"
        others = f"{_ranks(stuck).lower()} {'is' if len(stuck) == 1 else 'are'} blocked"
        headline = f"{who}, {others if stuck else 'all others have returned'}" + (
            ", the rest have returned." if stuck and ended else ", and no message is in flight."
        )
    elif ended:
        still = count - len(ended)
        headline = (
            f"{still} of {count} ranks {'is' if still == 1 else 'are'} blocked, "
            f"the other{'s have' if len(ended) > 1 else ' has'} returned, "
            "and no message is in flight."
        )
    else:
        who = "the only rank is" if count == 1 else f"all {count} ranks are"
        headline = f"{who} blocked and no message is in flight."
    # The first that fits is told. What explains other waits comes before them: members that
    # disagree on a collective also form a cycle, and each of that cycle lacks a partner.
    reasons = (
        *(_hanging, _left_alone, _without_all_survivors),
        *(_own_groups, _unlike_groups, _disagreement, _missing_member, _locked_out, _not_let_in),
        *(_wrong_envelope, _polling),
        *(_itself, _cycle, _missing_partner),
    )
    for reason in reasons:
        cure = reason(standing, blocked)
        if cure:
            return DeadlockError(headline, blocked, cure)
    return DeadlockError(headline, blocked, "Every send needs a receive and every receive a send.")


def _hanging(standing: Standing, blocked: tuple[BlockedCall, ...]) -> str | None:
    """Ranks that hang, and who waits for them, at once or for another one that does."""
    hanging = standing.faults.hanging()
    if not hanging:
        return None
    hung = {hang.rank for hang in hanging}
    direct = [entry.rank for entry in blocked if hung & {*entry.waits_for}]
    waits, behind = {*hung, *direct}, []
    while more := [e.rank for e in blocked if e.rank not in waits and waits & {*e.waits_for}]:
        waits |= {*more}
        behind += more
    it = "it" if len(hung) == 1 else "them"
    told = ", ".join(hang.told for hang in hanging)
    sentences = [told[0].upper() + told[1:]]
    if direct:
        because = f", and because of that {_ranks(sorted(behind)).lower()}" if behind else ""
        wait = "waits" if len(direct) == 1 else "wait"
        sentences.append(f"{_ranks(direct)} {wait} for {it}{because}")
    for gathering in standing.collectives.open_gatherings()[:_MOST_NAMED]:
        absent = sorted(hung & {*gathering.missing()})
        if absent:
            sentences.append(f"{_ranks(absent)} never came to {gathering.told}")
    sentences.append(
        f"Nobody gets an error for {it}: only a time-out would tell the others"
        if direct
        else "So the run never ends"
    )
    return ". ".join(sentences) + "."


def _left_alone(standing: Standing, blocked: tuple[BlockedCall, ...]) -> str | None:
    """A rank that waits for one that is alive, and has left the call because another one died."""
    told = standing.faults.told()
    if not told:
        return None
    calls = {entry.rank: entry.call for entry in blocked}
    for entry in blocked:
        if entry.call.startswith(_AMONG_SURVIVORS):
            continue
        for other in entry.waits_for:
            if calls.get(other, "").startswith((*_AMONG_SURVIVORS, "(has returned)")):
                call = calls[other]
                on = "has returned" if call[0] == "(" else f"is in {call.partition('(')[0]} by now"
                return (
                    f"{told}. Rank {entry.rank} waits for rank {other}, which {on}. Let whoever "
                    "meets a failure call comm.Revoke(): it ends the calls of those who wait for "
                    "ranks that are alive and have left."
                )
    return None


def _without_all_survivors(standing: Standing, blocked: tuple[BlockedCall, ...]) -> str | None:
    """An Agree or a Shrink to which a rank that is alive doesn't come."""
    told = standing.faults.told()
    calls = {entry.rank: entry.call for entry in blocked}
    for entry in blocked:
        name = entry.call.partition("(")[0]
        for other in entry.waits_for:
            if told and name in _AMONG_SURVIVORS and other in calls:
                call = calls[other]
                where = "has returned" if call[0] == "(" else f"waits in {call}"
                return (
                    f"{told}. {name} needs all ranks of its communicator that are alive, and rank "
                    f"{other} {where}. Let every survivor call Agree and Shrink alike."
                )
    return None


def _own_groups(standing: Standing, blocked: tuple[BlockedCall, ...]) -> str | None:
    return standing.collectives.own_groups()


def _disagreement(standing: Standing, blocked: tuple[BlockedCall, ...]) -> str | None:
    for gathering in standing.collectives.open_gatherings():
        text = gathering.disagreement()
        if text:
            cure = makers.cure(gathering.shown_by.values()) or _AGREE
            return f"On communicator {gathering.path}, {text}. {cure}"
    return None


def _missing_member(standing: Standing, blocked: tuple[BlockedCall, ...]) -> str | None:
    returned = {entry.rank for entry in blocked if entry.call == "(has returned)"}
    called = {entry.rank for entry in blocked}
    for gathering in standing.collectives.open_gatherings():
        never = [rank for rank in gathering.missing() if rank in returned or rank not in called]
        if never and makers.maker(gathering.shown):
            came = sorted(set(gathering.members) - set(gathering.missing()))
            return makers.cure_for_absent(
                gathering.shown,
                f"{_ranks(came)} {'waits' if len(came) == 1 else 'wait'}",
                f"{_ranks(never).lower()}, which {'has' if len(never) == 1 else 'have'}",
            )
        if never:
            return _too_few_calls(standing, gathering, never)
    return None


def _too_few_calls(standing: Standing, gathering: Gathering, absent: list[int]) -> str:
    """What is said of ranks that won't come to a collective, with how often each has called it."""
    caller = gathering.requests[min(gathering.requests)]
    peer = standing.peers[caller.rank]
    site = peer.sites[peer.ops[caller.op].site]
    name = site.call.partition("(")[0]
    made, times = (_calls(standing, rank, gathering.path, name) for rank in (absent[0], peer.rank))
    if not made:
        never = f"{_ranks(absent)} never {'calls' if len(absent) == 1 else 'call'}"
        cure = (
            "All its ranks call Create; Create_group is called by the group's members alone."
            if gathering.name == "create"
            else "Every member of a communicator must call its collectives."
        )
        return f"{never} {gathering.shown} on communicator {gathering.path}. {cure}"
    alike = [rank for rank in absent if _calls(standing, rank, gathering.path, name) == made]
    ended = _ranks(alike).lower() + (" has" if len(alike) == 1 else " have")
    return (
        f"Rank {peer.rank} calls {name} a {ordinal(times)} time on communicator {gathering.path}, "
        f"at {site.where}; {ended} ended after {made}. Every member of a communicator must call "
        "its collectives equally often."
    )


def _calls(standing: Standing, rank: int, path: str, name: str) -> int:
    """How often a rank has called a collective on a communicator."""
    peer = standing.peers[rank]
    return sum(
        op.kind == Kind.COLLECTIVE
        and op.comm == path
        and peer.sites[op.site].call.startswith(f"{name}(")
        for op in peer.ops
    )


def _unlike_groups(standing: Standing, blocked: tuple[BlockedCall, ...]) -> str | None:
    """Two groups that ranks make at once, of which one waits for a rank that is in the other."""
    groups = [g for g in standing.collectives.open_gatherings() if g.name == "create_group"]
    came = {id(g): [rank for rank in g.members if rank not in g.missing()] for g in groups}
    groups.sort(key=lambda group: min(came[id(group)]))
    for one in groups:
        for other in groups:
            for rank in sorted({*one.missing()} & {*came[id(other)]}):
                return (
                    f"Rank {came[id(one)][0]} makes a group of the ranks {list(one.members)} and "
                    f"rank {rank} one of {list(other.members)}. All ranks of a group must give the "
                    "same one to Create_group."
                )
    return None


def _locked_out(standing: Standing, blocked: tuple[BlockedCall, ...]) -> str | None:
    for peer in standing.peers:
        if peer.query is None or peer.query.kind != "lock":
            continue
        for rank, site in standing.windows.holders(peer.query):
            return (
                f"Rank {peer.rank} waits for a lock that rank {rank} has held since its "
                f"{site.parts[0]} at {site.where}. Let it call Unlock before it waits for others."
            )
    return None


def _not_let_in(standing: Standing, blocked: tuple[BlockedCall, ...]) -> str | None:
    """A window's epoch that one side begins, or ends, and the other doesn't."""
    for peer in standing.peers:
        for request in standing.open_requests(peer):
            op = peer.ops[request.op]
            call = peer.site_of(request.op).call.partition("(")[0]
            if op.tag >= FIRST_INTERNAL_TAG and call in _LETS_IN:
                waits_in, other = _LETS_IN[call]
                return (
                    f"Rank {peer.rank} waits in {waits_in} for rank {op.peer} to call {other} on "
                    "the same window, with a group that it is in."
                )
    return None


def _receives(standing: Standing, peer: Peer) -> list[tuple[int, int, str]]:
    """The receives that keep a rank: world source (-1 any), tag, communicator."""
    ops = [peer.ops[request.op] for request in standing.open_requests(peer)]
    receives = [(op.detail[0], op.detail[1], op.comm) for op in ops if op.kind == Kind.IRECV]
    if peer.query is not None and peer.query.kind == "probe":
        number, source, tag = peer.query.probe
        comm = standing.collectives.comms[number]
        receives.append((comm.members[source] if source >= 0 else -1, tag, comm.path))
    return receives


def _wrong_envelope(standing: Standing, blocked: tuple[BlockedCall, ...]) -> str | None:
    for peer in standing.peers:
        waiting = standing.unexpected(peer.rank)
        for source, tag, comm in _receives(standing, peer):
            for message, path in waiting:
                if message.world_source == source and path == comm and message.tag != tag:
                    inside = max(tag, message.tag) >= FIRST_INTERNAL_TAG
                    return (
                        f"Rank {peer.rank} waits for {shown_tag(tag)} from rank {source}, which "
                        f"sent {shown_tag(message.tag)}. Let both sides "
                        f"{'make the same calls' if inside else 'use the same tag'}."
                    )
            for message, path in waiting:
                if message.world_source == source and path != comm:
                    return (
                        f"Rank {peer.rank} receives from rank {source} on communicator {comm}, "
                        f"but the message was sent on {path}. Use one communicator for both: "
                        "the given comm."
                    )
            for message, path in waiting:
                if (
                    source not in (-1, message.world_source)
                    and path == comm
                    and tag in (-1, message.tag)
                    and not _sends_to(standing, source, peer.rank)
                ):
                    return (
                        f"Rank {peer.rank} receives from rank {source}, which sends it nothing, "
                        f"while a message from rank {message.world_source} waits. "
                        "Check the source."
                    )
    return None


def _sends_to(standing: Standing, source: int, dest: int) -> bool:
    peer = standing.peers[source]
    return any(
        op.kind == Kind.ISEND and op.peer == dest
        for op in (peer.ops[request.op] for request in standing.open_requests(peer))
    )


def _sent(standing: Standing, source: int, dest: int) -> int:
    """How many messages a rank has sent another one."""
    return sum(op.kind == Kind.ISEND and op.peer == dest for op in standing.peers[source].ops)


def _polling(standing: Standing, blocked: tuple[BlockedCall, ...]) -> str | None:
    for peer in standing.peers:
        query = peer.query
        if query is None or query.blocking or query.kind not in ("test", "probe", "sync"):
            continue
        for source, tag, _ in _receives(standing, peer):
            whom = f"rank {source}" if source >= 0 else "any rank"
            what = shown_tag(tag) if tag >= 0 else "any tag"
            return (
                f"Rank {peer.rank} polls for a message from {whom} with {what} that nobody sends. "
                "A poll needs a partner that sends, and an end to the loop without one."
            )
        return f"Rank {peer.rank} polls for something that can't happen any more."
    return None


def _itself(standing: Standing, blocked: tuple[BlockedCall, ...]) -> str | None:
    """A rank that waits for a message of its own, which no other rank can help."""
    waits = {entry.rank: entry.waits_for for entry in blocked}
    if _find_cycle(waits) not in [[rank] for rank in waits]:
        return None
    [rank] = _find_cycle(waits)
    peer = standing.peers[rank]
    who = "The only rank" if len(blocked) == 1 else f"Rank {rank}"
    kinds = {peer.ops[request.op].kind for request in standing.open_requests(peer)}
    if kinds == {Kind.ISEND}:
        return (
            f"{who} sends to itself, and waits until the message is received before it comes to a "
            "receive. Copy the data instead, or start the receive first, without waiting for it."
        )
    alike = {(entry.site, entry.waits_for) for entry in blocked}
    if kinds == {Kind.IRECV} and len(blocked) > 1 and alike == {(blocked[0].site, (rank,))}:
        return (
            f"All ranks receive at {blocked[0].site}, rank {rank} from itself. Check the condition "
            "that tells the sender from the receivers."
        )
    if kinds == {Kind.IRECV}:
        return (
            f"{who} receives from itself, and nobody sends it a message. Copy the data instead: "
            "with one rank there is nothing to exchange."
            if len(blocked) == 1
            else f"{who} receives from itself, and has sent itself no message. Copy the data "
            "instead, or check the source."
        )
    return None


def _cycle(standing: Standing, blocked: tuple[BlockedCall, ...]) -> str | None:
    waits = {entry.rank: entry.waits_for for entry in blocked}
    cycle = _find_cycle(waits)
    if not cycle:
        return None
    path = " -> ".join(map(str, [*cycle, cycle[0]]))
    text = f"The waits form the cycle {path}. "
    exchange = _EXCHANGE[standing.front_end]
    kinds = []
    modes = []
    beside = ""
    for rank, following in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        peer = standing.peers[rank]
        for request in standing.open_requests(peer):
            op = peer.ops[request.op]
            if op.peer == following or op.kind == Kind.COLLECTIVE:
                kinds.append(op.kind)
                modes += [op.detail[0]] if op.kind == Kind.ISEND else []
                if op.kind in (Kind.ISEND, Kind.IRECV):
                    beside = beside or _beside_a_collective(standing, op, rank, following)
                break
    if kinds and all(kind == Kind.ISEND for kind in kinds):
        misplaced = _begun_from_another(standing, cycle)
        if misplaced:
            return text + misplaced
        text += f"Let one rank receive first, or use {exchange}."
        if standing.front_end == "mpi" and all(mode == Mode.STANDARD for mode in modes):
            largest = max(
                op.nbytes
                for rank in cycle
                for op in (
                    standing.peers[rank].ops[r.op]
                    for r in standing.open_requests(standing.peers[rank])
                )
                if op.kind == Kind.ISEND
            )
            text += (
                f" Under mpiexec this works only while messages of {largest} bytes stay below the "
                "eager threshold of the MPI in use."
            )
    elif kinds and all(kind == Kind.IRECV for kind in kinds):
        pairs = zip(cycle, [*cycle[1:], cycle[0]], strict=True)
        came, rank, source = max((_sent(standing, other, r), -r, other) for r, other in pairs)
        if came:
            num = f"{came} messages" if came > 1 else "message"
            text += (
                f"Rank {-rank} has received the {num} that rank {source} has sent it, and waits "
                "for one more. Send as many messages as are received."
            )
        else:
            text += "Every rank of the cycle receives before it sends. "
            text += f"Let one rank send first, or use {exchange}."
    elif beside:
        text += beside
    else:
        text += "Bring the calls of these ranks into an order in which one of them can complete."
    return text


def _beside_a_collective(standing: Standing, op: Op, rank: int, partner: int) -> str:
    """What is said of a send or a receive whose partner is in a collective; else nothing."""
    peer = standing.peers[partner]
    waits_in = {peer.ops[request.op].kind for request in standing.open_requests(peer)}
    if waits_in != {Kind.COLLECTIVE}:
        return ""
    collective = standing.of_one(peer)[0].partition("(")[0]
    if op.kind == Kind.IRECV:
        return (
            f"Rank {rank} receives from rank {partner}, which is in {collective}: a receive takes "
            f"only what a send sends. Let rank {rank} call {collective} too, as all ranks must, or "
            f"rank {partner} send first."
        )
    ready = "Rsend is for a receive that is posted already. " if op.detail[0] == Mode.READY else ""
    return (
        f"Rank {rank} sends to rank {partner}, which is in {collective}: only a receive takes what "
        f"a send sends. {ready}Let rank {partner} receive before {collective}, or rank {rank} "
        f"call {collective} first."
    )


def _begun_from_another(standing: Standing, cycle: list[int]) -> str:
    """Of ranks that each send to the next and have begun to receive: a receive that can't match."""
    for rank, sender in zip(cycle, [cycle[-1], *cycle[:-1]], strict=True):
        peer = standing.peers[rank]
        pending = itertools.islice(peer.requests.values(), MOST_LOOKED_AT)
        begun = [request.op for request in pending if peer.ops[request.op].kind == Kind.IRECV]
        for op in begun:
            source = peer.ops[op].detail[0]
            if source not in (-1, sender):
                site = peer.site_of(op)
                return (
                    f"Rank {rank} receives from rank {source}, by {site.call} at {site.where}, and "
                    f"it is rank {sender} that sends to it. Check the source."
                )
    return ""


def _find_cycle(waits: dict[int, tuple[int, ...]]) -> list[int]:
    """The first cycle met from the lowest rank, starting at its lowest member."""
    done: set[int] = set()
    for start in sorted(waits):
        path: list[int] = []
        rank = start
        while rank not in done and rank in waits:
            if rank in path:
                cycle = path[path.index(rank) :]
                least = cycle.index(min(cycle))
                return cycle[least:] + cycle[:least]
            path.append(rank)
            following = [other for other in waits[rank] if other in waits]
            if not following:
                break
            rank = following[0]
        done.update(path)
    return []


def _missing_partner(standing: Standing, blocked: tuple[BlockedCall, ...]) -> str | None:
    returned = {entry.rank for entry in blocked if entry.call == "(has returned)"}
    for peer in standing.peers:
        for request in standing.open_requests(peer):
            op = peer.ops[request.op]
            if op.kind == Kind.ISEND:
                omission = (
                    "has returned without receiving" if op.peer in returned else "doesn't receive"
                )
                whom = f"rank {op.peer}, which {omission} it"
                return f"Rank {peer.rank} sends to {whom}. Add the receive."
            if op.kind == Kind.IRECV and op.detail[0] >= 0:
                source = op.detail[0]
                came = _sent(standing, source, peer.rank)
                if place := _matched(peer):
                    return (
                        f"Rank {peer.rank} receives from rank {source}, whose message the probe at "
                        f"{place} has taken: only the recv of what it returned gets it."
                    )
                if came and source in returned:
                    return (
                        f"Rank {peer.rank} receives from rank {source}, which has sent it "
                        f"{format_count(came, 'message')} and returned. Send as many messages as "
                        "are received."
                    )
                omission = "has returned without sending" if source in returned else "doesn't send"
                return (
                    f"Rank {peer.rank} receives from rank {source}, which {omission}. Add the send."
                )
            if op.kind == Kind.IRECV:
                came = sum(_sent(standing, other.rank, peer.rank) for other in standing.peers)
                if came:
                    return (
                        f"Rank {peer.rank} has received {format_count(came, 'message')}, all that "
                        "were sent to it, and waits for one more, from any rank. Receive as many "
                        "as are sent."
                    )
                return f"Rank {peer.rank} receives from any rank, but nobody sends to it."
        for source, _, _ in _receives(standing, peer):
            if source < 0:
                return f"Rank {peer.rank} waits for a message from any rank; nobody sends it one."
            return (
                f"Rank {peer.rank} waits for a message from rank {source}, which sends none. "
                "Add the send."
            )
    return None


def _matched(peer: Peer) -> str:
    """Where a rank has matched a message by mprobe or improbe that it hasn't received."""
    for request in peer.requests.values():
        site = peer.site_of(request.op)
        if request.ready and site.call.lower().startswith(("mprobe(", "improbe(")):
            return site.where
    return ""


def _ranks(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"Rank {ranks[0]}"
    first_ranks = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
    return f"Ranks {first_ranks}"
