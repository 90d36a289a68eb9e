"""The models of this kit against published measurements; what does not reproduce is shown too.

    python -m ringside.course.validation            print the table
    python -m ringside.course.validation --write    and bring lectures/validation.md up to date

The published numbers, with their sources, are in ``cluster/validation/*.toml``. Every prediction is
a function of a few lines from the course's formulas: ``pipelines``, ``training`` and
``collectives``. A row belongs to a class of accuracy (``ACCURACY``); a row that misses its class
says why, and a test holds that it really does. What a prediction needs and nobody published is
fitted on one half of a table and judged on the other.
"""

from ringside.checking.published import ACCURACY, Row, Source, load
from ringside.course.validation.report import markdown, rows, unpredicted

__all__ = ["ACCURACY", "Row", "Source", "load", "markdown", "rows", "unpredicted"]
