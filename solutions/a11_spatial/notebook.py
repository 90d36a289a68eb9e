# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Space and sequence

# %%
# {{plan}}

# %%
import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import guess, reveal

# %load_ext ringside

# %% [markdown]
# ## 6. Ring attention with its gradients
#
# FlashAttention computes the scores of attention block by block and keeps none. But the keys, the
# values and all other activations of 100,000 positions remain, in each layer. *Context
# parallelism* cuts the sequence itself: each of P ranks has N / P positions. All layers but
# attention work on each position alone, so nothing changes for them. In attention, keys and values
# go round a ring, and gradients have to come home.
#
# This time the block is one of FlashAttention's kind: it returns its finished output and a
# logarithm. For one query let a block of keys have the scores $s_1, \dots, s_m$ and the values
# $v_1, \dots, v_m$. Computed as if there were no other keys, the output is
# $o = \sum_j e^{s_j - \ell} v_j$ with $\ell = \log \sum_j e^{s_j}$. Two blocks together have
# $\ell = \log(e^{\ell_1} + e^{\ell_2})$, and the output
# $o = e^{\ell_1 - \ell}\, o_1 + e^{\ell_2 - \ell}\, o_2$.
# The order of the blocks doesn't matter, so each rank may begin with another one.

# %%
scores = np.array([2.0, 1.0, 3.0, 0.0])
values = np.array([10.0, 20.0, 30.0, 40.0])


def block_of(which):
    weights = np.exp(scores[which])
    return weights @ values[which] / weights.sum(), np.log(weights.sum())


(o1, l1), (o2, l2) = block_of(slice(0, 2)), block_of(slice(2, 4))
together = np.log(np.exp(l1) + np.exp(l2))
joined = np.exp(l1 - together) * o1 + np.exp(l2 - together) * o2
print(f"blocks {o1:.3f} and {o2:.3f}; joined {joined:.3f}; all at once {block_of(slice(4))[0]:.3f}")
assert np.isclose(joined, block_of(slice(4))[0])

# %% [markdown]
# **Think** before you write: the scores of a trained network may be as large as 1000. What does
# `np.exp` make of them, and why does `logaddexp` not?
#
# In the backward pass the scores are computed again, from the keys, which therefore go round once
# more. The gradient of a rank's keys has a summand from every rank. The sum travels behind the
# keys: each rank adds its summand and passes it on.
# The blocks themselves are supplied, in `attention_torch.py`. You write the ring and the joining.

# %% tags=["predict"]
guess(
    "a11/ring-backward",
    "On 4 ranks, how many times the forward pass's bytes does a rank send in the backward pass?",
    unit="times",
)

# %%
# {{module ring_attention_torch}}

# %%
# {{check ring_attention_torch}}

# %% [markdown]
# **Run.** Four ranks with 16 positions each, first the forward pass alone, then both.

# %%
lengths = [16] * 4
sent = {}
for how in ("forward", "plain"):
    ring_run = ringside.run(
        "ring_callers_torch.py:try_ring", 4, (lengths, 2, 2, 8, 1, False, "float64", how)
    )
    sent[how] = max(ring_run.sent_bytes())
print(f"forward {sent['forward']} bytes, forward and backward {sent['plain']} bytes")
reveal("a11/ring-backward", (sent["plain"] - sent["forward"]) / sent["forward"])
assert sent["plain"] <= 3.4 * sent["forward"]
ring_run.timeline

# %% [markdown]
# **Explain.** Which message of the timeline can no block hide? With two heads of keys for sixteen
# heads of queries, how many times fewer bytes travel, and how does the work of a block change?
#
# ### How short may a part be?
#
# A block has $4 n^2 d$ FLOPs for each head, and the keys and values that travel meanwhile have
# $2 n d$ elements. So the ratio grows with n, the positions of a rank: short parts can't hide their
# messages. At F FLOP/s, with w bytes an element and β seconds a byte, the products of a block take
# longer than its message from $n = w β F / 2$ on.
#
# The next cell traces 102,400 positions on up to 64 GPUs of a cluster like Zaratan. Nothing is
# computed: the tensors have shapes and no data.

# %% tags=["predict"]
guess(
    "a11/ring-exposed",
    "On 64 GPUs, 1600 positions each: how long do both passes take, in percent of the time of a "
    "rank's blocks alone?",
    unit="%",
)

# %%
LONG = (102_400, 8, 8, 128)  # positions, heads, heads of keys, width
zaratan = ringside.Machine.load("zaratan")
ring_target = "ring_attention_torch:ring_attention"
for p in (8, 64):
    traced = ringside.trace_torch(
        "ring_callers_torch.py:long_sequence", p, (ring_target, *LONG),
        grid={"rank": p}, alike=("rank",),
    )  # fmt: skip
    alone = ringside.trace_torch("ring_callers_torch.py:blocks_alone", 1, (ring_target, p, *LONG))
    took_s, blocks_s = (ringside.replay(each.trace, zaratan).makespan_s for each in (traced, alone))
    print(f"{p:2} GPUs: {took_s * 1e3:6.0f} ms, of which blocks {blocks_s / took_s:.0%}")
reveal("a11/ring-exposed", 100 * took_s / blocks_s)
hides_from = 4 * zaratan.beta_s_per_byte * zaratan.flop_per_s / 2
print(f"between nodes, products hide a message from {hides_from:.0f} positions a rank on")

# %% [markdown]
# **Explain.** On 64 GPUs a rank has 1600 positions, fewer than that bound, and yet the messages are
# hidden. What else does a block do besides its products?
#
# ## 7. Zigzag
#
# A language model's mask is causal: a position sees those before it. With contiguous parts the
# first rank sees one block, its own, and the last rank sees P. Ranks with little to do wait for
# those with much: in training everybody needs the result.

# %% tags=["predict"]
guess(
    "a11/causal-share",
    "8 ranks, causal mask, contiguous parts; a block on the diagonal costs as much as any other. "
    "In what part of the time is a rank busy, on average?",
    unit="%",
)

# %%
from ringside.trace import Kind

causal = ringside.trace_torch("ring_callers_torch.py:long_sequence", 8, (ring_target, *LONG, True))
busy = [sum(op.detail[0] for op in ops if op.kind == Kind.COMPUTE) for ops in causal.trace.ops]
reveal("a11/causal-share", 100 * np.mean(busy) / max(busy))
print("share of the last rank's work:", *(f"{each / max(busy):.0%}" for each in busy))

# %% [markdown]
# *Zigzag* cuts the sequence into 2 P chunks, and gives rank r the chunks r and 2 P - 1 - r: one
# early chunk and one late one. Now each rank has the same work at each step of the ring. The rest
# is the ring that you have; copy what you need of it.

# %% tags=["predict"]
guess(
    "a11/zigzag-gain",
    "8 ranks, causal mask: how many times as long as zigzag do contiguous parts take?",
    unit="times",
)

# %%
# {{module zigzag_torch}}

# %%
# {{check zigzag_torch}}

# %%
zigzag_target = "zigzag_torch:zigzag_attention"
kinds = {
    "no mask": (ring_target, *LONG),
    "causal, contiguous": (ring_target, *LONG, True),
    "causal, zigzag": (zigzag_target, *LONG),
}
counts, times_ms = [2, 4, 8], {}
for name, given in kinds.items():
    traces = [ringside.trace_torch("ring_callers_torch.py:long_sequence", p, given) for p in counts]
    times_ms[name] = [ringside.replay(t.trace, zaratan).makespan_s * 1e3 for t in traces]
reveal("a11/zigzag-gain", times_ms["causal, contiguous"][-1] / times_ms["causal, zigzag"][-1])
fig, axes = plt.subplots(figsize=(6.5, 3.5), layout="constrained")
for (name, times), marker in zip(times_ms.items(), "os^", strict=True):
    axes.plot(counts, times, marker=marker, label=name)
axes.set(xlabel="GPUs", ylabel="forward and backward, ms", xscale="log", yscale="log")
axes.set_xticks(counts, counts)
axes.set_yticks([1000, 2000, 4000], [1000, 2000, 4000])
axes.minorticks_off()
axes.set_title("Attention over 102,400 positions on zaratan")
axes.legend()
plt.show()
assert times_ms["causal, zigzag"][-1] < 0.65 * times_ms["causal, contiguous"][-1]

# %% [markdown]
# **Explain.** Why do contiguous parts under a mask take as long as no mask at all? In zigzag order
# the block on the diagonal is computed in full although half of it is masked. What share of a
# rank's work is that, for P = 8 and for P = 64? Would an order in which rank r has the positions
# r, r + P, r + 2 P, ... be balanced, too?
