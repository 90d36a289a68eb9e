# fails: test_gradients_travel_to_the_server
# earns: 0 to 15
"""The library collects each round's gradients, whatever staleness says, and rank 0 applies them."""

import numpy as np


def serve(comm, weights, update, staleness):
    if staleness is not None and staleness < 0:
        raise ValueError("staleness")
    weights = weights.copy()
    version = 0
    while True:
        comm.bcast((version, weights))
        rows = [row for row in comm.allgather(None)[1:] if row is not None]
        if not rows:
            return weights
        if staleness == 0:
            weights, version = update(weights, np.mean(rows, axis=0)), version + 1
            continue
        for row in rows:
            weights, version = update(weights, row), version + 1


def work(comm, gradient, num_steps):
    if num_steps < 0:
        raise ValueError("num_steps")
    versions = []
    while True:
        version, weights = comm.bcast(None)
        step = len(versions)
        own = gradient(weights, step) if step < num_steps else None
        if all(row is None for row in comm.allgather(own)):
            return versions
        versions += [version] if own is not None else []
