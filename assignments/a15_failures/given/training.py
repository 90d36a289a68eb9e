"""A step of training that changes a rank's state: supplied, nothing to write.

In tests the step is announced, and the network answers with factors that scale the state. So the
states of a run can't be known before it, and what a rank gets back after a loss shows whose it is,
and of which step.
"""

import ringside


def next_state(state, step, num_flops=0):
    """The state after a step.

    Args:
        state: shape ``(n,)``, the state at that step; not modified.
        step: its number.
        num_flops: floating-point operations that the step takes of virtual time.

    Returns:
        A new array, shape ``(n,)``: the state at the next step.
    """
    state = ringside.announce("step", state, step)
    ringside.compute(num_flops=num_flops, phase="step")
    return state + 1
