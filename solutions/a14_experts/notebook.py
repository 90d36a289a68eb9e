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
# # Experts

# %%
# {{plan}}

# %%
# {{module route}}

# %%
# {{check route}}

# %%
# {{module exchange}}

# %%
# {{check exchange}}

# %%
# {{module moe_torch}}

# %%
# {{check moe_torch}}

# %%
# {{module node_limited}}

# %%
# {{check node_limited}}
