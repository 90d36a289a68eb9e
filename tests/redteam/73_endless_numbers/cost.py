"""Times of a thousand digits, where a float is wanted."""


def star_s(nbytes, world_size, machine):
    return 10**1000


sharded_server_s = ring_s = recursive_doubling_s = halving_doubling_s = choose = star_s
