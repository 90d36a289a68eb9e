"""ngshare instead of a shared folder: the same class, by a service of the hub."""

from __future__ import annotations

import pytest

from tests.autograder.hub.hub import COURSE, HUB_FILES, INSTRUCTOR, Hub
from tests.autograder.hub.test_accounts import NAME, solution

pytestmark = [pytest.mark.release, pytest.mark.sandbox, pytest.mark.slow]
STUDENT, OTHER = "ben", "dora"
SHARE = "/services/ngshare"


@pytest.fixture(scope="module")
def course(hub: Hub) -> str:
    """A second course of the instructor, which is on ngshare; gives how its commands begin."""
    if why := hub.no_ngshare:
        pytest.skip(why)
    token = hub.token(INSTRUCTOR)
    answer = hub.asks(INSTRUCTOR, "POST", f"{SHARE}/course/{COURSE}", data={"instructors": "[]"})
    assert answer.json()["success"], answer.text
    instructors = {"first_name": "", "last_name": "", "email": ""}
    hub.asks(INSTRUCTOR, "POST", f"{SHARE}/instructor/{COURSE}/{INSTRUCTOR}", data=instructors)
    for student in (STUDENT, OTHER):
        answer = hub.asks(
            INSTRUCTOR, "POST", f"{SHARE}/student/{COURSE}/{student}", data=instructors
        )
        assert answer.json()["success"], answer.text
    begin = f"export JUPYTERHUB_API_TOKEN={token} JUPYTERHUB_USER={INSTRUCTOR}; cd ~/shared && "
    begin += ". ~/kit/.venv/bin/activate && "
    lines = "autograder new-course ~/shared && cp ~/kit/autograder/templates/hub/ngshare_course.py "
    lines += "~/shared/ && cat >> ~/shared/nbgrader_config.py"
    told = 'load_subconfig("ngshare_course.py")'
    hub.machine.run(COURSE, f". kit/.venv/bin/activate && {lines} <<'END'\n{told}\nEND")
    return begin


@pytest.fixture(scope="module")
def handed_in(hub: Hub, course: str) -> str:
    hub.machine.run(COURSE, course + f"nbgrader release_assignment {NAME}")
    settings = (HUB_FILES / "ngshare_nbgrader_config.py").read_text()
    hub.machine.run(STUDENT, "mkdir -p .jupyter")
    hub.writes(STUDENT, ".jupyter/nbgrader_config.py", settings)
    mine = {"JUPYTERHUB_API_TOKEN": hub.token(STUDENT), "JUPYTERHUB_USER": STUDENT}
    hub.types(STUDENT, f"nbgrader fetch_assignment {NAME}", **mine)
    hub.writes(STUDENT, f"{NAME}/fit.py", solution("fit"))
    return hub.types(STUDENT, f"cd {NAME} && ringside handin --from-files", **mine)


def test_handin_and_feedback_go_through_ngshare(hub: Hub, course: str, handed_in: str) -> None:
    assert "Submitted to the course's exchange." in handed_in
    steps = ("collect", "autograde", "generate_feedback", "release_feedback")
    said = hub.machine.run(
        COURSE, course + " && ".join(f"nbgrader {step} {NAME}" for step in steps)
    ).stdout
    assert "Feedback released" in said
    received = hub.machine.run(COURSE, f"cat shared/build/receipts/{NAME}.csv").stdout
    assert STUDENT in received
    mine = {"JUPYTERHUB_API_TOKEN": hub.token(STUDENT), "JUPYTERHUB_USER": STUDENT}
    hub.types(STUDENT, f"nbgrader fetch_feedback {NAME}", **mine)
    page = hub.types(STUDENT, f"cat {NAME}/feedback/*/{NAME}.html")
    assert "25 of 25" in page and STUDENT in page


def test_ngshare_gives_nobody_what_is_another_s(hub: Hub, handed_in: str) -> None:
    theirs = (
        f"/submissions/{COURSE}/{NAME}",
        f"/submission/{COURSE}/{NAME}/{STUDENT}",
        f"/feedback/{COURSE}/{NAME}/{STUDENT}",
        f"/students/{COURSE}",
    )
    for path in theirs:
        assert hub.asks(OTHER, "GET", SHARE + path).status_code == 403, path
        assert hub.asks("eli", "GET", SHARE + path).status_code == 403, path
    assert hub.asks("eli", "GET", f"{SHARE}/assignment/{COURSE}/{NAME}").status_code == 403
    for account in (OTHER, "gus"):
        said = hub.machine.run(account, "ls /srv/ngshare", check=False)
        assert "Permission denied" in said.stdout
