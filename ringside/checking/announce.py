"""For supplied layers: say what is computed next, and get the input to compute it with."""

from __future__ import annotations

from typing import Any

import numpy as np

from ringside import factors
from ringside.network import link


def announce(phase: str, array: Any, number: int | None = None) -> Any:
    """Announce a pass of a supplied layer, and return the input to compute it with.

    In a test of order the network notes the pass among the rank's messages, and the result is
    ``array`` times factors that nobody knows before; ``ringside.factors`` explains them. In all
    other runs it is ``array`` itself. No virtual time passes.

    Autograd doesn't see how a tensor is scaled: announce inside the forward or the backward pass
    of a ``torch.autograd.Function``.

    Args:
        phase: the pass's name, such as "forward layer 2"; at most 200 bytes.
        array: the pass's input, an array or a tensor of floating-point numbers, of any shape.
        number: which pass of that name it is: the step, or the microbatch. None: inputs are
            numbered in the order in which they first appear, and one that comes again, bit by
            bit, is the same pass.
    """
    here = link.current() if link.inside_rank() else None
    if here is not None and not here.observed:
        return array
    if isinstance(array, np.ndarray):
        answer = factors.answered(here, phase, number, array)
        return array if answer is None else factors.scaled(array, answer)
    if here is None:
        return array
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():  # scaling is no work of the rank's
        narrow = array.dtype == torch.bfloat16  # which NumPy doesn't know
        plain = (array.detach().float() if narrow else array.detach()).numpy()
        answer = factors.answered(here, phase, number, plain)
        if answer is None:
            return array
        return torch.from_numpy(factors.scaled(plain, answer)).to(array.dtype)
