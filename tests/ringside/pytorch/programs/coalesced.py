"""What NCCL does and gloo doesn't: several calls started in one block; prints what was recorded.

On torch's fake group, which sends nothing.
"""

import json

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from ringside.jobs.real.recording_torch import recording
from ringside.session.recorder import Recorder

dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
block = dist.distributed_c10d._coalescing_manager
x, y = torch.ones(4), torch.ones(4)
recorder = Recorder()
with recording(recorder):
    with block(dist.group.WORLD, torch.device("cpu"), async_ops=True) as messages:
        dist.isend(x, 1)
        dist.irecv(y, 1)
    for work in messages.works:
        work.wait()
    with block(dist.group.WORLD):
        dist.all_reduce(x)
        dist.all_reduce(y)
after = dist.all_reduce(x, async_op=True)
after.wait()
recorder.end()
print(json.dumps([[call.name, call.ops] for call in recorder.calls]))
