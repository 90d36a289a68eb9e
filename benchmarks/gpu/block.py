"""A GPT's layer whose attention and recomputation can be chosen, and what it keeps for backward.

    x -> norm -> qkv -> attention -> out -> + x -> norm -> up -> gelu -> down -> +

    attention    "plain"   softmax(Q K^T / sqrt(d)) V, operator by operator
                 "math"    torch's own composition of it
                 "flash"   FlashAttention: no matrix of s x s is ever kept
    recompute    "none"; "selective": the attention once more; "full": the layer once more

Bytes that a layer keeps for its backward, 2 a value (Korthikanti et al. 2022, section 4)::

    norms' inputs 4, q k v 6, inputs of qkv, out, up 6, of gelu 8, of down 8   32 s b h
    two masks of dropout, 1 byte a value                                        2 s b h
    softmax 2, and with dropout its mask 1 and its output 2            2 or 5 a s^2 b
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

ATTENTION = ("plain", "math", "flash")
RECOMPUTE = ("none", "selective", "full")


class Block(nn.Module):
    """One layer."""

    def __init__(
        self,
        hidden: int,
        num_heads: int,
        *,
        attention: str = "flash",
        recompute: str = "none",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.num_heads, self.attention, self.recompute = num_heads, attention, recompute
        self.dropout = dropout
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, S, H) in and out."""
        if self.recompute == "full":
            return checkpoint(self.layer, x, use_reentrant=False)
        return self.layer(x)

    def layer(self, x: torch.Tensor) -> torch.Tensor:
        """Attention and MLP."""
        b, s, h = x.shape
        q, k, v = (
            part.view(b, s, self.num_heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )  # (B, A, S, H/A)
        if self.recompute == "selective":
            y = checkpoint(self.attend, q, k, v, use_reentrant=False)
        else:
            y = self.attend(q, k, v)
        y = y.transpose(1, 2).reshape(b, s, h)
        x = x + F.dropout(self.out(y), self.dropout)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), self.dropout)

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Causal attention of each head."""
        if self.attention == "flash":
            with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if self.attention == "math":
            with sdpa_kernel(SDPBackend.MATH):
                return F.scaled_dot_product_attention(
                    q, k, v, is_causal=True, dropout_p=self.dropout
                )
        s = q.shape[-2]
        later = torch.ones(s, s, dtype=torch.bool, device=q.device).triu(1)
        scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-1, -2)  # (B, A, S, S)
        weights = F.softmax(scores.masked_fill(later, -math.inf), dim=-1)
        return F.dropout(weights, self.dropout) @ v


def kept_bytes(
    sequence: int,
    batch: int,
    hidden: int,
    num_heads: int,
    *,
    attention: str,
    recompute: str,
    dropout: bool,
) -> int:
    """What the formulas say that a layer keeps, for 2 bytes a value."""
    sbh = sequence * batch * hidden
    if recompute == "full":
        return 2 * sbh
    squares = 0
    if attention != "flash" and recompute == "none":
        squares = (5 if dropout else 2) * num_heads * sequence**2 * batch
    return (34 if dropout else 32) * sbh + squares
