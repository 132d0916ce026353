"""Losses of a step, in the unit in which the script reports them."""

from __future__ import annotations

import pytest

from holter.schema.phases import Phase


@pytest.mark.capability("PyTorch", "numbers")
def test_the_loss_of_accumulated_targets_is_their_mean(record):
    recording = record("""
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        batches = list(DataLoader(data(24), batch_size=4))
        for step in range(3):
            for x, y in batches[2 * step : 2 * step + 2]:
                loss = nn.functional.cross_entropy(model(x), y, reduction="sum")
                print(loss.item() / len(y))
                (loss / torch.tensor(8)).backward()
            optimizer.step()
            optimizer.zero_grad()
    """)
    losses = [float(line) for line in recording.stdout.split()]
    assert recording.trainer.scalars("loss") == pytest.approx(losses)


@pytest.mark.parametrize("loss", ["criterion(model(x), y) / 2", "model(x).pow(2).sum() / len(x)"])
def test_a_division_that_is_part_of_the_loss_is_kept(record, loss):
    recording = record(f"""
        model, criterion = Net(), nn.CrossEntropyLoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(6):
            for x, y in DataLoader(data(16), batch_size=8):
                loss = {loss}
                print(loss.item())
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
    """)
    losses = [float(line) for line in recording.stdout.split()]
    assert recording.trainer.scalars("loss") == pytest.approx(losses)


def test_losses_scaled_by_a_scaler_and_divided(record):
    recording = record("""
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        for i, (x, y) in enumerate(DataLoader(data(32), batch_size=4)):
            loss = nn.functional.cross_entropy(model(x), y)
            print(loss.item())
            scaler.scale(loss / 2).backward()
            if i % 2:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
    """)
    losses = [float(line) for line in recording.stdout.split()]
    assert recording.trainer.scalars("loss") == pytest.approx(losses)


def test_different_losses_of_a_step_are_told_apart(record):
    recording = record("""
        generator, critic = Net(8, 8), Net(8, 1)
        optimizers = [torch.optim.Adam(m.parameters(), lr=1e-3) for m in (critic, generator)]
        def down(name, loss):
            print(name, loss.item())
            loss.backward()
        for x, _ in DataLoader(data(68), batch_size=4):
            down("loss", critic(x).mean())
            down("loss_2", -critic(generator(x).detach()).mean())
            optimizers[0].step()
            down("loss_3", critic(generator(x)).mean())
            optimizers[1].step()
    """)
    said = [line.split() for line in recording.stdout.splitlines()]
    for name in ("loss", "loss_2", "loss_3"):
        losses = [float(value) for which, value in said if which == name]
        assert recording.trainer.scalars(name) == losses
        assert recording.trainer.per_step(Phase.SCALAR, name) == [1] * 17
