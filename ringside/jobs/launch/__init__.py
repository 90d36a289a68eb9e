"""A job on this machine or on a cluster: its site, its script, its end."""
