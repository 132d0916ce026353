"""Iterations over loaders that no optimizer ends each time."""

from __future__ import annotations

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
