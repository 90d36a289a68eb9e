"""Grade cells gone, doubled, or flagged as solutions; the solution cell is locked."""

import json


def make(target, release, outside):
    notebook = json.loads((release / "a03_allreduce.ipynb").read_text(encoding="utf-8"))
    import copy

    cells = []
    for cell in notebook["cells"]:
        mark = cell["metadata"].get("nbgrader")
        if mark and mark.get("grade_id", "").endswith("ring"):
            mark.update(solution=True, locked=False, grade=True)
            cell["source"] = "%%writefile ring.py\n1.0\n"
            double = copy.deepcopy(cell)
            double["id"] = "double"
            cells += [cell, double]
        elif mark and mark.get("grade"):
            continue
        else:
            cells.append(cell)
    notebook["cells"] = cells

    target.mkdir()
    (target / "a03_allreduce.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
