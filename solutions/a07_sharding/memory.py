"""Where the bytes of a training step go, and what fits.

    weights      gradients    optimizer          one rank holds, with Psi parameters on N ranks
    [2 Psi]      [2 Psi]      [12 Psi]           stage 0: 16 Psi, all on every rank
    [2 Psi]      [2 Psi]      [12 Psi/N]         stage 1: the optimizer's state is sharded
    [2 Psi]      [2 Psi/N]    [12 Psi/N]         stage 2: and the gradients
    [2 Psi/N]    [2 Psi/N]    [12 Psi/N]         stage 3: and the weights

A shard has ceil(Psi / N) elements, padding included, on every rank. Mixed precision with Adam is
2 bytes of weight, 2 of gradient, and 12 of optimizer state: the weight in 32 bits and two moments.

**What a layer keeps for its backward pass.** One layer, b sequences of s tokens, width h, a heads:

    tensor                          elements     bytes of each
    input of the first layer norm   s b h        w
    its output, the input of Q K V  s b h        w
    Q, K and V                      3 s b h      w
    softmax's output                a s s b      w
    mask of dropout behind it       a s s b      1   } only with
    dropout's output                a s s b      w   } dropout
    input of the output projection  s b h        w
    mask of dropout behind it       s b h        1   } only with dropout
    input of the second layer norm  s b h        w
    its output, the input of "up"   s b h        w
    input of GELU                   4 s b h      w
    its output, the input of "down" 4 s b h      w
    mask of dropout behind it       s b h        1   } only with dropout

In 16 bits (w = 2) with dropout that is s b h (34 + 5 a s / h) bytes. Without dropout it is
16 w s b h + w a s s b bytes: softmax's output itself meets V, and is kept once.

**Outside the layers** the model keeps dropout's mask behind the embedding (s b h bytes, only with
dropout), the input and the output of the last norm (s b h elements each), and the logarithms of the
probabilities of V words (s b V elements). An element has w bytes.

**With recomputation** each layer keeps only its input, the first line of the table. The layer whose
backward pass is under way is an exception: it has been computed again, and keeps all of its table.
So a model of one layer saves nothing.

Every result is an exact ``int``, up to 10**18 parameters: a float is not enough. Not counted are
communication buffers, the layers gathered in stage 3, temporaries, and a norm's mean and deviation.

Source: Rajbhandari et al., ZeRO, SC 2020, section 5; Korthikanti et al., Reducing Activation
Recomputation in Large Transformer Models, 2022, section 4.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Sizes:
    """How large a GPT is: supplied, nothing to write.

    Its words serve as its last matrix too, and its positions are learned.
    ``dataclasses.replace(sizes, num_layers=3)`` is the same model with three layers.
    """

    num_layers: int  # L
    width: int  # h
    num_heads: int  # a; divides h
    sequence: int  # s, tokens
    vocabulary: int  # V


def num_parameters(sizes: Sizes) -> int:
    """Parameters of the GPT: 12 h h + 13 h in each layer; (V + s) h + 2 h outside."""
    ### BEGIN SOLUTION
    h = sizes.width
    return sizes.num_layers * (12 * h + 13) * h + (sizes.vocabulary + sizes.sequence + 2) * h
    ### END SOLUTION


def state_bytes(
    num_parameters: int,
    world_size: int,
    stage: int,
    *,
    weight_bytes: int = 2,
    gradient_bytes: int = 2,
    optimizer_bytes: int = 12,
) -> int:
    """Bytes of weights, gradients and optimizer state on one rank.

    Args:
        num_parameters: Psi, from 0.
        world_size: N, from 1; there may be more ranks than parameters.
        stage: of ZeRO, 0 to 3.

    7.5e9 parameters on 64 ranks take 120, 31.40625, 16.640625 and 1.875 GB; 7 parameters on
    2 ranks, in stage 1: 7 * 4 + 4 * 12 = 76 bytes.

    Raises:
        ValueError: ``stage`` is none of 0, 1, 2, 3, or ``world_size`` is below 1.
    """
    ### BEGIN SOLUTION
    if stage not in (0, 1, 2, 3) or world_size < 1:
        raise ValueError(f"no stage {stage} of ZeRO on {world_size} ranks.")
    shard = -(-num_parameters // world_size)
    return (
        weight_bytes * (shard if stage >= 3 else num_parameters)
        + gradient_bytes * (shard if stage >= 2 else num_parameters)
        + optimizer_bytes * (shard if stage >= 1 else num_parameters)
    )
    ### END SOLUTION


def activation_bytes(
    sizes: Sizes,
    batch: int,
    *,
    recompute: bool = False,
    element_bytes: int = 2,
    dropout: bool = True,
) -> int:
    """The most bytes of activations kept at one time, for ``batch`` sequences, as described above.

    Args:
        recompute: keep the layers' inputs only, and compute each layer once more.
        element_bytes: w. A mask of dropout always has one byte an element.

    One sequence of 2 tokens, h = 4, a = 2, V = 3, two layers: 312 bytes a layer and 52 outside, so
    676 in all, and 380 with recomputation.
    """
    ### BEGIN SOLUTION
    w, mask = element_bytes, int(dropout)
    tokens = sizes.sequence * batch
    row = tokens * sizes.width
    scores = sizes.num_heads * sizes.sequence * tokens
    layer = row * (16 * w + 2 * mask) + scores * (w + (w + 1) * mask)
    ends = row * (2 * w + mask) + tokens * sizes.vocabulary * w
    rest = row * w if recompute else layer  # of each layer but the one under way
    return ends + layer + (sizes.num_layers - 1) * rest
    ### END SOLUTION


def step_bytes(
    sizes: Sizes, batch: int, world_size: int, stage: int, *, recompute: bool = False
) -> int:
    """State and activations of a step on one rank with ``batch`` sequences, with their defaults."""
    ### BEGIN SOLUTION
    state = state_bytes(num_parameters(sizes), world_size, stage)
    return state + activation_bytes(sizes, batch, recompute=recompute)
    ### END SOLUTION


def most_layers(
    capacity_bytes: float,
    sizes: Sizes,
    batch: int,
    world_size: int,
    stage: int,
    *,
    recompute: bool = False,
) -> int:
    """The largest number of layers with which a step fits in ``capacity_bytes`` on each rank.

    Everything else is as in ``sizes``, whose own number of layers is ignored. A step of exactly
    ``capacity_bytes`` fits. Answers are at most 5000.

    Raises:
        ValueError: not even one layer fits.
    """

    ### BEGIN SOLUTION
    def fits(count):
        model = replace(sizes, num_layers=count)
        needed = step_bytes(model, batch, world_size, stage, recompute=recompute)
        return needed <= capacity_bytes

    count = 0
    while fits(count + 1):
        count += 1
    if not count:
        raise ValueError(f"one layer of width {sizes.width} doesn't fit in {capacity_bytes} bytes.")
    return count
    ### END SOLUTION


def fewest_ranks(
    capacity_bytes: float, sizes: Sizes, batch: int, stage: int, *, recompute: bool = False
) -> int:
    """The smallest number of ranks on which a step fits in ``capacity_bytes`` on each.

    Answers are at most 5000, and needn't be powers of two.

    Raises:
        ValueError: the step fits on no number of ranks. Try N = Psi first: a shard then has one
            element, and more ranks never help.
    """

    ### BEGIN SOLUTION
    def fits(world_size):
        needed = step_bytes(sizes, batch, world_size, stage, recompute=recompute)
        return needed <= capacity_bytes

    low, high = 1, num_parameters(sizes)
    if not fits(high):
        raise ValueError(f"stage {stage} doesn't fit in {capacity_bytes} bytes on any ranks.")
    while low < high:  # the answer is in low ... high
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low
    ### END SOLUTION
