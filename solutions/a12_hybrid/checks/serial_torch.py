"""What one process computes, with torch: the values that ``train3d_torch`` must have.

It takes every part of the model, replica by replica and microbatch by microbatch. In a run whose
passes are announced it plays all ranks' factors.
"""

import contextlib

import numpy as np
import torch
from given.gpt import LAYER, names_of, part_of, shapes_of
from given.gpt_torch import Layer
from torch.nn import functional as F

import ringside


@contextlib.contextmanager
def on_one_thread():
    """Tensors are tiny here, and threads that wait for one another cost more than they save."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def training(case):
    """``(losses, params)``: of each step; and the whole parameters after the last one, by name."""
    with on_one_thread():
        model, losses = Model(case, shapes_of(case.config)), []
        rate, momentum = case.rates
        optimizer = torch.optim.SGD(model.every(), lr=rate, momentum=momentum)
        for tokens, targets in case.batches:
            optimizer.zero_grad()
            total = 0.0
            for dp in range(case.dp):
                model.begin_as(dp)
                for x, target in zip(tokens[dp], targets[dp], strict=True):
                    loss = model.loss(torch.as_tensor(x), torch.as_tensor(target)) / case.num_tokens
                    loss.backward()
                    total += loss.item()
            optimizer.step()
            losses.append(total)
        return losses, model.whole(lambda leaf: leaf.detach())


def layer(case, x, dy):
    """Output of layer 0 and whole gradients by name, that of x among them."""
    with on_one_thread():
        names = [name for name in names_of(case.config, 0) if name.startswith("layer")]
        model = Model(case, names)
        model.begin_as(0)
        x = torch.as_tensor(x).requires_grad_()
        y = model.through(model.layers[0], x)
        y.backward(torch.as_tensor(dy))
        return y.detach().numpy(), {"x": x.grad.numpy(), **model.whole(lambda leaf: leaf.grad)}


class Model:
    """All parts of the model. Those that are cut are leaves of their own, as ranks' passes are."""

    def __init__(self, case, names):
        self.case, self.shapes = case, shapes_of(case.config)
        self.leaves, self.layers = {}, []
        for name in names:
            cut = self.shapes[name][1]
            count = case.tp if cut is not None and name != "words" else 1
            whole = torch.as_tensor(case.whole[name])
            parts = (part_of(whole, cut, count, k).clone() for k in range(count))
            self.leaves[name] = [part.requires_grad_() for part in parts]
        for number in range(sum(case.config.layers)):
            self.layers.append([self._part(number, tp) for tp in range(case.tp)])

    def _part(self, number, tp):
        """A tensor rank's part of a layer, which computes with the leaves."""
        mine = {name: own[tp % len(own)] for name, own in self.leaves.items()}
        part = Layer(number, self.case.config, {name: own.detach() for name, own in mine.items()})
        for name in LAYER:
            module, _, own = name.partition(".")
            owner, own = (getattr(part, module), own) if own else (part, module)
            delattr(owner, own)
            setattr(owner, own, mine[f"layer{number}.{name}"])
        return part

    def every(self):
        """All leaves."""
        return [leaf for own in self.leaves.values() for leaf in own]

    def whole(self, value):
        """Per name ``value`` of its leaves, put together."""
        found = {}
        for name, own in self.leaves.items():
            arrays = [value(leaf).numpy() for leaf in own]
            cut = self.shapes[name][1]
            found[name] = arrays[0] if len(arrays) == 1 else np.concatenate(arrays, cut)
        return found

    def begin_as(self, dp):
        """From now on passes are those of a replica's ranks."""
        stages = [pp for pp, count in enumerate(self.case.config.layers) for _ in range(count)]
        for pp, parts in zip(stages, self.layers, strict=True):
            for tp, part in enumerate(parts):
                part.begin = self._begin(self.case.rank(pp, dp, tp))

    def _begin(self, rank):
        def begin(phase, x):
            with self.case.passes_of(rank):
                return torch.from_numpy(ringside.announce(phase, x.detach().numpy()))

        return begin

    def through(self, parts, x):
        """The output of a layer."""
        one = parts[0]
        for norm, piece, bias in (
            (one.norm1, "attention", one.attention_bias),
            (one.norm2, "mlp", one.mlp_bias),
        ):
            normed = norm(x)
            x = x + sum(getattr(part, piece)(normed) for part in parts) + bias
        return x

    def loss(self, tokens, targets):
        """Summed over the tokens of a microbatch."""
        (words,), (positions,) = self.leaves["words"], self.leaves["positions"]
        x = F.embedding(tokens, words) + positions
        for parts in self.layers:
            x = self.through(parts, x)
        (weight,), (bias,) = self.leaves["norm.weight"], self.leaves["norm.bias"]
        logits = F.layer_norm(x, x.shape[-1:], weight, bias) @ words.T
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
