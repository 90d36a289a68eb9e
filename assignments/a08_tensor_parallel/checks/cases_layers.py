"""The calls of mlp.py, attention.py and cross_entropy.py that the tests make."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from given.layers import (
    attention,
    attention_backward,
    gelu,
    gelu_backward,
    layer_norm,
    layer_norm_backward,
)
from given.shards import shard_bounds

from checks.cases import Layer, Shards, normal, weight
from ringside import Machine
from ringside.checking import assert_ran

PARTIAL = (
    "Layer norm went backward on a rank's summand; the gradients of gamma and beta need the sum."
)


def often(case):
    """What usual mistakes give that count p times what all ranks have whole, for ``wrong``."""
    x, params, grad = case.exactly
    y, *rest = case.serial(x, params, grad)
    bias, more = params[-1], case.p - 1
    summed = case.serial(x, params, case.p * grad)
    return {
        "The last bias was added on every rank before the sum, so it counts p times.": (
            case.dealt_out(y + more * bias, *rest)
        ),
        "The last bias and the residual were added on every rank, so they count p times.": (
            case.dealt_out(y + more * (bias + x), *rest)
        ),
        "Gradients are p times too large: every rank has the whole gradient of y already.": (
            case.dealt_out(*summed)
        ),
    }


# -- mlp -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MlpLayer(Layer):
    """A transformer's MLP; widths are d and h."""

    target = "mlp:forward"
    called, layer = "forward and backward", "mlp"
    result_names = (
        "y", "gradient of x", "gradient of gamma", "gradient of beta", "gradient of W1",
        "gradient of b1", "gradient of W2", "gradient of b2",
    )  # fmt: skip
    param_cuts, again = (None, None, 1, 0, 0, None), 1 / 6
    widths: tuple = (4, 7)

    def drawn(self, rng):
        d, h = self.widths
        x, gamma, beta = normal(rng, self.n, d), 1 + normal(rng, d, scale=0.1), normal(rng, d)
        params = gamma, beta, weight(rng, d, h), normal(rng, h), weight(rng, h, d), normal(rng, d)
        return x, params, normal(rng, self.n, d)

    def serial(self, x, params, grad):
        n, kept = layer_norm(x, *params[:2])
        W1, b1, W2, b2 = params[2:]
        z = n @ W1 + b1
        a, grad_z = gelu(z), gelu_backward(z, grad @ W2.T)
        grad_x, grad_gamma, grad_beta = layer_norm_backward(kept, grad_z @ W1.T)
        first = n.T @ grad_z, grad_z.sum(axis=0)
        second = a.T @ grad, grad.sum(axis=0)
        return a @ W2 + b2 + x, grad_x + grad, grad_gamma, grad_beta, *first, *second

    def wrong(self):
        return {**often(self), PARTIAL: [self._partial(rank) for rank in range(self.p)]}

    def _partial(self, rank):
        """A rank's results where layer norm goes backward on its summand."""
        x, (gamma, beta, W1, b1, W2, _), grad = self.exactly
        own = slice(*shard_bounds(len(b1), self.p, rank))
        n, kept = layer_norm(x, gamma, beta)
        grad_z = gelu_backward(n @ W1[:, own] + b1[own], grad @ W2[own].T)
        _, *summands = layer_norm_backward(kept, grad_z @ W1[:, own].T)
        y, grad_x, _, _, *grads = self.right()[rank]
        return y, grad_x, *summands, *grads

    @property
    def flops(self):
        return 12 * self.n * self.widths[0] * self.widths[1]

    @property
    def count(self):
        return self.widths[1]


@dataclass(frozen=True)
class KeptByForward(MlpLayer):
    """The same, and what the forward pass keeps."""

    how: str = "memory"

    @property
    def kept_nbytes(self):
        """What the forward pass may keep."""
        d, h = self.widths
        return 8 * (4 * self.n * -(-h // self.p) + 6 * self.n * d) + 65536


@dataclass(frozen=True)
class MeasuredLayer(MlpLayer):
    """``measured_layer``, for runs and jobs."""

    target = "mlp:measured_layer"
    through, called = "", "measured_layer"
    result_names = MlpLayer.result_names[:2]
    n: int = 256
    widths: tuple = (512, 2048)
    exact = True

    def inputs(self, rank):
        return self.arguments(rank)

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            self._check_results(value, right[:2], self, f"rank {rank}'s")


@dataclass(frozen=True)
class MlpShard(Shards):
    target = "mlp:shard"
    of = MlpLayer


# -- attention -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AttentionLayer(Layer):
    """A transformer's attention; widths are d, heads, columns of a head, and positions."""

    target = "attention:forward"
    called, layer = "forward and backward", "attention"
    result_names = (
        "y", "gradient of x", "gradient of gamma", "gradient of beta", "gradient of W",
        "gradient of b", "gradient of V", "gradient of c",
    )  # fmt: skip
    param_cuts, products, again = (None, None, 1, 0, 0, None), (4, 8), 1 / 3
    widths: tuple = (6, 5, 4, 3)

    def drawn(self, rng):
        d, heads, k, length = self.widths
        x, gamma, beta = (
            normal(rng, self.n, length, d),
            1 + normal(rng, d, scale=0.1),
            normal(rng, d),
        )
        W, b = weight(rng, d, 3 * heads * k), normal(rng, 3 * heads * k)
        params = gamma, beta, W, b, weight(rng, heads * k, d), normal(rng, d)
        return x, params, normal(rng, self.n, length, d)

    def more(self):
        return (self.widths[2],)

    def cut(self, array, axis, rank):
        """A rank's heads, of an axis with one head's columns after another, once or three times."""
        if axis is None:
            return array
        _, heads, k, _ = self.widths
        lo, hi = (k * bound for bound in shard_bounds(heads, self.p, rank))
        starts = range(0, array.shape[axis], heads * k)
        columns = [column for start in starts for column in range(start + lo, start + hi)]
        return np.ascontiguousarray(array.take(np.array(columns, int), axis=axis))

    def serial(self, x, params, grad):
        gamma, beta, W, b, V, c = params
        (B, T, _), (_, heads, k, _) = x.shape, self.widths

        def apart(columns):  # (B, T, heads * k) to (B, heads, T, k)
            return columns.reshape(B, T, heads, k).swapaxes(1, 2)

        def together(each):
            return each.swapaxes(1, 2).reshape(B, T, heads * k)

        n, kept = layer_norm(x, gamma, beta)
        o, kept_heads = attention(*map(apart, np.split(n @ W + b, 3, axis=-1)))
        o = together(o)
        grads = attention_backward(kept_heads, apart(grad @ V.T))
        grad_qkv = np.concatenate([together(each) for each in grads], axis=-1)
        grad_x, grad_gamma, grad_beta = layer_norm_backward(kept, grad_qkv @ W.T)
        n, o_rows, qkv, y = (e.reshape(B * T, e.shape[2]) for e in (n, o, grad_qkv, grad))
        first, second = (n.T @ qkv, qkv.sum(axis=0)), (o_rows.T @ y, y.sum(axis=0))
        return o @ V + c + x, grad_x + grad, grad_gamma, grad_beta, *first, *second

    def wrong(self):
        return often(self)

    @property
    def flops(self):
        d, heads, k, length = self.widths
        return 6 * self.n * heads * (4 * d * k * length + 2 * length * length * k)

    @property
    def count(self):
        return self.widths[1]

    @property
    def rows(self):
        return self.n * self.widths[3], self.widths[0]


@dataclass(frozen=True)
class AttentionShard(Shards):
    target = "attention:shard"
    of = AttentionLayer
    widths: tuple = (6, 4, 3, 2)


# -- cross_entropy ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class LossLayer(Layer):
    """Losses over a cut vocabulary; the only width is that of the vocabulary.

    Attributes:
        logits: "rows" (each row is far up or down), "slopes" (maxima on one rank only), "low" (all
            are -1e10), or "".
    """

    target = "cross_entropy:forward"
    called, layer = "forward and backward", "cross_entropy"
    result_names = ("losses", "gradient of the logits")
    x_cut, passed_on = 1, 1  # the backward pass sends nothing: its values are other tests'
    machines: ClassVar = {"long wire": Machine("long wire", alpha_s=1e-6, beta_s_per_byte=1e-7)}
    widths: tuple = (11,)
    logits: str = ""

    def drawn(self, rng):
        words = self.widths[0]
        z, grad = normal(rng, self.n, words, scale=3.0), normal(rng, self.n)
        rows = np.arange(self.n)
        if self.logits == "rows":
            z += np.array([1000.0, -1000.0, 5000.0, -5000.0])[rows % 4, None]
        elif self.logits == "slopes":
            steep = np.linspace(-1500, 1500, words)
            z += np.where(rows[:, None] % 2, steep, -steep)
        elif self.logits == "low":
            z -= 1e10
        return z, (), grad

    @property
    def words(self):
        """The right words."""
        return np.random.default_rng([self.seed, 7]).integers(self.widths[0], size=self.n)

    def more(self):
        return self.words, self.widths[0]

    def serial(self, x, params, grad):
        rows = np.arange(self.n)
        shifted = x - x.max(axis=1, keepdims=True)
        log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        grad_x = np.exp(log_p)
        grad_x[rows, self.words] -= 1
        return -log_p[rows, self.words], grad_x * grad[:, None]

    def wrong(self):
        x, params, grad = self.exactly
        mean = self.serial(x, params, grad / max(1, self.n))
        return {
            "This is the gradient of the mean of the losses; grad_losses alone says what each "
            "counts.": self.dealt_out(*mean)
        }

    @property
    def size(self):
        """exp and differences amplify the logits' own rounding."""
        return max(1.0, float(np.abs(self.whole[0]).max(initial=0)))

    @property
    def allowed_nbytes(self):
        unit = np.dtype(self.dtype).itemsize
        return 6 * (self.p - 1) * -(-self.n // self.p) * unit + 64 * (self.p - 1)

    @property
    def steps(self):
        return [("allreduce", 8 * self.n)] * 3
