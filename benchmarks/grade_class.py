"""Grading a class: submissions a minute, memory, growth with the class, nbgrader's own share.

    python benchmarks/grade_class.py [--students 10 30 100] [--distinct] [--jobs 2] [--folder DIR]

A student hands in a notebook. Each of its modules is the reference, a right or a wrong one of
`wrong/` and `right/`, or what was released, drawn by a random number of the student's own: the
first 10 of a class of 300 are the class of 10. Equal modules are graded once. With `--distinct`
every student writes a comment of his own into each module, so nothing is shared, not even what
nobody touched.

Each class is graded by `autograder grade` in a fresh process with an empty store, sandbox, real
MPI and real gloo included. Then `nbgrader autograde` writes the gradebook from the stored results;
the time of its start, found from the class's first student alone, is taken off.

    wall      of `autograder grade`, all sittings together
    CPU       of all its processes and ranks, where a control group can be made to count it
    memory    proportional set size of all its processes, read every two seconds: the most
    nbgrader  CPU and wall time a submission: quarantine, rebuild, look-up, tables, gradebook

What is finished is kept in the folder and not done again: started once more after an interruption,
it goes on where it was.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHARES = {"reference": 45, "right": 20, "wrong": 25, "stub": 10}  # percent of modules
EVERY_S = 2.0
CONFIG = """import os

c = get_config()
load_subconfig("nbgrader_config.py", path={kit!r})
c.CourseDirectory.root = {root!r}
c.CourseDirectory.release_directory = {release!r}
c.CourseDirectory.db_url = {database!r}
"""


def ours(name: str) -> Any:
    """A module of the kit, which need not be installed."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return importlib.import_module(name)


# -- the class -------------------------------------------------------------------------------------


class Class:
    """A kit with a store of its own, and a course with so many students."""

    def __init__(self, folder: Path, assignment: str, students: int, distinct: bool) -> None:
        self.assignment, self.students, self.distinct = assignment, students, distinct
        kind = "distinct" if distinct else "shared"
        self.folder = folder / f"{assignment}-{kind}-{students}"
        self.kit, self.root = self.folder / "kit", self.folder / "course"
        self.course = ours("autograder.course.course").Course(kit=self.kit, root=self.root)
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": str(ROOT),
            "RINGSIDE_KIT": str(self.kit),
            "RINGSIDE_COURSE": str(self.root),
            "RINGSIDE_COURSE_SECRET": "benchmark",
        }

    def make(self) -> None:
        """Write what is not there yet; a half-made class is made anew."""
        if (self.folder / "made").exists():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.kit / "build").mkdir(parents=True)
        for name in ("ringside", "autograder", "cluster", "nbgrader_config.py"):
            (self.kit / name).symlink_to(ROOT / name)
        for name in ("solutions", "assignments"):  # where a build would write
            shutil.copytree(ROOT / name / self.assignment, self.kit / name / self.assignment)
        plan = ours("autograder.course.assignment").load(self.assignment, self.course)
        rebuild = ours("autograder.collect.rebuild")
        release = rebuild.release_notebook(plan, self.course.release(plan.name))
        for number in range(self.students):
            place = self.course.submitted(f"s{number:03}", plan.name)
            place.mkdir(parents=True)
            content = json.dumps(self._notebook(plan, release, number), indent=1)
            (place / plan.notebook).write_text(content, encoding="utf-8")
        (self.folder / "made").touch()

    def _notebook(self, plan: Any, release: Any, number: int) -> Any:
        notebooks, rebuild = ours("autograder.notebooks"), ours("autograder.collect.rebuild")
        chance = random.Random(f"student {number}")
        notebook = copy.deepcopy(release)
        for cell in rebuild.solution_cells(notebook):
            name = notebooks.marks(cell)["grade_id"]
            if cell.cell_type != "code" or name not in {spec.name for spec in plan.modules}:
                continue
            head = cell.source[: cell.source.index("\n") + 1]  # %%module, or an older release's
            text = self._module(name, chance) or cell.source[len(head) :]
            cell.source = head + text + (f"\n# by student {number}" if self.distinct else "")
        return notebook

    def _module(self, name: str, chance: random.Random) -> str:
        """A module's text; empty for what was released."""
        kind = chance.choices(list(SHARES), list(SHARES.values()))[0]
        if kind == "stub":
            return ""
        solution = ROOT / "solutions" / self.assignment
        every = ours("autograder.course.edits").variants(solution, [name])
        fitting = {"wrong": lambda each: each.fails, "right": lambda each: not each.fails}
        choice = [each.source for each in every if kind in fitting and fitting[kind](each)]
        reference = (solution / f"{name}.py").read_text(encoding="utf-8")
        lines = (chance.choice(choice) if choice else reference).splitlines()
        kept = [line for line in lines if not line.strip().startswith(("### ", "# fails:"))]
        return "\n".join(kept)

    def stored(self) -> int:
        """The number of modules whose results are kept."""
        return len(list(self.course.results.glob("*/*.json")))

    def read(self, name: str) -> dict[str, Any]:
        """What was noted under this name; nothing if nothing was."""
        try:
            found: dict[str, Any] = json.loads((self.folder / name).read_text())
        except FileNotFoundError:
            return {}
        return found

    def write(self, name: str, content: dict[str, Any]) -> None:
        ours("ringside.files").write_atomically(self.folder / name, json.dumps(content).encode())


# -- grading ---------------------------------------------------------------------------------------


def grade(each: Class, jobs: int) -> dict[str, Any]:
    """Grade a class, or what is left of it; returns what was measured."""
    spent = each.read("spent.json") or {"wall_s": 0.0, "cpu_s": 0.0, "peak_bytes": 0}
    if spent.get("done"):
        return spent
    group = cpu_group()
    record = each.folder / "graded.json"
    argv = [sys.executable, "-m", "autograder", "grade", each.assignment]
    argv += [str(each.course.build / "submitted"), "--jobs", str(jobs), "--json", str(record)]
    begin = time.monotonic()
    child = subprocess.Popen(
        argv,
        cwd=ROOT,
        env=each.environment,
        stdout=subprocess.DEVNULL,
        preexec_fn=group.enter if group else None,
    )
    try:
        now = dict(spent)
        while child.poll() is None:
            now = {
                "wall_s": spent["wall_s"] + time.monotonic() - begin,
                "cpu_s": spent["cpu_s"] + group.seconds() if group else None,
                "peak_bytes": max(now["peak_bytes"], proportional(child.pid)),
            }
            each.write("spent.json", now)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(EVERY_S)
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait()
        if group:
            group.close()
    if child.returncode:
        raise SystemExit(f"grading {each.folder.name} ended with status {child.returncode}")
    submissions = json.loads(record.read_text())["submissions"]
    now |= {"done": True, "scores": sorted(one["score"] for one in submissions)}
    now |= {"modules": sum(len(one["modules"]) for one in submissions), "graded": each.stored()}
    each.write("spent.json", now)
    return now


def proportional(pid: int) -> int:
    """Bytes of a process and all below it; shared pages count once."""
    watchdog = ours("autograder.sandbox.watchdog")
    total = 0
    for process in watchdog.descendants(watchdog.ProcessId.of(pid)):
        with contextlib.suppress(OSError, IndexError):
            text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            total += int(text.partition("\nPss:")[2].split()[0]) * 1024
    return total


class CpuGroup:
    """A control group that counts the CPU time of all that is started in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def enter(self) -> None:
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def seconds(self) -> float:
        old = self.folder / "cpuacct.usage"  # version 1, nanoseconds
        if old.exists():
            return int(old.read_text()) / 1e9
        return int((self.folder / "cpu.stat").read_text().split()[1]) / 1e6

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.folder.rmdir()


def cpu_group() -> CpuGroup | None:
    """A new one; None where none can be made."""
    for parent in ("cpuacct", "unified", "."):
        folder = Path("/sys/fs/cgroup") / parent / f"ringside-benchmark-{os.getpid()}"
        with contextlib.suppress(OSError):
            folder.mkdir()
            group = CpuGroup(folder)
            try:
                group.seconds()
                return group
            except (OSError, ValueError, IndexError):
                group.close()
    return None


# -- nbgrader --------------------------------------------------------------------------------------


def gradebook(each: Class) -> dict[str, float]:
    """CPU and wall seconds that nbgrader takes for a submission whose results are stored."""
    known = each.read("nbgrader.json")
    if known:
        return known
    course = each.course
    build, release = ours("autograder.publish.build"), ours("autograder.gradebook.nbgrader.release")
    plan = ours("autograder.course.assignment").load(each.assignment, course)
    for place in (course.build / "autograded", course.database, course.source(plan.name)):
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
    own = type(course)(kit=each.kit, root=each.kit)
    build.build(plan, own)
    shutil.copytree(own.source(plan.name), course.source(plan.name))
    config = CONFIG.format(
        kit=str(ROOT),
        root=str(course.root),
        release=os.path.relpath(each.kit / "assignments", course.root),
        database=f"sqlite:///{course.database}",
    )
    (course.root / "nbgrader_config.py").write_text(config, encoding="utf-8")
    with tempfile.TemporaryDirectory() as scratch:
        release.register(plan, course, Path(scratch))
    before = each.stored()
    first = autograde(each, ["--student=s000"])
    rest = autograde(each, ["--force"])
    if each.stored() != before:
        raise SystemExit("nbgrader graded anew: the kit has been changed. Remove the folder.")
    share = {name: (rest[name] - first[name]) / max(1, each.students - 1) for name in first}
    share |= {f"start_{name}": first[name] for name in first}
    each.write("nbgrader.json", share)
    return share


def autograde(each: Class, words: list[str]) -> dict[str, float]:
    """Seconds of `nbgrader autograde`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    argv = [sys.executable, "-m", "nbgrader", "autograde", each.assignment, *words]
    done = subprocess.run(
        argv, cwd=each.root, env=each.environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(argv[1:])} failed:\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": time.monotonic() - begin, "cpu_s": cpu_s}


# -- the table -------------------------------------------------------------------------------------

HEADER = (
    "students  modules  graded   wall s  a minute  CPU s  CPU a subm.   memory MiB  "
    "mean score   nbgrader a subm.: CPU s  wall s"
)


def row(each: Class, spent: dict[str, Any], share: dict[str, float]) -> str:
    minutes = spent["wall_s"] / 60
    cpu_s = spent["cpu_s"]
    cpu = f"{cpu_s:7.0f}  {cpu_s / each.students:11.1f}" if cpu_s else f"{'-':>7}  {'-':>11}"
    return (
        f"{each.students:8}  {spent['modules']:7}  {spent['graded']:6}  {spent['wall_s']:7.0f}  "
        f"{each.students / minutes:8.1f}{cpu}  {spent['peak_bytes'] / 2**20:11.0f}  "
        f"{sum(spent['scores']) / each.students:10.1f}  {share['cpu_s']:23.3f}  "
        f"{share['wall_s']:6.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--assignment", default="a03_allreduce")
    parser.add_argument("--students", type=int, nargs="+", default=[10, 30, 100])
    parser.add_argument("--distinct", action="store_true", help="no two modules are equal")
    parser.add_argument("--jobs", type=int, default=2, help="modules graded at once")
    parser.add_argument("--folder", type=Path, help="keep everything here, and go on from there")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="ringside-class-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{folder.resolve()} holds what is finished (--folder goes on from there)")
    kind = "nothing shared" if options.distinct else "equal modules graded once"
    load = os.getloadavg()[0]
    print(f"{options.assignment}, {kind}, {options.jobs} at once, load {load:.1f}\n\n{HEADER}")
    for students in options.students:
        each = Class(folder.resolve(), options.assignment, students, options.distinct)
        each.make()
        spent = grade(each, options.jobs)
        print(row(each, spent, gradebook(each)), flush=True)


if __name__ == "__main__":
    main()
