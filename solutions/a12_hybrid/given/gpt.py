"""Sizes, parts and schedules of the GPT of ``gpt_torch.py``: supplied, without torch."""

from dataclasses import dataclass

# -- schedules -------------------------------------------------------------------------------------


def gpipe(stage, num_stages, num_microbatches):
    """All forward passes, then all backward passes.

    >>> gpipe(0, 2, 2)
    [('forward', 0), ('forward', 1), ('backward', 0), ('backward', 1)]
    """
    return _numbered("F" * num_microbatches + "B" * num_microbatches)


def one_f_one_b(stage, num_stages, num_microbatches):
    """A warm-up of forward passes, then one forward and one backward pass in turn.

    >>> one_f_one_b(1, 2, 2)
    [('forward', 0), ('backward', 0), ('forward', 1), ('backward', 1)]
    """
    first = min(num_stages - 1 - stage, num_microbatches)
    return _numbered("F" * first + "FB" * (num_microbatches - first) + "B" * first)


def _numbered(letters):
    counts, actions = {"F": 0, "B": 0}, []
    for letter in letters:
        actions.append(({"F": "forward", "B": "backward"}[letter], counts[letter]))
        counts[letter] += 1
    return actions


# -- sizes and parts -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Config:
    """Sizes of the model.

    Attributes:
        layers: of each stage, a tuple; they may differ.
        sequence: positions of each sequence.
    """

    layers: tuple[int, ...]
    hidden: int = 24
    heads: int = 6
    vocabulary: int = 36
    sequence: int = 4
    dtype: str = "float64"


# Shape in units of hidden, and the axis along which tensor ranks cut it.
LAYER = {
    "norm1.weight": ((1,), None), "norm1.bias": ((1,), None),
    "qkv": ((3, 1, 1), 1), "qkv_bias": ((3, 1), 1),
    "out": ((1, 1), 1), "attention_bias": ((1,), None),
    "norm2.weight": ((1,), None), "norm2.bias": ((1,), None),
    "up": ((4, 1), 0), "up_bias": ((4,), 0),
    "down": ((1, 4), 1), "mlp_bias": ((1,), None),
}  # fmt: skip


def shapes_of(config):
    """Whole shape and cut of each parameter of the model, by its name."""
    h, found = config.hidden, {}
    found["words"] = (config.vocabulary, h), 0
    found["positions"] = (config.sequence, h), None
    for number in range(sum(config.layers)):
        for name, (units, cut) in LAYER.items():
            # Of the three matrices (qkv), the first extent is a count.
            count = name.startswith("qkv")
            shape = [unit if count and not at else unit * h for at, unit in enumerate(units)]
            found[f"layer{number}.{name}"] = tuple(shape), cut
    found["norm.weight"] = found["norm.bias"] = (h,), None
    return found


def names_of(config, stage):
    """Names of the parameters that a stage holds."""
    last, first_layer = len(config.layers) - 1, sum(config.layers[:stage])
    names = ["words"] if stage in (0, last) else []
    names += ["positions"] if stage == 0 else []
    for number in range(first_layer, first_layer + config.layers[stage]):
        names += [f"layer{number}.{name}" for name in LAYER]
    return names + (["norm.weight", "norm.bias"] if stage == last else [])


def part_of(whole, cut, tp_size, tp_rank):
    """A tensor rank's part of a parameter."""
    if cut is None:
        return whole
    extent = whole.shape[cut] // tp_size
    own = [slice(None)] * len(whole.shape)
    own[cut] = slice(tp_rank * extent, (tp_rank + 1) * extent)
    return whole[tuple(own)]
