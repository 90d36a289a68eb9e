"""Training with replicas that come and go, for the tests of heal_torch.py: nothing to write."""

import torch
from given.quorum_torch import LeftOut, Lighthouse

import ringside
from ringside.checking.callers import find

_MORE = 6  # attempts, beside one for each step


def trained(group, state, targets, num_shards, num_steps, num_flops, error):
    """Take steps until so many were taken.

    Args:
        targets: shape ``(num_steps, n)``: of this replica's samples, from the newest step on.
        num_flops: of a gradient.
        error: the first gradient raises a RuntimeError of this text; empty: none does.

    Returns:
        The state; None on a rank whose replica isn't whole any more.
    """
    first, raised = int(max(state["newest"], 0)), []
    state = {name: state[name] for name in ("w", "m", "v", "step")}

    def gradient_of(w, step):
        if error and not raised:
            raised.append(error)
            raise RuntimeError(error)
        x = ringside.announce("gradient", w, step)
        ringside.compute(num_flops=num_flops, phase="gradient")
        return x - torch.as_tensor(targets)[step - first]

    trainer = find("heal_torch:Replicated")(state, Lighthouse(group, num_shards))
    taken = 0
    for _ in range(num_steps + _MORE):
        try:
            taken += bool(trainer.step(gradient_of))
        except LeftOut:
            return None
        except RuntimeError as caught:
            if error and str(caught) == error:
                return "the error came out"
            raise
        if taken == num_steps:
            break
    w, m, v, step = (trainer.state[name] for name in ("w", "m", "v", "step"))
    return {"w": w, "m": m, "v": v, "step": int(step)}
