"""Mixed precision: gradient scalers, steps they skip, the loss before it was scaled."""

from __future__ import annotations

import math

import pytest

from holter.schema.phases import Phase

LOOP = """
import sys
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=sys.argv[1] == "on")
for i, (x, y) in enumerate(DataLoader(data(), batch_size=4)):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    if i == 3:
        loss = loss * float("inf")
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
"""


@pytest.mark.parametrize("scaler", ["on", "off"])
def test_scaled_training(record, scaler):
    recording = record(LOOP, scaler)
    losses = [float(line) for line in recording.stdout.split()]
    trainer = recording.trainer
    steps = trainer.of(Phase.STEP)
    assert len(steps) == 8
    for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.LOSS):
        assert trainer.per_step(phase) == [1] * 8
    assert trainer.scalars("loss") == pytest.approx(losses, nan_ok=True)
    assert math.isinf(losses[3]) or math.isnan(losses[3])
    assert [s.step for s in trainer.of(Phase.SKIPPED)] == ([3] if scaler == "on" else [])
    for skipped in trainer.of(Phase.SKIPPED):
        assert skipped.inside(steps[3])
        assert skipped.name == "SGD"


def test_unscaled_for_clipping_and_two_optimizers_with_one_scaler(record):
    trainer = record("""
        a, b = Net(), Net()
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (a, b)]
        scaler = torch.amp.GradScaler("cpu")
        for x, y in DataLoader(data(), batch_size=8):
            for m, optimizer in zip((a, b), optimizers):
                optimizer.zero_grad()
                scaler.scale(nn.functional.cross_entropy(m(x), y)).backward()
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(m.parameters(), 1.0)
            for optimizer in optimizers:
                scaler.step(optimizer)
            scaler.update()
    """).trainer
    assert len(trainer.of(Phase.STEP)) == 4
    assert trainer.per_step(Phase.OPTIMIZER) == [2] * 4
