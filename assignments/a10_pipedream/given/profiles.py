"""Profiles of models, which a planner reads: supplied, nothing to write.

    layer           0         1         2
    compute_s       4 s       2 s       2 s        forward and backward pass of one minibatch
    output_bytes    1 GB      1 GB      1 GB       the activation; its gradient has as many
    weight_bytes    1 GB      1 GB      2 GB       the parameters; their gradients have as many

``VGG16`` is the profile of a real network, measured once on one GPU.
"""

import itertools
from dataclasses import dataclass

import numpy as np

import ringside


@dataclass(frozen=True)
class Layer:
    """What one layer costs for one minibatch.

    Args:
        compute_s: seconds of its forward and its backward pass together, on one worker.
        output_bytes: bytes of what it hands to the next layer. It keeps them until its backward
            pass, and the gradient that comes back has as many.
        weight_bytes: bytes of its parameters.
    """

    compute_s: float
    output_bytes: int
    weight_bytes: int


# VGG-16 in float32, minibatches of 128 images: milliseconds forward and backward, bytes. Each
# convolution or fully connected layer stands with the ReLU, the pooling and the dropout behind it.
# Source: Microsoft's repository msr-fiddle/pipedream at commit 7db6a1c, MIT license, file
# profiler/image_classification/profiles/vgg16/graph.txt; its lines are added up layer by layer.
# The 18 ms of reading the input are left out.
_VGG16 = {
    "conv1_1": (26.753, 30.166, 1_644_167_168, 7_168),
    "conv1_2": (54.451, 124.220, 411_041_792, 147_712),
    "conv2_1": (17.514, 42.386, 822_083_584, 295_424),
    "conv2_2": (26.786, 58.787, 205_520_896, 590_336),
    "conv3_1": (12.191, 19.715, 411_041_792, 1_180_672),
    "conv3_2": (19.098, 28.486, 411_041_792, 2_360_320),
    "conv3_3": (16.963, 36.722, 102_760_448, 2_360_320),
    "conv4_1": (10.275, 15.270, 205_520_896, 4_720_640),
    "conv4_2": (16.207, 22.579, 205_520_896, 9_439_232),
    "conv4_3": (13.458, 30.093, 51_380_224, 9_439_232),
    "conv5_1": (6.392, 7.647, 51_380_224, 9_439_232),
    "conv5_2": (4.533, 7.586, 51_380_224, 9_439_232),
    "conv5_3": (5.050, 9.057, 12_845_056, 9_439_232),
    "fc6": (2.852, 4.605, 2_097_152, 411_058_176),
    "fc7": (0.986, 0.766, 2_097_152, 67_125_248),
    "fc8": (0.393, 0.548, 512_000, 16_388_000),
}
VGG16_NAMES = tuple(_VGG16)
VGG16 = [
    Layer(round((forward_ms + backward_ms) * 1e-3, 9), output_bytes, weight_bytes)
    for forward_ms, backward_ms, output_bytes, weight_bytes in _VGG16.values()
]


def link(bytes_per_s):
    """A machine whose link carries so many bytes a second."""
    return ringside.Machine("link", alpha_s=0.0, beta_s_per_byte=1 / bytes_per_s)


def drawn(rng, num_layers, weights=1.0, outputs=1.0):
    """A profile without a pattern: seconds around 1, bytes of the order of a second on 1 GB/s.

    Args:
        rng: of NumPy.
        weights, outputs: times so many bytes of parameters, and of outputs.
    """
    return [
        Layer(
            round(float(rng.uniform(0.2, 3.0)), 3),
            int(outputs * 10 ** rng.uniform(7.5, 9.0)),
            int(weights * 10 ** rng.uniform(7.0, 9.3)),
        )
        for _ in range(num_layers)
    ]


def layers_of(profile):
    """The profile that a test names.

    Args:
        profile: "VGG16"; what ``drawn`` gets behind a seed, ``(seed, num_layers, weights,
            outputs)``; or the three numbers of each layer.
    """
    if profile == "VGG16":
        return VGG16
    if profile and not isinstance(profile[0], tuple):
        seed, *rest = profile
        return drawn(np.random.default_rng(seed), *rest)
    return [Layer(*numbers) for numbers in profile]


def equal_layers(num_layers, num_workers):
    """The plan that needs no profile: as many layers on each worker as on the others, or one more.

    >>> equal_layers(7, 3)
    [(0, 2, 1), (2, 4, 1), (4, 7, 1)]
    """
    count = min(num_layers, num_workers)
    edges = [num_layers * stage // count for stage in range(count + 1)]
    return [(lo, hi, 1) for lo, hi in itertools.pairwise(edges)]
