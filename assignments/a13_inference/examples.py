"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

ringside run callers_torch.py:torch_generate --ranks 3 -- --lengths '[4, 2]' --tokens 5
ringside run callers_torch.py:torch_steps --ranks 3 -- --heads 6 --kv-heads 3 --lengths '[4, 2]'
"""

import decode_cases_torch
from decode_cases import Sizes

import ringside

# -- decode_torch ----------------------------------------------------------------------------------
DECODE_TORCH_SIZES = ("vocabulary", "d", "heads", "kv_heads", "layers", "longest")
DECODE_TORCH_OPTIONS = {*DECODE_TORCH_SIZES, "lengths", "tokens", "kind"}
DECODE_TORCH_INSTEAD = {
    "decode_torch.py:forward": "callers_torch.py:torch_steps -- --lengths '[4]'",
    "decode_torch.py:greedy": "callers_torch.py:torch_greedy -- --lengths '[1]'",
    "decode_torch.py:generate": "callers_torch.py:torch_generate -- --lengths '[4]'",
}
DECODE_TORCH_FUNCTIONS = (
    "torch_steps", "torch_greedy", "torch_generate", "torch_twice", "torch_graph",
)  # fmt: skip


def decode_torch_of_line(function, world_size, options):
    """The case that the options describe."""
    others, usual = options.others, Sizes()
    sizes = {name: int(others.get(name, getattr(usual, name))) for name in DECODE_TORCH_SIZES}
    lengths = others.get("lengths", [3, 3])
    lengths = (lengths,) if isinstance(lengths, int) else tuple(lengths)
    return decode_cases_torch.decode_torch_case(
        function, world_size, lengths=lengths, tokens=int(others.get("tokens", 4)),
        kind=str(others.get("kind", "usual")), dtype=options.dtype, seed=options.seed, **sizes,
    )  # fmt: skip


def decode_torch_arguments(function, world_size, rank, options):
    """What the functions of ``callers_torch.py`` get after ``group``."""
    if function not in DECODE_TORCH_FUNCTIONS:
        return None
    return decode_torch_of_line(function, world_size, options).arguments(rank)


def decode_torch_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function not in DECODE_TORCH_FUNCTIONS:
        return False
    mine = decode_torch_of_line(function, case.world_size, options)
    decode_cases_torch.assert_decode_torch(value, mine, case, rank)
    return True


def decode_torch_time(result, case, value):
    """``--check decode_torch_time=8``: trace generation on so many GPUs, and show its time."""
    decode_cases_torch.assert_decode_torch_time(ringside.trace_torch, case, int(value))


# -- all modules -----------------------------------------------------------------------------------
OPTIONS = {*DECODE_TORCH_OPTIONS}
INSTEAD = {**DECODE_TORCH_INSTEAD}
CHECKS = {"decode_torch_time": decode_torch_time}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm`` or ``group``; None for functions not known here."""
    return decode_torch_arguments(function, world_size, rank, options)


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None where nothing is known, or where ``check`` knows."""
    return None


def check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    return decode_torch_check(case, function, rank, value, options)
