"""The checks of this assignment: what `ringside check` asks, and how. Read them, if you like."""
