"""Would be taken in place of ours."""

open("@OUTSIDE@/mpi4py_was_shadowed", "w").close()
