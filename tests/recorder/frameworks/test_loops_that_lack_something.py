"""Where a step ends in loops that lack something: a data loader, an optimizer, both."""

from __future__ import annotations

import pytest

from holter.schema.phases import Mode, Phase


def test_without_data_loader(record):
    trainer = record("""
        model = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 1)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(10):
            optimizer.zero_grad(set_to_none=False)
            model(torch.randn(4, 8)).pow(2).mean().backward()
            optimizer.step()
    """).trainer
    assert len(trainer.of(Phase.STEP)) == 10
    assert not trainer.of(Phase.DATA_LOADING)
    assert trainer.per_step(Phase.FORWARD) == [1] * 10
    assert {s.name for s in trainer.of(Phase.FORWARD)} == {"Sequential"}


def test_parameters_updated_by_hand(record):
    trainer = record("""
        model = Net()
        for x, y in DataLoader(data(), batch_size=8):
            nn.functional.cross_entropy(model(x), y).backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad
                    p.grad = None
    """).trainer
    assert [s.mode for s in trainer.of(Phase.STEP)] == [Mode.TRAIN] * 4
    assert trainer.per_step(Phase.BACKWARD) == [1] * 4


@pytest.mark.parametrize("guarded", ["1", ""])
def test_inference_steps_are_forward_passes(record, guarded):
    trainer = record(
        """
        import contextlib, sys
        model = Net()
        if sys.argv[1:] and sys.argv[1]:
            model.eval()
        with torch.no_grad() if sys.argv[1] else contextlib.nullcontext():
            for x, y in DataLoader(data(64), batch_size=4):
                model(x).argmax(1)
        """,
        guarded,
    ).trainer
    steps = trainer.of(Phase.STEP)
    # A model in training mode might be trained by hand: that it is not shows after a few calls.
    assert len(steps) == (16 if guarded else 13)
    assert {s.mode for s in steps} == {Mode.PREDICT}
    assert trainer.per_step(Phase.FORWARD) == [1 if guarded else 4] + [1] * (len(steps) - 1)
    assert not trainer.of(Phase.BACKWARD)
