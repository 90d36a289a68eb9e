"""Would be taken in place of the supplied module."""

open("@OUTSIDE@/shards_was_shadowed", "w").close()
