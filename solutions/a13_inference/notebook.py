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
# {{module decode_torch}}

# %%
# {{check decode_torch}}

# %%
# {{module batching}}

# %%
# {{check batching}}
