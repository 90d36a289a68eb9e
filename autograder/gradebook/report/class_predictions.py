"""What a class predicted, prompt by prompt: where it was surprised.

    03/ring-bytes     31 predicted    ▁▂▇▃▁   half within 2.3 times    shown: 144 bytes

Predictions come from students. One that is absurd widens no axis: bins reach over the middle
90 %, and the ends hold what lies beyond.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ringside.course.predictions.prompt import Prompt, compare, plain_number

NUM_BINS = 10
Answers = Mapping[str, Sequence[Any]]  # key -> [prediction, result]


@dataclass(frozen=True)
class Bin:
    """Some of the predictions; the one that holds the result is marked."""

    label: str
    number: int
    is_right: bool = False


@dataclass(frozen=True)
class Predicted:
    """One prompt, and what the class said."""

    prompt: Prompt
    number: int
    bins: tuple[Bin, ...]
    result: str  # that most students saw; empty where nobody did
    near: str  # how near they were, in words

    @property
    def most(self) -> int:
        return max((part.number for part in self.bins), default=1)


def of_class(prompts: Sequence[Prompt], handed_in: Sequence[Answers]) -> list[Predicted]:
    """The prompts that anybody answered, in the notebook's order."""
    predictions = []
    for prompt in prompts:
        pairs = [answers[prompt.key] for answers in handed_in if prompt.key in answers]
        if pairs:
            predictions.append(_one(prompt, [one for one, _ in pairs], [two for _, two in pairs]))
    return predictions


def _one(prompt: Prompt, guesses: list[Any], seen: list[Any]) -> Predicted:
    results = [result for result in seen if result is not None]
    if prompt.choices:
        result = Counter(results).most_common(1)[0][0] if results else None
        counts = Counter(guesses)
        bins = [Bin(choice, counts[choice], choice == result) for choice in prompt.choices]
        near = f"{counts[result]} of {len(guesses)} right" if results else ""
        return Predicted(prompt, len(guesses), tuple(bins), str(result or ""), near)
    # The lower of the two in the middle: a value that somebody saw.
    result = statistics.median_low(results) if results else None
    result_text = prompt.words(result) if result is not None else ""
    return Predicted(
        prompt, len(guesses), tuple(_bins(guesses, result)), result_text, _near(guesses, result)
    )


def _near(guesses: Sequence[float], result: float | None) -> str:
    if result is None:
        return ""
    off = [compare(number, result).off_by for number in guesses]
    within = statistics.median(math.inf if number is None else number for number in off)
    return f"half within {plain_number(within)} times" if math.isfinite(within) else ""


def _bins(guesses: Sequence[float], result: float | None) -> list[Bin]:
    """Bins of equal ratio where all are above 0, of equal width elsewhere."""
    ordered = sorted(guesses)
    tail = len(ordered) // 20
    low, high = ordered[tail], ordered[-1 - tail]
    if low == high:
        outside = [sum(each < low for each in guesses), sum(each > low for each in guesses)]
        number = len(guesses) - sum(outside)
        right = result is not None and result == low
        parts = [
            Bin(f"less than {plain_number(low)}", outside[0]),
            Bin(plain_number(low), number, right),
            Bin(f"more than {plain_number(low)}", outside[1]),
        ]
        return [each for each in parts if each.number]
    to, back = (math.log, math.exp) if low > 0 else (_same, _same)
    # Halves first, so that the widest span of floats doesn't overflow.
    start, width = to(low), to(high) / NUM_BINS - to(low) / NUM_BINS

    def place(value: float) -> int:
        if value <= low:
            return 0
        if value >= high:
            return NUM_BINS - 1
        return min(NUM_BINS - 1, max(0, int((to(value) - start) / width)))

    counts = Counter(place(each) for each in guesses)
    marked = place(result) if result is not None and low <= result <= high else None
    edges = [low, *(back(start + width * at) for at in range(1, NUM_BINS)), high]
    return [
        Bin(f"{plain_number(edges[at])} to {plain_number(edges[at + 1])}", counts[at], at == marked)
        for at in range(NUM_BINS)
    ]


def _same(value: float) -> float:
    return value
