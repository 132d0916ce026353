"""Where a step ends, for every way people write a loop."""

from __future__ import annotations

import math

import pytest

from holter.schema.phases import Mode, Phase


@pytest.mark.capability("PyTorch", "steps", parts="data loading, forward, loss, backward, optimizer")
def test_plain_loop(record):
    trainer = record("""
        torch.manual_seed(0)
        model, criterion = Net(), nn.CrossEntropyLoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.5)
        for epoch in range(3):
            for x, y in DataLoader(data(), batch_size=8, shuffle=True):
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                schedule.step()
                print(loss.item())
    """)
    losses = [float(line) for line in trainer.stdout.split()]
    trainer = trainer.trainer
    steps = trainer.of(Phase.STEP)
    assert [s.step for s in steps] == list(range(12))
    assert {s.mode for s in steps} == {Mode.TRAIN}
    assert [a.end for a in steps[:-1]] == [b.begin for b in steps[1:]]
    for phase in (Phase.FORWARD, Phase.LOSS, Phase.BACKWARD, Phase.OPTIMIZER):
        assert trainer.per_step(phase) == [1] * 12, phase
        for span in trainer.of(phase):
            assert span.inside(steps[span.step])
    order = [Phase.DATA_LOADING, Phase.FORWARD, Phase.LOSS, Phase.BACKWARD, Phase.OPTIMIZER]
    for step in steps[1:4]:
        inside = [s.phase for s in trainer.spans if s.step == step.step and s.phase in order]
        assert inside == order
    assert {s.name for s in trainer.of(Phase.FORWARD)} == {"Net"}
    assert {s.name for s in trainer.of(Phase.OPTIMIZER)} == {"SGD"}
    assert trainer.scalars("loss") == losses
    assert trainer.scalars("lr") == pytest.approx([0.1, 0.05, 0.025])
    assert [s.step for s in trainer.of(Phase.SCALAR, "lr")] == [0, 4, 8]
    assert trainer.facts["framework"][0]["name"] == "pytorch"


@pytest.mark.capability("PyTorch", steps="accumulation of gradients")
def test_gradient_accumulation_is_one_step(record):
    recording = record("""
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for i, (x, y) in enumerate(DataLoader(data(48), batch_size=4)):
            loss = nn.functional.cross_entropy(model(x), y)
            print(loss.item())
            (loss / 3).backward()
            if (i + 1) % 3 == 0:
                optimizer.step()
                optimizer.zero_grad()
    """)
    trainer = recording.trainer
    assert len(trainer.of(Phase.STEP)) == 4
    for phase in (Phase.FORWARD, Phase.LOSS, Phase.BACKWARD):
        assert trainer.per_step(phase) == [3] * 4
    # The losses as the script reports them, not as they are divided before the backward pass.
    assert trainer.scalars("loss") == pytest.approx([float(line) for line in recording.stdout.split()])
    assert trainer.per_step(Phase.SCALAR, "loss") == [3] * 4


def test_numbers_that_the_user_logs_take_the_place_of_those_that_are_read(record):
    trainer = record("""
        import holter
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for i, (x, y) in enumerate(DataLoader(data(48), batch_size=4)):
            loss = nn.functional.cross_entropy(model(x), y) / 3
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            holter.log(loss=100.0 + i, lr=200.0 + i, grad_norm=300.0 + i)
    """).trainer
    for name, first in (("loss", 100.0), ("lr", 200.0), ("grad_norm", 300.0)):
        seen = [value for value in trainer.scalars(name) if value >= 100]
        assert seen == [first + i for i in range(12)]
        # What was read before the first of the user's is all there is of ours.
        assert len(trainer.scalars(name)) <= 13


@pytest.mark.capability("PyTorch", steps="several optimizers")
@pytest.mark.parametrize("critic", [1, 3])
def test_two_optimizers_are_one_step(record, critic):
    trainer = record(
        """
        import sys
        generator, critic = Net(8, 8), Net(8, 1)
        optimizers = [torch.optim.Adam(m.parameters(), lr=1e-3) for m in (critic, generator)]
        for i in range(7):
            for _ in range(int(sys.argv[1])):
                optimizers[0].zero_grad()
                fake = critic(generator(torch.randn(4, 8)).detach())
                (fake.mean() - critic(torch.randn(4, 8)).mean()).backward()
                optimizers[0].step()
            optimizers[1].zero_grad()
            (-critic(generator(torch.randn(4, 8))).mean()).backward()
            optimizers[1].step()
        """,
        str(critic),
    ).trainer
    assert len(trainer.of(Phase.STEP)) == 7
    assert trainer.per_step(Phase.OPTIMIZER) == [critic + 1] * 7
    assert trainer.per_step(Phase.BACKWARD) == [critic + 1] * 7


def test_models_that_train_one_after_the_other_with_a_validation_each(record):
    """As in a cross-validation whose models and optimizers exist from the beginning."""
    recording = record("""
        models = [Net() for _ in range(3)]
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
        for model, optimizer in zip(models, optimizers):
            model.train()
            for x, y in DataLoader(data(96), batch_size=8):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                for x, y in DataLoader(data(16), batch_size=8):
                    model(x)
    """)
    assert recording.trainer.per_step(Phase.OPTIMIZER) == [1] * 36


def test_layers_that_train_one_after_the_other_without_a_loader(record):
    """As in the Forward-Forward algorithm: all optimizers exist, and no batch ends a step."""
    trainer = record("""
        layers = [nn.Linear(8, 8) for _ in range(3)]
        optimizers = [torch.optim.Adam(layer.parameters(), lr=1e-3) for layer in layers]
        x = torch.randn(16, 8)
        for layer, optimizer in zip(layers, optimizers):
            for _ in range(20):
                optimizer.zero_grad()
                layer.forward(x).pow(2).mean().backward()
                optimizer.step()
            x = layer.forward(x).detach()
    """).trainer
    steps = trainer.of(Phase.STEP)
    counted = [1 if math.isnan(step.value) else int(step.value) for step in steps]
    assert sum(counted) == 60
    assert counted[0] == 7, "until it is known that the other optimizers do not step"
    assert steps[-1].step == 59


def test_optimizers_of_single_parameters_stepping_in_gradient_hooks(record):
    trainer = record("""
        model = Net()
        each = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}
        def hook(p):
            each[p].step()
            each[p].zero_grad()
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(hook)
        for x, y in DataLoader(data(), batch_size=4):
            nn.functional.cross_entropy(model(x), y).backward()
    """).trainer
    steps = trainer.of(Phase.STEP)
    assert len(steps) == 8
    assert trainer.per_step(Phase.OPTIMIZER) == [4] * 8
    assert trainer.per_step(Phase.BACKWARD) == [1] * 8
    for span in trainer.of(Phase.BACKWARD):
        assert span.inside(steps[span.step])


def test_lbfgs_closure(record):
    trainer = record("""
        model = nn.Linear(8, 2)
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
        x, y = data().tensors
        def closure():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            return loss
        for _ in range(5):
            optimizer.step(closure)
    """).trainer
    optimizer = trainer.of(Phase.OPTIMIZER, "LBFGS")
    assert len(optimizer) == len(trainer.of(Phase.STEP)) == 5
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        assert len(trainer.of(phase)) > 5
        for span in trainer.of(phase):
            assert span.inside(optimizer[span.step])


def test_an_optimizer_that_raises_leaves_no_span_open(record):
    trainer = record("""
        model = Net()
        class Sulky(torch.optim.SGD):
            calls = 0
            def step(self, closure=None):
                Sulky.calls += 1
                if Sulky.calls == 2:
                    raise RuntimeError("out of memory")
                return super().step(closure)
        optimizer = Sulky(model.parameters(), lr=0.1)
        for x, y in DataLoader(data(), batch_size=8):
            nn.functional.cross_entropy(model(x), y).backward()
            try:
                optimizer.step()
            except RuntimeError:
                optimizer.zero_grad()
    """).trainer
    assert len(trainer.of(Phase.OPTIMIZER)) == len(trainer.of(Phase.STEP)) == 3
    assert len(trainer.of(Phase.FORWARD)) == 4


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


def test_numbers_of_tensors_belong_to_the_same_steps_when_the_script_marks_them(record):
    loop = """
        import contextlib, holter
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in list(DataLoader(data(96), batch_size=4)):
            with {mark}():
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()
        """
    plain, marked = (
        record(loop.format(mark=mark)).trainer for mark in ("contextlib.nullcontext", "holter.step")
    )
    steps = [span.step for span in plain.of(Phase.SCALAR, "grad_norm")]
    assert len(steps) > 2
    assert [span.step for span in marked.of(Phase.SCALAR, "grad_norm")] == steps
    assert [one["owner"] for one in marked.facts["owner"]] == ["script"]
