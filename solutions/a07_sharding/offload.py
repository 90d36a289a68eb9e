"""Which activations to keep, to swap to the host, or to compute again.

A GPU has too little memory for the activations of all layers. For each layer there are three ways:

    keep        its bytes stay on the GPU from its forward pass to its backward pass: costs memory
    swap        they are copied to the host and back: costs time on the link to the host
    recompute   they are freed, and the layer is computed forward once more: costs time on the GPU

    compute  [F0][F1][F2]  ...  [Fn][Bn]  ...  [F2 again][B2][B1][B0]        keep 1, recompute 2
    copy         [>0]      ...                               [<0]            swap 0

The copy stream works beside the computation. So a copy costs nothing where it is hidden, and holds
the GPU up where it is not, or where the next layer waits for the memory. ``given/offload_model.py``
has the exact rules, a drawing in seconds, and ``makespan_s``, which says what a plan takes.

So a search is needed: each choice changes when the copies of the other layers can run. Up to 8
layers all 3**8 = 6561 plans can be tried. For more, begin with a plan that surely fits, and improve
it a layer at a time. One plan alone may lead astray, so keep the best few plans, and improve each
of them. ``makespan_s`` of 24 layers takes about 0.1 ms. Stay below 20,000 evaluations in a call:
the 60 s of CPU time that all calls of a module have together then suffice.
"""

from given.offload_model import CHOICES, Layer, makespan_s


def schedule(layers: list[Layer], capacity_bytes: float, host_bytes_per_s: float) -> list[str]:
    """Choose "keep", "swap" or "recompute" for each layer, so that the step is as short as can be.

    Args:
        layers: list of ``given.offload_model.Layer``, each with ``forward_s`` and ``backward_s``
            (above 0) and ``nbytes`` (from 0), in the order of the forward pass. 0 to 24 of them.
        capacity_bytes: what the activations may take on the GPU at any time.
        host_bytes_per_s: of the link to the host, in either direction, above 0.

    Returns:
        A list of words, one for each layer; no layers, no words.
        - It fits: ``makespan_s(layers, plan, capacity_bytes, host_bytes_per_s)`` is finite.
        - Up to 8 layers no plan is shorter (to 1e-9). Example: three layers of 2 s, 3 s and 2
          bytes, capacity 5, 1 byte/s: 15 s, with ["swap", "keep", "keep"] or another as short.
        - From 9 to 24 layers it takes at most 1.05 times as long as the reference's plan, or half
          of the points at 1.5 times. Keeping what fits and recomputing the rest is not enough.

    Raises:
        ValueError: no plan fits; so it is when one layer alone needs more than ``capacity_bytes``.
    """
    ### BEGIN SOLUTION
    if any(layer.nbytes > capacity_bytes for layer in layers):
        raise ValueError(f"one layer alone needs more than {capacity_bytes} bytes.")
    width = 100 if len(layers) > 8 else 3**8  # up to 8 layers nothing is left out
    best = [("recompute",) * len(layers)]  # always fits
    for k in reversed(range(len(layers))):
        plans = [(*plan[:k], choice, *plan[k + 1 :]) for plan in best for choice in CHOICES]
        times_s = {
            plan: makespan_s(layers, plan, capacity_bytes, host_bytes_per_s) for plan in plans
        }
        best = sorted(plans, key=times_s.__getitem__)[:width]
    return list(best[0]) if best else []
    ### END SOLUTION
