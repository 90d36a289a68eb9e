"""Adds up the steps one by one, in place of closed forms."""

def _message(nbytes, machine):
    return machine.alpha_s + nbytes * machine.beta_s_per_byte


def star_s(nbytes, world_size, machine):
    return sum(_message(nbytes, machine) for _ in range(1, world_size) for _ in ("in", "out"))


def sharded_server_s(nbytes, world_size, machine):
    return ring_s(nbytes, world_size, machine)


def ring_s(nbytes, world_size, machine):
    return sum(_message(nbytes / world_size, machine) for _ in range(2 * world_size - 2))


def _core(world_size):
    core = 1
    while 2 * core <= world_size:
        core *= 2
    return core


def _fold(nbytes, world_size, machine):
    return 0.0 if _core(world_size) == world_size else 2 * _message(nbytes, machine)


def recursive_doubling_s(nbytes, world_size, machine):
    time_s, reached = _fold(nbytes, world_size, machine), 1
    while reached < _core(world_size):
        time_s, reached = time_s + _message(nbytes, machine), 2 * reached
    return time_s


def halving_doubling_s(nbytes, world_size, machine):
    time_s, parts = _fold(nbytes, world_size, machine), 1
    while parts < _core(world_size):
        parts *= 2
        time_s += 2 * _message(nbytes / parts, machine)
    return time_s


def choose(nbytes, world_size, machine):
    names = ["ring", "recursive_doubling", "halving_doubling"]
    return sorted(names, key=lambda name: globals()[f"{name}_s"](nbytes, world_size, machine))[0]
