"""What ``token_time.py`` takes on a machine, and the supplied checks."""

from dataclasses import replace
from pathlib import Path

import ringside
from ringside.checking.examples import beside

SOLUTION = Path(__file__).resolve().parents[1]
examples = beside(SOLUTION / "decode.py")
cases = examples.decode_cases


def decode_makespan_s(case, machine):
    """The time of a whole generation, after ``token_time.py``."""
    sizes = tuple(vars(case.sizes).values())
    given = sizes, list(case.lengths), [0] * len(case.lengths), case.tokens, case.unit
    target = f"{SOLUTION / 'token_time.py'}:steps"
    result = ringside.run(target, case.world_size, given, machine=machine)
    return result.raise_for_error().makespan_s


def on_one_rank(case):
    """The same model and prompts on one rank."""
    return replace(case, world_size=1)
