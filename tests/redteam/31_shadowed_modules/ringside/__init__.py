"""Would be taken in place of the kit."""

open("@OUTSIDE@/ringside_was_shadowed", "w").close()
