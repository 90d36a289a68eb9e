"""ring.py is a link to the reference; star.py to a file outside."""


def make(target, release, outside):
    target.mkdir()
    (target / "ring.py").symlink_to(release.parent.parent / "solutions/a03_allreduce/ring.py")
    (target / "star.py").symlink_to(outside / "secret.txt")
    (target / "tree.py").symlink_to("/dev/zero")
