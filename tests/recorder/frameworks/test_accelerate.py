"""Loops written with accelerate, which wraps models, optimizers and loaders in classes of its own."""

from __future__ import annotations

import pytest

from holter.schema.phases import Phase

pytest.importorskip("accelerate", reason="accelerate is not installed")


def test_accelerate_launch_with_accumulation(record):
    recording = record(
        """
        from accelerate import Accelerator
        accelerator = Accelerator(gradient_accumulation_steps=2, cpu=True)
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)
        loader = DataLoader(data(), batch_size=4)
        model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                print("loss", loss.item())
                accelerator.backward(loss)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        accelerator.save_state("state")
        """,
        launcher=("-m", "accelerate.commands.launch", "--cpu", "--num_processes=1", "--num_machines=1"),
    )
    trainer = recording.trainer
    assert len(trainer.of(Phase.STEP)) == 4
    losses = [float(line.split()[1]) for line in recording.stdout.splitlines() if line.startswith("loss")]
    assert trainer.scalars("loss") == pytest.approx(losses)
    assert trainer.per_step(Phase.BACKWARD) == trainer.per_step(Phase.FORWARD) == [2] * 4
    assert {s.name for s in trainer.of(Phase.OPTIMIZER)} == {"AdamW"}
    assert {s.name for s in trainer.of(Phase.FORWARD)} == {"Net"}
    assert trainer.facts["loader"][0]["dataset"] == "torch.utils.data.dataset.TensorDataset"
    assert trainer.of(Phase.CHECKPOINT)
