"""Lectures: text in, executed notebooks out, and a check that finds stale ones.

    lectures/03_allreduce.py  --execute-->  lectures/03_allreduce.ipynb  -->  slides, site
      the source, percent format              cells as in the source, with outputs

A build is reproducible: cell names follow from their place, times and widget identities are left
out. The notebook records the data that it read and the kit that executed it. ``check`` looks
whether text and data are still the same; ``compare`` executes the lecture again and compares all
outputs.
"""

from ringside.course.lectures.build import build, cells, execute, problems, read
from ringside.course.lectures.compare import compare
from ringside.course.lectures.exhibits import show, table
from ringside.course.lectures.explore import Knob, explore
from ringside.course.lectures.gallery import Gallery, gallery
from ringside.course.lectures.lecture import Lecture, LectureError, find
from ringside.course.lectures.ledger import (
    SIZES,
    course_machine,
    course_step,
    course_trace,
    ledger,
    num_parameters,
    step_flops,
    work_to_hide,
)
from ringside.course.lectures.moving_ring import MovingRing, moving_ring
from ringside.course.lectures.puzzle import Attempt, puzzle
from ringside.course.lectures.tagged_parts import missing

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
