# fails: test_recursive_doubling_at_other_sizes
"""log2(p) steps, even if that is no whole number."""

from math import log2


def star_s(nbytes, world_size, machine):
    return 2 * (world_size - 1) * (machine.alpha_s + nbytes * machine.beta_s_per_byte)


def sharded_server_s(nbytes, world_size, machine):
    shard_bytes = nbytes / world_size
    return 2 * (world_size - 1) * (machine.alpha_s + shard_bytes * machine.beta_s_per_byte)


def ring_s(nbytes, world_size, machine):
    shard_bytes = nbytes / world_size
    return 2 * (world_size - 1) * (machine.alpha_s + shard_bytes * machine.beta_s_per_byte)


def recursive_doubling_s(nbytes, world_size, machine):
    steps, fold = log2(world_size), 0
    return (steps + 2 * fold) * (machine.alpha_s + nbytes * machine.beta_s_per_byte)


def halving_doubling_s(nbytes, world_size, machine):
    steps = world_size.bit_length() - 1
    core = 2**steps
    fold = int(world_size != core)
    exchanges = 2 * steps * machine.alpha_s
    exchanges += 2 * (core - 1) / core * nbytes * machine.beta_s_per_byte
    return exchanges + 2 * fold * (machine.alpha_s + nbytes * machine.beta_s_per_byte)


def choose(nbytes, world_size, machine):
    predicted_s = {
        "star": star_s(nbytes, world_size, machine),
        "sharded_server": sharded_server_s(nbytes, world_size, machine),
        "ring": ring_s(nbytes, world_size, machine),
        "recursive_doubling": recursive_doubling_s(nbytes, world_size, machine),
        "halving_doubling": halving_doubling_s(nbytes, world_size, machine),
    }
    return min(predicted_s, key=predicted_s.get)
