"""layout.py's table of placements against what torch's DTensor does."""

import json
import subprocess
import sys
from pathlib import Path

SOLUTION = Path(__file__).resolve().parents[2] / "solutions" / "a12_hybrid"
PROGRAM = """
import json
import torch
import torch.distributed as dist
from layout import collective
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.debug import CommDebugMode
from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
mesh = init_device_mesh("cpu", (4,))
placements = {"R": Replicate(), "P": Partial(), "S(0)": Shard(0), "S(1)": Shard(1)}
found = {}
for source, placed in placements.items():
    for target, wanted in placements.items():
        whole = DTensor.from_local(torch.ones(8, 8), mesh, [placed], run_check=False)
        try:
            with CommDebugMode() as counted:
                whole.redistribute(mesh, [wanted])
            theirs = [str(name) for name in counted.get_comm_counts()]
        except RuntimeError:
            theirs = "refused"
        try:
            ours = collective(source, target)
        except ValueError:
            ours = "refused"
        found[f"{source} {target}"] = theirs, ours
print(json.dumps(found))
"""
NAMES = {
    "c10d_functional.all_reduce": "all-reduce",
    "c10d_functional.reduce_scatter_tensor": "reduce-scatter",
    "c10d_functional.all_gather_into_tensor": "all-gather",
}


def test_placements_are_those_of_dtensor() -> None:
    words = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(words, cwd=SOLUTION, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert len(found) == 16
    for pair, (theirs, ours) in found.items():
        if pair in ("S(0) S(1)", "S(1) S(0)"):
            # Without an all-to-all on CPU, torch gathers everything and keeps a part.
            assert (theirs, ours) == (["c10d_functional.all_gather_into_tensor"], "all-to-all")
        elif theirs == "refused":
            assert ours == "refused", pair
        else:
            assert "".join(NAMES[name] for name in theirs) == ours, pair
