# %% [markdown]
# # x

# %%
# {{plan}}

# %%
# {{module server}}

# %%
# {{check server}}

# %%
# {{run server_cluster points=5}}

# %%
# {{paragraph asynchrony_report points=5}}
