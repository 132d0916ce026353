"""Loops written with accelerate, which wraps models, optimizers and loaders in classes of its own."""

from __future__ import annotations

import pytest

from holter.schema.phases import Phase

pytest.importorskip("accelerate", reason="accelerate is not installed")


@pytest.mark.capability("Accelerate", "steps", "numbers", "checkpoints")
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


def test_a_loader_that_is_a_batch_ahead_and_copies_to_a_device(record):
    recording = record(
        """
        import time
        from accelerate.data_loader import prepare_data_loader

        class Slow(Dataset):
            def __len__(self): return 24
            def __getitem__(self, at):
                time.sleep(0.002)
                return torch.randn(8)

        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = prepare_data_loader(DataLoader(Slow(), batch_size=4), "meta", put_on_device=True)
        for x in loader:
            assert x.device.type == "meta"
            model(torch.ones(x.shape)).sum().backward()  # a meta tensor has no values
            optimizer.step()
            optimizer.zero_grad()
        """
    )
    trainer = recording.trainer
    assert len(trainer.of(Phase.STEP)) == 6
    # The first step loads two batches, the last one learns that there is no other.
    assert trainer.per_step(Phase.DATA_LOADING, "next batch") == [2, 1, 1, 1, 1, 1]
    copies = [span for span in trainer.of(Phase.H2D) if span.name == "meta"]
    assert [span.step for span in copies] == list(range(6))
    assert all(span.value == 4 * 8 * 4 for span in copies)
    loads = trainer.of(Phase.DATA_LOADING, "next batch")
    assert not any(copy.inside(load) for copy in copies for load in loads)
    first = trainer.of(Phase.STEP)[0]
    assert all(first.begin <= span.begin for span in loads)
