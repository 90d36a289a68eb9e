"""Hints and error handlers, which communicators and windows accept and which change nothing."""

from __future__ import annotations

from ringside.mpi.rare import errhandler
from ringside.mpi.rare.errhandler import Errhandler
from ringside.mpi.rare.info import Info
from ringside.mpi.unsupported import Handle, expect


class Settings(Handle):
    """What takes hints and an error handler."""

    __slots__ = ()

    def _check_there(self) -> None:
        """Refuse a handle of nothing."""
        raise NotImplementedError

    def Get_info(self) -> Info:
        """Return the hints in force: none."""
        self._check_there()
        return Info.Create()

    def Set_info(self, info: Info) -> None:
        """Accept hints, which change nothing here."""
        self._check_there()
        expect(info, Info)

    @property
    def info(self) -> Info:
        """The hints in force: none."""
        return self.Get_info()

    @info.setter
    def info(self, value: Info) -> None:
        self.Set_info(value)

    def Get_errhandler(self) -> Errhandler:
        """Return the error handler: errors are exceptions."""
        self._check_there()
        return errhandler.current()

    def Set_errhandler(self, handler: Errhandler) -> None:
        """Accept ERRORS_RETURN, which is in force already."""
        self._check_there()
        errhandler.check(handler)
