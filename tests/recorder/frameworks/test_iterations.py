"""Iterations over loaders that no optimizer ends each time."""

from __future__ import annotations

import pytest

from holter.recorder.frameworks.pytorch.stepping.unused_optimizers import PATIENCE
from holter.schema.phases import Phase


def test_a_critic_that_steps_more_often_makes_no_step_longer(record):
    trainer = record("""
        generator, critic = Net(8, 8), Net(8, 1)
        slow, fast = (torch.optim.Adam(m.parameters(), lr=1e-3) for m in (generator, critic))
        for epoch in range(2):
            for i, (x, _) in enumerate(DataLoader(data(68), batch_size=4)):
                fast.zero_grad()
                (critic(generator(x).detach()).mean() - critic(x).mean()).backward()
                fast.step()
                if i % 5 == 0:
                    slow.zero_grad()
                    (-critic(generator(x)).mean()).backward()
                    slow.step()
    """).trainer
    assert len(trainer.of(Phase.STEP)) == 34
    assert trainer.per_step(Phase.BACKWARD) == trainer.per_step(Phase.OPTIMIZER)
    assert trainer.per_step(Phase.OPTIMIZER) == [2 if i % 17 % 5 == 0 else 1 for i in range(34)]


def test_two_loaders_and_two_optimizers_make_one_step(record):
    trainer = record("""
        first, second = Net(), Net()
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (first, second)]
        other = iter(DataLoader(data(64), batch_size=4))
        for x, y in DataLoader(data(64), batch_size=4):
            nn.functional.cross_entropy(first(x), y).backward()
            optimizers[0].step()
            x, y = next(other)
            nn.functional.cross_entropy(second(x), y).backward()
            optimizers[1].step()
    """).trainer
    assert trainer.per_step(Phase.OPTIMIZER) == [2] * 16


BY_HAND = """
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {deleted}
    for x, y in DataLoader(data(640), batch_size=4):
        nn.functional.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
"""


@pytest.mark.parametrize(("deleted", "counted"), [("del optimizer", 160), ("", 160 - PATIENCE)])
def test_an_optimizer_that_never_steps_is_not_awaited_forever(record, deleted, counted):
    trainer = record(BY_HAND.format(deleted=deleted)).trainer
    assert len(trainer.of(Phase.STEP)) == counted
    # All passes before are a part of the first step.
    assert trainer.per_step(Phase.BACKWARD) == [161 - counted] + [1] * (counted - 1)


def test_an_optimizer_that_accumulates_passes_is_awaited(record):
    trainer = record("""
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i, (x, y) in enumerate(DataLoader(data(360), batch_size=2)):
            nn.functional.cross_entropy(model(x), y).backward()
            if i % 90 == 89:
                optimizer.step()
    """).trainer
    assert trainer.per_step(Phase.BACKWARD) == [90, 90]
