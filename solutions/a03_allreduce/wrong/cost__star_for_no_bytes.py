# fails: test_choice_at_powers_of_two
"""For less than one element it takes the star."""


def star_s(nbytes, world_size, machine):
    return 2 * (world_size - 1) * (machine.alpha_s + nbytes * machine.beta_s_per_byte)


def sharded_server_s(nbytes, world_size, machine):
    return 2 * (world_size - 1) * (machine.alpha_s + nbytes / world_size * machine.beta_s_per_byte)


def ring_s(nbytes, world_size, machine):
    return 2 * (world_size - 1) * (machine.alpha_s + nbytes / world_size * machine.beta_s_per_byte)


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
    names = ("star", "sharded_server", "ring", "recursive_doubling", "halving_doubling")
    if nbytes < 8:
        return "star"
    return min(names, key=lambda name: globals()[name + "_s"](nbytes, world_size, machine))
