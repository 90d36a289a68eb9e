"""A hundred thousand cells that all write the module."""

import json

CELL = {
    "cell_type": "code", "id": "x", "execution_count": None, "outputs": [], "metadata": {},
    "source": "%%writefile ring.py\n",
}


def make(target, release, outside):
    notebook = json.loads((release / "a03_allreduce.ipynb").read_text(encoding="utf-8"))
    notebook["cells"] += [CELL] * 100_000
    target.mkdir()
    (target / "a03_allreduce.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
