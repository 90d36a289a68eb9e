"""A class of any size from the kit's own wrong and right modules: for reports, and by hand::

python -m tests.autograder.classroom a03_allreduce FOLDER 60
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from autograder.course import assignment as plans
from autograder.course import edits
from autograder.course.assignment import Assignment
from autograder.course.course import Course

WRONG = 6  # of a module's wrong versions, so that students make the same mistakes


def sources(plan: Assignment, course: Course, seed: int = 1) -> dict[str, dict[str, list[str]]]:
    """Module -> "right" or "wrong" -> sources; the reference is among the right ones."""
    pick = random.Random(seed)
    found: dict[str, dict[str, list[str]]] = {}
    for module in plan.modules:
        reference = (course.solution(plan.name) / module.filename).read_text(encoding="utf-8")
        solution = course.solution(plan.name)
        every = edits.variants(solution, [module.name])
        right = [each.source for each in every if not each.fails]
        wrong = [each.source for each in every if each.fails]
        found[module.name] = {"right": [_plain(reference)], "wrong": []}
        for kind, others in (("right", right), ("wrong", wrong)):
            chosen = pick.sample(others, min(WRONG, len(others)))
            found[module.name][kind] += [_plain(text) for text in chosen]
    return found


def _plain(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(line for line in lines if not line.strip().startswith(("### ", "# fails:")))


def modules_of_class(
    plan: Assignment, course: Course, number: int, seed: int = 1
) -> dict[str, dict[str, str]]:
    """Student -> module -> source; a fifth of the modules isn't begun."""
    pick = random.Random(seed)
    known = sources(plan, course, seed)
    students: dict[str, dict[str, str]] = {}
    for at in range(number):
        skill = pick.random()
        modules = {}
        for module in plan.modules:
            if pick.random() < 0.05 + 0.35 * (1 - skill) + 0.3 * module.extra:
                continue
            kinds = known[module.name]
            right = pick.random() < skill or not kinds["wrong"]
            modules[module.name] = pick.choice(kinds["right" if right else "wrong"])
        students[f"student{at + 1:03}"] = modules
    return students


def write_class(plan: Assignment, course: Course, folder: Path, number: int, seed: int = 1) -> None:
    """Write a folder of modules for each student."""
    for student, modules in modules_of_class(plan, course, number, seed).items():
        place = folder / student
        place.mkdir(parents=True)
        for name, text in modules.items():
            (place / f"{name}.py").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    here = Course.here()
    write_class(plans.load(sys.argv[1], here), here, Path(sys.argv[2]), int(sys.argv[3]))
