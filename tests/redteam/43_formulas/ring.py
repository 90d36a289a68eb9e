"""Formulas wherever text of the student's may go."""


def all_reduce(comm, x):
    raise ValueError("=cmd|' /C calc'!A0\x1b[2J\x1b]8;;http://evil\x07[link=http://evil]x[/link]")


reduce_scatter = all_gather = all_reduce
