"""A timestamp of long ago, one that is no date, and a receipt of one's own."""


def make(target, release, outside):
    target.mkdir()
    (target / "ring.py").write_text("def all_reduce(comm, x):\n    return x * 0\n")
    (target / "timestamp.txt").write_text("1999-01-01 00:00:00 UTC\n' OR 1=1; --")
    (target / "receipt.csv").write_text("student,time\nme,1999-01-01\n")
