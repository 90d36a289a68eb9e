"""nbgrader's settings for this course; every nbgrader command run here reads them.

Generated things lie under build/ (git-ignored), except the release, assignments/. Where
RINGSIDE_COURSE names a folder they lie there. A course outside the kit (`autograder new-course`)
has a file of this name, which takes these settings and the course's own folders.
"""

import os

from autograder.course import Course

c = get_config()  # type: ignore[name-defined]  # noqa: F821

# -- the course --------------------------------------------------------------------------------
c.CourseDirectory.course_id = "ringside"
c.CourseDirectory.source_directory = "build/source"  # written by `autograder build`
c.CourseDirectory.release_directory = "assignments"
c.CourseDirectory.submitted_directory = "build/submitted"
c.CourseDirectory.autograded_directory = "build/autograded"
c.CourseDirectory.feedback_directory = "build/feedback"
c.CourseDirectory.solution_directory = "build/instructor"
c.CourseDirectory.db_url = "sqlite:///build/gradebook.db"
c.CourseDirectory.ignore = [
    *(".ipynb_checkpoints", "*.pyc", "__pycache__", ".DS_Store"),
    *(".ringside", "*.before-*", "*.as-released"),  # what the student's commands left
]
if os.environ.get("RINGSIDE_COURSE"):
    c.CourseDirectory.update(Course.here().nbgrader_folders)

# -- the release: what stands where a solution stood ---------------------------------------------
c.ClearSolutions.code_stub = {"python": "raise NotImplementedError"}
c.ClearSolutions.text_stub = "*Your text here.*"

# -- releasing: the gradebook learns the assignment's cells and points ----------------------------
c.ExchangeFactory.release_assignment = "autograder.gradebook.nbgrader.release.RegisteringRelease"
c.ExchangeFactory.release_feedback = "autograder.gradebook.nbgrader.release.TimelessFeedback"

# -- collecting: the time of a submission is the server's, not the student's ---------------------
c.ExchangeFactory.collect = "autograder.gradebook.nbgrader.collect.ReceiptCollect"

# -- autograde: quarantine, rebuild, and stored results in the place of a kernel ------------------
c.Autograde.pre_convert_hook = "autograder.gradebook.nbgrader.submitted.quarantine_submission"
c.Autograde.exporter_class = "autograder.gradebook.nbgrader.submitted.RebuildExporter"
# What is sanitized is our release again, with students' sources in it: neither its metadata nor its
# ids are theirs, so of nbgrader's own steps only the one that follows the gradebook has work to do.
c.Autograde.sanitize_preprocessors = ["nbgrader.preprocessors.OverwriteCells"]
c.Autograde.autograde_preprocessors = [
    "autograder.gradebook.nbgrader.results.WriteResults",
    "autograder.gradebook.nbgrader.results.SaveGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
    "autograder.gradebook.nbgrader.results.SaveRecord",
]

# Five days of grace for the whole course, at most two an assignment, spent by themselves; then
# 10 % of the score for each day begun, at most half. The first 15 minutes are free.
c.AssignLatePenalties.plugin_class = "autograder.course.late.LatePenalty"
c.LatePenalty.grace_days = 5
c.LatePenalty.grace_days_each = 2
c.LatePenalty.percent_per_day = 10.0
c.LatePenalty.max_percent = 50.0
c.LatePenalty.grace_s = 900.0

# -- formgrader: names are text, not markup ------------------------------------------------------
c.HTMLExporter.preprocessors = ["autograder.gradebook.nbgrader.pages.EscapeNames"]

# -- feedback: one page of ours per submission ---------------------------------------------------
c.GenerateFeedback.exporter_class = "autograder.gradebook.nbgrader.pages.FeedbackExporter"
c.GenerateFeedback.preprocessors = ["nbgrader.preprocessors.GetGrades"]

# -- export: a CSV that a spreadsheet can't be made to execute -----------------------------------
c.ExportApp.plugin_class = "autograder.gradebook.nbgrader.csv_export.SafeCsvExport"
