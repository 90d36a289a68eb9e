"""The calls between which windows are accessed: Fence; Lock, Unlock; Start, Complete, Post, Wait.

A window has a communicator of its own. A Fence is a collective on it, Post and Complete are empty
messages, and a Lock waits for those who hold it, in the order of virtual time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ringside.mpi.constants import (
    LOCK_EXCLUSIVE,
    LOCK_SHARED,
    MODE_NOSUCCEED,
    OTHER_ERRORS,
    PROC_NULL,
)
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.group import Group, as_ranks
from ringside.mpi.rare.accesses import Accesses, Window, rank_in
from ringside.mpi.rare.epochs import EVERYONE
from ringside.network.link import Call
from ringside.network.wire import FIRST_INTERNAL_TAG

_POSTED, _COMPLETED = FIRST_INTERNAL_TAG, FIRST_INTERNAL_TAG + 1  # tags


class EpochCalls(Accesses):
    """Fence, Lock, Start, Post and what ends them; an ``assertion`` but NOSUCCEED is a hint."""

    __slots__ = ()

    def Fence(self, assertion: int = 0) -> None:
        """End an epoch of accesses on all ranks, and begin the next one."""
        window, call = self._opened(), ("Fence", ())
        window.epochs.fence(call, open_next=not assertion & MODE_NOSUCCEED)
        window.complete(None, call)
        window.link.collective(window.number, "fence", (), call=call, shown="Fence")

    def Lock(self, rank: int, lock_type: int = LOCK_EXCLUSIVE, assertion: int = 0) -> None:
        """Begin accesses to one rank, alone (LOCK_EXCLUSIVE) or beside others (LOCK_SHARED)."""
        window = self._opened()
        if lock_type not in (LOCK_EXCLUSIVE, LOCK_SHARED):
            raise MPIException(
                OTHER_ERRORS["ERR_LOCKTYPE"],
                f"lock_type is LOCK_EXCLUSIVE or LOCK_SHARED, not {lock_type}",
            )
        target, call = rank_in(window, "Lock", "rank", rank)
        if target == PROC_NULL:
            return
        if lock_type == LOCK_SHARED:
            call = ("Lock", (("rank", target), ("lock_type", "LOCK_SHARED")))
        window.epochs.lock(target, call)
        exclusive = lock_type == LOCK_EXCLUSIVE
        window.link.lock(window.number, target, exclusive=exclusive, call=call)

    def Unlock(self, rank: int) -> None:
        """Wait until the accesses to one rank are complete, and give its lock back."""
        window = self._opened()
        target, call = rank_in(window, "Unlock", "rank", rank)
        if target == PROC_NULL:
            return
        window.epochs.unlock(target, call)
        _unlock(window, target, [target], call)

    def Lock_all(self, assertion: int = 0) -> None:
        """Begin accesses to all ranks, beside others."""
        window, call = self._opened(), ("Lock_all", ())
        window.epochs.lock(EVERYONE, call)
        window.link.lock(window.number, EVERYONE, exclusive=False, call=call)

    def Unlock_all(self) -> None:
        """Wait until all accesses are complete, and give the locks back."""
        window, call = self._opened(), ("Unlock_all", ())
        window.epochs.unlock(EVERYONE, call)
        _unlock(window, EVERYONE, None, call)

    def Flush(self, rank: int) -> None:
        """Wait until the accesses to one rank are complete there; its lock stays."""
        self._flush("Flush", rank)

    def Flush_local(self, rank: int) -> None:
        """As Flush, which is more than MPI asks for."""
        self._flush("Flush_local", rank)

    def Flush_all(self) -> None:
        """Wait until all accesses are complete; the locks stay."""
        self._flush_all("Flush_all")

    def Flush_local_all(self) -> None:
        """As Flush_all, which is more than MPI asks for."""
        self._flush_all("Flush_local_all")

    def _flush(self, name: str, rank: int) -> None:
        window = self._opened()
        target, call = rank_in(window, name, "rank", rank)
        if target != PROC_NULL:
            window.epochs.check_locked(target, call)
            window.complete([target], call)

    def _flush_all(self, name: str) -> None:
        window, call = self._opened(), (name, ())
        window.epochs.check_any_lock(call)
        window.complete(None, call)

    def Sync(self) -> None:
        """Let what others have written by now come; a loop that waits for it is a poll."""
        self._opened().link.sync(call=("Sync", ()))

    # -- general active targets --------------------------------------------------------------------

    def Post(self, group: Group, assertion: int = 0) -> None:
        """Let the ranks of a group begin an epoch here; doesn't wait for them."""
        window, call = self._opened(), ("Post", ())
        origins = as_ranks(group, window.members)
        window.epochs.post(call)
        _tell(window, origins, _POSTED, call)
        window.posted[:] = _expect(window, origins, _COMPLETED, call)

    def Start(self, group: Group, assertion: int = 0) -> None:
        """Begin accesses to the ranks of a group; waits for their Post."""
        window, call = self._opened(), ("Start", ())
        targets = as_ranks(group, window.members)
        window.epochs.start(targets, call)
        window.link.wait(_expect(window, targets, _POSTED, call), "all", call=call)

    def Complete(self) -> None:
        """Wait until the accesses since Start are complete, and end the epoch."""
        window, call = self._opened(), ("Complete", ())
        targets = window.epochs.complete(call)
        window.complete(targets, call)
        _tell(window, targets, _COMPLETED, call)

    def Wait(self) -> Literal[True]:
        """Wait until all ranks that were let in by Post have called Complete."""
        window, call = self._opened(), ("Wait", ())
        window.epochs.wait(call)
        window.link.wait(window.posted, "all", call=call)
        window.epochs.waited()
        return True

    def Test(self) -> bool:
        """Tell whether they have; if so, the epoch is over."""
        window, call = self._opened(), ("Test", ())
        window.epochs.wait(call)
        if window.link.test(window.posted, "all", call=call) is None:
            return False
        window.epochs.waited()
        return True


def _unlock(window: Window, target: int, completed: Sequence[int] | None, call: Call) -> None:
    try:
        window.complete(completed, call)
    finally:  # a buffer that was changed too early is no reason to keep others waiting
        window.link.unlock(window.number, target, call=call)


def _tell(window: Window, ranks: Sequence[int], tag: int, call: Call) -> None:
    """Send empty messages, which wait for nobody."""
    numbers = [
        window.link.isend(window.number, rank, tag, b"", "buffered", call=call) for rank in ranks
    ]
    window.link.wait(numbers, "all", call=call)


def _expect(window: Window, ranks: Sequence[int], tag: int, call: Call) -> list[int]:
    """Begin to receive empty messages; returns the requests."""
    return [window.link.irecv(window.number, rank, tag, 0, call=call) for rank in ranks]
