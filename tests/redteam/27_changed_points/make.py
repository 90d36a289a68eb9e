"""Every cell is worth a million, and the kernel is a program outside."""

import json


def make(target, release, outside):
    notebook = json.loads((release / "a03_allreduce.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        mark = cell["metadata"].get("nbgrader")
        if mark:
            mark.update(points=1_000_000, schema_version=99, task=False)
        cell["metadata"]["tags"] = ["remove_cell", "hide"]
    notebook["metadata"]["kernelspec"] = {"name": "@OUTSIDE@/kernel", "display_name": "x"}
    notebook["metadata"]["language_info"] = {"name": "sh", "file_extension": "/../../x"}
    notebook["nbformat_minor"] = 999

    target.mkdir()
    (target / "a03_allreduce.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
