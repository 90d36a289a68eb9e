"""Lectures: text in, executed notebooks out, and a check that finds stale ones.

    lectures/03_allreduce.py  --execute-->  lectures/03_allreduce.ipynb  -->  slides, site
      the source, percent format              cells as in the source, with outputs

A build is reproducible: cell names follow from their place, times and widget identities are left
out, and the notebook records the hash of what its outputs depend on: the text, its data, the kit's
modules and the machine files. ``check`` compares that record with the files of today.
"""

from ringside.course.lectures.build import build, cells, execute, problems, read
from ringside.course.lectures.exhibits import show, table
from ringside.course.lectures.explore import Knob, explore
from ringside.course.lectures.gallery import Gallery, gallery
from ringside.course.lectures.inputs import content, digest, inputs, loaded, named
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
    "content",
    "course_machine",
    "course_step",
    "course_trace",
    "digest",
    "execute",
    "explore",
    "find",
    "gallery",
    "inputs",
    "ledger",
    "loaded",
    "missing",
    "moving_ring",
    "named",
    "num_parameters",
    "problems",
    "puzzle",
    "read",
    "show",
    "step_flops",
    "table",
    "work_to_hide",
]
