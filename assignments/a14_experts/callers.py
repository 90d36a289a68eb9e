"""Functions that call yours inside a rank, for the tests: supplied, nothing to write."""

import numpy as np
from experts import Routing, drawn_experts, shard_bounds

from ringside.checking import find

# -- route -----------------------------------------------------------------------------------------


def route_answers(comm, target, calls):
    """Call a function of ``route.py`` with each of a list of arguments.

    Returns:
        Per call the result, a ``Routing`` as a list of its arrays; or the type of an exception.
        Where an argument was changed, "changed" is one more entry of the list, or stands alone.
    """
    answers = []
    for call in calls:
        given = [np.array(each) if isinstance(each, np.ndarray) else each for each in call]
        try:
            value = find(target)(*given)
        except ValueError as error:
            value = type(error).__name__
        changed = any(
            isinstance(each, np.ndarray) and not np.array_equal(each, before)
            for each, before in zip(given, call, strict=True)
        )
        if isinstance(value, tuple):
            answers.append([*value, "changed"] if changed else list(value))
        else:
            answers.append("changed" if changed else value)
    return answers


# -- exchange --------------------------------------------------------------------------------------


def exchange_layer(comm, num_experts, d, hidden, seed, dtype, x, experts, weights, kept, dy):
    """A forward and a backward pass of ``exchange``: ``(y, dx, dweights, gradients)``."""
    lo, hi = shard_bounds(num_experts, comm.Get_size(), comm.Get_rank())
    own = drawn_experts(num_experts, d, hidden, seed, dtype)[lo:hi]
    routing = Routing(experts, weights, kept)
    y, saved = find("exchange:forward")(comm, own, x, routing, num_experts)
    return y, *find("exchange:backward")(comm, own, saved, dy)


def exchange_twice(comm, *words):
    """Two such passes with arrays that can't be written to; both results, after the second.

    Before them, a pass where as many tokens go to the experts in the reverse order.
    """
    for array in words[5:]:
        array.flags.writeable = False
    num_experts, chosen = words[0], words[6]
    exchange_layer(comm, *words[:6], num_experts - 1 - chosen, *words[7:])
    return [exchange_layer(comm, *words) for _ in range(2)]


def exchange_dispatched(comm, num_experts, rows, numbers):
    """``exchange.dispatch`` of rows, and then ``send_back`` of what came, and ``send_again``.

    Returns:
        ``(received, back, again)``.
    """
    received, way = find("exchange:dispatch")(comm, rows, numbers, num_experts)
    received = [np.array(each) for each in received]
    back = find("exchange:send_back")(comm, [2 * each for each in received], way)
    return received, back, find("exchange:send_again")(comm, 3 * rows, way)


# -- node_limited ----------------------------------------------------------------------------------


def node_layer(
    comm, num_experts, d, hidden, seed, dtype, x, experts, weights, kept, ranks_per_node
):
    """``node_limited.forward`` of this rank's tokens: y."""
    lo, hi = shard_bounds(num_experts, comm.Get_size(), comm.Get_rank())
    own = drawn_experts(num_experts, d, hidden, seed, dtype)[lo:hi]
    routing = Routing(experts, weights, kept)
    return find("node_limited:forward")(comm, own, x, routing, num_experts, ranks_per_node)


def node_twice(comm, *words):
    """Two calls with arrays that can't be written to; both results, after the second."""
    for array in words[5:9]:
        array.flags.writeable = False
    return [node_layer(comm, *words) for _ in range(2)]
