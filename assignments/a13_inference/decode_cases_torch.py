"""Calls of ``decode_torch.py``, as the tests make them: supplied, nothing to write.

Prompts, weights and what must come out are those of ``decode_cases.py``.
"""

from dataclasses import dataclass

import decode_time_torch
from decode_cases import DecodeCase, assert_decoded, decode_case, of_the_scheme
from model import Sizes, serial_generate

from ringside import Machine, TraceError
from ringside.checking import assert_moved, assert_ran, award
from ringside.checking.ring_bytes import sent_as_ring
from ringside.errors import RunError
from ringside.scale import agreement

SMALL = {"heads": 8, "vocabulary": 48, "longest": 8}


@dataclass(frozen=True)
class DecodeTorchCase(DecodeCase):
    """A call of ``decode_torch.py`` on all ranks, through a function of ``callers_torch.py``."""

    def named(self, function=None):
        """What ``decode_cases`` calls the same function."""
        function = function or self.target.rpartition(":")[2]
        return function.replace("torch_graph", "torch_generate").replace("torch_", "decode_")

    def arguments(self, rank, function=None):
        """What a function gets on a rank, after ``group``."""
        return super().arguments(rank, self.named(function))

    def right(self, function=None):
        """What one rank that has the whole model gives."""
        return super().right(self.named(function))


def decode_torch_case(function, world_size, rng=None, **settings):
    """As ``decode_cases.decode_case``: a call through ``callers_torch.py:function``."""
    case = decode_case("decode_" + function.partition("_")[2], world_size, rng, **settings)
    _, _, line = case.line.partition(" --ranks ")
    known = dict(vars(case))
    known |= {"target": f"callers_torch:{function}"}
    known["line"] = f"ringside run callers_torch.py:{function} --ranks {line}"
    return DecodeTorchCase(**known)


def decode_torch_even(function, p, rng, heads=2, **settings):
    """A model whose heads, hidden units and words p divides."""
    settings.setdefault("vocabulary", 6 * p)
    return decode_torch_case(function, p, rng, heads=heads * p, **settings)


def check_decode_torch(result, case):
    """All ranks' values are right, and whole weights didn't travel; no groups were made."""
    assert_ran(result, case)
    seen, right = case.seen_in(result), case.right()
    for rank, value in enumerate(result.values):
        assert_decode_torch(value, case, seen, rank, right)
    if not hasattr(result, "collectives"):
        return  # real ranks
    if result.comm_calls:
        raise seen.fail("groups were made; none is allowed.")
    if case.named() == "decode_greedy":
        return
    # The scheme itself, and whole weights are more: one sum too many passes here.
    allowed = 3 * (case.forward_nbytes() + case.tokens * case.greedy_nbytes())
    assert_moved(result, allowed, case, "three times the all-reduces of new positions, no weights")


def assert_sums_travel(result, case):
    """In ``torch_steps`` sums travel, and whole weights don't."""
    nbytes = case.forward_nbytes()
    case = of_the_scheme(case)
    check_sums_travel(result, case.seen_in(result).asking(f"sums={nbytes:.12g}"), nbytes)


def check_sums_travel(result, case, nbytes):
    """``assert_sums_travel``, of the bytes of all sums."""
    for rank, sent in enumerate(sent_as_ring(result)):
        if not 0 < sent <= 3 * nbytes:
            raise case.fail(
                f"rank {rank} sent {sent:.0f} bytes; two sums a layer are {nbytes:.0f}, and whole "
                "weights don't travel."
            )


def assert_decode_torch(value, mine, case, rank, right=None):
    """What a function of ``callers_torch.py`` gave back on a rank.

    Args:
        mine: the call.
        case: what a sentence is about.
    """
    function = mine.target.rpartition(":")[2]
    if function == "torch_twice":
        assert_decode_torch_twice(value, mine, case, rank)
    elif function == "torch_graph":
        saved, graph, tokens = value
        assert_decoded(tokens, case, rank, right=mine.right())
        if saved or graph:
            raise case.fail(
                f"on rank {rank} the weights require gradients, and {saved} tensors were kept for "
                f"a backward pass that never comes{'; so has what forward returned' * graph}."
            )
    else:
        assert_decoded(value, case, rank, right=mine.right() if right is None else right)


def assert_decode_torch_twice(value, mine, case, rank):
    """What ``callers_torch.torch_twice`` gave back on a rank."""
    *tokens, changed = value
    prompts = mine.arguments(rank, "torch_twice")[2:4]
    for got, each, what in zip(
        tokens,
        (*prompts, prompts[0]),
        ("", "in a second call, ", "in a third call, "),
        strict=True,
    ):
        right = serial_generate(each, mine.weights(), mine.sizes, mine.tokens)
        assert_decoded(got, case, rank, what, right=right)
    if changed:
        raise case.fail(f"rank {rank} changed a prompt or a weight; they must stay as they were.")


# -- what travels ----------------------------------------------------------------------------------


def assert_decode_torch_bytes(result, case):
    """Two all-reduces a layer and step, and two numbers a sequence and step to each rank."""
    function, allowed = case.named(), 0
    if function != "decode_greedy":
        allowed += case.forward_nbytes()
    if function != "decode_steps":
        rounds = case.tokens if function == "decode_generate" else 1
        allowed += rounds * case.greedy_nbytes()
    what = {
        "decode_steps": "two all-reduces a layer and step",
        "decode_greedy": "two numbers a sequence to each rank",
    }.get(function, "two all-reduces a layer and step, and two numbers a sequence")
    assert_moved(result, allowed + 0.5, case, what)
    return allowed


# -- time at scale ---------------------------------------------------------------------------------


def decode_torch_machine():
    """GPUs four in a node, as on Zaratan; starting an operator takes no time."""
    return Machine.load("zaratan").with_(name="four a node", kernel_overhead_s=0.0)


def assert_decode_torch_agreement(ranks, case, sizes=None):
    """A trace on fake tensors is what the network counts of the same call, on four ranks."""
    sizes = tuple(vars(sizes or Sizes(**SMALL, d=32, kv_heads=4)).values())
    arguments = sizes, (3, 2), 3
    result = ranks.call("callers_torch:torch_traced", 4, arguments)
    assert_ran(result, case)
    try:
        agreement.compare(
            ranks.trace("callers_torch:torch_traced", 4, arguments).trace, result.trace
        )
    except (RunError, TraceError) as error:
        raise case.asking("decode_torch_time=4").fail(
            f"a trace on fake tensors is not what the network counted ({type(error).__name__}): "
            "nothing may depend on the elements' values."
        ) from None


def assert_decode_torch_time(trace, case, world_size):
    """A decoding step of four layers of 4096 columns, traced on fake tensors."""
    case = case.asking(f"decode_torch_time={world_size}")
    machine = decode_torch_machine()
    try:
        took_s, allowed_s = decode_time_torch.step_times(trace, machine, world_size)
    except (RunError, TraceError) as error:
        raise case.fail(
            f"a trace of {world_size} ranks on fake tensors ended with {type(error).__name__}: the "
            "line shows why."
        ) from None
    ratio = took_s / allowed_s
    award(
        1.0 if ratio <= 1.05 else 0.5 if ratio <= 1.5 else 0.0,
        f"decode_torch:generate of four layers of 4096 columns on {world_size} GPUs, four in a "
        f"node: a decoding step takes {took_s * 1e3:.3f} ms, {ratio:.2f} times the "
        f"{allowed_s * 1e3:.3f} ms of reading weights and cache and of the messages; 1.05 times is "
        f"asked for{', and half of the points go to 1.5' * (ratio > 1.05)}.",
        reproduce=case.reproduce,
    )
