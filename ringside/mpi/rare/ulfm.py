"""User-level failure mitigation: what survivors call when a rank has died.

The names are those of mpi4py for MPI's proposal of that name (ULFM). It is in no MPI standard yet;
Open MPI has it under ``mpirun --with-ft ulfm``.
"""

from __future__ import annotations

from typing import Any

from ringside.mpi.group import Group
from ringside.mpi.membership import Membership, as_int
from ringside.network.wire import About


class FaultTolerance(Membership):
    """Revoke, Agree, Shrink, and who has failed."""

    __slots__ = ()

    def Revoke(self) -> None:
        """End all calls on this communicator, here and, when they learn of it, on other ranks.

        Only Agree, Shrink and questions about failures work on it from then on.
        """
        self._about(About.REVOKE, "Revoke")

    def Is_revoked(self) -> bool:
        """Tell whether this rank knows the communicator to be revoked."""
        revoked: bool = self._about(About.IS_REVOKED, "Is_revoked")
        return revoked

    def Get_failed(self) -> Group:
        """Return the group of the members that this rank knows to have failed."""
        failed = self._about(About.GET_FAILED, "Get_failed")
        return Group._make(failed, self._members[self._rank])

    def Ack_failed(self, num_to_ack: int | None = None) -> int:
        """Acknowledge known failures; return how many are acknowledged in all.

        From then on they end no receive from ANY_SOURCE and no Agree.

        Args:
            num_to_ack: so many more at most; None: all.
        """
        most = -1 if num_to_ack is None else as_int(num_to_ack)
        acked: int = self._about(About.ACK_FAILED, "Ack_failed", most)
        return acked

    def Agree(self, flag: int) -> int:
        """Return the bitwise AND of all survivors' flags: the same on all of them.

        Raises:
            MPI.Exception: ERR_PROC_FAILED, on all or on none: a member has failed, and not all
                survivors had acknowledged it.
        """
        number = as_int(flag)
        agreed: int = self._join("agree", (number,), ("Agree", (("flag", number),)))
        return agreed

    def Shrink(self) -> Any:
        """Return a communicator of the survivors, in their old order."""
        return self._made("Intracomm", self._join("shrink", (), ("Shrink", ())))

    def _about(self, about: About, name: str, number: int = -1) -> Any:
        self._check_comm()
        return self._link.failures(about, self._id, call=(name, ()), number=number)
