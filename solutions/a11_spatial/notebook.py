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
# # Space and sequence: cut an image, cut a text

# %%
# {{plan}}

# %%
# {{module ring_attention}}

# %%
# {{check ring_attention}}

# %%
# {{module conv_torch}}

# %%
# {{check conv_torch}}

# %%
# {{module ulysses_torch}}

# %%
# {{check ulysses_torch}}
