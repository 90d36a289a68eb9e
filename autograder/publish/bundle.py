"""The students' tree: what they may have, and a proof that nothing else is in it.

Taken are ringside/, cluster/, lectures/, the assignments that the term has handed out
(``ringside.course.handout.listing``), the pages of docs/ that are for students, and the files that
install them. Lectures are cleared (ringside/course/predictions/students.py), and their texts stay
here. README and Makefile are the students' own (templates/students), .vscode is that of `ringside
start`, and pyproject.toml loses what names the autograder. AGENTS.md tells AI assistants what they
may do: the course's own file of that name, else the template in the version that course.toml names.
The dates of course.toml become calendar.ics. .ringside/handout.json lists what the tree holds, by
which `ringside update` later tells what a student wrote. `leaks` looks for every run of solution
lines, of hidden-suite lines and of lines of answers.md in every file of the tree.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from jinja2 import Template

from autograder import storage
from autograder.course import assignment as plans
from autograder.course import settings
from autograder.course.course import Course
from autograder.publish.build import BuildError
from ringside import output_folder
from ringside.course.handout.listing import Listing, listing
from ringside.course.handout.manifest import Handout
from ringside.course.lectures import site, term_calendar
from ringside.course.predictions import students

FOLDERS = ("ringside", "cluster", "lectures")
FILES = (
    *("LICENSE", "LICENSE-teaching", "CHANGELOG.md"),
    *("constraints.txt", "environment.yml", "install.py", "setup.py", "MANIFEST.in"),
    *(f"docs/{name}.md" for name in ("student", "contract", "attendee", "cluster", "api")),
    *(f"docs/{name}.md" for name in ("ways_to_run", "programs", "glossary", "install", "colab")),
)
IGNORED = shutil.ignore_patterns(
    *("__pycache__", "*.pyc", ".*", "build", "run.json", "*.egg-info"),
    "[0-9][0-9]_*.py",  # texts of lectures, with what students' notebooks don't hold
    "[0-9][0-9]_*.toml",  # facts of lectures, for the instructor's map
)
TEMPLATES = Path(__file__).parents[1] / "templates" / "students"
VSCODE = "ringside/course/handout/start/vscode"  # as `ringside start` lays it out
RUN = 2  # lines in a row that make a leak; single ones (`return total`) stand in every program
TELLING = 20  # characters of code that a run must have
ANSWERS = "answers.md"  # of an assignment: to its prompts, rubrics, questions for an exam


_REGION = re.compile(r"### BEGIN SOLUTION.*?### END SOLUTION", re.DOTALL)
AGENTS = "AGENTS.md"  # what AI assistants may do in the course
RULE = "separated"  # where course.toml doesn't choose
COMMAND = "autograder bundle"


def listed(course: Course, *, also_future: bool = False) -> Listing:
    """Which assignments students get now.

    Raises:
        TableError: course.toml holds something else, or names no assignment.
    """
    names = plans.known(course)
    term = settings.term(course, tuple(names))
    return listing(names, term, course.kit, also_future=also_future)


def make(
    course: Course,
    folder: Path,
    *,
    names: Sequence[str] | None = None,
    also: Mapping[str, str] = MappingProxyType({}),
    command: str = COMMAND,
) -> Path:
    """Write the students' tree to `folder`; one that this has made before is replaced.

    Args:
        names: the assignments in it; default: those that `listed` gives.
        also: files that come with it, by their place in it.
        command: who makes it, as it is typed.

    Raises:
        BuildError: an assignment isn't built, none is handed out yet, or something hidden would be
            in the tree.
        FolderError: the folder holds something else, or the kit, the course, the home.
        StorageError: it can't be written.
    """
    if not plans.known(course):
        raise BuildError(f"There are no assignments under {course.kit / 'solutions'}.")
    if names is None:
        names = handed_out(listed(course))
    missing = [n for n in names if not course.release(n).is_dir()]
    if missing:
        raise BuildError(f"Not built yet: {', '.join(missing)}. Run `autograder build` first.")
    _refuse_inside(course, folder)
    roots = (course.kit, course.root)
    output_folder.usable(folder, command, protected=roots)
    other_way = "Or name a folder elsewhere: `--to FOLDER`."
    with (
        storage.making(folder.resolve().parent, otherwise=other_way),
        output_folder.made_anew(folder, command, protected=roots) as fresh,
    ):
        _fill(course, fresh, names)
        for name, text in also.items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            _write(fresh / name, text)
        lines = leaks(course, fresh)
        if lines:
            raise BuildError("Hidden lines would be in the students' tree: " + "; ".join(lines[:5]))
    return folder


def handed_out(found: Listing) -> tuple[str, ...]:
    """The names that are handed out; none would be a tree without work."""
    if not found.given:
        raise BuildError(
            f"No assignment is handed out now. {found.sentence} {found.source} lists them: write a "
            "date that has come, or take all of them with --also-future."
        )
    return found.given


def _refuse_inside(course: Course, folder: Path) -> None:
    """A tree in what it is copied from would be in the next one."""
    for name in (*FOLDERS, "assignments"):
        if folder.resolve().is_relative_to((course.kit / name).resolve()):
            raise BuildError(f"{folder} lies in {name}/, which students get: name another folder.")


def _fill(course: Course, folder: Path, names: Sequence[str]) -> None:
    for name in FOLDERS:
        if (course.kit / name).is_dir():
            shutil.copytree(course.kit / name, folder / name, symlinks=True, ignore=IGNORED)
    students.clear_folder(folder / "lectures")
    for name in names:  # a course outside the kit has releases of its own
        target = folder / "assignments" / name
        shutil.copytree(course.release(name), target, symlinks=True, ignore=IGNORED)
    for name in FILES:
        if (course.kit / name).is_file():
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copy(course.kit / name, folder / name)
    _write(folder / "pyproject.toml", for_students(_read(course.kit / "pyproject.toml")))
    _write(folder / "Makefile", _read(TEMPLATES / "Makefile"))
    _write(folder / "README.md", _start_here(course, names[0]))
    if (course.kit / VSCODE).is_dir():
        shutil.copytree(course.kit / VSCODE, folder / ".vscode")
    _write(folder / AGENTS, _for_assistants(course))
    term = settings.term(course)
    if term.has_dates:
        site.write_calendar(course.kit, term, folder / term_calendar.ICS)  # with later titles
    Handout.of(folder).write(folder)  # the last: `ringside update` tells by it what students wrote


def about_assistants(course: Course) -> str:
    """Which AGENTS.md students get, and where it is changed; a sentence or two."""
    path = course.root / AGENTS
    if path.is_file():
        return f"What AI assistants may do: {path}"
    rule = settings.assistants(course)
    chosen = f'"{rule}", by {course.settings}' if rule else f'"{RULE}", since nobody has chosen'
    return (
        f"What AI assistants may do: {chosen}. `assistants` in course.toml chooses another rule; "
        f"a file {path} takes the place of the kit's."
    )


def _for_assistants(course: Course) -> str:
    """AGENTS.md: the course's own file, else the kit's in the version that the course chose."""
    if (course.root / AGENTS).is_file():
        return _read(course.root / AGENTS)
    page = Template(_read(TEMPLATES / AGENTS), keep_trailing_newline=True)
    rule, title = settings.assistants(course) or RULE, settings.term(course).title
    return str(page.render(assistants=rule, title=title))


def zip_beside(folder: Path) -> Path:
    """Where the tree's zip is, or will be.

    Raises:
        FolderError: something else has that name.
    """
    path = folder.resolve().with_name(f"{folder.resolve().name}.zip")
    if path.is_dir() or (path.exists() and not _is_packed(path)):
        raise output_folder.FolderError(
            f"`{COMMAND}` did not make {path}, or it was changed since: move it away, or name "
            "another folder."
        )
    return path


def pack(folder: Path) -> Path:
    """A zip of the tree beside it, the same bytes for the same tree.

    Links are followed: what unpacks it may know none.
    """
    path = zip_beside(folder)
    packed = io.BytesIO()
    files = [Path(parent, name) for parent, _, n in os.walk(folder, followlinks=True) for name in n]
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(files):
            if file.name == output_folder.MARKER:
                continue
            info = zipfile.ZipInfo(f"{path.stem}/{file.relative_to(folder).as_posix()}")
            info.external_attr = 0o644 << 16
            archive.writestr(info, file.read_bytes(), zipfile.ZIP_DEFLATED)
        archive.comment = _seal(archive)
    storage.write(path, packed.getvalue())
    return path


def _seal(archive: zipfile.ZipFile) -> bytes:
    """What we write into a zip, so that we know it again if nobody changes it."""
    content = [(info.filename, info.CRC) for info in archive.infolist()]
    return f"{COMMAND} {hashlib.sha256(repr(content).encode()).hexdigest()}".encode()


def _is_packed(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.comment == _seal(archive)
    except (OSError, zipfile.BadZipFile):
        return False


def leaks(course: Course, folder: Path) -> list[str]:
    """Where solution lines or hidden-suite lines stand in `folder`: "file: the lines"."""
    hidden = {run: origin for origin, run in _hidden_runs(course)}
    faults = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        lines = _code(_read(path).replace("\\n", "\n").splitlines())
        for run in _runs(lines):
            if run in hidden:
                name = path.relative_to(folder).as_posix()
                faults.append(f"{name}: {' / '.join(run)!r} of {hidden[run]}")
    return faults


def _hidden_runs(course: Course) -> Iterator[tuple[str, tuple[str, ...]]]:
    public = set(_public_runs(course))  # all of them first: assignments share lines of their tests
    for name in plans.known(course):
        for path in sorted(course.solution(name).glob("*.py")):
            for region in solution_regions(_read(path)):
                for run in _runs(_code(region)):
                    yield f"solutions/{name}/{path.name}", run
        for path in sorted(course.hidden(name).rglob("*.py")):
            for run in _runs(_code(_read(path).splitlines())):
                if run not in public:  # imports and fixtures are the same in public tests
                    yield f"solutions/{name}/hidden/{path.name}", run
        for run in _runs(_code(_read(course.solution(name) / ANSWERS).splitlines())):
            yield f"solutions/{name}/{ANSWERS}", run


def _public_runs(course: Course) -> Iterator[tuple[str, ...]]:
    """Lines that students may have: the toolkit's, stubs, what is given beside each notebook."""
    paths = list((course.kit / "ringside").rglob("*.py"))
    for name in plans.known(course):
        plan = plans.load(name, course)
        paths += [course.solution(name) / file_name for file_name in plan.supplied]
        for module in plan.modules:  # an oracle may have a stub's signature
            for part in _REGION.split(_read(course.solution(name) / module.filename)):
                yield from _runs(_code(part.splitlines()))
    for path in paths:
        yield from _runs(_code(_read(path).splitlines()))


def solution_regions(text: str) -> list[list[str]]:
    """The lines between the markers, a list for each region."""
    regions: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        if "### BEGIN SOLUTION" in line:
            inside = True
            regions.append([])
        elif "### END SOLUTION" in line:
            inside = False
        elif inside:
            regions[-1].append(line)
    return regions


def _code(lines: Iterable[str]) -> list[str]:
    """Lines as they are compared: without layout, comments, JSON's quotes, and empty ones."""
    cleaned = (re.sub(r"\s+", " ", line).strip(' ",').split(" #")[0] for line in lines)
    return [line for line in cleaned if line and not line.startswith("#")]


def _runs(lines: list[str]) -> Iterator[tuple[str, ...]]:
    for at in range(len(lines) - RUN + 1):
        run = tuple(lines[at : at + RUN])
        if sum(map(len, run)) >= TELLING and not all(_is_import(line) for line in run):
            yield run


def _is_import(line: str) -> bool:
    return line.startswith(("import ", "from "))


def for_students(text: str) -> str:
    """pyproject.toml with nothing in it that names the autograder or the tests' tools.

    What the autograder alone needs is marked so, and isn't installed.
    """
    text = text.replace('include = ["ringside*", "autograder*"]', 'include = ["ringside*"]')
    head = text.split("[tool.ruff]")[0]
    return "\n".join(line for line in head.splitlines() if "autograder" not in line).rstrip() + "\n"


def _start_here(course: Course, name: str) -> str:
    """The README, with an assignment as its example."""
    page = Template(_read(TEMPLATES / "README.md"), keep_trailing_newline=True)
    first = plans.load(name, course)
    return str(page.render(assignment=first.name, module=first.modules[0].name))


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
