"""MPI.Exception and its kin: an error code, and a sentence that says what to mend."""

from __future__ import annotations

from ringside.mpi.constants import (
    ERR_ARG,
    ERR_BUFFER,
    ERR_UNKNOWN,
    ERROR_STRINGS,
    SUCCESS,
)


class Exception(RuntimeError):  # its name in mpi4py
    """An error of MPI; int() of it is its code, str() says what was wrong."""

    def __init__(self, ierr: int = SUCCESS, /, detail: str = "") -> None:
        super().__init__(ierr if ierr >= SUCCESS else ERR_UNKNOWN)
        self._detail = detail

    def __int__(self) -> int:
        code: int = self.args[0]
        return code

    def __bool__(self) -> bool:
        return int(self) != SUCCESS

    def __hash__(self) -> int:
        return hash(int(self))

    def __eq__(self, other: object, /) -> bool:
        return int(self) == (int(other) if isinstance(other, Exception) else other)

    def __ne__(self, other: object, /) -> bool:
        return not self == other

    def __lt__(self, other: int, /) -> bool:
        return int(self) < int(other)

    def __le__(self, other: int, /) -> bool:
        return int(self) <= int(other)

    def __gt__(self, other: int, /) -> bool:
        return int(self) > int(other)

    def __ge__(self, other: int, /) -> bool:
        return int(self) >= int(other)

    def __repr__(self) -> str:
        return f"MPI.Exception({int(self)})"

    def __str__(self) -> str:
        return self.Get_error_string()

    def Get_error_code(self) -> int:
        """Return the error code."""
        return int(self)

    def Get_error_class(self) -> int:
        """Return the class of the code; here codes are classes."""
        return Get_error_class(int(self))

    def Get_error_string(self) -> str:
        """Return the class's sentence, and what exactly was wrong."""
        text = Get_error_string(int(self))
        return f"{text}: {self._detail}" if self._detail else text

    @property
    def error_code(self) -> int:
        """The error code."""
        return self.Get_error_code()

    @property
    def error_class(self) -> int:
        """The class of the code."""
        return self.Get_error_class()

    @property
    def error_string(self) -> str:
        """The sentence."""
        return self.Get_error_string()


class BufferRaceError(Exception):
    """A buffer changed between the call that posted it and its completion."""

    def __init__(self, what: str) -> None:
        super().__init__(ERR_BUFFER, f"the buffer given to {what}")


def changed_while_sent(
    call: str, end: str = "the send was complete. Wait for the request"
) -> BufferRaceError:
    """What is raised for a send's buffer that isn't as it was.

    Args:
        end: what should have come first, and the call that waits for it.
    """
    return BufferRaceError(
        f"{call} was changed before {end} before you write to the buffer, or send a copy of it."
    )


def Get_error_class(errorcode: int) -> int:
    """Return the class of an error code."""
    if errorcode not in ERROR_STRINGS:
        raise Exception(ERR_ARG, f"{errorcode} is no error code")
    return errorcode


def Get_error_string(errorcode: int) -> str:
    """Return the sentence of an error code."""
    return ERROR_STRINGS[Get_error_class(errorcode)]
