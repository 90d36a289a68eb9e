"""A course on nbgrader's exchange: the instructor's side, a student's, and JupyterLab for both.

    FOLDER/etc/        what /etc/jupyter holds on a class's machine: course and exchange
    FOLDER/exchange/   where assignments, submissions and feedback change hands
    FOLDER/course/     the instructor's, as `autograder new-course` makes it
    FOLDER/ada/        the student's home

Both are the same account here, so the student's settings say who she is.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from autograder.author import new_course
from autograder.course.course import Course
from tests.autograder.conftest import KIT
from tests.browser import PATIENCE_S, Browser

STUDENT = "ada"
CLASS = """c = get_config()
c.CourseDirectory.course_id = "ringside"
c.Exchange.root = {exchange!r}
c.CourseDirectory.ignore = [".ipynb_checkpoints", "__pycache__", ".ringside", "*.before-*"]
"""
HIDDEN = ["@jupyter/nbgrader:formgrader", "@jupyter/nbgrader:create-assignment"]


class JupyterWalk:
    """A browser in JupyterLab that takes pictures."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self._pictures = 0

    def picture(self, name: str) -> None:
        """Save the screen, where somebody wants to see it."""
        if folder := os.environ.get("RINGSIDE_SCREENSHOTS"):
            self._pictures += 1
            self.browser.ask("new Promise(done => setTimeout(done, 600))")  # what still fades in
            self.browser.picture(Path(folder) / f"{self._pictures:02}_{name}.png")

    def open_list(self) -> None:
        """Nbgrader > Assignment List, in the menu of JupyterLab."""
        self.browser.click(".lm-MenuBar-item", "Nbgrader")
        self.browser.click(".lm-Menu-item", "Assignment List")
        self.browser.sees("#course_list_default", "ringside")
        self.browser.rests()  # the list is written more than once, and what was clicked is gone


@dataclass(frozen=True)
class JupyterCourse:
    """The folders of the course, and what runs in them."""

    folder: Path

    @property
    def course(self) -> Course:
        return Course(kit=KIT, root=self.folder / "course")

    @property
    def home(self) -> Path:
        return self.folder / STUDENT

    @property
    def inbound(self) -> Path:
        return self.folder / "exchange" / "ringside" / "inbound"

    def nbgrader(self, *words: str) -> str:
        """One of nbgrader's commands, as the instructor types it; gives what it says."""
        return self._run(["-m", "nbgrader", *words], self.course.root)

    def ringside(self, *words: str, cwd: Path) -> str:
        """One of our commands, as the student types it."""
        return self._run(["-m", "ringside", *words], cwd)

    def _run(self, words: list[str], cwd: Path) -> str:
        answer = subprocess.run(
            [sys.executable, *words],
            cwd=cwd,
            env=self.environment(student=cwd.is_relative_to(self.home)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert answer.returncode == 0, answer.stdout
        return answer.stdout

    def environment(self, *, student: bool) -> dict[str, str]:
        """Of what a person has in the environment, what matters to Jupyter and nbgrader."""
        mine = self.home if student else self.folder / "instructor"
        ours = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("JUPYTER", "NBGRADER", "PYTEST", "RINGSIDE"))
        }
        return {
            **ours,
            "HOME": str(mine),
            "IPYTHONDIR": str(mine / ".ipython"),
            "JUPYTER_CONFIG_DIR": str(mine / ".jupyter"),
            "JUPYTER_CONFIG_PATH": str(self.folder / "etc"),
            "JUPYTER_DATA_DIR": str(mine / ".data"),
            "JUPYTER_RUNTIME_DIR": str(mine / ".runtime"),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": str(KIT),
        }

    @contextlib.contextmanager
    def lab(self, *, student: bool) -> Iterator[str]:
        """`jupyter lab` in the student's home or in the course; gives its address with a %s."""
        folder = self.home if student else self.course.root
        environment = self.environment(student=student)
        command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--ServerApp.port=0"]
        command += ["--ServerApp.allow_root=True"] if os.geteuid() == 0 else []
        log = self.folder / f"lab-{folder.name}.log"
        with log.open("w") as stream:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
        try:
            yield _address(process, Path(environment["JUPYTER_RUNTIME_DIR"]), log)
        finally:
            _end(process)


def make(folder: Path) -> JupyterCourse:
    """Lay out the course in an empty folder."""
    made = JupyterCourse(folder)
    new_course.make(made.course.root, KIT)
    _write(folder / "etc" / "nbgrader_config.py", CLASS.format(exchange=str(folder / "exchange")))
    settings = made.home / ".jupyter"
    _write(settings / "nbgrader_config.py", f"c.CourseDirectory.student_id = {STUDENT!r}\n")
    # As README tells to do for students; and no question whether one wants Jupyter's news.
    lab = settings / "labconfig"
    _write(
        lab / "page_config.json", json.dumps({"disabledExtensions": dict.fromkeys(HIDDEN, True)})
    )
    news = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}
    _write(lab / "default_setting_overrides.json", json.dumps(news))
    return made


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _address(process: subprocess.Popen[bytes], runtime: Path, log: Path) -> str:
    """The server's address, with a %s for the path and its token at the end."""
    told = runtime / f"jpserver-{process.pid}.json"
    deadline = time.monotonic() + PATIENCE_S
    while "running at" not in log.read_text() or not told.is_file():
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    server = json.loads(told.read_text())
    return f"http://127.0.0.1:{server['port']}%s?token={server['token']}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a server with its kernels; whoever does not go by itself is killed."""
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(30)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(family, timeout=10)
    for one in alive:
        one.kill()
