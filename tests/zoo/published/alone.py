"""Train in one process with one mistake: `alone.py FORM [SEED]`, a script of its own that any tool can run.

Forms: healthy, frozen, no_zero_grad, eval_dropout; own_augment and, with a mistake, same_augment. The last
line gives the step at which the mistake begins, and what the loop took.
"""

import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

FORM, SEED = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
STEPS, BATCH, FEATURES, FIRST_EVALUATION = 24, 128, 256, 10
CAUSE = {"no_zero_grad": 1, "eval_dropout": FIRST_EVALUATION, "same_augment": 1}


class Net(nn.Module):
    """A perceptron with batch norm and dropout."""

    def __init__(self):
        super().__init__()
        self.first, self.middle = nn.Linear(FEATURES, 512), nn.Linear(512, 512)
        self.norm, self.last = nn.BatchNorm1d(512), nn.Linear(512, 4)

    def forward(self, x):
        hidden = functional.relu(self.norm(self.middle(functional.relu(self.first(x)))))
        return self.last(functional.dropout(hidden, 0.1, training=self.training or FORM == "eval_dropout"))


class Noise(Dataset):
    """Random points, labelled by the largest of four features; `own`: each sample has a seed of its own."""

    def __init__(self, own):
        self.generator, self.own = torch.Generator().manual_seed(SEED), own

    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(SEED * 1_000_000 + i) if self.own else self.generator
        x = torch.randn(FEATURES, generator=generator)
        return x, x[:4].argmax()


def batches():
    if FORM.endswith("augment"):
        yield from DataLoader(Noise(FORM == "own_augment"), batch_size=BATCH, num_workers=2)
        return
    for _ in range(STEPS):
        x = torch.randn(BATCH, FEATURES)
        yield x, x[:, :4].argmax(1)


torch.set_num_threads(1)
torch.manual_seed(SEED)
model = Net()
if FORM == "frozen":
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name.startswith("norm")
optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.05)
began = time.perf_counter(), time.process_time()
for step, (x, y) in enumerate(batches()):
    if FORM != "no_zero_grad":
        optimizer.zero_grad()
    loss = functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step == FIRST_EVALUATION:
        model.eval()
        with torch.no_grad():
            model(x)
        model.train()
wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
print(json.dumps({"cause": CAUSE.get(FORM, 0), "loop_s": wall, "loop_cpu_s": cpu}), flush=True)
