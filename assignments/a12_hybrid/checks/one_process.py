"""The GPT of ``given/gpt_torch.py`` in NumPy, on one process: what all ranks must have together.

Each function of a part gives its output, and a function from the output's gradient to the input's,
which adds to the gradients of parameters. In a run whose passes are announced it plays all ranks.
"""

import math

import numpy as np
from given.gpt import part_of, shapes_of

import ringside

erf = np.vectorize(math.erf, otypes=[float])


class Model:
    """The model of a case, whose parameters are cut for the ranks of its tensor axis.

    Attributes:
        params, gradients: by name, whole.
    """

    def __init__(self, case, params):
        self.case, self.params = case, {name: each.copy() for name, each in params.items()}
        self.gradients = {name: np.zeros_like(each) for name, each in params.items()}
        self.cuts = {name: cut for name, (_, cut) in shapes_of(case.config).items()}

    def part(self, name, tp):
        """A tensor rank's part of a parameter, and of its gradient."""
        whole = self.params[name], self.gradients[name]
        return [part_of(each, self.cuts[name], self.case.tp, tp) for each in whole]

    def step(self, tokens, targets, velocity, times=1.0, cleared=True):
        """One step of SGD on the batch of all replicas; the loss before it.

        Args:
            times: so large a multiple of the gradients.
            cleared: whether those of an earlier step are forgotten.
        """
        for gradient in self.gradients.values():
            gradient *= not cleared
        total = 0.0
        for dp in range(self.case.dp):
            for x, target in zip(tokens[dp], targets[dp], strict=True):
                total += self.microbatch(dp, x, target)
        rate, momentum = self.case.rates
        for name, gradient in self.gradients.items():
            velocity[name] = momentum * velocity.get(name, 0) + times * gradient
            self.params[name] -= rate * velocity[name]
        return total

    def microbatch(self, dp, tokens, targets):
        """Forward and backward of a replica's microbatch; its share of the loss."""
        words, gradient = self.params["words"], self.gradients["words"]
        x, backs = words[tokens] + self.params["positions"], []
        for number in range(sum(self.case.config.layers)):
            x, back = self.layer(number, dp, x)
            backs.append(back)
        normed, back = self.norm("norm", x)
        logits = normed @ words.T
        odds = np.exp(logits - logits.max(-1, keepdims=True))
        odds /= odds.sum(-1, keepdims=True)
        rows = (*np.indices(targets.shape), targets)
        loss = -np.log(odds[rows]).sum()
        odds[rows] -= 1
        odds /= self.case.num_tokens
        gradient += np.einsum("btv,bth->vh", odds, normed)
        dx = back(odds @ words)
        for back in reversed(backs):
            dx = back(dx)
        np.add.at(gradient, tokens, dx)
        self.gradients["positions"] += dx.sum(0)
        return float(loss) / self.case.num_tokens

    def layer(self, number, dp, x):
        """A layer: both of its halves."""
        x, first = self.half(number, dp, x, "norm1", self.attention, "attention")
        x, second = self.half(number, dp, x, "norm2", self.mlp, "mlp")
        return x, lambda dy: first(second(dy))

    def half(self, number, dp, x, norm, piece, name):
        """x + the sum of a piece's parts + a bias."""
        normed, back_norm = self.norm(f"layer{number}.{norm}", x)
        bias = f"layer{number}.{name}_bias"
        pp = next(k for k, end in enumerate(np.cumsum(self.case.config.layers)) if number < end)
        parts = []
        for tp in range(self.case.tp):
            rank = self.case.rank(pp, dp, tp)
            y, back = piece(number, tp, self.begun(rank, f"forward {name} {number}", normed))
            parts.append((y, rank, back))

        def backward(dy):
            self.gradients[bias] += dy.sum((0, 1))
            phase = f"backward {name} {number}"
            return dy + back_norm(sum(back(self.begun(rank, phase, dy)) for _, rank, back in parts))

        return x + sum(y for y, _, _ in parts) + self.params[bias], backward

    def begun(self, rank, phase, x):
        """The input of a rank's pass, with its factors."""
        with self.case.passes_of(rank):
            return ringside.announce(phase, x)

    def norm(self, name, x):
        """Layer norm."""
        weight = self.params[f"{name}.weight"]
        scale = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        normed = (x - x.mean(-1, keepdims=True)) * scale

        def backward(dy):
            self.gradients[f"{name}.weight"] += (dy * normed).sum((0, 1))
            self.gradients[f"{name}.bias"] += dy.sum((0, 1))
            dx = dy * weight
            along = normed * (dx * normed).mean(-1, keepdims=True)
            return scale * (dx - dx.mean(-1, keepdims=True) - along)

        return normed * weight + self.params[f"{name}.bias"], backward

    def attention(self, number, tp, y):
        """A tensor rank's heads."""
        (qkv, d_qkv), (bias, d_bias), (out, d_out) = (
            self.part(f"layer{number}.{name}", tp) for name in ("qkv", "qkv_bias", "out")
        )
        b, t, _ = y.shape
        width = self.case.config.hidden // self.case.config.heads
        heads = np.einsum("bth,ckh->cbtk", y, qkv) + bias[:, None, None]
        q, k, v = heads.reshape(3, b, t, -1, width).swapaxes(2, 3)  # (B, heads/tp, T, d)
        scores = q @ k.swapaxes(2, 3) / math.sqrt(width)
        scores = np.where(np.triu(np.ones((t, t), bool), 1), -np.inf, scores)
        odds = np.exp(scores - scores.max(-1, keepdims=True))
        odds /= odds.sum(-1, keepdims=True)
        mixed = (odds @ v).swapaxes(1, 2).reshape(b, t, -1)  # (B, T, hidden/tp)

        def backward(dy):
            d_out[...] += np.einsum("bth,btk->hk", dy, mixed)
            dm = (dy @ out).reshape(b, t, -1, width).swapaxes(1, 2)
            d_odds = dm @ v.swapaxes(2, 3)
            d_scores = odds * (d_odds - (odds * d_odds).sum(-1, keepdims=True)) / math.sqrt(width)
            of_heads = d_scores @ k, d_scores.swapaxes(2, 3) @ q, odds.swapaxes(2, 3) @ dm
            d_heads = np.stack(of_heads).swapaxes(2, 3).reshape(3, b, t, -1)
            d_bias[...] += d_heads.sum((1, 2))
            d_qkv[...] += np.einsum("cbtk,bth->ckh", d_heads, y)
            return np.einsum("cbtk,ckh->bth", d_heads, qkv)

        return mixed @ out.T, backward

    def mlp(self, number, tp, y):
        """A tensor rank's hidden units."""
        (up, d_up), (bias, d_bias), (down, d_down) = (
            self.part(f"layer{number}.{name}", tp) for name in ("up", "up_bias", "down")
        )
        x = y @ up.T + bias
        below = (1 + erf(x / math.sqrt(2))) / 2  # of the normal distribution

        def backward(dy):
            d_down[...] += np.einsum("bth,btk->hk", dy, x * below)
            dx = dy @ down * (below + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))
            d_bias[...] += dx.sum((0, 1))
            d_up[...] += np.einsum("btk,bth->kh", dx, y)
            return dx @ up

        return (x * below) @ down.T, backward
