"""Stores: arrays by name, which outlive the ranks that put them there.

ask     a rank puts, gets, lists or removes: a question about time
serve   the engine has come to where it takes effect

    put             |== alpha ==|== n*beta ==|    the array is there at the end, whole
    get             |== alpha ==|== n*beta ==|    it is the array that is there after alpha
    names, remove   |== alpha ==|                 likewise

``alpha`` and ``beta`` are the machine's ``store_alpha_s`` and ``store_beta_s_per_byte``. Each rank
has a way of its own to the store, as where a parallel file system is faster than all that write at
once: ranks don't wait for each other. What takes effect at one instant does so by rank. So what a
rank finds depends on virtual time, and never on which frame came first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ringside.arrays import Array
from ringside.errors import LimitError, StoreError
from ringside.network import codec
from ringside.network.bounds import Ledger
from ringside.network.peers import Peer
from ringside.network.requests import Requests
from ringside.network.wire import Frame, Reply, ReplyFrame
from ringside.store_folder import MAX_NAME, StoreFolder, absent, part_of
from ringside.timing.machine import Machine
from ringside.timing.queries import Query
from ringside.trace import Kind
from ringside.trace import Op as TraceOp
from ringside.units import format_bytes

WHATS = ("put", "get", "names", "remove")
_MAX_PATH = 4096  # characters of a store's folder
_MOST_STORES = 64
_MAX_INT = 1 << 63


class Stores:
    """What the stores of some runs hold, by folder and name.

    Args:
        on_disk: a store keeps what it holds in the folder of its name; otherwise here alone.
    """

    def __init__(self, *, on_disk: bool = False) -> None:
        self._on_disk = on_disk
        self._arrays: dict[str, dict[str, Array]] = {}
        self._written: dict[str, dict[str, Array]] = {}  # as they are in their folders

    def copy(self) -> Stores:
        """The same, for a run that must leave no trace."""
        other = Stores(on_disk=self._on_disk)
        other._arrays = {folder: dict(arrays) for folder, arrays in self._arrays.items()}
        other._written = dict(self._written)
        return other

    def of(self, folder: str) -> dict[str, Array]:
        """The arrays of one store.

        Raises:
            StoreError: a file in its folder can't be read, or there are too many stores.
        """
        if folder not in self._arrays:
            if len(self._arrays) >= _MOST_STORES:
                raise StoreError(f"there are {_MOST_STORES} stores, and no more are allowed.")
            arrays = StoreFolder(folder).arrays() if self._on_disk else {}
            self._arrays[folder], self._written[folder] = arrays, dict(arrays)
        return self._arrays[folder]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays())

    def arrays(self) -> Iterator[Array]:
        """All that is held."""
        for arrays in self._arrays.values():
            yield from arrays.values()

    def write(self) -> None:
        """Bring the folders up to date.

        Raises:
            StoreError: a folder can't be written.
        """
        if not self._on_disk:
            return
        for folder, arrays in self._arrays.items():
            place, before = StoreFolder(folder), self._written[folder]
            for name, array in arrays.items():
                if before.get(name) is not array:
                    place.put(name, array)
            for name in before.keys() - arrays.keys():
                place.remove(name)
            self._written[folder] = dict(arrays)


class Asked(NamedTuple):
    """What a rank asks of a store."""

    what: str
    folder: str
    name: str
    start: int
    stop: int | None
    array: Array | None


class Storage:
    """The stores of one run.

    Args:
        stores: None: its ranks may use none.
    """

    def __init__(
        self,
        peers: Sequence[Peer],
        requests: Requests,
        ledger: Ledger,
        machine: Machine,
        stores: Stores | None,
    ) -> None:
        self._peers = peers
        self._requests = requests
        self._ledger = ledger
        self._machine = machine
        self._stores = stores
        if stores is not None:
            ledger.held_bytes += sum(map(_held, stores.arrays()))

    def ask(self, peer: Peer, frame: Frame) -> None:
        """A rank asks something of a store: the engine finds out when it takes effect."""
        if self._stores is None:
            raise LimitError(
                peer.rank,
                "used a ringside.Store, and this run has none: where modules are checked, only "
                "tests of checkpoints give ranks one.",
            )
        asked = _checked(peer, frame.body, self._ledger.limits.decoded_bytes)
        nbytes = 0
        if asked.array is not None:
            nbytes = asked.array.nbytes
            self._hold(peer, _held(asked.array))
        self._requests.ask(peer, frame.site, Query(
            peer.rank, len(peer.ops), "store", blocking=True, store=asked,
            delay=self._machine.store_ps(nbytes),
        ))  # fmt: skip

    def _hold(self, peer: Peer, nbytes: int) -> None:
        self._ledger.held_bytes += nbytes
        limits = self._ledger.limits
        if self._ledger.held_bytes > limits.held_bytes:
            raise LimitError(
                peer.rank,
                f"the stores of this run, and messages on their way, hold more than "
                f"{format_bytes(limits.held_bytes)}. Remove what is no longer needed.",
            )

    def serve(self, query: Query) -> ReplyFrame:
        """Do what a rank has asked for, record it, and answer."""
        asked: Asked = query.store
        try:
            value, nbytes = self._do(asked)
            failed = False
        except StoreError as error:
            value, nbytes, failed = str(error), 0, True
        ops = self._peers[query.rank].ops
        ops[query.op] = TraceOp(
            Kind.STORE, nbytes=nbytes, detail=(asked.what, asked.name), site=ops[query.op].site
        )
        parts = codec.encode_parts(value)
        return ReplyFrame(Reply.STORED, parts, sum(map(len, parts)), int(failed))

    def _do(self, asked: Asked) -> tuple[object, int]:
        """The answer, and the bytes that count."""
        assert self._stores is not None, "ask has looked"
        try:
            arrays = self._stores.of(asked.folder)
            if asked.what == "names":
                return sorted(arrays), 0
            if asked.what == "put":
                return None, self._put(arrays, asked)
            if asked.name not in arrays:
                raise absent(asked.name, arrays)
            if asked.what == "get":
                part = part_of(arrays[asked.name], asked.name, asked.start, asked.stop)
                return part, part.nbytes
            self._ledger.release(_held(arrays.pop(asked.name)))
            return None, 0
        except StoreError:
            if asked.array is not None:
                self._ledger.release(_held(asked.array))
            raise

    def _put(self, arrays: dict[str, Array], asked: Asked) -> int:
        array, most = asked.array, self._ledger.limits.stored
        assert array is not None, "ask has looked"
        before = arrays.get(asked.name)
        if before is None and len(arrays) >= most:
            raise StoreError(
                f"put({asked.name!r}): the store holds {most} arrays, and no more are allowed. "
                "Remove what is no longer needed."
            )
        if before is not None:
            self._ledger.release(_held(arrays.pop(asked.name)))
        arrays[asked.name] = array  # last: folders are written in the order of the puts
        return array.nbytes


def _held(array: Array) -> int:
    """What the network holds of it: of a file it holds nothing."""
    return 0 if isinstance(array, np.memmap) else array.nbytes + MAX_NAME


def _checked(peer: Peer, body: codec.Part, most_bytes: int) -> Asked:
    """What a frame asks, if it can be; beside an array it is small."""
    value, _ = codec.decode_within(body, len(body) + most_bytes)
    if not isinstance(value, tuple) or len(value) != len(Asked._fields):
        raise LimitError(peer.rank, "asked a store in a way that can't be read")
    what, folder, name, start, stop, array = value
    ends = (start,) if stop is None else (start, stop)
    if (
        what not in WHATS
        or not all(isinstance(text, str) for text in (folder, name))
        or not 0 < len(folder) <= _MAX_PATH
        or not (0 < len(name) <= MAX_NAME or what == "names")
        or not all(type(end) is int and -_MAX_INT <= end < _MAX_INT for end in ends)
        or isinstance(array, np.ndarray) != (what == "put")
        or not (array is None or what == "put")
    ):
        raise LimitError(peer.rank, "asked a store in a way that can't be read")
    return Asked(what, folder, name, start, stop, array)
