"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run halo.py:exchange --ranks 3 -- --heights '[4, 3, 5]' --halo-width 2
    ringside run halo.py:exchange_grid --ranks 6 -- --heights '[4, 3]' --widths '[3, 5, 2]'
    ringside run callers.py:conv_both --ranks 3 -- --heights '[4, 3, 5]' --k 5
    ringside run conv.py:measured_layer --ranks 4 -- --n 64
    ringside run callers_torch.py:conv_torch_called --ranks 3 -- --heights '[4, 5, 4]' --kernel 5
    ringside run ring_attention.py:attention --ranks 4 -- --lengths '[8, 8, 8, 8]' --causal True
    ringside run ring_callers_torch.py:try_ring --ranks 3 -- --lengths '[4, 6, 5]' --causal True
    ringside run callers_torch.py:ulysses_torch_called --ranks 2 -- --n 8 --heads 4 --kv-heads 2

Images, filters and gradients are drawn from ``--seed``. The functions of ``cost.py`` need no ranks:
call them in Python.
"""

import itertools
from pathlib import Path

import cases_torch
import conv_cases
import halo_cases
import numpy as np
import ring_cases_torch as ring_cases
import ring_observed_torch as ring_observed
from cases import ring_attention_inputs
from conv_cases import ConvCase
from halo_cases import HaloCase
from ring_blocks import block_scores

import ringside
from ringside.checking import announced, assert_array, assert_peers
from ringside.trace import Kind

# -- halo ------------------------------------------------------------------------------------------
HALO_OPTIONS = {"heights", "widths", "halo_width", "shape"}
HALO_FUNCTIONS = ("exchange", "halo_looked_at", "halo_refused")


def halo_case_of(world_size, options):
    """The case that the options describe."""
    others = options.others
    heights = tuple(others.get("heights", (4,) * world_size))
    return HaloCase(
        "halo:exchange", world_size, sum(heights), options.dtype, heights=heights,
        widths=tuple(others.get("widths", ())), halo_width=int(others.get("halo_width", 1)),
        shape=tuple(others.get("shape", (2, 3) if "widths" in others else (2, 3, 5))),
        seed=options.seed,
    )  # fmt: skip


def halo_arguments(function, world_size, rank, options):
    """What the functions of ``halo.py``, and those that call them, get after ``comm``."""
    if function not in (*HALO_FUNCTIONS, "exchange_grid"):
        return None
    if function == "exchange_grid" and "widths" not in options.others:
        options.others["widths"] = (3,) * world_size
        options.others.setdefault("heights", (4,))
    case = halo_case_of(world_size, options)
    more = (case.rights()[rank],) if function == "halo_refused" else ()
    return (*case.arguments_of_ranks()[rank], *more)


def halo_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function not in (*HALO_FUNCTIONS, "exchange_grid"):
        return False
    asked = halo_case_of(case.world_size, options)
    if function == "halo_refused":
        halo_cases.assert_low(value, rank, asked, case)
    elif function == "halo_looked_at":
        halo_assert_looked_at(value, asked.rights()[rank], rank, case)
    else:
        halo_cases.assert_equal(value, asked.rights()[rank], rank, case)
    return True


def halo_assert_looked_at(value, right, rank, case):
    """What ``halo_looked_at`` of ``callers.py`` gave back on a rank is right."""
    first, second, changed, shared = value
    for each in (first, second):
        halo_cases.assert_equal(each, right, rank, case)
    assert_kept(changed, shared, rank, case)


# -- conv ------------------------------------------------------------------------------------------
CONV_OPTIONS = {"heights", "k", "stride", "shape"}
CONV_INSTEAD = {  # convolutions are made on the ranks
    "conv.py:forward": "callers.py:conv_forward -- --heights '[4, 3]' --k 3",
    "conv.py:backward": "callers.py:conv_both -- --heights '[4, 3]' --k 3",
}
CONV_FUNCTIONS = ("conv_forward", "conv_both", "conv_looked_at")
MEASURED = (1, 8, 8)  # images, channels in and out of the measured layer


def conv_case_of(world_size, options, function=""):
    """The case that the options describe; the measured layer's image is n x n."""
    others = options.others
    heights, shape = (4,) * world_size, (2, 3, 2, 5)
    if function == "measured_layer":
        ends = [options.n * rank // world_size for rank in range(world_size + 1)]
        heights = [end - start for start, end in itertools.pairwise(ends)]
        shape = (*MEASURED, options.n)
    heights = tuple(others.get("heights", heights))
    return ConvCase(
        "conv:forward", world_size, sum(heights), options.dtype, heights=heights,
        k=int(others.get("k", 3)), stride=int(others.get("stride", 1)),
        shape=tuple(others.get("shape", shape)), seed=options.seed,
    )  # fmt: skip


def conv_arguments(function, world_size, rank, options):
    """What the functions that call ``conv.py`` get after ``comm``."""
    if function not in (*CONV_FUNCTIONS, "measured_layer"):
        return None
    given = conv_case_of(world_size, options, function).arguments_of_ranks()[rank]
    if function == "measured_layer":
        weight, bias, _, x, first_row, dy = given
        return weight, bias, x, first_row, dy
    return given[:-1] if function == "conv_forward" else given


def conv_expected(function, world_size, rank, options):
    """What rank ``rank`` of ``measured_layer`` gets."""
    if function != "measured_layer":
        return None
    found = conv_cases.serial(conv_case_of(world_size, options, function))[rank]
    return tuple(each.astype(options.dtype) for each in found)


def conv_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function not in CONV_FUNCTIONS:
        return False
    asked = conv_case_of(case.world_size, options)
    if case.factors is None:  # else they depend on all ranks' passes: --check passes compares
        conv_check_value(function, value, rank, asked, case)
    return True


def conv_check_value(function, value, rank, asked, case):
    """One rank's results, where nothing was scaled."""
    right = conv_cases.serial(asked)[rank]
    for each in value[:2] if function == "conv_looked_at" else [value]:
        conv_cases.check_convolved(each, right, rank, case)
    if function == "conv_looked_at":
        assert_kept(*value[2:], rank, case)


def conv_check_interior(result, case, value):
    """``--check interior=0:3,5:8``: rows that need no halo were begun before it was waited for."""
    rows = [tuple(map(int, each.split(":"))) for each in value.split(",")]
    conv_cases.assert_interior_first(result, case, rows)


def conv_check_passes(result, case, value):
    """``--check passes=...``: the passes, and the values where their inputs were scaled."""
    parts, asked = conv_cases.case_of(value)
    conv_cases.check_observed(result, asked, case, parts)


# -- what several modules need ---------------------------------------------------------------------


def assert_kept(changed, shared, rank, case):
    """Arguments stayed as they were, and results are new."""
    if changed:
        raise case.fail(f"rank {rank} changed what it was given; it must stay as it was.")
    if shared:
        raise case.fail(
            f"rank {rank} returned an array that shares memory with what it was given, or with "
            "the result of another call; results must be new arrays."
        )


# -- ring_attention --------------------------------------------------------------------------------
RING_ATTENTION_OPTIONS = {
    "lengths", "batch", "heads", "kv_heads", "width", "causal", "kind", "nan_of", "what", "bound",
}  # fmt: skip


def ring_attention_arguments(function, world_size, rank, options):
    """What ``attention`` and the functions of ``callers.py`` get after ``comm``."""
    if function == "ring_attention_refused":
        return (str(options.others.get("what", "heads")),)
    known = ("attention", "ring_attention_looked_at", "ring_attention_held")
    if function not in known:
        return None
    lengths, causal, whole = _ring_attention_whole(world_size, options)
    cuts = np.cumsum(lengths)[:-1]
    own = [np.ascontiguousarray(np.split(each, cuts, axis=2)[rank]) for each in whole]
    return *own, lengths, causal


def _ring_attention_whole(world_size, options):
    """Lengths, causal or not, and queries, keys and values of the whole sequence."""
    others = options.others
    lengths = others.get("lengths")
    if lengths is None:
        lengths = [len(each) for each in np.array_split(np.arange(options.n), world_size)]
    heads = int(others.get("heads", 2))
    numbers = int(others.get("batch", 1)), heads, int(others.get("kv_heads", heads))
    whole = ring_attention_inputs(
        list(lengths), *numbers, int(others.get("width", 4)), str(others.get("kind", "usual")),
        options.seed, options.dtype, others.get("nan_of"),
    )  # fmt: skip
    return list(lengths), str(others.get("causal", False)) == "True", whole


def ring_attention_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function == "ring_attention_refused":
        assert_ring_attention_refused(value, rank, case)
        return True
    known = ("attention", "ring_attention_looked_at", "ring_attention_held")
    if function not in known or case.target.partition(":")[0] not in ("ring_attention", "callers"):
        return False
    lengths, causal, whole = _ring_attention_whole(case.world_size, options)
    wanted = ring_attention_serial(lengths, causal, whole, case.factors, [rank])[0]
    if function == "ring_attention_looked_at":
        assert_looked_at(value, wanted, assert_near, case, rank, "result")
    elif function == "ring_attention_held":
        assert_ring_attention_held(value, wanted, int(options.others["bound"]), case, rank)
    else:
        assert_near(value, wanted, case, f"rank {rank}'s result")
    return True


def assert_ring_attention_refused(value, rank, case):
    """What ``ring_attention_refused`` gave back: ValueError."""
    if value != "ValueError":
        raise case.fail(f"rank {rank} raised {value or 'nothing'}; it must be ValueError.")


def assert_ring_attention_held(value, wanted, bound, case, rank):
    """What ``ring_attention_held`` gave back: the result, and the most bytes at a time."""
    result, peak = value
    assert_near(result, wanted, case, f"rank {rank}'s result")
    if peak > bound:
        raise case.fail(
            f"rank {rank} had {peak} bytes of arrays at a time; at most {bound} are allowed: a "
            "rank never has all keys and values."
        )


def ring_attention_serial(lengths, causal, whole, factors=None, of_ranks=None):
    """Each rank's part of attention over the whole sequence, computed in float64.

    Args:
        whole: queries, keys and values, as ``cases.ring_attention_inputs`` gives them.
        factors: of a run whose blocks were announced.
        of_ranks: these ranks' parts only.
    """
    q, k, v = (each.astype("float64") for each in whole)
    k, v = (np.repeat(each, q.shape[1] // k.shape[1], axis=1) for each in (k, v))
    cuts = np.cumsum(lengths)[:-1]
    queries, keys = np.split(q, cuts, axis=2), np.split(k, cuts, axis=2)
    places = np.split(np.arange(sum(lengths)), cuts)
    found = []
    for rank in range(len(lengths)) if of_ranks is None else of_ranks:
        scores = [
            _ring_attention_scores(queries[rank], each, rank, source, factors)
            for source, each in enumerate(keys)
        ]
        scores = np.concatenate(scores, axis=-1)
        if causal:
            hidden = np.arange(sum(lengths)) > places[rank][:, None]
            scores[..., hidden] = -np.inf
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        right = weights @ v / weights.sum(axis=-1, keepdims=True)
        found.append(right.astype(whole[0].dtype))
    return found


def _ring_attention_scores(q, k, rank, source, factors):
    if factors is None:
        return block_scores(q, k, source)
    with factors.of_rank(rank):
        return block_scores(q, k, source)


def assert_ring_attention_peers(result, case):
    """Messages went round a ring."""
    world = list(result.members or range(case.world_size))
    p = len(world)
    allowed = [set() for _ in range(result.world_size)]
    for place, rank in enumerate(world):
        allowed[rank] = {world[(place + 1) % p], world[(place - 1) % p]}
    assert_peers(result, allowed, case, "only the previous and the next rank of the ring are peers")


def assert_ring_attention_shared(result, case):
    """Each rank computed blocks of its queries with the keys of every rank."""
    case = case.seen_in(result).asking(f"overlap={case.block_nbytes}")
    wanted = {f"block {source}" for source in range(case.world_size)}
    for rank, member in enumerate(result.members or range(case.world_size)):
        found = {phase for _, phase, _ in announced(result.trace.ops[member])}
        if not wanted <= found:
            raise case.fail(
                f"rank {rank} announced blocks of {len(wanted & found)} of {case.world_size} "
                "ranks: each rank computes its own queries with each rank's keys, through "
                "ring_blocks.block_scores."
            )


def assert_ring_attention_overlap(result, case, nbytes):
    """When a block was announced, the next one was under way, and not all had been waited for.

    Args:
        nbytes: of one part's keys and values.
    """
    case = case.seen_in(result).asking(f"overlap={nbytes}")
    p = case.world_size
    for rank, counted in enumerate(_ring_attention_started(result, case)):
        for i, (sent, received, come) in enumerate(counted[: p - 1]):
            if come > (i + 2) * nbytes:
                raise case.fail(
                    f"when rank {rank} began block {i} of {p}, it had waited for {come} bytes; it "
                    f"may be {(i + 2) * nbytes} at most, so that blocks travel while others are "
                    "computed."
                )
            for did, found in (("sent", sent), ("received", received)):
                if found < (i + 1) * nbytes:
                    raise case.fail(
                        f"when rank {rank} began block {i} of {p}, it had started messages of "
                        f"{found} bytes that are {did}; it must be {(i + 1) * nbytes} or more, so "
                        "that the next block travels while this one is computed."
                    )


def assert_ring_attention_room(result, case, nbytes):
    """When a block was announced, not all the others were there, or on their way.

    Args:
        nbytes: of one part's keys and values.
    """
    case = case.seen_in(result).asking(f"room={nbytes}")
    p = case.world_size
    for rank, counted in enumerate(_ring_attention_started(result, case)):
        for i, (_, received, _) in enumerate(counted):
            if received > (i + 3) * nbytes:
                raise case.fail(
                    f"when rank {rank} began block {i} of {p}, it had started to receive "
                    f"{received} bytes; it may be {(i + 3) * nbytes} at most, so that it never has "
                    "room for all keys and values."
                )


def _ring_attention_started(result, case):
    """Per rank and block, bytes of sends and receives started before it, and those waited for."""
    found = []
    for rank, member in enumerate(result.members or range(case.world_size)):
        ops = result.trace.ops[member]
        begun = announced(ops)
        phases = sorted(phase for _, phase, _ in begun)
        if phases != sorted(f"block {source}" for source in range(case.world_size)):
            raise case.fail(
                f"rank {rank} announced {len(begun)} blocks; it must be each rank's keys once, "
                "through ring_blocks.block_scores."
            )
        counts = []
        for place, _, _ in begun:
            before = ops[:place]
            started = [
                sum(op.nbytes for op in before if op.kind == kind)
                for kind in (Kind.ISEND, Kind.IRECV)
            ]
            ended = {request for op in before if op.kind == Kind.WAIT for request in op.detail}
            come = sum(op.nbytes for op in before if op.kind == Kind.IRECV and op.request in ended)
            counts.append((*started, come))
        found.append(counts)
    return found


# -- conv_torch ------------------------------------------------------------------------------------
CONV_TORCH_OPTIONS = {
    "heights", "batch", "channels", "width", "kernel", "bias", "needs", "how", "kind", "height",
}  # fmt: skip
CONV_TORCH_INSTEAD = {  # gradients are taken on the ranks
    "conv_torch.py:conv2d": "callers_torch.py:conv_torch_called -- --heights '[4, 4]'",
}


def conv_torch_case(world_size, options):
    """The case that the options describe."""
    others = options.others
    heights = others.get("heights")
    if heights is None:
        heights = [len(each) for each in np.array_split(np.arange(options.n), world_size)]
    return cases_torch.ConvTorchCase(
        "conv_torch:conv2d", world_size, sum(heights), options.dtype, heights=tuple(heights),
        batch=int(others.get("batch", 1)), channels=tuple(others.get("channels", (2, 3))),
        width=int(others.get("width", 5)), kernel=int(others.get("kernel", 3)),
        with_bias=str(others.get("bias", True)) == "True", needs=str(others.get("needs", "all")),
        how=str(others.get("how", "plain")), kind=str(others.get("kind", options.dtype)),
        seed=options.seed,
    )  # fmt: skip


def conv_torch_arguments(function, world_size, rank, options):
    """What the functions of ``callers_torch.py`` get after ``group``."""
    if function == "conv_torch_refused":
        return int(options.others.get("kernel", 2)), int(options.others.get("height", 4))
    if function != "conv_torch_called":
        return None
    return conv_torch_case(world_size, options).arguments_of_ranks()[rank]


def conv_torch_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function == "conv_torch_refused":
        assert_refused(value, rank, case)
        return True
    if function != "conv_torch_called":
        return False
    mine = conv_torch_case(case.world_size, options)
    serial = cases_torch.conv_torch_serial(mine)
    cases_torch.assert_conv_torch_value(value, rank, mine, serial, case)
    return True


# -- ulysses_torch ---------------------------------------------------------------------------------
ULYSSES_TORCH_OPTIONS = {"batch", "heads", "kv_heads", "width", "sees", "backward", "how", "kind"}
ULYSSES_TORCH_INSTEAD = {  # the attention is made on the ranks
    "ulysses_torch.py:attention": "callers_torch.py:ulysses_torch_called -- --n 4 --heads 4",
}


def ulysses_torch_case(world_size, options):
    """The case that the options describe."""
    others = options.others
    heads = int(others.get("heads", 4))
    return cases_torch.UlyssesTorchCase(
        "ulysses_torch:attention", world_size, options.n, options.dtype,
        batch=int(others.get("batch", 1)), heads=heads,
        kv_heads=int(others.get("kv_heads", heads)), width=int(others.get("width", 3)),
        sees=str(others.get("sees", "before")),
        backward=str(others.get("backward", True)) == "True", how=str(others.get("how", "plain")),
        kind=str(others.get("kind", options.dtype)), seed=options.seed,
    )  # fmt: skip


def ulysses_torch_arguments(function, world_size, rank, options):
    """What the functions of ``callers_torch.py`` get after ``group``."""
    if function == "ulysses_torch_refused":
        return int(options.others.get("heads", 3)), int(options.others.get("kv_heads", 3))
    if function != "ulysses_torch_called":
        return None
    return ulysses_torch_case(world_size, options).arguments_of_ranks()[rank]


def ulysses_torch_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function == "ulysses_torch_refused":
        assert_refused(value, rank, case)
        return True
    if function != "ulysses_torch_called":
        return False
    mine = ulysses_torch_case(case.world_size, options)
    serial = cases_torch.ulysses_torch_serial(mine)
    cases_torch.assert_ulysses_torch_value(value, rank, mine, serial, case)
    return True


# -- what several modules need ---------------------------------------------------------------------


def assert_refused(value, rank, case):
    """What a function ``..._refused`` of ``callers_torch.py`` gave back: ValueError."""
    if value != "ValueError":
        raise case.fail(f"rank {rank} raised {value or 'nothing'}; it must be ValueError.")


def assert_looked_at(value, wanted, compare, case, rank, what):
    """What a function ``..._looked_at`` of ``callers.py`` gave back on a rank is right."""
    first, second, changed, shared = value
    compare(first, wanted, case, f"rank {rank}'s {what}")
    compare(second, wanted, case, f"in a second call, rank {rank}'s {what}")
    if changed:
        raise case.fail(f"rank {rank} changed what it was given; it must stay as it was.")
    if shared:
        raise case.fail(
            f"rank {rank} returned an array that shares memory with what it was given, or with "
            "the result of another call; results must be new arrays."
        )


def assert_near(value, wanted, case, what):
    """One array, to 1e-12 (1e-5 in float32) of its largest element."""
    wanted = np.asarray(wanted)
    if isinstance(value, np.ndarray) and value.shape == wanted.shape:
        value, wanted = value.reshape(-1), wanted.reshape(-1)
    tolerance = 1e-12 if wanted.dtype == np.float64 else 1e-5
    allowed = tolerance / (2 * (case.world_size + 1) * np.finfo(wanted.dtype).eps)
    finite = np.abs(wanted[np.isfinite(wanted)])
    scale = np.full(wanted.shape, allowed * (1 + finite.max(initial=0)))
    assert_array(value, wanted, scale, case, what)


# -- ring_attention_torch, zigzag_torch ------------------------------------------------------------
RING_TRIES = ("try_ring", "try_zigzag")


def ring_check(case, function, rank, value, options):
    """Raise a verdict where what a function of ``ring_callers_torch.py`` gave back isn't right."""
    others = options.others
    if function in RING_TRIES:
        attention = _ring_attention(others, function == "try_zigzag", case.world_size)
        sample = ring_cases.sample_attention(np.random.default_rng(0), attention)
        wanted = [ring_cases.serial(attention, parts, case.factors) for parts in sample]
        ring_cases.check_attention(value, wanted, attention, case, rank)
        if value["changed"]:
            raise case.fail(f"rank {rank} changed a tensor that it was given.")
    elif function == "try_orders":
        x = np.arange(float(others.get("positions", 8))).reshape(1, 1, -1, 1)
        ring_cases.check_orders(value, x, others.get("num_ranks", 2), case)
    elif function == "try_kept":
        attention = _ring_kept(others, case.world_size)
        (parts,) = ring_cases.sample_attention(np.random.default_rng(0), attention)
        ring_cases.check_kept_result(value, parts, attention, case, rank)
    elif function == "try_refused":
        ring_cases.check_refused(value, case)
    else:
        return False
    return True


def _ring_attention(others, zigzag, world_size):
    """The settings of a line's options."""
    names = ("heads", "kv_heads", "width", "batch", "how", "spread")
    given = {name: others[name] for name in names if name in others}
    given["lengths"] = tuple(others.get("lengths") or (4,) * world_size)
    given["causal"] = zigzag or bool(others.get("causal", False))
    return ring_cases.Attention(**given, dtype=others.get("precision", "float64"), zigzag=zigzag)


def _ring_kept(others, world_size):
    lengths = (others.get("positions", 4),) * world_size
    return ring_cases.KEPT.given(lengths=lengths, width=others.get("width", 64))


def _ring_seen(check_of_run):
    def checked(result, case, _):
        zigzag = "zigzag" in case.target
        check_of_run(result, case, _ring_attention(case.options, zigzag, case.world_size))

    return checked


def _ring_long_time(_, case, value):
    folder = Path(__file__).parent

    def trace(target, *arguments, **options):
        return ringside.trace_torch(
            f"{folder}/{target.replace(':', '.py:')}", *arguments, **options
        )

    target = ring_cases.ZIGZAG if "zigzag" in case.target else ring_cases.RING
    ring_observed.assert_long_time(trace, case, target, int(value))


RING_INSTEAD = {
    "ring_attention_torch.py:ring_attention": "ring_callers_torch.py:try_ring -- --causal True",
    "zigzag_torch.py:zigzag_attention": "ring_callers_torch.py:try_zigzag -- --heads 4",
}
RING_CHECKS = {
    "ring_neighbours": lambda result, case, _: ring_observed.assert_ring(result, case),
    "ring_volume": _ring_seen(ring_observed.assert_volume),
    "ring_travelling": _ring_seen(ring_observed.assert_travelling),
    "ring_early": _ring_seen(ring_observed.assert_early),
    "ring_skipped": _ring_seen(ring_observed.assert_skipped),
    "zigzag_balanced": _ring_seen(ring_observed.assert_balanced),
    "ring_kept": lambda result, case, _: ring_cases.check_kept(
        result, _ring_kept(case.options, case.world_size), case
    ),
    "ring_long_time": _ring_long_time,
}


# -- all modules -----------------------------------------------------------------------------------

OPTIONS = {
    *HALO_OPTIONS,
    *CONV_OPTIONS,
    *RING_ATTENTION_OPTIONS,
    *CONV_TORCH_OPTIONS,
    *ULYSSES_TORCH_OPTIONS,
}
INSTEAD = {**CONV_INSTEAD, **CONV_TORCH_INSTEAD, **ULYSSES_TORCH_INSTEAD, **RING_INSTEAD}
CHECKS = {
    "halos": lambda result, case, value: conv_cases.assert_halos_only(result, case, int(value)),
    "one_all_reduce": lambda result, case, _: conv_cases.assert_one_all_reduce(result, case),
    "interior": conv_check_interior,
    "passes": conv_check_passes,
    "conv_torch_halos": lambda result, case, value: cases_torch.assert_conv_torch_collectives(
        result, case, int(value)
    ),
    "all_to_all": lambda result, case, _: cases_torch.assert_ulysses_torch_collectives(
        result, case
    ),
    "shared_work": lambda result, case, value: cases_torch.assert_ulysses_torch_work(
        result, case, float(value)
    ),
    "overlap": lambda result, case, value: assert_ring_attention_overlap(result, case, int(value)),
    "room": lambda result, case, value: assert_ring_attention_room(result, case, int(value)),
    **RING_CHECKS,
}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm`` or ``group``; None for functions not known here."""
    for known in (
        halo_arguments,
        conv_arguments,
        ring_attention_arguments,
        conv_torch_arguments,
        ulysses_torch_arguments,
    ):
        given = known(function, world_size, rank, options)
        if given is not None:
            return given
    return None


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None where nothing is known, or where ``check`` knows."""
    return conv_expected(function, world_size, rank, options)


def check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    modules = (
        halo_check,
        conv_check,
        ring_attention_check,
        conv_torch_check,
        ulysses_torch_check,
        ring_check,
    )
    return any(known(case, function, rank, value, options) for known in modules)
