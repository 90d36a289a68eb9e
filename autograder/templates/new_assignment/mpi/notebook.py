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
# # Prefix sums along a chain
#
# Rank r needs the sum of what the ranks 0 to r hold: where its part of a file begins, how many
# samples come before its own. You write it with one message a rank.

# %%
# {{plan}}

# %% [markdown]
# The module is graded by a hidden suite of 100 points. All that it asks stands in the module's
# docstring, and the public tests in `checks/` are the same ones, with other cases.

# %%
# %load_ext ringside

# %% [markdown]
# **Predict.** Four ranks hold 1, 2, 3 and 4. What does each have in the end, and how many messages
# follow one after the other? Then write the module.

# %%
# {{module prefix}}

# %%
# {{check prefix}}

# %% [markdown]
# **Explain the gap.** The time grows with the number of ranks, as each waits for the one before.
# Run it on 4 and on 8 ranks, and compare with `(p - 1) (alpha + x.nbytes * beta)`.

# %%
# !ringside run prefix.py:prefix_sum --ranks 8 -- --n 1000
