"""A small GPT on bytes, and the text that it learns from.

    tokens (B, T) -> embedding + position -> block, block, ... -> norm -> head -> logits (B, T, 256)

    block:  x + attention(norm(x)), then x + down(gelu(up(norm(x))))

Bytes are the vocabulary, so any text will do and nothing has to be downloaded. Query, key and value
are layers of their own: `generate.py` cuts each by columns, which gives every rank whole heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

VOCABULARY = 256


@dataclass(frozen=True)
class Size:
    """A model, and what suits it: sequences in a step (of all ranks), steps, learning rate."""

    num_layers: int
    width: int
    num_heads: int
    context: int
    batch: int
    steps: int
    lr: float


SIZES = {
    "tiny": Size(2, width=64, num_heads=4, context=64, batch=16, steps=40, lr=3e-3),
    "small": Size(6, width=512, num_heads=8, context=256, batch=64, steps=300, lr=6e-4),
    "large": Size(24, width=1024, num_heads=16, context=512, batch=16, steps=30, lr=3e-4),
}


class Attention(nn.Module):
    """Causal attention; `past` holds the keys and values of the tokens before."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.head_width = size.width // size.num_heads
        self.query = nn.Linear(size.width, size.width)
        self.key = nn.Linear(size.width, size.width)
        self.value = nn.Linear(size.width, size.width)
        self.out = nn.Linear(size.width, size.width)

    def forward(self, x: Tensor, past: list[Tensor] | None = None) -> Tensor:
        # -1, not num_heads: a rank of a tensor-parallel group has a part of the heads.
        heads = (*x.shape[:2], -1, self.head_width)
        layers = (self.query, self.key, self.value)
        q, k, v = (layer(x).view(heads).transpose(1, 2) for layer in layers)  # (B, heads, T, width)
        if past is not None:
            if past:
                k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
            past[:] = [k, v]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=x.shape[1] > 1)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(size.width), nn.LayerNorm(size.width)
        self.attention = Attention(size)
        self.up = nn.Linear(size.width, 4 * size.width)
        self.down = nn.Linear(4 * size.width, size.width)

    def forward(self, x: Tensor, past: list[Tensor] | None = None) -> Tensor:
        x = x + self.attention(self.norm1(x), past)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, size.width)
        self.position = nn.Embedding(size.context, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.num_layers))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, VOCABULARY, bias=False)
        for table in (self.embedding, self.position):
            nn.init.normal_(table.weight, std=0.02)
        nn.init.zeros_(self.head.weight)  # so the first loss is that of guessing, ln 256 = 5.545

    def forward(self, tokens: Tensor, past: list[list[Tensor]] | None = None) -> Tensor:
        """Logits (B, T, 256) of tokens (B, T); with `past`, a list for each block, T new ones."""
        before = past[0][0].shape[2] if past and past[0] else 0
        places = torch.arange(before, before + tokens.shape[1], device=tokens.device)
        x = self.embedding(tokens) + self.position(places)
        for k, block in enumerate(self.blocks):
            x = block(x, past[k] if past is not None else None)
        return self.head(self.norm(x))


def read(path: Path) -> Tensor:
    """The bytes of a text file, or of all Python files of a folder one after another."""
    files = sorted(path.glob("*.py")) if path.is_dir() else [path]
    return torch.frombuffer(bytearray(b"\n".join(f.read_bytes() for f in files)), dtype=torch.uint8)


def batch(text: Tensor, size: Size, step: int, rank: int, world_size: int) -> tuple[Tensor, Tensor]:
    """This rank's inputs and targets, (B / p, T) each.

    All ranks together have the same `size.batch` sequences in step `step`, whatever their number:
    1, 2 and 4 ranks compute the same gradient and differ in time alone.
    """
    generator = torch.Generator().manual_seed(step)
    starts = torch.randint(len(text) - size.context, (size.batch,), generator=generator)
    own = starts.tensor_split(world_size)[rank].tolist()
    windows = torch.stack([text[at : at + size.context + 1] for at in own]).long()
    return windows[:, :-1], windows[:, 1:]


def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of the next byte, in nats."""
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
