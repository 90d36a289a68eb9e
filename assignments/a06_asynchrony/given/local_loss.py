"""A rank's own loss, which local SGD trains on: nothing to write.

    f(w) = 1/2 sum of a (w - c_k)^2 over all elements of all arrays        gradient a (w - c_k)

Each rank has curvatures ``a`` and targets ``c_k`` of its own. Step k looks at sample k modulo the
number of samples, so every step has another gradient.
"""

import ringside

FLOPS_PER_ELEMENT = 2  # a subtraction and a product


class LocalLoss:
    """The loss of one rank.

    Args:
        curvatures: a list of arrays, one for each parameter, of its shape.
        samples: a list of such lists: the targets of the first sample, of the second, and so on.
    """

    def __init__(self, curvatures, samples):
        self.curvatures = curvatures
        self.samples = samples

    def gradient(self, params, step):
        """The gradient at ``params``: new arrays. Virtual time passes for its work."""
        num_elements = sum(curvature.size for curvature in self.curvatures)
        ringside.compute(num_flops=FLOPS_PER_ELEMENT * num_elements, phase=f"gradient {step}")
        targets = self.samples[step % len(self.samples)]
        return [
            curvature * (param - target)
            for curvature, param, target in zip(self.curvatures, params, targets, strict=True)
        ]
