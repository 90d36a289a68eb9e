"""Every field of the format with something else in it."""

import json

ODD = [None, 1, 1e400, [], {}, [[]], "\ud800\x00", {"nbgrader": []}, "=1+1", True]
SOURCE = ["%%writefile /etc/passwd\n", "x = '\ud800\x00\x1b[2J'\n", 7]


def make(target, release, outside):
    notebook = json.loads((release / "a03_allreduce.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "ring":
            cell["source"] = SOURCE
    for odd in ODD:
        mark = {"grade_id": odd, "solution": odd, "grade": odd, "points": odd, "locked": odd}
        notebook["cells"] += [
            odd,
            {"cell_type": odd, "source": odd, "metadata": odd, "outputs": odd},
            {"cell_type": "code", "source": [odd], "metadata": {"nbgrader": mark}},
        ]
    notebook.update(nbformat=1e400, nbformat_minor=[], metadata=[])
    target.mkdir()
    (target / "a03_allreduce.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
