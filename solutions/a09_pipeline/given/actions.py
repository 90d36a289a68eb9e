"""What a stage can do with a microbatch: nothing to write.

A schedule is data: for each stage the list of its actions, in order. Transfers are no actions:
whoever runs a schedule moves activations and gradients where the next action needs them.

    Forward(2)            F2      the forward pass of microbatch 2
    Backward(2)           B2      its whole backward pass; or that in two halves:
    BackwardInput(2)      I2      the gradient of the input, which the stage before needs
    BackwardWeight(2)     W2      the gradients of the weights, any time later
    Forward(2, chunk=1)   F2.1    of the stage's second piece of the model

In ``dualpipev`` two passes can be one action: ``Pair(Forward(3), Backward(1))``, F3+B1.
"""

from dataclasses import dataclass

from ringside.network.codec import register


@register
@dataclass(frozen=True)
class Forward:
    """The forward pass of a microbatch through one piece of the model."""

    microbatch: int
    chunk: int = 0


@register
@dataclass(frozen=True)
class Backward:
    """The whole backward pass of a microbatch through one piece."""

    microbatch: int
    chunk: int = 0


@register
@dataclass(frozen=True)
class BackwardInput:
    """The first half of a backward pass: the gradient with respect to the piece's input."""

    microbatch: int
    chunk: int = 0


@register
@dataclass(frozen=True)
class BackwardWeight:
    """The second half: the gradients of the piece's weights; after ``BackwardInput``."""

    microbatch: int
    chunk: int = 0


@register
@dataclass(frozen=True)
class Pair:
    """A forward and a backward pass of two microbatches, side by side. ``stage.run`` gets none."""

    forward: Forward
    backward: Backward | BackwardInput


Action = Forward | Backward | BackwardInput | BackwardWeight | Pair
KINDS = {"F": Forward, "B": Backward, "I": BackwardInput, "W": BackwardWeight}
LETTERS = {kind.__name__: letter for letter, kind in KINDS.items()}


def text(actions):
    """A schedule of one stage as text.

    >>> text([Forward(0), Forward(1), Backward(0), BackwardInput(1), BackwardWeight(1, chunk=2)])
    'F0 F1 B0 I1 W1.2'
    >>> text([Pair(Forward(3), Backward(1, chunk=1))])
    'F3+B1.1'
    """
    return " ".join(map(_word, actions))


def _word(action):
    if isinstance(action, Pair):
        return f"{_word(action.forward)}+{_word(action.backward)}"
    word = f"{LETTERS[type(action).__name__]}{action.microbatch}"
    return f"{word}.{action.chunk}" if action.chunk else word


def parse(words):
    """The opposite of ``text``.

    >>> parse("F0 B0.1")
    [Forward(microbatch=0, chunk=0), Backward(microbatch=0, chunk=1)]
    """
    return [_action(word) for word in words.split()]


def _action(word):
    if "+" in word:
        return Pair(*map(_action, word.split("+")))
    microbatch, _, chunk = word[1:].partition(".")
    return KINDS[word[0]](int(microbatch), int(chunk or 0))
