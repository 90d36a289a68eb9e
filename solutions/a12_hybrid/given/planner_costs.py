"""The cost models with which the tests ask for plans."""

import dataclasses

from ringside.scale.hybrid_cost import cost


def heavy(model, config, machine):
    """A cost model whose messages between stages take ten times as long.

    And a GPU keeps 20 bytes more for each of its parameters.
    """
    kits = cost(model, config, machine)
    parameters = model.num_parameters() / (config.tensor * config.pipeline)
    return dataclasses.replace(
        kits,
        step_s=kits.step_s + 9 * kits.hops_s,
        hops_s=10 * kits.hops_s,
        memory_bytes=kits.memory_bytes + round(20 * parameters),
    )


COSTS = {"plain": cost, "heavy": heavy}
