# fails: test_choice_at_other_sizes
"""Halving-doubling for all long vectors, whatever the world size."""

def star_s(nbytes, world_size, machine):
    return 2 * (world_size - 1) * (machine.alpha_s + nbytes * machine.beta_s_per_byte)


def sharded_server_s(nbytes, world_size, machine):
    shard_bytes = nbytes / world_size
    return 2 * (world_size - 1) * (machine.alpha_s + shard_bytes * machine.beta_s_per_byte)


def ring_s(nbytes, world_size, machine):
    shard_bytes = nbytes / world_size
    return 2 * (world_size - 1) * (machine.alpha_s + shard_bytes * machine.beta_s_per_byte)


def recursive_doubling_s(nbytes, world_size, machine):
    steps = world_size.bit_length() - 1
    fold = int(world_size != 2**steps)
    return (steps + 2 * fold) * (machine.alpha_s + nbytes * machine.beta_s_per_byte)


def halving_doubling_s(nbytes, world_size, machine):
    steps = world_size.bit_length() - 1
    core = 2**steps
    fold = int(world_size != core)
    exchanges = 2 * steps * machine.alpha_s
    exchanges += 2 * (core - 1) / core * nbytes * machine.beta_s_per_byte
    return exchanges + 2 * fold * (machine.alpha_s + nbytes * machine.beta_s_per_byte)


def choose(nbytes, world_size, machine):
    short = recursive_doubling_s(nbytes, world_size, machine)
    long = halving_doubling_s(nbytes, world_size, machine)
    return "recursive_doubling" if short < long else "halving_doubling"
