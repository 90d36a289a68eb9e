"""Folders named after students and the assignment, names of a platform, an archive in one."""

import zipfile

MODULE = "def all_reduce(comm, x):\n    return x\n"


def make(target, release, outside):
    for place in ("ada/a03_allreduce", "bob/a03_allreduce", "submitted/cy/a03_allreduce", "dan"):
        (target / place).mkdir(parents=True)
        (target / place / "ring.py").write_text(MODULE)
    with zipfile.ZipFile(target / "eve_1023_9001_a03.zip", "w") as archive:
        archive.writestr("fay_1024_9002_ring.py", MODULE)
    return target
