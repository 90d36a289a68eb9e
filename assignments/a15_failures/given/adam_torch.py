"""A step of Adam on a shard: supplied, nothing to write.

m <- 0.9 m + 0.1 g        v <- 0.99 v + 0.01 g^2
w <- w - 0.1 m' / (sqrt(v') + 1)        m', v': m and v by 1 - 0.9^t and 1 - 0.99^t, in step t
"""


def adam(state, gradient):
    """Take a step, in place, and count it.

    Args:
        state: ``{"w": ..., "m": ..., "v": ..., "step": steps taken so far}``.
        gradient: of the shape of w, the mean over the replicas that computed.
    """
    state["step"] += 1
    t = state["step"]
    state["m"].mul_(0.9).add_(gradient, alpha=0.1)
    state["v"].mul_(0.99).addcmul_(gradient, gradient, value=0.01)
    m, v = state["m"] / (1 - 0.9**t), state["v"] / (1 - 0.99**t)
    state["w"].sub_(m / (v.sqrt() + 1), alpha=0.1)
