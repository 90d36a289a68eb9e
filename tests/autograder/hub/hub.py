"""A hub as docs/hub.md tells to set it up: its own blocks are typed, its own files are copied."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.autograder.conftest import KIT
from tests.autograder.hub import machine
from tests.autograder.hub.machine import PATIENCE_S, Machine

PAGE = KIT / "docs" / "hub.md"
ADDRESS = "http://127.0.0.1:8000"
INSTRUCTOR = "ines"
GRADERS = ("gus", "gwen")
STUDENTS = ("ada", "ben", "cleo", "dora", "eli")
PEOPLE = (INSTRUCTOR, *GRADERS, *STUDENTS)
COURSE = "ringside"
PROXY = KIT / "build" / "hub-proxy"  # of tests alone; kept, so that npm is asked once
NGSHARE = KIT / "build" / "hub-ngshare"
HUB_FILES = KIT / "autograder" / "templates" / "hub"
# Where each is, as if pip had put it there: in both environments, and in ngshare's own.
NGSHARE_PACKAGES = {
    machine.MORE: ("ngshare_exchange==0.5.3",),
    "/srv/ngshare/packages": ("ngshare==0.6.0", "sqlalchemy==1.4.54", "alembic==1.13.3"),
}
OF_STUDENTS = "/srv/students/.venv/bin"


class Hub:
    """The machine with its hub running, and what people do there."""

    def __init__(self, logs: Path) -> None:
        self.machine = Machine()
        self.logs = logs
        self._tokens: dict[str, str] = {}
        self.no_ngshare = why_no_ngshare()  # empty where it runs
        try:
            self._lay_out()
            self._start()
        except BaseException:
            self.machine.close()
            raise

    def _lay_out(self) -> None:
        typed = machine.blocks(PAGE)
        at_root, here = self.machine.run, self.machine.path
        at_root("root", typed["accounts"])
        passwords = "\n".join(f"{name}:{password(name)}" for name in PEOPLE)
        at_root("root", f"chpasswd <<'END'\n{passwords}\nEND")
        # As if cloned by the course's account; .venv is this environment, and nobody's to change.
        at_root("root", "cd /srv/ringside/kit && chown -R ringside: $(ls -A | grep -vx .venv)")
        at_root("root", "chown ringside: /srv/ringside /srv/ringside/kit; chmod 0750 /srv/ringside")
        at_root("root", typed["exchange"])
        at_root("root", typed["settings"])
        at_root("ringside", typed["course"])
        # `autograder bundle` takes a while, and has its own tests.
        at_root("root", "cp -a /srv/ringside/kit/ringside /srv/ringside/kit/cluster /srv/students/")
        at_root("root", "chown -R root: /srv/students/ringside /srv/students/cluster")
        if not self.no_ngshare:
            at_root("root", typed["ngshare"])
            for place in NGSHARE_PACKAGES:
                shutil.copytree(NGSHARE / Path(place).parent.name, here(place))
            students = "/srv/students/.venv"
            at_root("root", f"{students}/bin/python -m venv --without-pip /srv/ngshare/.venv")
            found = "cd /srv/ngshare/.venv/lib/python*/site-packages && ls -d /srv/ngshare/packages"
            at_root("root", f"{found} {students}/lib/python*/site-packages > all.pth")
        shutil.copytree(PROXY / "node_modules", here("/srv/proxy/node_modules"), symlinks=True)

    def _start(self) -> None:
        path = f"{OF_STUDENTS}:/srv/proxy/node_modules/.bin:/usr/local/bin:/usr/bin:/bin"
        started = self._as_the_service_says()
        command = f"export PATH={path}; cd /var/lib/jupyterhub; exec {started}"
        self.daemon = self.machine.start("root", command, self.logs / "hub.log")
        deadline = time.monotonic() + PATIENCE_S
        while not self._answers():
            log = (self.logs / "hub.log").read_text()
            assert self.daemon.poll() is None and time.monotonic() < deadline, log
            time.sleep(0.2)

    def restart(self) -> None:
        """As `systemctl restart jupyterhub` does: end it with its servers, and start it."""
        self.machine.run("root", "pkill -TERM -f '[b]in/jupyterhub --config'")
        self.daemon.wait(PATIENCE_S)
        self._start()

    def _as_the_service_says(self) -> str:
        """The command of the unit that systemd is given; there is no systemd in here."""
        unit = self.machine.path("/etc/systemd/system/jupyterhub.service").read_text()
        (line,) = [one for one in unit.splitlines() if one.startswith("ExecStart=")]
        return line.partition("=")[2]

    def _answers(self) -> bool:
        try:
            with self.machine.network():
                return requests.get(f"{ADDRESS}/hub/api/", timeout=10).status_code == 200
        except requests.ConnectionError:
            return False

    def close(self) -> None:
        """End the hub and all that it has started."""
        self.machine.close()

    # -- what people do ---------------------------------------------------------------------------

    def types(self, name: str, command: str, **options: Any) -> str:
        """What a command says that somebody types in a terminal of the hub."""
        path = f"{OF_STUDENTS}:/usr/local/bin:/usr/bin:/bin"
        return self.machine.run(name, command, PATH=path, **options).stdout

    def teaches(self, command: str) -> str:
        """What a command says that the instructor types as the course's account, in the course."""
        words = f"cd ~/course && . ~/kit/.venv/bin/activate && {command}"
        return self.machine.run(INSTRUCTOR, f"sudo -n -iu ringside bash -c '{words}'").stdout

    def logs_in(self, name: str) -> requests.Session:
        """A session of somebody who has given the password of the account."""
        session = requests.Session()
        session.get(f"{ADDRESS}/hub/login")
        form = {"_xsrf": xsrf(session), "username": name, "password": password(name)}
        answer = session.post(f"{ADDRESS}/hub/login?next=/hub/home", data=form, timeout=PATIENCE_S)
        assert answer.url == f"{ADDRESS}/hub/home", f"{answer.status_code} {answer.url}"
        return session

    def token(self, name: str) -> str:
        """A token that somebody has made for programs, at /hub/token."""
        if name not in self._tokens:
            session = self.logs_in(name)
            headers = {"X-XSRFToken": xsrf(session), "Referer": f"{ADDRESS}/hub/token"}
            address = f"{ADDRESS}/hub/api/users/{name}/tokens"
            answer = session.post(address, headers=headers, json={}, timeout=PATIENCE_S)
            self._tokens[name] = answer.json()["token"]
        return self._tokens[name]

    def asks(self, name: str, method: str, path: str, **options: Any) -> requests.Response:
        """The answer to a request with somebody's token."""
        headers = {"Authorization": f"token {self.token(name)}"}
        address = f"{ADDRESS}{path}"
        return requests.request(method, address, headers=headers, timeout=PATIENCE_S, **options)

    def starts_servers(self, *names: str) -> None:
        """Start the servers of several people at a time, and wait for all of them."""
        for name in names:
            answer = self.asks(name, "POST", f"/hub/api/users/{name}/server")
            assert answer.status_code in (201, 202), answer.text
        deadline = time.monotonic() + PATIENCE_S
        for name in names:
            while not self.asks(name, "GET", f"/hub/api/users/{name}").json().get("server"):
                assert time.monotonic() < deadline, (self.logs / "hub.log").read_text()
                time.sleep(0.2)

    def assignments(self, name: str, action: str, assignment: str) -> Any:
        """What the assignment list of somebody's server does and then shows."""
        body = {"course_id": COURSE, "assignment_id": assignment}
        answer = self.asks(name, "POST", f"/user/{name}/assignments/{action}", json=body)
        shown = answer.json()
        assert shown["success"], shown
        return shown["value"]

    def writes(self, name: str, path: str, text: str) -> None:
        """Put a file into somebody's home, as an editor does."""
        place = self.machine.path(f"/home/{name}/{path}")
        place.write_text(text, encoding="utf-8")
        home = self.machine.path(f"/home/{name}").stat()
        os.chown(place, home.st_uid, home.st_gid)


def password(name: str) -> str:
    """The password of an account, which is nobody's outside this machine."""
    return f"pass-{name}-word"


def xsrf(session: requests.Session) -> str:
    """The token against forged requests that the hub wants to see again."""
    (token,) = [one.value for one in session.cookies if one.name == "_xsrf" and one.path == "/hub/"]
    return str(token)


def why_no_ngshare() -> str:
    """Why ngshare isn't there, in one line; it is kept, so that pip is asked once."""
    for place, packages in NGSHARE_PACKAGES.items():
        kept = NGSHARE / Path(place).parent.name
        if kept.is_dir():
            continue
        # Without what ngshare_exchange asks for: a jupyter-core of 2022, which nothing here wants.
        words = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(kept)]
        answer = subprocess.run([*words, *packages], capture_output=True, text=True)
        if answer.returncode:
            return f"pip brings no {packages[0]}: {answer.stderr[-300:]}"
    return ""


def ready() -> None:
    """Skip, with what to install, where no hub can be started."""
    if why := machine.why_not():
        pytest.skip(why)
    pytest.importorskip("jupyterhub", reason="JupyterHub is missing: `make install EXTRAS=...,hub`")
    if not (PROXY / "node_modules" / ".bin" / "configurable-http-proxy").exists():
        if not shutil.which("npm"):
            pytest.skip("npm is missing, which brings configurable-http-proxy: run `make system`")
        words = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(PROXY)]
        answer = subprocess.run(
            [*words, "configurable-http-proxy@5"], capture_output=True, text=True
        )
        if answer.returncode:
            pytest.skip(f"npm brings no configurable-http-proxy: {answer.stderr[-300:]}")
