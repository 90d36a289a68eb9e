"""The ring's cell names a path outside, and a file of the kit."""

import json


def make(target, release, outside):
    notebook = json.loads((release / "a03_allreduce.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "ring":
            cell["source"] = "%%writefile @OUTSIDE@/written_by_grader.py\nx = 1\n"
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "star":
            cell["source"] = "%%writefile ../../autograder/grade/grading.py\nx = 1\n"

    target.mkdir()
    (target / "a03_allreduce.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
