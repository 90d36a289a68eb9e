"""The machine model: what messages and computation cost.

A message of ``n`` bytes from one rank to another, sent over a link (alpha, beta)::

    sender's port     |==== n*beta ====|
                      t  . alpha .
    receiver's port           |==== n*beta ====|
                              a                 done        a = max(t + alpha, port is free)

- A transmission that starts at ``t`` occupies the sender's port for ``n * beta``.
- Its head reaches the receiver ``alpha`` later. There the receiving port is reserved in order of
  arrival, for ``n * beta``; the message is complete when the port has taken it.
- Ports are full duplex and serve one message at a time, first come first served. A rank has a port
  to the switches of its node and one to the network, its NIC; ranks of a node may share a NIC.
- Rendezvous (messages of at least ``eager_threshold_bytes``): transmission starts once send and
  receive are both posted; a blocking send returns at completion.
- Eager (smaller messages): transmission starts at the post; a blocking send returns when the
  message has left the port.
- The network moves messages whether or not a rank is inside an MPI call.
- Adding two arrays costs nothing (gamma = 0), unless a program declares it with
  ``ringside.compute``.

So one blocking send and receive takes ``alpha + n*beta``; k of them one after another take
``k * (alpha + n*beta)``; k messages posted at once through one port take ``alpha + k*n*beta``.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

from ringside import kit
from ringside.errors import MachineError

DEFAULT_COLLECTIVES = {
    "allgather": "ring",
    "allreduce": "ring",
    "alltoall": "pairwise",
    "barrier": "dissemination",
    "bcast": "binomial",
    "exscan": "chain",
    "gather": "linear",
    "reduce": "binomial",
    "reduce_scatter": "ring",
    "scan": "chain",
    "scatter": "linear",
}


class LinkModel(NamedTuple):
    """What one message costs on its way: latency in s, inverse bandwidth in s per byte."""

    alpha_s: float
    beta_s_per_byte: float


DTYPES = ("fp32", "tf32", "bf16", "fp8", "fp4")
SHARES = ("products", "steps")
_LINKS = (
    *("alpha_s", "beta_s_per_byte", "intra_alpha_s", "intra_beta_s_per_byte"),
    *("eager_alpha_s", "intra_eager_alpha_s", "store_alpha_s", "store_beta_s_per_byte"),
)
_TABLES = ("rates", "collectives", "sources")

_READERS: Mapping[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": lambda text: {"True": True, "False": False}[text],
}


@dataclass(frozen=True)
class Machine:
    """A modelled cluster; the module's docstring draws the port model.

    Args:
        name: what reports call it.
        alpha_s, beta_s_per_byte: the link between two nodes.
        intra_alpha_s, intra_beta_s_per_byte: the link inside a node; None: as between nodes.
        eager_alpha_s, intra_eager_alpha_s: the latency of eager messages; None: that of all others.
        ranks_per_node: ranks 0..k-1 live on node 0, the next k on node 1, and so on. A node is what
            one set of switches joins: 8 GPUs on NVLink, or the 72 of a rack.
        gpus_per_nic: so many neighbours of a node share a port each way for messages between nodes;
            1: each rank has its own, ``ranks_per_node`` or more: a node has one.
        eager_threshold_bytes: a send is eager if it has fewer bytes; 0 makes all sends rendezvous.
        ports: "rank": a rank has a port each way to its node, and one to the network; "peer": one
            pair for every peer.
        poll_s: what a failed ``Test`` or ``Iprobe`` costs.
        failure_detect_s: how long the others take to find a rank dead.
        store_alpha_s, store_beta_s_per_byte: what a rank's call of a ``ringside.Store`` costs, and
            each byte that it writes or reads there.
        flop_per_s, memory_bytes_per_s: roofline for computation, declared or counted.
        kernel_overhead_s: what starting an operator costs, besides.
        memory_bytes: capacity per rank.
        rates: what arithmetic reaches, by dtype ("fp32", "tf32", "bf16", "fp8", "fp4"): ``peak`` in
            FLOP/s of dense products, and the shares of it that ``products`` and whole training
            ``steps`` reach.
        switch_gain: how many times as fast the switches of a node, which add what passes, make a
            ring all-reduce of exactly all its ranks; for replays, planners don't know it.
        collectives: the algorithm by which a library collective is timed, by name.
        sources: where each number comes from.
    """

    name: str
    alpha_s: float
    beta_s_per_byte: float
    intra_alpha_s: float | None = None
    intra_beta_s_per_byte: float | None = None
    eager_alpha_s: float | None = None
    intra_eager_alpha_s: float | None = None
    ranks_per_node: int = 1
    gpus_per_nic: int = 1
    eager_threshold_bytes: int = 0
    ports: str = "rank"
    poll_s: float = 1e-7
    failure_detect_s: float = 1e-3
    store_alpha_s: float = 1e-3
    store_beta_s_per_byte: float = 1e-9
    flop_per_s: float = 1e12
    memory_bytes_per_s: float = 1e11
    memory_bytes: int = 16 * 2**30
    kernel_overhead_s: float = 0.0
    rates: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    switch_gain: float = 1.0
    collectives: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # First: comparing a text below would be a TypeError that names no field.
        self._check_types()
        for name in _LINKS:
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1e6:
                raise MachineError(f"machine {self.name}: {name} ({value}) must be in [0, 1e6) s.")
        for name in ("poll_s", "failure_detect_s", "flop_per_s", "memory_bytes_per_s"):
            if not getattr(self, name) > 0:
                raise MachineError(
                    f"machine {self.name}: {name} ({getattr(self, name)}) must be > 0."
                )
        if self.ranks_per_node < 1:
            raise MachineError(
                f"machine {self.name}: ranks_per_node ({self.ranks_per_node}) must be >= 1."
            )
        if self.gpus_per_nic < 1:
            raise MachineError(
                f"machine {self.name}: gpus_per_nic ({self.gpus_per_nic}) must be >= 1."
            )
        self._check_rates()
        if self.ports not in ("rank", "peer"):
            raise MachineError(
                f'machine {self.name}: ports ({self.ports!r}) must be "rank" or "peer".'
            )
        from ringside.timing.collectives import ALGORITHMS

        for name, algorithm in self.collectives.items():
            algorithms = ALGORITHMS.get(name)
            if algorithms is None or algorithm not in algorithms:
                raise MachineError(
                    f"machine {self.name}: collectives.{name} ({algorithm!r}) must be one of "
                    f"{', '.join(algorithms or sorted(ALGORITHMS))}."
                )

    def _check_types(self) -> None:
        rates = self.rates if isinstance(self.rates, Mapping) else {}
        # Types are texts here because annotations are imported from __future__.
        fields = [f.name for f in dataclasses.fields(self) if f.type.startswith(("float", "int"))]
        whole = ("ranks_per_node", "gpus_per_nic")
        checks: list[tuple[str, Any, Any, str]] = [
            *((name, getattr(self, name), Integral, "a whole number") for name in whole),
            *((name, getattr(self, name), Real, "a number") for name in fields),
            *((name, getattr(self, name), Mapping, f"a table, [{name}]") for name in _TABLES),
            *((f"rates.{dtype}", rate, Mapping, "a table, such as { peak = 3.12e14 }")
              for dtype, rate in rates.items()),
            *((f"rates.{dtype}.{name}", value, Real, "a number")
              for dtype, rate in rates.items() if isinstance(rate, Mapping)
              for name, value in rate.items()),
        ]  # fmt: skip
        for name, value, kind, what in checks:
            if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
                raise MachineError(f"machine {self.name}: {name} ({value!r}) must be {what}.")

    def _check_rates(self) -> None:
        if not 1 <= self.switch_gain < 100:
            raise MachineError(
                f"machine {self.name}: switch_gain ({self.switch_gain}) must be in [1, 100)."
            )
        for dtype, rate in self.rates.items():
            if dtype not in DTYPES:
                raise MachineError(
                    f"machine {self.name}: rates.{dtype} must be one of {', '.join(DTYPES)}."
                )
            if "peak" not in rate or not set(rate) <= {"peak", *SHARES}:
                raise MachineError(
                    f"machine {self.name}: rates.{dtype} ({', '.join(rate)}) must have peak, and "
                    f"may have {' and '.join(SHARES)}."
                )
            for name, value in rate.items():
                if not 0 < value <= (1e30 if name == "peak" else 1):
                    raise MachineError(
                        f"machine {self.name}: rates.{dtype}.{name} ({value}) must be "
                        f"{'> 0' if name == 'peak' else 'a share of the peak, in (0, 1]'}."
                    )

    @classmethod
    def load(cls, name: str | Path | Machine) -> Machine:
        """Return the machine of a preset's name or of a TOML file; a Machine is returned as it is.

        Numbers may follow a preset's name, or stand alone: ``"textbook,alpha_s=1e-3"``.

        Raises:
            MachineError: there is no such preset or file, or a field is unknown or wrong.
        """
        if isinstance(name, Machine):
            return name
        if isinstance(name, str) and "=" in name and not name.endswith(".toml"):
            return cls._from_words(name)
        path = Path(name)
        if path.suffix != ".toml":
            path = machines_folder() / f"{name}.toml"
        if not path.is_file():
            presets = ", ".join(sorted(p.stem for p in machines_folder().glob("*.toml")))
            raise MachineError(
                f"no machine {str(name)!r}: presets are {presets}; or give a .toml file."
            )
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise MachineError(f"{path}: not a TOML file: {error}") from None
        return cls._from_table(table, path)

    @classmethod
    def _from_words(cls, text: str) -> Machine:
        """Read ``"textbook,alpha_s=1e-3,ports=peer"``; without a preset's name, `textbook`."""
        first, *rest = text.split(",")
        base, settings = ("textbook", [first, *rest]) if "=" in first else (first, rest)
        kinds = {f.name: str(f.type) for f in dataclasses.fields(cls)} | {"shared_nic": "bool"}
        changes: dict[str, Any] = {"name": text}
        for word in settings:
            key, _, value = word.strip().partition("=")
            kind = kinds.get(key, "").partition(" ")[0]
            try:
                changes[key] = _READERS[kind](value)
            except (KeyError, ValueError):
                raise MachineError(
                    f"machine {text!r}: {word.strip()!r} is not of the form NUMBER=VALUE, such as "
                    "alpha_s=1e-6 or eager_threshold_bytes=65536."
                ) from None
        machine = cls.load(base)
        changes = _nics(changes, machine.ranks_per_node)
        if 1 < machine.ranks_per_node <= machine.gpus_per_nic and "ranks_per_node" in changes:
            changes.setdefault("gpus_per_nic", changes["ranks_per_node"])  # one for all, as before
        return machine.with_(**changes)

    def spelled(self) -> str:
        """What ``load`` reads this machine's times from: ``"textbook,alpha_s=0.001"``."""
        base = Machine.load("textbook")
        names = [f.name for f in dataclasses.fields(self)]
        changed = [name for name in names if getattr(self, name) != getattr(base, name)]
        fields = [name for name in changed if name not in ("name", *_TABLES)]
        settings = [f"{name}={getattr(self, name)}" for name in fields]
        return ",".join(settings) if settings else "textbook"

    @classmethod
    def _from_table(cls, table: dict[str, Any], path: Path) -> Machine:
        table = dict(table)
        for name in ("intra", *_TABLES):
            if not isinstance(table.get(name, {}), dict):
                raise MachineError(f"{path}: {name} ({table[name]!r}) must be a table, [{name}].")
        both = "shared_nic" in table and "gpus_per_nic" in table
        if both or not isinstance(table.get("shared_nic", False), bool):
            raise MachineError(
                f"{path}: shared_nic ({table['shared_nic']!r}) must be true or false and stand "
                "alone; or write gpus_per_nic, how many neighbours share a port, in its place."
            )
        for key, value in table.pop("intra", {}).items():
            table[f"intra_{key}"] = value
        table.setdefault("name", path.stem)
        table = _nics(table, 1)
        fields = {f.name for f in dataclasses.fields(cls)}
        unknown = sorted(set(table) - fields)
        if unknown:
            raise MachineError(
                f"{path}: unknown field {unknown[0]!r}; known are {', '.join(sorted(fields))}."
            )
        try:
            return cls(**table)
        except (TypeError, MachineError) as error:
            raise MachineError(f"{path}: {error}") from None

    def with_(self, **changes: Any) -> Machine:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def node(self, rank: int) -> int:
        """Return the node that a rank lives on."""
        return rank // self.ranks_per_node

    def nic(self, rank: int) -> int:
        """Return the number of a rank's port to the network, counted over all nodes."""
        node, local = divmod(rank, self.ranks_per_node)
        return node * -(-self.ranks_per_node // self.gpus_per_nic) + local // self.gpus_per_nic

    def rate(self, dtype: str, reached: str = "peak") -> float:
        """Return the FLOP/s of a dtype: the peak, or what "products" or whole "steps" reach.

        Raises:
            MachineError: the machine's file doesn't say.
        """
        numbers = self.rates.get(dtype, {})
        share = 1.0 if reached == "peak" else numbers.get(reached)
        if "peak" not in numbers or share is None:
            have = ", ".join(f"{name}.{key}" for name, rate in self.rates.items() for key in rate)
            raise MachineError(
                f"machine {self.name} has no rates.{dtype}.{reached}; it has {have or 'none'}."
            )
        return numbers["peak"] * share

    def store_ps(self, nbytes: int) -> int:
        """Return the picoseconds that a store takes for so many bytes; at least one."""
        return max(1, round((self.store_alpha_s + nbytes * self.store_beta_s_per_byte) * 1e12))

    def eager_latency_s(self, source: int, dest: int) -> float:
        """Return the latency of an eager message between two ranks."""
        inside = self.node(source) == self.node(dest) and self.ranks_per_node > 1
        alpha_s = self.intra_eager_alpha_s if inside else self.eager_alpha_s
        return self.link(source, dest).alpha_s if alpha_s is None or source == dest else alpha_s

    def link(self, source: int, dest: int) -> LinkModel:
        """Return the link between two ranks; a message to oneself costs nothing.

        The latency is that of messages that aren't eager; ``eager_latency_s`` has the other one.
        """
        if source == dest:
            return LinkModel(0.0, 0.0)
        if self.node(source) == self.node(dest) and self.ranks_per_node > 1:
            alpha = self.alpha_s if self.intra_alpha_s is None else self.intra_alpha_s
            beta = (
                self.beta_s_per_byte
                if self.intra_beta_s_per_byte is None
                else self.intra_beta_s_per_byte
            )
            return LinkModel(alpha, beta)
        return LinkModel(self.alpha_s, self.beta_s_per_byte)

    def algorithm(self, collective: str) -> str:
        """Return the algorithm by which a library collective is timed."""
        return self.collectives.get(collective, DEFAULT_COLLECTIVES[collective])

    def compute_s(
        self, flops: float, nbytes: float, num_kernels: int = 1, moved_bytes: float = 0.0
    ) -> float:
        """Return the roofline time of work: the slower of arithmetic and memory traffic.

        Args:
            flops, nbytes: of operators that calculate, such as matrix products.
            num_kernels: how many operators the work is made of; each costs an overhead.
            moved_bytes: memory traffic of operators that are bound by it, such as additions; it
                isn't hidden behind the arithmetic of others.
        """
        if flops == 0 and nbytes == 0 and moved_bytes == 0:
            return 0.0
        roofline = max(flops / self.flop_per_s, nbytes / self.memory_bytes_per_s)
        return (
            roofline + moved_bytes / self.memory_bytes_per_s + num_kernels * self.kernel_overhead_s
        )


def _nics(changes: Mapping[str, Any], ranks_per_node: int) -> dict[str, Any]:
    """Read ``shared_nic`` of older files and traces: a port for all of a node, or one for each."""
    changes = dict(changes)
    if "shared_nic" in changes:
        ranks = changes.get("ranks_per_node", ranks_per_node)
        changes["gpus_per_nic"] = ranks if changes.pop("shared_nic") else 1
    sources = dict(changes.get("sources", {}))
    if "shared_nic" in sources:
        changes["sources"] = sources | {"gpus_per_nic": sources.pop("shared_nic")}
    return changes


def machines_folder() -> Path:
    """Return the folder of the presets."""
    return kit.cluster_folder() / "machines"
