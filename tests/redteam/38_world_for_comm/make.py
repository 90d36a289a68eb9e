"""The reference's ring, with the world in the place of ``comm``."""

from autograder.course.course import Course


def make(target, release, outside):
    target.mkdir()
    source = (Course.here().solution("a03_allreduce") / "ring.py").read_text(encoding="utf-8")
    lines = source.split("\n")
    functions = [at for at, line in enumerate(lines) if line.startswith("def ") and "(comm:" in line]
    assert len(functions) == 3  # reduce_scatter, all_gather, all_reduce
    for at in reversed(functions):
        body = next(i for i in range(at, len(lines)) if "BEGIN SOLUTION" in lines[i])
        lines.insert(body, "    from mpi4py import MPI\n    comm = MPI.COMM_WORLD")
    (target / "ring.py").write_text("\n".join(lines), encoding="utf-8")
