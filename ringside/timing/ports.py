"""The ports that messages pass: when one leaves its sender, and when it is there.

sender's port     taken for nbytes * beta, once it is free; the head arrives alpha later
receiver's port   taken for nbytes * beta, once it is free; then the message is complete

Inside a node these are the two ranks' ports to the switches; between nodes their NICs, which other
ranks of the node may share. So a rank sends inside its node and out of it at the same time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ringside.timing.engine_state import Flight
from ringside.timing.machine import Machine

PS = 10**12


class Ports:
    """Which port is taken, until when and by which message.

    Args:
        latency_seed: scale each pair's latency by a drawn factor between 1/2 and 2.
    """

    def __init__(self, machine: Machine, world_size: int, latency_seed: int | None) -> None:
        self.machine = machine
        self.world_size = world_size
        self._routes: dict[int, tuple[int, int, int, int, int]] = {}
        self._free: dict[int, int] = {}
        self._last: dict[int, Flight] = {}
        self._factors = _latency_factors(world_size, latency_seed)

    def leave(self, message: Flight, now: int) -> tuple[int, int]:
        """The message takes its sender's port, as soon as that is free.

        Returns:
            When its head is at the receiver's port, and when it has left.
        """
        source, dest = message.source, message.dest
        route = self._routes.get(source * self.world_size + dest)
        if route is None:
            route = self._route(source, dest)
        alpha, beta, port, _, eager_alpha = route
        if message.eager:
            alpha = eager_alpha
        start = self._free.get(port, 0)
        if start > now:
            message.held_at_source = self._last.get(port)
        else:
            start = now
        # In whole numbers: of 1e-18 s, rounded to the nearest picosecond.
        end = self._free[port] = start + (message.nbytes * beta + 500_000) // 1_000_000
        self._last[port] = message
        message.started = start
        return start + alpha, end

    def arrive(self, message: Flight, now: int) -> int:
        """Its head is at the receiver's port, which it takes as soon as that is free.

        Returns:
            When it is complete.
        """
        _, beta, _, port, _ = self._routes[message.source * self.world_size + message.dest]
        begin = self._free.get(port, 0)
        if begin > now:
            message.held_at_dest = self._last.get(port)
        else:
            begin = now
        done = self._free[port] = begin + (message.nbytes * beta + 500_000) // 1_000_000
        self._last[port] = message
        message.arrived, message.done = begin, done
        return done

    def _route(self, source: int, dest: int) -> tuple[int, int, int, int, int]:
        """A pair's latency (ps), inverse bandwidth (1e-18 s per byte), two ports, eager latency."""
        machine, size = self.machine, self.world_size
        link = machine.link(source, dest)
        factor = 1.0 if self._factors is None or source == dest else self._factors[source, dest]
        alpha, eager_alpha = (
            round(round(alpha_s * PS) * factor)
            for alpha_s in (link.alpha_s, machine.eager_latency_s(source, dest))
        )
        # Kinds of port share no number; NICs have negative ones, which ``FoldedPorts`` goes by.
        if source == dest:
            ports = (4 * size * size + source, 4 * size * size + size + source)
        elif machine.ports == "peer":
            ports = (source * size + dest, (size + dest) * size + source)
        elif machine.node(source) != machine.node(dest):
            ports = (-2 * machine.nic(source) - 1, -2 * machine.nic(dest) - 2)
        else:
            ports = (2 * source, 2 * dest + 1)
        route = (alpha, round(link.beta_s_per_byte * 10**18), *ports, eager_alpha)
        self._routes[source * size + dest] = route
        return route


def _latency_factors(world_size: int, seed: int | None) -> Any:
    if seed is None:
        return None
    rng = np.random.default_rng(seed)
    return 2.0 ** rng.uniform(-1, 1, size=(world_size, world_size))
