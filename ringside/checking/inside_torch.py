"""``ringside.checking.inside`` for functions that get a group and tensors."""

from ringside.checking.inside import several, twice

__all__ = ["several", "twice"]
