"""The wrong submission that works through all samples on every rank, and reduces what it has all the same."""

from autograder.course.course import Course
from autograder.course import edits

SOLUTION = Course.here().solution("a04_data_parallel")


def make(target, release, outside):
    target.mkdir()
    wrong = edits.one(SOLUTION, "step__all_samples_on_every_rank")
    (target / "step.py").write_text(wrong.source)
