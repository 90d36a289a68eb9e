"""lectures/jax.md: its programs give what the page says, with mpi4py, PyTorch and, if it is
there, JAX (pip install jax)."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ringside

PAGE = (Path(__file__).resolve().parents[1] / "lectures" / "jax.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL))
PRINTED = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_mpi_and_torch_send_what_the_page_says(folder: Path) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(4, 16)), rng.normal(size=(16, 32))
    x, w = x.astype(np.float32), w.astype(np.float32)
    parts = [(x[:, 2 * r : 2 * r + 2].copy(), w[2 * r : 2 * r + 2].copy()) for r in range(8)]
    mpi = ringside.run(f"{folder / 'product_mpi.py'}:product", 8, parts)
    torch = ringside.run(f"{folder / 'product_torch.py'}:product", 8, (x, w))
    for rank in range(8):
        np.testing.assert_allclose(mpi.values[rank], x @ w, rtol=1e-4, atol=1e-5)
        y, before = torch.values[rank]
        np.testing.assert_allclose(y, x @ w, rtol=1e-4, atol=1e-5)
        assert before.startswith("(Partial(sum)")
    assert mpi.timeline.bytes_matrix.sum(axis=1).tolist() == [896] * 8
    assert torch.timeline.bytes_matrix.sum(axis=1).tolist() == [896 + 2016, *[896] * 7]
    assert "896 bytes" in PAGE and "2016 bytes more" in PAGE


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs: pip install jax")
def test_jax_writes_the_collectives_that_the_page_shows(folder: Path) -> None:
    for name, shown in (("product_jax.py", PRINTED[0]), ("predict_jax.py", PRINTED[2])):
        done = subprocess.run(
            [sys.executable, name],
            cwd=folder,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == shown
