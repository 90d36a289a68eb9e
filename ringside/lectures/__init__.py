"""Lectures: text in, executed notebooks out, and a check that finds stale ones.

    lectures/03_allreduce.py  --execute-->  lectures/03_allreduce.ipynb  -->  slides, site
      the source, percent format              cells as in the source, with outputs

A build is reproducible: cell names follow from their place, times and widget identities are left
out, and the notebook records the hash of what its outputs depend on: the text, its data, the kit's
modules and the machine files. ``check`` compares that record with the files of today.
"""

from ringside.lectures.build import build, cells, execute, problems, read
from ringside.lectures.exhibits import show, table
from ringside.lectures.explore import Knob, explore
from ringside.lectures.gallery import Gallery, gallery
from ringside.lectures.inputs import content, digest, inputs, loaded, named
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
from ringside.lectures.parts import missing
from ringside.lectures.puzzle import Attempt, puzzle

__all__ = [
    "Attempt",
    "Gallery",
    "Knob",
    "Lecture",
    "LectureError",
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
