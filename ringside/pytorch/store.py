"""The key-value store that torch wants for a rendezvous; ranks meet on the network instead."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as dist

_Store: Any = dist.distributed_c10d.Store


class LocalStore(_Store):  # type: ignore[misc]
    """A store of this rank alone: what another rank would have to write is an error."""

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[str, bytes] = {}

    def set(self, key: str, value: str | bytes) -> None:
        """Keep a value for this rank."""
        self._values[key] = value.encode() if isinstance(value, str) else bytes(value)

    def get(self, key: str) -> bytes:
        """Return a value that this rank has set."""
        self.wait([key])
        return self._values[key]

    def add(self, key: str, value: int) -> int:
        """Add to a number of this rank's own."""
        total = int(self._values.get(key, b"0")) + value
        self._values[key] = str(total).encode()
        return total

    def check(self, keys: list[str]) -> bool:
        """Tell whether this rank has set all keys."""
        return all(key in self._values for key in keys)

    def delete_key(self, key: str) -> bool:
        """Forget a value."""
        return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        """How many values this rank keeps."""
        return len(self._values)

    def set_timeout(self, timeout: timedelta) -> None:
        """Nothing here takes time."""

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Return if this rank has set all keys.

        Raises:
            RuntimeError: it has not, and no other rank can.
        """
        missing = [key for key in keys if key not in self._values]
        if missing:
            raise RuntimeError(
                f"the store has no {missing[0]!r}: Ringside's ranks share no store. "
                "Send values with the process group, for instance broadcast_object_list."
            )
