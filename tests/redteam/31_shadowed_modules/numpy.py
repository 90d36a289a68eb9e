"""Would be imported in place of NumPy."""

open("@OUTSIDE@/numpy_was_shadowed", "w").close()
answer = 1
