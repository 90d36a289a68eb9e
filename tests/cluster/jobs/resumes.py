"""Works until it is told to stop; started again, it goes on from there to its end."""

import time

import torch.distributed as dist

from ringside import checkpoint

dist.init_process_group("gloo")
rank = dist.get_rank()
state = checkpoint.load("steps.pt") or {"step": 0}
last = state["step"] + 3 if state["step"] else 1_000_000
print(f"rank {rank} goes on from step {state['step']}", flush=True)
for step in range(state["step"], last):
    time.sleep(0.2)
    if checkpoint.asked():
        checkpoint.save("steps.pt", {"step": step + 1})
        print(f"rank {rank} stops after step {step}", flush=True)
        break
else:
    print(f"rank {rank} has done all {last} steps", flush=True)
dist.destroy_process_group()
