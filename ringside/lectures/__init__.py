"""Lectures: text in, executed notebooks out, and a check that finds stale ones.

    lectures/03_allreduce.py  --execute-->  lectures/03_allreduce.ipynb  -->  slides, site
      the source, percent format              cells as in the source, with outputs

A build is reproducible: cell names follow from their place, times and widget identities are left
out. The notebook records the data that it read and the kit that executed it. ``check`` looks
whether text and data are still the same; ``compare`` executes the lecture again and compares all
outputs.
"""

from ringside.lectures.build import build, cells, execute, problems, read
from ringside.lectures.compare import compare
from ringside.lectures.exhibits import show, table
from ringside.lectures.explore import Knob, explore
from ringside.lectures.gallery import Gallery, gallery
from ringside.lectures.lecture import Lecture, LectureError, find
from ringside.lectures.ledger import (
    SIZES,
    course_machine,
    course_step,
    course_trace,
    ledger,
    num_parameters,
    step_flops,
    work_to_hide,
)
from ringside.lectures.moving_ring import MovingRing, moving_ring
from ringside.lectures.parts import missing
from ringside.lectures.puzzle import Attempt, puzzle

__all__ = [
    "Attempt",
    "Gallery",
    "Knob",
    "Lecture",
    "LectureError",
    "MovingRing",
    "SIZES",
    "build",
    "cells",
    "compare",
    "course_machine",
    "course_step",
    "course_trace",
    "execute",
    "explore",
    "find",
    "gallery",
    "ledger",
    "missing",
    "moving_ring",
    "num_parameters",
    "problems",
    "puzzle",
    "read",
    "show",
    "step_flops",
    "table",
    "work_to_hide",
]
