"""Where student code runs: what it sees, what it may use, and its end."""
