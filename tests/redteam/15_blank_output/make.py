"""Grade cells whose stored outputs are blank, or a stderr stream; no solution."""

import json


def make(target, release, outside):
    notebook = json.loads((release / "a03_allreduce.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = []
            cell["execution_count"] = 1
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "ring":
            cell["source"] = "%%writefile ring.py\nimport sys\nsys.stderr = sys.stdout = None\n"

    target.mkdir()
    (target / "a03_allreduce.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
