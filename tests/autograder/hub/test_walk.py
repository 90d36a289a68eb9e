"""The hub in a real browser: a student hands in, a grader comments, the student reads it.

With RINGSIDE_SCREENSHOTS=FOLDER each step leaves a picture there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.autograder.hub.hub import ADDRESS, COURSE, Hub, password
from tests.autograder.hub.machine import PATIENCE_S
from tests.autograder.hub.test_accounts import NAME, SERVICE, formgrader, solution
from tests.autograder.jupyter_course import JupyterWalk
from tests.browser import CHROMIUM, Browser

pytestmark = [
    pytest.mark.release,
    pytest.mark.browser,
    pytest.mark.sandbox,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]
STUDENT, GRADER = "dora", "gus"
COMMENT = "Which measurement would tell latency from contention?"
FETCHED, SENT = "#fetched_assignments_list", "#submitted_assignments_list"


class Walk(JupyterWalk):
    """A browser on the hub."""

    def log_in(self, name: str, then: str) -> None:
        """Give a name and its password, and go on to a page of the hub."""
        self.browser.call("Network.clearBrowserCookies")
        self.browser.open(f"{ADDRESS}/hub/login?next={then}", height=900)
        self.browser.click("#username_input")
        self.browser.write(name)
        self.browser.click("#password_input")
        self.browser.write(password(name))
        self.picture(f"login_{name}")
        self.browser.click("#login_submit")

    def open_list(self) -> None:
        self.browser.wait("!!document.querySelector('.lm-MenuBar-item')")
        self.browser.wait("!document.querySelector('#jupyterlab-splash, .jp-mod-loading')")
        super().open_list()


@pytest.fixture(scope="module")
def walk(hub: Hub) -> Iterator[Walk]:
    if not hub.machine.path(f"/srv/exchange/{COURSE}/outbound/{NAME}").is_dir():
        hub.teaches(f"nbgrader release_assignment {NAME}")
    # No question whether one wants Jupyter's news, which would lie over what is clicked.
    hub.types(STUDENT, "mkdir -p .jupyter/labconfig")
    news = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}
    hub.writes(STUDENT, ".jupyter/labconfig/default_setting_overrides.json", json.dumps(news))
    hub.starts_servers(STUDENT)
    with Browser() as page:
        yield Walk(page)


@pytest.fixture(scope="module")
def handed_in(walk: Walk, hub: Hub) -> str:
    """What the list shows, after the student has fetched and submitted by its buttons."""
    page = walk.browser
    walk.log_in(STUDENT, f"/user/{STUDENT}/lab")
    walk.open_list()
    page.sees("#released_assignments_list", NAME)
    walk.picture("assignment_list")
    page.click("#released_assignments_list button", "Fetch")
    page.sees(FETCHED, NAME)
    hub.writes(STUDENT, f"{NAME}/fit.py", solution("fit"))
    hub.types(STUDENT, f"cd {NAME} && ringside handin --from-files --dry-run")
    page.rests()
    page.click(f"{FETCHED} button", "Submit")
    shown = page.sees(SENT, "UTC")
    walk.picture("submitted")
    return shown


@pytest.fixture(scope="module")
def commented(walk: Walk, hub: Hub, handed_in: str) -> dict[str, str]:
    """A grader collects and grades by the service, and writes a comment in the formgrader."""
    page = walk.browser
    formgrader(hub, GRADER, f"assignment/{NAME}/collect")
    formgrader(hub, GRADER, f"submission/{NAME}/{STUDENT}/autograde")
    shown = {}
    walk.log_in(GRADER, f"{SERVICE}/formgrader/manage_assignments")
    shown["assignments"] = page.sees("tbody", NAME)
    walk.picture("formgrader_service")
    submissions = hub.asks(
        GRADER, "GET", f"{SERVICE}/formgrader/api/submitted_notebooks/{NAME}/{NAME}"
    ).json()
    (one,) = [each["id"] for each in submissions if each["student"] == STUDENT]
    page.open(f"{ADDRESS}{SERVICE}/formgrader/submissions/{one}", height=900)
    page.wait("!!document.querySelector('input#check_fit[placeholder]')")
    page.click("#cluster_report")
    page.write("4")
    page.click("#cluster_report-comment")
    page.write(COMMENT)
    page.click("#cluster_report")
    walk.picture("formgrader_comment")
    kept = f"{SERVICE}/formgrader/api/comments?submission_id={one}"
    deadline = time.monotonic() + PATIENCE_S
    while COMMENT not in hub.asks(GRADER, "GET", kept).text:
        assert time.monotonic() < deadline, "the comment was not kept"
        time.sleep(0.2)
    formgrader(hub, GRADER, f"assignment/{NAME}/{STUDENT}/generate_feedback")
    formgrader(hub, GRADER, f"assignment/{NAME}/{STUDENT}/release_feedback")
    return shown


@pytest.fixture(scope="module")
def read(walk: Walk, commented: object) -> str:
    """What the page of feedback says that the student opens in her server."""
    page = walk.browser
    walk.log_in(STUDENT, f"/user/{STUDENT}/lab?reset")
    walk.open_list()
    page.click(f"{SENT} button", "Fetch Feedback")
    page.click(f"{SENT} a", "(view feedback)")
    page.click(".jp-DirListing-itemText", f"{NAME}.html", times=2)
    inside = "document.querySelector('.jp-HTMLViewer iframe, iframe')?.contentDocument?.body"
    text = str(page.wait(f"{inside}?.innerText.includes('points') && {inside}.innerText"))
    walk.picture("feedback")
    return text


def test_a_student_fetches_and_submits_in_her_own_server(handed_in: str) -> None:
    assert NAME in handed_in and "Fetch Feedback" in handed_in


def test_a_grader_comments_in_the_service_and_the_student_reads_it(
    commented: dict[str, str], read: str
) -> None:
    assert "released" in commented["assignments"]
    assert STUDENT in read and COMMENT in read and "25 of 25" in read


def test_who_does_not_grade_is_refused_at_the_formgrader(walk: Walk, read: str) -> None:
    walk.browser.open(f"{ADDRESS}{SERVICE}/formgrader", height=900)
    walk.browser.sees("body", "403")
    walk.picture("student_refused")
