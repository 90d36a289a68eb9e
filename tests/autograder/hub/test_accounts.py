"""A class on a real hub: who hands out, hands in and grades, each by the own account.

And who can read what: each account really tries, by commands and through the hub. The table of
docs/hub.md is what comes out here.
"""

from __future__ import annotations

import re
import shlex

import pytest

from tests.autograder.conftest import KIT
from tests.autograder.hub.hub import ADDRESS, COURSE, GRADERS, INSTRUCTOR, PAGE, STUDENTS, Hub

pytestmark = [pytest.mark.release, pytest.mark.sandbox, pytest.mark.slow]
NAME = "a01_first_ranks"
INBOUND = f"/srv/exchange/{COURSE}/inbound"
SECRET = f"/srv/{COURSE}/course/course_secret.txt"
SERVICE = f"/services/{COURSE}"


def solution(module: str) -> str:
    """A reference module without its markers."""
    text = (KIT / "solutions" / NAME / f"{module}.py").read_text()
    return "".join(line for line in text.splitlines(True) if "### " not in line)


def formgrader(hub: Hub, who: str, what: str) -> str:
    """What one of the formgrader's buttons does; gives its log."""
    answer = hub.asks(who, "POST", f"{SERVICE}/formgrader/api/{what}")
    told = answer.json()
    assert told["success"], told
    return str(told["log"])


@pytest.fixture(scope="module")
def released(hub: Hub) -> str:
    """The instructor releases, as the course's account."""
    return hub.teaches(f"nbgrader release_assignment {NAME}")


@pytest.fixture(scope="module")
def handed_in(hub: Hub, released: str) -> dict[str, str]:
    """Ada by the list in her server, Cleo by the commands; what each was told."""
    hub.starts_servers("ada")
    offered = hub.asks("ada", "GET", f"/user/ada/assignments?course_id={COURSE}").json()
    assert [each["status"] for each in offered["value"]] == ["released"]
    hub.assignments("ada", "fetch", NAME)
    hub.types("cleo", f"nbgrader fetch_assignment {NAME}")
    for student in ("ada", "cleo"):
        hub.writes(student, f"{NAME}/fit.py", solution("fit"))
    hub.types("ada", f"cd {NAME} && ringside handin --from-files --dry-run")
    shown = hub.assignments("ada", "submit", NAME)
    (sent,) = [each for each in shown if each["status"] == "submitted"]
    return {
        "ada": sent["submissions"][0]["timestamp"],
        "cleo": hub.types("cleo", f"cd {NAME} && ringside handin --from-files"),
    }


@pytest.fixture(scope="module")
def forged(hub: Hub, handed_in: object) -> None:
    """Eli hands in what is not his, and what would stop the class."""
    moment = "2030-01-01 00:00:00.0 UTC"
    hub.types(
        "eli",
        f"""
        cd {INBOUND}; mkdir 'cleo+{NAME}+{moment}+x' '+{NAME}+nonsense'
        mkdir 'eli+{NAME}+{moment}+x'; cd 'eli+{NAME}+{moment}+x'
        echo pipe > submission_secret.txt; echo '{moment}' > timestamp.txt
        ln -s {SECRET} fit.py; ln -s {SECRET} secret.html; ln -s {SECRET} {NAME}.ipynb
        ln -s /srv/{COURSE}/course/build/submitted others
        mkfifo where.py; mkdir -m 0 shut
        echo 'def ping(comm): pass' > ping.py
        chmod -R go+rX . ; chmod 0 shut
        """,
    )


@pytest.fixture(scope="module")
def graded(hub: Hub, handed_in: object, forged: object) -> dict[str, str]:
    """One grader collects, the other one grades and returns the pages; all by the service."""
    said = {"collect": formgrader(hub, "gus", f"assignment/{NAME}/collect")}
    for student in ("ada", "cleo", "eli"):
        said[student] = formgrader(hub, "gwen", f"submission/{NAME}/{student}/autograde")
    formgrader(hub, "gwen", f"assignment/{NAME}/generate_feedback")
    said["feedback"] = formgrader(hub, "gwen", f"assignment/{NAME}/release_feedback")
    return said


@pytest.fixture(scope="module")
def returned(hub: Hub, graded: object) -> dict[str, str]:
    """The page that each student reads at home."""
    hub.assignments("ada", "fetch_feedback", NAME)
    hub.types("cleo", f"nbgrader fetch_feedback {NAME}")
    return {who: hub.types(who, f"cat {NAME}/feedback/*/{NAME}.html") for who in ("ada", "cleo")}


def test_everybody_s_server_runs_with_the_rights_of_the_account(
    hub: Hub, handed_in: dict[str, str]
) -> None:
    seen = hub.machine.run("root", "ps axo user:20,args | grep [j]upyterhub-singleuser").stdout
    assert sorted(line.split()[0] for line in seen.splitlines()) == ["ada", COURSE]


def test_students_hand_in_by_the_list_and_by_handin(
    hub: Hub, handed_in: dict[str, str], graded: dict[str, str]
) -> None:
    assert "Submitted to the course's exchange." in handed_in["cleo"]
    assert "UTC" in handed_in["ada"]
    scores = hub.asks("gus", "GET", f"{SERVICE}/formgrader/api/submissions/{NAME}").json()
    points = {each["student"]: each["score"] for each in scores}
    assert points["ada"] == points["cleo"] == 25 and not points["eli"]


def test_feedback_comes_back_to_its_student_alone(returned: dict[str, str]) -> None:
    for who, page in returned.items():
        assert "fit.py: 25 of 25 points" in page or "25 of 25" in page
        assert who in page and not any(f"{NAME} {other}" in page for other in STUDENTS)


def test_nobody_hands_in_for_another_and_no_link_is_followed(
    hub: Hub, graded: dict[str, str]
) -> None:
    assert "is owned by another account than cleo" in graded["collect"]
    assert "is not named as `nbgrader submit` does" in graded["collect"]
    secret = hub.machine.run("root", f"cat {SECRET}").stdout.strip()
    assert len(secret) >= 16
    build = f"/srv/{COURSE}/course/build"
    within = f"{build}/submitted {build}/autograded {build}/feedback /srv/exchange"
    found = hub.machine.run("root", f"grep -rIlF {shlex.quote(secret)} {within}", check=False)
    assert found.stdout == ""
    handed = hub.machine.run("root", f"cat {build}/submitted/cleo/{NAME}/fit.py").stdout
    assert "def " in handed


def test_the_hub_s_page_leads_graders_alone_to_the_formgrader(hub: Hub) -> None:
    for name, leads in (("gus", True), ("eli", False)):
        page = hub.logs_in(name).get(f"{ADDRESS}/hub/home").text
        assert (f'href="{SERVICE}/"' in page) == leads, page


def test_students_are_refused_at_the_formgrader(hub: Hub) -> None:
    for name in STUDENTS:
        answer = hub.asks(name, "GET", f"{SERVICE}/formgrader/api/status")
        assert answer.status_code == 403, name


# What is tried: a line of bash that succeeds where it could read, and prints what it read.
ADAS = f"/srv/{COURSE}/course/build/*/ada/{NAME}"
THINGS = {
    "the released assignment": f"cat /srv/exchange/{COURSE}/outbound/{NAME}/{NAME}.ipynb",
    "Ada's home, her notebook, her feedback": f"ls /home/ada; cat /home/ada/{NAME}/{NAME}.ipynb "
    f"/home/ada/{NAME}/feedback/*/*.html",
    "Ada's tokens and keys: environment, Jupyter's files": "cat /proc/$(pgrep -u ada -f "
    "singleuser | head -1)/environ /home/ada/.local/share/jupyter/runtime/*.json",
    "what Ada handed in, in the exchange": f"ls {INBOUND}; cat {INBOUND}/ada+*/fit.py",
    "what the exchange has of others' feedback": f"ls /srv/exchange/{COURSE}/feedback; "
    f"cat /srv/exchange/{COURSE}/feedback/*.html",
    "Ada's submission, collected and graded": f"cat {ADAS}/fit.py",
    "receipts": f"cat /srv/{COURSE}/course/build/receipts/{NAME}.csv",
    "the gradebook": f"cat /srv/{COURSE}/course/build/gradebook.db",
    "the course's secret": f"cat {SECRET}",
    "hidden tests": f"cat /srv/{COURSE}/kit/solutions/{NAME}/hidden/cases.py",
    "solutions, rubrics": f"cat /srv/{COURSE}/kit/solutions/{NAME}/fit.py "
    f"/srv/{COURSE}/kit/solutions/{NAME}/answers.md",
    "the hub's database and keys": "cat /var/lib/jupyterhub/jupyterhub.sqlite "
    "/var/lib/jupyterhub/cookie_secret",
    "passwords": "cat /etc/shadow",
}
OVER_THE_HUB = {
    "Ada's server": "/user/ada/api/contents",
    "the formgrader": f"{SERVICE}/formgrader/api/assignments",
    "the course's files through the formgrader's service": f"{SERVICE}/api/contents",
    "other people's names and servers, from the hub": "/hub/api/users",
}
ACCOUNTS = {
    "course's account": (COURSE,),
    "instructor": (INSTRUCTOR,),
    "graders": GRADERS,
    "Ada": ("ada",),
    "other students": STUDENTS[1:],
}


def reads(hub: Hub, account: str) -> dict[str, bool]:
    """What an account could read of each thing: a byte suffices."""
    tried = "\n".join(
        f"test -n \"$( {{ {line}; }} 2>/dev/null | head -c 1 | tr '\\0' x)\" && echo {number}"
        for number, line in enumerate(THINGS.values())
    )
    said = hub.machine.run(account, f"{tried}\ntrue").stdout.split()
    found = {thing: str(number) in said for number, thing in enumerate(THINGS)}
    if account != COURSE:
        for thing, path in OVER_THE_HUB.items():
            found[thing] = hub.asks(account, "GET", path).status_code == 200
    return found


def test_who_can_read_what(hub: Hub, returned: object) -> None:
    rows = ["| | " + " | ".join(ACCOUNTS) + " |", "|---" * (len(ACCOUNTS) + 1) + "|"]
    members = [each for group in ACCOUNTS.values() for each in group]
    found = {each: reads(hub, each) for each in members}
    for thing in (*THINGS, *OVER_THE_HUB):
        cells = []
        for group in ACCOUNTS.values():
            answers = {found[each].get(thing) for each in group}
            assert len(answers) == 1, f"{thing}: {group} differ"
            cells.append({True: "reads", False: "–", None: ""}[answers.pop()])
        rows.append(f"| {thing} | " + " | ".join(cells) + " |")
    (documented,) = re.findall(r"^\| \| course's account.*\n(?:\|.*\n)+", PAGE.read_text(), re.M)
    assert documented.splitlines() == rows, "\n" + "\n".join(rows)


def test_nobody_can_change_what_is_not_theirs(hub: Hub, graded: object) -> None:
    exchange = f"/srv/exchange/{COURSE}"
    adas = hub.machine.run("root", f"ls -d {INBOUND}/ada+*").stdout.strip()
    tries = [
        f"mv {exchange} /srv/exchange/other",
        f"touch {exchange}/outbound/{NAME}/more.py",
        f"echo >> {exchange}/outbound/{NAME}/{NAME}.ipynb",
        f"touch {exchange}/feedback/x.html",
        f"mv {shlex.quote(adas)} {INBOUND}/gone",  # even who had guessed its name
        f"rm {shlex.quote(adas)}/no-such-file || mv {shlex.quote(adas)} /tmp/",
        f"touch /srv/{COURSE}/course/x",
        f"touch /srv/{COURSE}/kit/x",
        "touch /srv/students/x",
        f"sudo -n -iu {COURSE} true",
        "kill -0 $(pgrep -u ada -f singleuser | head -1)",
    ]
    script = "\n".join(
        f"( {line} ) 2>/dev/null && echo {number}" for number, line in enumerate(tries)
    )
    for account in (*GRADERS, *STUDENTS[1:]):
        said = hub.machine.run(account, f"{script}\ntrue").stdout.split()
        assert said == [], f"{account}: {[tries[int(each)] for each in said]}"


def test_the_service_offers_the_formgrader_and_nothing_else(hub: Hub) -> None:
    for path in ("contents/course_secret.txt", "kernels", "sessions", "terminals", "status"):
        assert hub.asks("gus", "GET", f"{SERVICE}/api/{path}").status_code in (403, 404), path
    for path in ("kernels", "terminals", "contents/course.toml/checkpoints"):
        assert hub.asks("gus", "POST", f"{SERVICE}/api/{path}", json={}).status_code in (403, 404)
    for path in ("lab", "tree", "files/course_secret.txt", "nbconvert/html/x.ipynb", "lsp/status"):
        assert hub.asks("gus", "GET", f"{SERVICE}/{path}").status_code in (403, 404), path
    body = {"path": f"build/submitted/eli/{NAME}/{NAME}.ipynb"}
    answer = hub.asks("gus", "POST", f"{SERVICE}/assignments/validate", json=body)
    assert answer.status_code == 404
