"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run callers.py:column_layer --ranks 3 -- --n 5 --widths 4,7     x (5, 4), W (4, 7)
    ringside run callers.py:mlp_layer --ranks 3 -- --n 5 --widths 4,7        d = 4, h = 7
    ringside run callers.py:attention_layer --ranks 3 -- --n 2 --widths 6,5,4,3
                                                  d = 6, 5 heads of 4, sequences of 3
    ringside run callers.py:loss_layer --ranks 3 -- --n 5 --widths 11        11 words
    ringside run mlp.py:measured_layer --ranks 4 -- --n 256 --widths 512,2048
    ringside run callers_torch.py:measured_pair --ranks 4 -- --n 256 --widths 512,2048

``n`` is the number of samples, B.
"""

import numpy as np
from layers import (
    attention,
    attention_backward,
    gelu,
    gelu_backward,
    layer_norm,
    layer_norm_backward,
)  # fmt: skip
from shards import shard_bounds

OPTIONS = {
    "widths", "target", "order", "second_n", "second_widths", "second_dtype", "last_first", "bound",
}  # fmt: skip
UNSAID = OPTIONS - {"widths", "target"}
INSTEAD = {  # a layer's forward and backward pass, one after the other
    f"{module}.py:{prefix}{way}": f"callers.py:{layer}"
    for module, prefix, layer in (
        ("linear", "column_", "column_layer"),
        ("linear", "row_", "row_layer"),
        ("mlp", "", "mlp_layer"),
        ("attention", "", "attention_layer"),
        ("cross_entropy", "", "loss_layer"),
    )
    for way in ("forward", "backward")
}
WIDTHS = {
    "column_layer": (4, 7),
    "row_layer": (7, 4),
    "mlp_layer": (4, 7),
    "measured_layer": (512, 2048),
    "measured_pair": (512, 2048),
    "attention_layer": (6, 5, 4, 3),
    "loss_layer": (11,),
}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None for functions that aren't known here."""
    layer = str(options.others.get("target", function)).rpartition(":")[2]
    whole = _whole(layer, options)
    if whole is None:
        return None
    own = parts(layer, whole, world_size, rank)
    if function == "looked_at":
        return layer, options.others.get("order", "C"), *own
    if function == "memory":
        return layer.removesuffix("_layer"), own[:-1], own[-1]
    if function in CALLERS:
        second = parts(layer, _whole(layer, options, 1), world_size, rank)
        more = [bool(options.others.get("last_first"))] if function == "interleaved" else []
        return layer, own, second, *more
    return own


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None for functions that aren't known here."""
    whole = _whole(function, options)
    return None if whole is None else results(function, whole, world_size, rank)


def _whole(function, options, which=0):
    """The whole layer; ``which`` = 1: the second one, where two are called one after the other."""
    if function not in WIDTHS:
        return None
    n, widths = options.n, options.others.get("widths", WIDTHS[function])
    dtype = options.dtype
    if which:
        dtype = options.others.get("second_dtype", dtype)
        n = options.others.get("second_n", n)
        widths = options.others.get("second_widths", widths)
    widths = (widths,) if isinstance(widths, int) else tuple(widths)
    seed = options.drawn[which] if options.drawn else options.seed + which
    return drawn(function, n, widths, np.random.default_rng(seed), dtype)


# -- what came back --------------------------------------------------------------------------------

CALLERS = ("twice", "updated", "interleaved")  # two layers
GRADS = tuple(f"gradient of {name}" for name in ("gamma", "beta", "W1", "b1", "W2", "b2"))
NAMES = {
    "column_layer": ("Y", "gradient of X", "gradient of W", "gradient of b"),
    "row_layer": ("Z", "gradient of X", "gradient of W", "gradient of b"),
    "mlp_layer": ("y", "gradient of x", *GRADS),
    "attention_layer": (
        "y", "gradient of x", "gradient of gamma", "gradient of beta", "gradient of W",
        "gradient of b", "gradient of V", "gradient of c",
    ),
    "loss_layer": ("losses", "gradient of the logits"),
}  # fmt: skip
# Which results every rank gets whole, and so equal bit for bit.
WHOLE = {
    "column_layer": (1,),
    "row_layer": (0, 3),
    "mlp_layer": (0, 1, 2, 3, 7),
    "attention_layer": (0, 1, 2, 3, 7),
    "loss_layer": (0,),
}
EPS = {"float64": 1e-12, "float32": 1e-5}


def check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not as it must be."""
    if case.function not in NAMES:
        return False
    wholes = [
        _whole(case.function, options, which) for which in (0, 1)[: 1 + (function in CALLERS)]
    ]
    if function == case.function:
        assert_arrays(value, wholes[0], case, rank, f"rank {rank}'s")
    elif function == "looked_at":
        check_looked_at(case, rank, value, wholes[0], options.others.get("order", "C"))
    elif function == "memory":
        check_memory(case, rank, value, wholes[0], options.others.get("bound", np.inf))
    elif function == "twice":
        check_twice(case, rank, value, *wholes)
    elif function == "updated":
        check_updated(case, rank, value, wholes[1])
    elif function == "interleaved":
        check_interleaved(case, rank, value, *wholes, options.others.get("last_first"))
    return True


def assert_arrays(got, whole, case, rank, whose):
    """All results of a rank: how many, dtype, shapes and values, those of the whole layer."""
    names = NAMES[case.function]
    if not isinstance(got, list | tuple) or len(got) != len(names):
        raise case.fail(f"{whose} results must be {len(names)} arrays: {', '.join(names)}.")
    wanted = results(case.function, exact(whole), case.world_size, rank)
    dtype = str(whole[0].dtype)
    for name, array, right in zip(names, got, wanted, strict=True):
        what = f"{whose} {name}"
        if not isinstance(array, np.ndarray):
            raise case.fail(f"{what} is of type {type(array).__name__}; it must be an array.")
        if array.shape != right.shape or str(array.dtype) != dtype:
            raise case.fail(
                f"{what} has shape {array.shape} and dtype {array.dtype}; it must have "
                f"{right.shape} and {dtype}."
            )
        off, allowed = frobenius(array, right), EPS[dtype]
        if case.function == "loss_layer":  # exp and differences amplify the logits' own rounding
            off /= max(1.0, float(np.abs(whole[0]).max(initial=0)))
        if not off <= allowed:
            raise case.fail(
                f"{what} is off by {off:.2g} of its norm (or of 1) from the whole layer's on one "
                f"rank; {allowed:g} is allowed."
            )


def check_looked_at(case, rank, value, whole, order):
    """What ``callers.looked_at`` gave back on a rank."""
    value, changed, shared, fixed = value
    stored = " that lie by columns" if order == "F" else ""
    kind = "arrays" if rank % 2 else "read-only arrays"
    assert_arrays(value, whole, case, rank, f"from {kind} with gaps{stored}, rank {rank}'s")
    if changed:
        raise case.fail(f"rank {rank} changed what it was given; it must stay as it was.")
    if shared:
        raise case.fail(f"rank {rank} returned memory that it was given, no new array.")
    if fixed:
        raise case.fail(f"rank {rank} returned an array that its caller can't write to.")


def check_memory(case, rank, value, whole, bound):
    """What ``callers.memory`` gave back on a rank."""
    held, value = value
    assert_arrays(value, whole, case, rank, f"rank {rank}'s")
    if held > bound:
        raise case.fail(
            f"forward on rank {rank} keeps {held} bytes that it has allocated; at most "
            f"{bound} are allowed."
        )


def check_twice(case, rank, value, first, second):
    """What ``callers.twice`` gave back on a rank."""
    then, now, late = value
    assert_arrays(then, first, case, rank, f"rank {rank}'s first")
    assert_arrays(now, first, case, rank, f"looked at after a second call, rank {rank}'s first")
    assert_arrays(late, second, case, rank, f"rank {rank}'s second")


def check_updated(case, rank, value, second):
    """What ``callers.updated`` gave back on a rank."""
    whose = f"called again, with new values in the same arrays, rank {rank}'s"
    assert_arrays(value, second, case, rank, whose)


def check_interleaved(case, rank, value, first, second, last_first):
    """What ``callers.interleaved`` gave back on a rank."""
    for place, (name, whole) in enumerate((("first", first), ("second", second))):
        whose = f"{in_flight(last_first)}, rank {rank}'s {name}"
        assert_arrays(value[place], whole, case, rank, whose)


def in_flight(last_first):
    """How a sentence on ``callers.interleaved`` begins."""
    order = "the later one's backward pass first" if last_first else "backward in their order"
    return f"of two layers in flight, {order}"


def exact(value):
    """The same arguments in double precision."""
    if isinstance(value, np.ndarray):
        return value.astype("float64") if value.dtype.kind == "f" else value
    if isinstance(value, list | tuple):
        return type(value)(exact(each) for each in value)
    return value


def frobenius(got, right):
    """``|got - right| / max(1, |right|)``: a sum of few elements may be nearly 0 by chance."""
    wanted = right.astype("float64")
    with np.errstate(all="ignore"):  # what comes back may be anything, infinities too
        off = np.linalg.norm(got.astype("float64") - wanted)
    return float(off) / max(1.0, float(np.linalg.norm(wanted)))


def assert_alike(result, case):
    """What all ranks have whole has the same bits on each."""
    case = case.seen_in(result).asking("alike")
    for index in WHOLE[case.function]:
        for rank, value in enumerate(result.values):
            if not np.array_equal(value[index], result.values[0][index]):
                most = float(np.abs(value[index] - result.values[0][index]).max())
                raise case.fail(
                    f"rank {rank}'s {NAMES[case.function][index]} differs from rank 0's by up to "
                    f"{most:.1e}; it must be equal bit for bit, or copies drift apart."
                )


def assert_work(result, case, rank, right, spare=0.0):
    """A rank's products are those of its own part; a fraction may be computed again."""
    done = result.num_flops()[rank]
    if not right * (1 - 1e-9) <= done <= right * (1 + spare) * (1 + 1e-9):
        raise (
            case.seen_in(result)
            .asking(f"work={rank}:{right:.12g}:{spare:g}")
            .fail(
                f"rank {rank} put {done:.6g} floating-point operations into layers.matmul; "
                f"its own part takes {right:.6g}."
            )
        )


def assert_not_all_work(result, case, rank, work):
    """A rank of several does not make the products of the whole layer."""
    done = result.num_flops()[rank]
    if done > 0.9 * work:
        raise (
            case.seen_in(result)
            .asking(f"not_all_work={rank}:{work:.12g}")
            .fail(
                f"rank {rank} put {done:.6g} floating-point operations into layers.matmul, as "
                f"many as the whole layer takes ({work:.6g}); each rank should multiply its part."
            )
        )


def assert_all_work(result, case, work):
    """All ranks' products together are at least those of the layer."""
    done = sum(result.num_flops())
    if done < work * (1 - 1e-9):
        raise (
            case.seen_in(result)
            .asking(f"all_work={work:.12g}")
            .fail(
                f"all ranks together put {done:.6g} floating-point operations into layers.matmul; "
                f"the layer takes {work:.6g}."
            )
        )


def _work(result, case, value):
    rank, right, spare = value.split(":")
    assert_work(result, case, int(rank), float(right), float(spare))


def _not_all_work(result, case, value):
    rank, work = value.split(":")
    assert_not_all_work(result, case, int(rank), float(work))


CHECKS = {
    "alike": lambda result, case, _: assert_alike(result, case),
    "work": _work,
    "not_all_work": _not_all_work,
    "all_work": lambda result, case, value: assert_all_work(result, case, float(value)),
}


# -- the whole layer, on one rank ------------------------------------------------------------------


def drawn(function, n, widths, rng, dtype="float64"):
    """Random arguments of the whole layer, as one rank alone would get them."""

    def normal(*shape, scale=1.0):
        return (scale * rng.standard_normal(shape)).astype(dtype)

    def weight(d_in, d_out):
        return normal(d_in, d_out, scale=d_in**-0.5)

    if function in ("column_layer", "row_layer"):
        d_in, d_out = widths
        return normal(n, d_in), weight(d_in, d_out), normal(d_out), normal(n, d_out)
    if function in ("mlp_layer", "measured_layer"):
        d, h = widths
        params = (1 + normal(d, scale=0.1), normal(d), weight(d, h), normal(h), weight(h, d))
        return normal(n, d), (*params, normal(d)), normal(n, d)
    if function == "measured_pair":  # torch's weights have shape (out, in)
        d, h = widths
        params = [weight(d, h).T.copy(), normal(h), weight(h, d).T.copy(), normal(d)]
        return params, normal(n, d), normal(n, d)
    if function == "attention_layer":
        d, heads, head_dim, length = widths
        inner = heads * head_dim
        params = (
            1 + normal(d, scale=0.1), normal(d), weight(d, 3 * inner), normal(3 * inner),
            weight(inner, d), normal(d),
        )  # fmt: skip
        return normal(n, length, d), params, head_dim, normal(n, length, d)
    (vocab_size,) = widths
    words = rng.integers(vocab_size, size=n)
    return normal(n, vocab_size, scale=3.0), words, vocab_size, normal(n)


def parts(function, whole, world_size, rank):
    """A rank's part of ``drawn``."""

    def cut(array, axis):
        lo, hi = shard_bounds(array.shape[axis], world_size, rank)
        return np.ascontiguousarray(array.take(range(lo, hi), axis=axis))

    if function == "measured_pair":
        return whole  # each rank takes its part of the weights itself
    if function == "column_layer":
        x, W, b, grad_y = whole
        return x, cut(W, 1), cut(b, 0), cut(grad_y, 1)
    if function == "row_layer":
        x, W, b, grad_y = whole
        return cut(x, 1), cut(W, 0), b, grad_y
    if function in ("mlp_layer", "measured_layer"):
        x, (gamma, beta, W1, b1, W2, b2), grad_y = whole
        return x, (gamma, beta, cut(W1, 1), cut(b1, 0), cut(W2, 0), b2), grad_y
    if function == "attention_layer":
        x, params, head_dim, grad_y = whole
        return x, heads_of(params, head_dim, world_size, rank), head_dim, grad_y
    logits, words, vocab_size, grad_losses = whole
    return cut(logits, 1), words, vocab_size, grad_losses


def heads_of(params, head_dim, world_size, rank):
    """A rank's heads of attention's parameters, or of their gradients."""
    gamma, beta, W, b, V, c = params
    heads = V.shape[0] // head_dim
    lo, hi = (head_dim * bound for bound in shard_bounds(heads, world_size, rank))
    inner = heads * head_dim
    columns = [
        *range(lo, hi),
        *range(inner + lo, inner + hi),
        *range(2 * inner + lo, 2 * inner + hi),
    ]
    return gamma, beta, W[:, columns], b[columns], V[lo:hi].copy(), c


def serial(function, whole):
    """All results of the whole layer on one rank, a tuple of arrays."""
    if function in ("column_layer", "row_layer"):
        x, W, b, grad_y = whole
        return x @ W + b, grad_y @ W.T, x.T @ grad_y, grad_y.sum(axis=0)
    if function in ("mlp_layer", "measured_layer"):
        return _serial_mlp(*whole)
    if function == "measured_pair":
        return _serial_pair(*whole)
    if function == "attention_layer":
        return _serial_attention(*whole)
    logits, words, _, grad_losses = whole
    rows = np.arange(len(words))
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    grad = np.exp(log_p)
    grad[rows, words] -= 1
    return -log_p[rows, words], grad * grad_losses[:, None]


def results(function, whole, world_size, rank):
    """What a rank should get, of ``serial``."""
    found = serial(function, whole)
    if function == "column_layer":
        y, grad_x, grad_W, grad_b = found
        _, W, b, y = parts(function, (whole[0], grad_W, grad_b, y), world_size, rank)
        return y, grad_x, W, b
    if function == "row_layer":
        y, grad_x, grad_W, grad_b = found
        x, W, b, y = parts(function, (grad_x, grad_W, grad_b, y), world_size, rank)
        return y, x, W, b
    if function == "measured_layer":
        return found[:2]
    if function == "measured_pair":
        return found
    if function in ("mlp_layer", "attention_layer"):
        y, grad_x, *grads = found
        _, own, *_ = parts(function, (y, tuple(grads), *whole[2:]), world_size, rank)
        return y, grad_x, *own
    losses, grad = found
    return losses, parts(function, (grad, *whole[1:]), world_size, rank)[0]


def _serial_mlp(x, params, grad_y):
    gamma, beta, W1, b1, W2, b2 = params
    normal, kept = layer_norm(x, gamma, beta)
    z = normal @ W1 + b1
    a = gelu(z)
    grad_z = gelu_backward(z, grad_y @ W2.T)
    grad_x, grad_gamma, grad_beta = layer_norm_backward(kept, grad_z @ W1.T)
    return (
        a @ W2 + b2 + x, grad_x + grad_y, grad_gamma, grad_beta,
        normal.T @ grad_z, grad_z.sum(axis=0), a.T @ grad_y, grad_y.sum(axis=0),
    )  # fmt: skip


def _serial_pair(params, x, grad_y):
    W1, b1, W2, b2 = params
    z = x @ W1.T + b1
    return gelu(z) @ W2.T + b2, gelu_backward(z, grad_y @ W2) @ W1


def _serial_attention(x, params, head_dim, grad_y):
    gamma, beta, W, b, V, c = params
    (B, T, _), heads = x.shape, V.shape[0] // head_dim

    def apart(columns):  # (B, T, heads * head_dim) to (B, heads, T, head_dim)
        return columns.reshape(B, T, heads, head_dim).swapaxes(1, 2)

    def together(each):
        return each.swapaxes(1, 2).reshape(B, T, heads * head_dim)

    normal, kept = layer_norm(x, gamma, beta)
    q, k, v = (apart(each) for each in np.split(normal @ W + b, 3, axis=-1))
    o, kept_heads = attention(q, k, v)
    o = together(o)
    grads = attention_backward(kept_heads, apart(grad_y @ V.T))
    grad_qkv = np.concatenate([together(each) for each in grads], axis=-1)
    grad_x, grad_gamma, grad_beta = layer_norm_backward(kept, grad_qkv @ W.T)
    rows, attended, qkv_rows, y_rows = (
        each.reshape(B * T, each.shape[2]) for each in (normal, o, grad_qkv, grad_y)
    )
    return (
        o @ V + c + x, grad_x + grad_y, grad_gamma, grad_beta,
        rows.T @ qkv_rows, qkv_rows.sum(axis=0), attended.T @ y_rows, y_rows.sum(axis=0),
    )  # fmt: skip
