"""Loops over messages, recursion, and NumPy's numbers for seconds."""

from dataclasses import dataclass
from math import ceil, log2

import numpy as np


@dataclass
class Clock:
    machine: object
    seconds: float = 0.0

    def message(self, nbytes):
        self.seconds += self.machine.alpha_s + nbytes * self.machine.beta_s_per_byte
        return self


def star_s(nbytes, world_size, machine):
    clock = Clock(machine)
    for _ in range(1, world_size):
        clock.message(nbytes).message(nbytes)
    return clock.seconds


def ring_s(nbytes, world_size, machine):
    clock = Clock(machine)
    for _ in range(2 * world_size - 2):
        clock.message(nbytes // world_size)
    return np.float64(clock.seconds)


sharded_server_s = ring_s


def recursive_doubling_s(nbytes, world_size, machine):
    full = int(log2(world_size)) if world_size else 0
    return (ceil(log2(world_size)) + (2**full < world_size)) * Clock(machine).message(
        nbytes
    ).seconds


def halving_doubling_s(nbytes, world_size, machine):
    def inner(p, n):
        return 0.0 if p == 1 else 2 * Clock(machine).message(n / 2).seconds + inner(p // 2, n / 2)

    core = 2 ** int(log2(world_size))
    fold = 2 * Clock(machine).message(nbytes).seconds if core < world_size else 0.0
    return fold + inner(core, nbytes)


def choose(nbytes, world_size, machine):
    table = {
        halving_doubling_s: "halving_doubling",
        recursive_doubling_s: "recursive_doubling",
        ring_s: "ring",
    }
    return table[min(table, key=lambda f: f(nbytes, world_size, machine))]
