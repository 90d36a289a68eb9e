# %% [markdown]
# # Assignment 13: Inference

# %%
# {{plan}}

# %%
# {{module kv_cache}}

# %%
# {{check kv_cache}}

# %%
# {{module decode}}

# %%
# {{check decode}}

# %%
# {{run decode_cluster}}

# %% [markdown]
# .

# %%
# {{paragraph decode_report}}
