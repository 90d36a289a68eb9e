"""The mutant that works through all samples on every rank, and reduces what it has all the same."""

import shutil
from pathlib import Path

import autograder

WRONG = Path(autograder.__file__).parent / "mutants" / "a04_data_parallel" / "wrong"


def make(target, release, outside):
    target.mkdir()
    shutil.copyfile(WRONG / "step__all_samples_on_every_rank.py", target / "step.py")
