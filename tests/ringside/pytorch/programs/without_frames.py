"""A backward pass in a thread that has no Python below it, as autograd's are on a GPU.

DDP's reducer calls from there. Prints what was recorded, on torch's fake group.
"""

import _thread
import json
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from ringside.jobs.real.recording_torch import recording
from ringside.session.recorder import Recorder

dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
model = DistributedDataParallel(torch.nn.Linear(3, 2))
recorder = Recorder()
with recording(recorder):
    loss = model(torch.ones(1, 3)).sum()
    engine = torch.autograd.Variable._execution_engine
    inputs = ((loss,), (torch.ones(()),), False, False, (), True, True)
    _thread.start_new_thread(engine.run_backward, inputs)
    while any(parameter.grad is None for parameter in model.parameters()):
        time.sleep(0.01)
recorder.end()
print(json.dumps([[call.name, call.file, call.ops] for call in recorder.calls]))
