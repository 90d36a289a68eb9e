"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

ringside run callers.py:decode_generate --ranks 3 -- --heads 6 --lengths '[4, 2]' --tokens 5
ringside run callers.py:decode_steps --ranks 3 -- --kv-heads 3 --lengths '[4, 2]'
ringside run callers.py:decode_greedy --ranks 3 -- --vocabulary 40 --lengths '[1, 1]'
"""

import decode_cases
import decode_cases_torch
import numpy as np
from decode_cases import Sizes, decode_case

import ringside
from ringside.checking.ring_bytes import sent_as_ring

# -- decode ----------------------------------------------------------------------------------------
DECODE_SIZES = ("vocabulary", "d", "heads", "kv_heads", "layers", "longest")
DECODE_OPTIONS = {*DECODE_SIZES, "lengths", "tokens", "kind"}
DECODE_INSTEAD = {
    "decode.py:forward": "callers.py:decode_steps -- --lengths '[4]'",
    "decode.py:greedy": "callers.py:decode_greedy -- --lengths '[1]'",
    "decode.py:generate": "callers.py:decode_generate -- --lengths '[4]'",
    "decode.py:shard": "callers.py:decode_shards -- --lengths '[1]'",
}
DECODE_FUNCTIONS = (
    "decode_steps", "decode_greedy", "decode_generate", "decode_twice", "decode_memory",
    "decode_shards", "measured_tokens",
)  # fmt: skip


def decode_of_line(function, world_size, options):
    """The case that the options describe."""
    others = options.others
    sizes = {name: int(others[name]) for name in DECODE_SIZES if name in others}
    if function == "measured_tokens":  # n is the model's width
        sizes = {"d": options.n, "heads": 8, "kv_heads": 8, "vocabulary": 8 * options.n, **sizes}
    usual = Sizes()
    sizes = {name: getattr(usual, name) for name in DECODE_SIZES} | sizes
    lengths = others.get("lengths", [3, 3])
    lengths = [lengths] if isinstance(lengths, int) else lengths
    return decode_case(
        function, world_size, lengths=tuple(lengths), tokens=int(others.get("tokens", 4)),
        kind=str(others.get("kind", "usual")), dtype=options.dtype, seed=options.seed, **sizes,
    )  # fmt: skip


def decode_arguments(function, world_size, rank, options):
    """What the functions of ``callers.py`` get after ``comm``."""
    if function not in DECODE_FUNCTIONS:
        return None
    return decode_of_line(function, world_size, options).arguments(rank)


def decode_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function not in DECODE_FUNCTIONS:
        return False
    mine = decode_of_line(function, case.world_size, options)
    if function == "decode_twice":
        assert_twice(value, mine, case, rank)
    elif function == "decode_shards":
        assert_part(value, mine, case, rank)
    elif function == "decode_memory":
        decode_cases.assert_decoded(value[1], case, rank, right=mine.right())
    else:
        decode_cases.assert_decoded(value, case, rank, right=mine.right())
    return True


def assert_twice(value, mine, case, rank):
    """What ``callers.decode_twice`` gave back on a rank."""
    first, second, third, changed = value
    prompts = mine.arguments(rank, "decode_twice")[2:4]
    for got, each, what in (
        (first, prompts[0], ""),
        (second, prompts[1], "in a second call, "),
        (third, prompts[0], "in a third call, "),
    ):
        right = decode_cases.serial_generate(each, mine.weights(), mine.sizes, mine.tokens)
        decode_cases.assert_tokens(got, right, case, rank, what)
    if changed:
        raise case.fail(f"rank {rank} changed a prompt; it must stay as it was.")


def assert_part(value, mine, case, rank, only=()):
    """What ``callers.decode_shards`` gave back on a rank.

    Args:
        only: short names of weights that are compared; all if none is given.
    """
    part, shared = value
    right = decode_cases.decode_part(mine.weights(), mine.sizes, case.world_size, rank)
    if set(part) != set(right):
        raise case.fail(f"rank {rank}'s part has other names than the weights.")
    for name, wanted in right.items():
        if only and name.rpartition(".")[2] not in only:
            continue
        got = part[name]
        if got.shape != wanted.shape or not np.array_equal(got, wanted):
            raise case.fail(
                f"rank {rank}'s part of {name} has shape {got.shape}; it must be of shape "
                f"{wanted.shape}, and hold its part of the whole."
            )
    if shared:
        raise case.fail(f"rank {rank}'s part shares memory with the whole weights.")


def assert_memory(result, case, bound):
    """No rank of ``callers.decode_memory`` held more than so many bytes."""
    case = case.seen_in(result).asking(f"memory={bound:.0f}")
    for rank, (held, _) in enumerate(result.values):
        if held > bound:
            raise case.fail(
                f"generate on rank {rank} holds {held} bytes; at most {bound:.0f} are allowed: the "
                "cache of its own key heads, four times its weights, and 64 KiB."
            )


def assert_work(result, case, rank, right):
    """A rank's operations are those of its part, each once."""
    done = result.num_flops()[rank]
    if not right * (1 - 1e-9) <= done <= 1.02 * right:
        raise (
            case.seen_in(result)
            .asking(f"work={rank}:{right:.12g}")
            .fail(
                f"rank {rank} declared {done:.6g} floating-point operations; its part of the "
                f"layers takes {right:.6g}, if nothing is computed again."
            )
        )


def assert_divided(result, case):
    """In ``decode_steps`` sums travel, weights don't, and no rank does half of the work."""
    alone = decode_cases.replace(case, world_size=1).num_flops(0)
    numbers = f"{case.forward_nbytes()}:{alone / 2:.12g}"
    case = decode_cases.of_the_scheme(case)
    check_divided(result, case.seen_in(result).asking(f"divided={numbers}"), numbers)


def check_divided(result, case, numbers):
    """``assert_divided``, of the bytes of all sums and of half of the work."""
    nbytes, most = map(float, numbers.split(":"))
    for rank, sent in enumerate(sent_as_ring(result)):
        if not 0 < sent <= 3 * nbytes:
            raise case.fail(
                f"rank {rank} sent {sent:.0f} bytes; two sums a layer are {nbytes:.0f}, and whole "
                "weights don't travel."
            )
    for rank, done in enumerate(result.num_flops()):
        if done > most:
            raise case.fail(
                f"rank {rank} computed {done:.6g} floating-point operations; half of what one rank "
                f"alone computes is {most:.6g}, and each rank computes its part only."
            )


def _work(result, case, value):
    rank, right = value.split(":")
    assert_work(result, case, int(rank), float(right))


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

OPTIONS = {*DECODE_OPTIONS, *DECODE_TORCH_OPTIONS, "compare"}
INSTEAD = {**DECODE_INSTEAD, **DECODE_TORCH_INSTEAD}
CHECKS = {
    "memory": lambda result, case, value: assert_memory(result, case, float(value)),
    "work": _work,
    "divided": check_divided,
    "sums": lambda result, case, value: decode_cases_torch.check_sums_travel(
        result, case, float(value)
    ),
    "decode_torch_time": decode_torch_time,
}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm`` or ``group``; None for functions not known here."""
    for known in (decode_arguments, decode_torch_arguments):
        given = known(function, world_size, rank, options)
        if given is not None:
            return given
    return None


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None where nothing is known, or where ``check`` knows."""
    return None


def check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if options.others.get("compare") == "scheme":
        return True  # a --check looks at what was sent
    modules = decode_check, decode_torch_check
    return any(known(case, function, rank, value, options) for known in modules)
