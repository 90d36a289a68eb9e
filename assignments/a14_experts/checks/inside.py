"""Functions that call yours inside a rank, for the tests: nothing to write."""

from importlib import import_module

import numpy as np
from given.experts import Routing, drawn_experts, shard_bounds


def layer(comm, num_experts, d, hidden, seed, dtype, x, experts, weights, kept, dy):
    """A forward and a backward pass of ``exchange``: ``(y, dx, dweights, gradients)``."""
    exchange = import_module("exchange")
    own = own_experts(comm, num_experts, d, hidden, seed, dtype)
    routing = Routing(experts, weights, kept)
    y, saved = exchange.forward(comm, own, x, routing, num_experts)
    return y, *exchange.backward(comm, own, saved, dy)


def dispatched(comm, num_experts, rows, numbers):
    """``exchange.dispatch`` of rows, and then ``send_back`` of what came, and ``send_again``.

    Returns:
        ``(received, back, again)``.
    """
    exchange = import_module("exchange")
    received, way = exchange.dispatch(comm, rows, numbers, num_experts)
    received = [np.array(each) for each in received]
    back = exchange.send_back(comm, [2 * each for each in received], way)
    return received, back, exchange.send_again(comm, 3 * rows, way)


def node_layer(comm, num_experts, d, hidden, seed, dtype, x, experts, weights, kept, per_node):
    """``node_limited.forward`` of this rank's tokens: y."""
    own = own_experts(comm, num_experts, d, hidden, seed, dtype)
    routing = Routing(experts, weights, kept)
    return import_module("node_limited").forward(comm, own, x, routing, num_experts, per_node)


def own_experts(comm, num_experts, *drawn):
    """The experts of this rank."""
    lo, hi = shard_bounds(num_experts, comm.Get_size(), comm.Get_rank())
    return drawn_experts(num_experts, *drawn)[lo:hi]
