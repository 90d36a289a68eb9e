# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Sharding

# %%
# {{plan}}

# %%
# {{module zero3_torch}}

# %%
# {{check zero3_torch}}

# %%
# {{module hsdp_torch}}

# %%
# {{check hsdp_torch}}
