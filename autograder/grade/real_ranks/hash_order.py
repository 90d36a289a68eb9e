"""Whether what a module does may depend on Python's hashes, which differ between processes.

    owners = {name: hash(name) % world_size for name in names}     # another one on each rank
    for name in set(names): comm.Bcast(...)                        # another order on each rank

Ranks that are forks of one process share the seed of its hashes, so such a module looks right on
them; on a cluster every rank is a process of its own. Its real ranks are started, each with another
seed. Starting costs each rank its imports, which other modules don't have to pay.
"""

from __future__ import annotations

import ast

# What gives a hash or a set; so do a dict's keys() when they are joined with others.
_NAMES = {"hash", "set", "frozenset"}
_ATTRIBUTES = {*_NAMES, "__hash__", "keys"}


def may_depend_on_hashes(source: str) -> bool:
    """Whether a module makes a set or asks for a hash.

    >>> may_depend_on_hashes("def owner(name, p): return hash(name) % p")
    True
    >>> may_depend_on_hashes("def owner(number, p): return number % p")
    False
    >>> may_depend_on_hashes("def scores(queries, keys): return queries @ keys.T")
    False
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # then it can't be imported either
    return any(
        isinstance(node, ast.Set | ast.SetComp)
        or (isinstance(node, ast.Name) and node.id in _NAMES)
        or (isinstance(node, ast.Attribute) and node.attr in _ATTRIBUTES)
        for node in ast.walk(tree)
    )
