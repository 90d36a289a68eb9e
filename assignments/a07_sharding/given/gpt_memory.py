"""How large a GPT is, and what it keeps for its backward pass: supplied, nothing to write.

One layer, b sequences of s tokens, width h, a heads:

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

Outside the layers the model keeps dropout's mask behind the embedding (s b h bytes, only with
dropout), the input and the output of the last norm (s b h elements each), and the logarithms of the
probabilities of V words (s b V elements). Not counted are a norm's mean and deviation.

Source: Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, 2022,
section 4.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """How large a GPT is.

    Its words serve as its last matrix too, and its positions are learned.
    ``dataclasses.replace(sizes, num_layers=3)`` is the same model with three layers.
    """

    num_layers: int  # L
    width: int  # h
    num_heads: int  # a; divides h
    sequence: int  # s, tokens
    vocabulary: int  # V


def num_parameters(sizes):
    """Parameters of the GPT: 12 h h + 13 h in each layer; (V + s) h + 2 h outside."""
    h = sizes.width
    return sizes.num_layers * (12 * h + 13) * h + (sizes.vocabulary + sizes.sequence + 2) * h


def input_bytes(sizes, batch, element_bytes=2):
    """Bytes of a layer's input: the first line of the table."""
    return sizes.sequence * batch * sizes.width * element_bytes


def layer_bytes(sizes, batch, element_bytes=2, dropout=True):
    """Bytes that one layer keeps: the whole table.

    Args:
        batch: b sequences.
        element_bytes: w.
    """
    w, mask = element_bytes, int(dropout)
    row = sizes.sequence * batch * sizes.width
    scores = sizes.num_heads * sizes.sequence * sizes.sequence * batch
    return row * (16 * w + 2 * mask) + scores * (w + (w + 1) * mask)


def outside_bytes(sizes, batch, element_bytes=2, dropout=True):
    """Bytes that the model keeps outside of its layers."""
    tokens = sizes.sequence * batch
    row = tokens * sizes.width
    return row * (2 * element_bytes + int(dropout)) + tokens * sizes.vocabulary * element_bytes
