"""Which runs are torch runs, and what a torch run leaves untouched."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringside import Session, TargetError
from ringside.ranks import nursery
from ringside.session.target import Target, front_end_of


@pytest.mark.parametrize(
    ("text", "function", "front_end"),
    [
        ("import torch\ndef f(group): pass\n", "f", "torch"),
        ("if True:\n    from torch import nn\n", None, "torch"),
        ("import os, torch.nn\n", None, "torch"),
        ("from . import layers\n", None, "torch"),
        ("import parts.model\n", None, "torch"),
        ("import helper\n", None, "mpi"),
        ("import numpy\n# import torch\n", None, "mpi"),
        ("import torchvision\n", None, "mpi"),
        ("import torch\ndef f(comm, x): pass\n", "f", "mpi"),
        ("import torch\ndef f(\n    comm,\n): pass\n", "f", "mpi"),
        ("import torch\ndef g(comm): pass\ndef f(x): pass\n", "f", "torch"),
    ],
)
def test_the_text_tells_what_ranks_speak(
    tmp_path: Path, text: str, function: str | None, front_end: str
) -> None:
    (tmp_path / "module.py").write_text(text)
    (tmp_path / "helper.py").write_text("import numpy\n")
    (tmp_path / "layers.py").write_text("import helper, torch\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").touch()
    (tmp_path / "parts" / "model.py").write_text("from ..layers import linear\nimport layers\n")
    assert front_end_of(Target(tmp_path, "module.py", function)) == front_end


def test_an_unknown_front_end_is_refused(session: Session) -> None:
    with pytest.raises(TargetError, match="front_end \\('jax'\\) must be one of mpi, torch"):
        session.call("collectives:splits", 2, front_end="jax")


def test_one_session_serves_both_front_ends(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(
        "import sys\ndef f(comm): return comm.size, 'torch' in sys.modules\n"
    )
    (tmp_path / "tensors.py").write_text("import torch\ndef f(group): return group.size()\n")
    nursery._close_idle()  # one that an earlier test has left may have imported torch
    with Session(tmp_path) as both:
        assert both.call("plain:f", 2).raise_for_error().values == [(2, False)] * 2
        assert both.call("tensors:f", 2).raise_for_error().values == [2, 2]
        assert both.call("plain:f", 2).raise_for_error().values == [(2, False)] * 2


def test_calls_of_one_rank_do_not_see_each_others_groups(session: Session) -> None:
    first = session.call("point_to_point:groups", 4).raise_for_error()
    second = session.call("point_to_point:groups", 4).raise_for_error()
    assert first.values == second.values
    assert [op[:5] for op in first.trace.ops[0]] == [op[:5] for op in second.trace.ops[0]]
