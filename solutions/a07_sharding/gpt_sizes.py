"""The numbers that say how large a GPT is: supplied, nothing to write."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """A GPT whose words serve as its last matrix too, and whose positions are learned.

    ``dataclasses.replace(sizes, num_layers=3)`` is the same model with three layers.
    """

    num_layers: int  # L
    width: int  # h
    num_heads: int  # a; divides h
    sequence: int  # s, tokens
    vocabulary: int  # V
