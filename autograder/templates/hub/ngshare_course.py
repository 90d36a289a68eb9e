"""What a course on ngshare needs besides: the course's nbgrader_config.py ends with

load_subconfig("ngshare_course.py")

and this file lies beside it. Cells, receipts and lateness are then as on a shared folder.
"""

import datetime
from pathlib import Path

import ngshare_exchange

from autograder.course.course import Course
from autograder.course.receipt import record, stamp
from autograder.gradebook.nbgrader.release import Registering


class Release(Registering, ngshare_exchange.ExchangeReleaseAssignment):
    """ngshare's release, after the gradebook has learnt the assignment's cells."""


class Collect(ngshare_exchange.ExchangeCollect):
    """ngshare's collect, which also writes receipts: ngshare's own clock says when."""

    def do_copy(self, src, dest):
        super().do_copy(src, dest)
        folder = Path(dest)
        folder.chmod(0o700)
        text = (folder / "timestamp.txt").read_text(encoding="utf-8").removesuffix(" UTC").strip()
        moment = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)
        course = Course.of_root(self.coursedir.root)
        record(course, folder.name, folder.parent.name, moment)
        stamp(folder, moment)


class Feedback(ngshare_exchange.ExchangeReleaseFeedback):
    """ngshare's release of feedback, which wants the moment without the end of its line."""

    def post_feedback(self, student_id, timestamp, feedback_info):
        return super().post_feedback(student_id, timestamp.strip(), feedback_info)


c = get_config()  # noqa: F821
ngshare_exchange.configureExchange(c, "http://127.0.0.1:8000/services/ngshare")
c.ExchangeFactory.release_assignment = Release
c.ExchangeFactory.collect = Collect
c.ExchangeFactory.release_feedback = Feedback
