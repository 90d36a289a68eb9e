"""What a course is: its folder, its assignments, limits, secret and people.

`Course` is public: the ``nbgrader_config.py`` of each course outside the kit asks for it here.
"""

from __future__ import annotations

from autograder.course.course import Course

__all__ = ["Course"]
