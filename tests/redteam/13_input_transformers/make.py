"""A cell that makes IPython drop every assertion."""

import json


def make(target, release, outside):
    notebook = json.loads((release / "a03_allreduce.ipynb").read_text(encoding="utf-8"))
    source = """
    import ast

    ip = get_ipython()
    ip.input_transformers_cleanup.append(lambda lines: ["1.0"])


    class Drop(ast.NodeTransformer):
        def visit_Assert(self, node):
            return ast.Pass()


    ip.ast_transformers.append(Drop())
    open("@OUTSIDE@/cell_was_run", "w").close()
    """
    cell = {"cell_type": "code", "source": source, "metadata": {}, "outputs": []}
    cell |= {"execution_count": 1, "id": "transformer"}
    notebook["cells"].insert(0, cell)
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "ring":
            cell["source"] = "%%writefile ring.py\n" + source

    target.mkdir()
    (target / "a03_allreduce.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
