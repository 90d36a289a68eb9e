# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Assignment 13

# %%
# {{plan}}

# %%
# {{module batching}}

# %%
# {{check batching}}
