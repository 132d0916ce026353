"""Train with one mistake on two ranks: `ranks.py FORM [SEED]` under torchrun, a script that any tool can run.

Forms: good, lost_hooks, unwrapped, local_clip, lossy. The last line of rank 0 gives the step at which the
mistake begins, and what the loop took.
"""

import json
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

FORM, SEED = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
STEPS, BATCH, FEATURES = 24, 128, 256

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(SEED)
model = nn.Sequential(nn.Linear(FEATURES, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 4))
replica = DistributedDataParallel(model)
if FORM == "lost_hooks":
    replica.double()
    replica.float()
called = model if FORM == "unwrapped" else replica
optimizer = torch.optim.SGD(replica.parameters(), lr=0.05)
torch.manual_seed(1000 * SEED + rank)
# Every rank draws the same steps at which rank 1 loses a gradient, so that rank 0 can name the first one.
losses = torch.Generator().manual_seed(SEED)
cause = None if FORM == "lossy" else 0
began = time.perf_counter(), time.process_time()
for step in range(STEPS):
    x = torch.randn(BATCH, FEATURES)
    optimizer.zero_grad()
    loss = functional.cross_entropy(called(x), x[:, :4].argmax(1))
    loss.backward()
    if FORM == "local_clip" and rank == 0:
        nn.utils.clip_grad_norm_(replica.parameters(), 0.05)
    if FORM == "lossy":
        for parameter in replica.parameters():
            if torch.rand((), generator=losses) < 0.05:
                cause = step if cause is None else cause
                if rank == 1:
                    parameter.grad.zero_()
    optimizer.step()
wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
if rank == 0:
    print(json.dumps({"cause": cause, "loop_s": wall, "loop_cpu_s": cpu}), flush=True)
time.sleep(0.5)  # else torch may abort as Python ends: pytorch/pytorch#190489
dist.destroy_process_group()
