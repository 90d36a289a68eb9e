"""Scripts in every text that might reach a page."""

import numpy as np

SCRIPT = "<script>alert('owned')</script><img src=x onerror=alert(1)>"
print(SCRIPT)


class Owned(Exception):
    pass


Owned.__name__ = Owned.__qualname__ = SCRIPT


def all_reduce(comm, x):
    raise Owned(SCRIPT + "[click](javascript:alert(1))")


def reduce_scatter(comm, x):
    exec(compile("raise ValueError('x')", SCRIPT, "exec"))


def all_gather(comm, shard, n):
    return SCRIPT
