r"""The gate of a mixture of experts: which experts get which token.

A layer has E experts. For each token the gate gives a score to every expert; the k best get the
token. An expert has room for C tokens, its *capacity*, so that all ranks can prepare buffers of one
size and none waits long for the one with the favourite expert. What finds no room is dropped:

    k = 1, C = 2        scores' best      room left          token 3 is *dropped*: its output
    token 0                0              0: 1 0             from this expert is zero, and the
    token 1                2              2: 1 1             residual path carries it on
    token 2                0              0: 0
    token 3                0              0: full

Every token counts once for each of its k experts. Scores have shape (T, E): T tokens, E experts,
float64 or float32.

Source: Lepikhin et al. 2020, "GShard"; Fedus, Zoph, Shazeer 2021, "Switch Transformers".
"""

import math

import numpy as np
from given.experts import Routing


def capacity(num_tokens: int, num_experts: int, k: int, factor: float) -> int:
    """Room of an expert, in tokens: ``math.ceil(factor * k * T / E)``, an int.

    With ``factor = 1`` perfectly spread tokens just fit. Example: 100 tokens, 8 experts, k = 2,
    factor 1.25: ``ceil(31.25) = 32``.

    Raises:
        ValueError: k isn't in 1..E, or the factor isn't above 0.
    """
    ### BEGIN SOLUTION
    if not 1 <= k <= num_experts:
        raise ValueError(f"k ({k}) must be between 1 and the number of experts ({num_experts}).")
    if not factor > 0:
        raise ValueError(f"factor ({factor}) must be above 0.")
    return math.ceil(factor * k * num_tokens / num_experts)
    ### END SOLUTION


def route(scores: np.ndarray, k: int, room: int) -> Routing:
    """Choose k experts for each token.

    Args:
        scores: shape (T, E).
        k: experts a token.
        room: the capacity of an expert.

    Returns:
        A ``Routing`` of ``given/experts.py``, with the shapes and dtypes that it names:

    - Experts: those with the k highest scores, the highest first. Of equal scores the expert with
      the lower number is the better one.
    - Weights: ``softmax`` over these k scores. They are 0 where the expert was full. The others
      stay as they are, so the weights of a token that lost an expert have a smaller sum. Scores
      may be large: 1000 and 1001 give 0.27 and 0.73, no infinity.
    - Kept: an expert keeps the first ``room`` tokens that chose it, by the tokens' numbers. It
      doesn't matter whether a token chose it first or last. With ``room = 0`` nothing is kept.

    Example: scores ``[[2, 1, 0], [2, 1, 3], [5, 4, 4]]``, k = 2, room = 2. The experts are
    ``[[0, 1], [2, 0], [0, 1]]``; expert 0 keeps tokens 0 and 1, so token 2 keeps expert 1 alone,
    with weight 0.27.
    """
    ### BEGIN SOLUTION
    experts = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    best = np.take_along_axis(scores, experts, axis=1)
    weights = np.exp(best - best.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    taken = np.zeros(scores.shape, bool)
    np.put_along_axis(taken, experts, True, axis=1)
    # place in the queue for an expert: 1 for its first token
    place = np.cumsum(taken, axis=0)
    kept = np.take_along_axis(place, experts, axis=1) <= room
    return Routing(experts, weights * kept, kept)
    ### END SOLUTION


def balance_loss(scores: np.ndarray, experts: np.ndarray) -> float:
    """How unevenly tokens are spread: ``E sum_e f_e P_e``, a float.

    ``f_e`` is the share of all T k choices that fell on expert e, dropped ones included. ``P_e``
    is the mean over tokens of the softmax over **all** E scores. It is 1 where both are even, and E
    where one expert gets everything. ``f`` has no gradient, ``P`` has one: the loss pushes down
    the probability of experts that are chosen often.

    Args:
        scores: shape (T, E), T at least 1.
        experts: shape (T, k), those chosen.
    """
    ### BEGIN SOLUTION
    num_experts = scores.shape[1]
    chosen = np.bincount(experts.ravel(), minlength=num_experts) / experts.size
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return float(num_experts * (chosen * shares.mean(axis=0)).sum())
    ### END SOLUTION
