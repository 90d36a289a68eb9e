"""Epochs: between which calls a rank may access others' windows.

    Fence()  ..accesses to all..  Fence()
    Lock(t)  ..accesses to t..    Unlock(t)        Lock_all()  ..  Unlock_all()
    Start(g) ..accesses to g..    Complete()

Only this rank's side stands here: what it may do next, and the sentence where it may not.
"""

from __future__ import annotations

from ringside.mpi.constants import OTHER_ERRORS
from ringside.mpi.exception import Exception as MPIException
from ringside.network.link import Call, format_call

EVERYONE = -1  # the target of Lock_all


class Epochs:
    """The epochs that one rank has open on one window."""

    def __init__(self) -> None:
        self.num_fences = 0
        self._fenced = False
        self._used = False  # an access was made since the last Fence
        self._locked: set[int] = set()
        self._started: tuple[int, ...] | None = None
        self._posted = False

    def epoch_of(self, target: int, call: Call) -> int:
        """The epoch of an access: the number of its fence, or -1 for another epoch.

        Raises:
            MPI.Exception: ERR_RMA_SYNC, there is none.
        """
        if target in self._locked or EVERYONE in self._locked:
            return -1
        if self._started is not None and target in self._started:
            return -1
        if self._fenced:
            self._used = True
            return self.num_fences
        raise _wrong(call, f"is outside of an epoch: call Fence first, or Lock({target})")

    def fence(self, call: Call, *, open_next: bool) -> None:
        """A Fence ends the epoch before it, and begins the next one."""
        self._check_no_lock(call)
        self._check_not_started(call)
        self.num_fences += 1
        self._fenced, self._used = open_next, False

    def lock(self, target: int, call: Call) -> None:
        """A lock is about to be asked for."""
        self._end_fences(call)
        self._check_not_started(call)
        if (
            target in self._locked
            or EVERYONE in self._locked
            or (target == EVERYONE and self._locked)
        ):
            raise _wrong(call, "asks for a lock that this rank holds: call Unlock first")
        self._locked.add(target)

    def unlock(self, target: int, call: Call) -> None:
        """A lock is about to be given back."""
        self.check_locked(target, call)
        self._locked.discard(target)

    def check_locked(self, target: int, call: Call) -> None:
        """Refuse what only makes sense while a lock is held."""
        if target not in self._locked and EVERYONE not in self._locked:
            opens = "Lock_all()" if target == EVERYONE else f"Lock({target})"
            raise _wrong(call, f"is outside of a lock's epoch: call {opens} first")

    def check_any_lock(self, call: Call) -> None:
        """As ``check_locked``, for calls about all targets."""
        if not self._locked:
            self.check_locked(EVERYONE, call)

    def start(self, targets: tuple[int, ...], call: Call) -> None:
        """A Start begins an epoch."""
        self._end_fences(call)
        self._check_no_lock(call)
        self._check_not_started(call)
        self._started = targets

    def complete(self, call: Call) -> tuple[int, ...]:
        """A Complete ends it; returns its targets."""
        if self._started is None:
            raise _wrong(call, "ends no epoch: call Start first")
        targets, self._started = self._started, None
        return targets

    def post(self, call: Call) -> None:
        """A Post lets others begin an epoch here."""
        self._end_fences(call)
        if self._posted:
            raise _wrong(call, "comes twice: call Wait first")
        self._posted = True

    def wait(self, call: Call) -> None:
        """A Wait, or a Test that succeeds, ends what a Post has begun."""
        if not self._posted:
            raise _wrong(call, "waits for no epoch: call Post first")

    def waited(self) -> None:
        """The epoch that a Post has begun is over."""
        self._posted = False

    def free(self, call: Call) -> None:
        """The window is given back."""
        self._end_fences(call)
        self._check_no_lock(call)
        self._check_not_started(call)

    def _end_fences(self, call: Call) -> None:
        if self._fenced and self._used:
            raise _wrong(call, "comes before the last accesses are complete: call Fence first")
        self._fenced = False

    def _check_no_lock(self, call: Call) -> None:
        if self._locked:
            closes = "Unlock_all()" if EVERYONE in self._locked else f"Unlock({min(self._locked)})"
            raise _wrong(call, f"comes while this rank holds a lock: call {closes} first")

    def _check_not_started(self, call: Call) -> None:
        if self._started is not None:
            raise _wrong(call, "comes between Start and Complete: call Complete first")


def _wrong(call: Call, why: str) -> MPIException:
    return MPIException(OTHER_ERRORS["ERR_RMA_SYNC"], f"{format_call(call)} {why}.")
