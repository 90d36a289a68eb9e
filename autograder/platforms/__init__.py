"""Learning platforms: their downloads, marks for them, and autograders in their containers.

    autograder platform gradescope NAME     a zip: setup.sh, run_autograder, the kit, one suite
    autograder platform prairielearn NAME   a question with its external grader
    autograder platform github NAME         students' tree, workflow and autograding.json: public

The container is root's, has no namespaces, and students' code runs in it beside the hidden suite.
So the suite, the secret and the results are root's alone, ranks are another user's and confined
(Landlock, seccomp), and where that doesn't work nothing is run and no score is written.
"""

from __future__ import annotations

KINDS = ("canvas", "moodle", "gradescope", "csv", "nbgrader")
VISIBILITY = ("visible", "after_due_date", "after_published", "hidden")  # of Gradescope's tests
