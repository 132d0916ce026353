"""Forward passes that are no training step, several trainings, models of every make."""

from __future__ import annotations

import math

import pytest

from holter.schema.phases import Mode, Phase


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


def test_passes_that_build_and_describe_a_model_are_no_steps(record):
    """As in YOLOv5: each layer is called once to learn its stride, and a copy counts operations."""
    trainer = record("""
        import copy
        layers = [nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(12)]
        model = nn.Sequential(*layers, nn.Linear(8, 4))
        x = torch.zeros(1, 8)
        for layer in model:
            x = layer(x)
        copy.deepcopy(model).eval()(torch.zeros(1, 8))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in DataLoader(data(), batch_size=8):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    """).trainer
    steps = trainer.of(Phase.STEP)
    assert [s.step for s in steps] == [0, 1, 2, 3]
    assert {s.mode for s in steps} == {Mode.TRAIN}


def test_parts_of_a_model_that_sample_are_an_evaluation(record):
    """As in diffusion models: a copy of the trained model samples with a part of it."""
    trainer = record("""
        import copy
        class Diffusion(nn.Module):
            def __init__(self):
                super().__init__()
                self.model = Net()
            def forward(self, x):
                return self.model(x)
            def sample(self):
                return [self.model(torch.randn(2, 8)) for _ in range(5)]
        model = Diffusion()
        copied = copy.deepcopy(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step, (x, y) in enumerate(DataLoader(data(160), batch_size=8)):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            if step % 10 == 9:
                copied.eval()
                with torch.inference_mode():
                    copied.sample()
    """).trainer
    assert len(trainer.of(Phase.STEP)) == 20
    evals = [s for s in trainer.of(Phase.FORWARD) if s.mode is Mode.EVAL]
    assert [(s.name, s.step) for s in evals] == [("Net", 10)] * 5 + [("Net", 20)] * 5


def test_evaluation_inside_the_loop_is_no_step(record):
    trainer = record("""
        model, other = Net(), Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train, val = DataLoader(data(), batch_size=8), DataLoader(data(16), batch_size=4)
        for epoch in range(3):
            model.train()
            for x, y in train:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                for x, y in val:
                    model(x)
        class Teacher(Net): pass
        teacher = Teacher().eval()
        teacher(torch.randn(2, 8))
    """).trainer
    assert len(trainer.of(Phase.STEP)) == 12
    evals = [s for s in trainer.of(Phase.FORWARD) if s.mode is Mode.EVAL]
    assert [s.name for s in evals] == ["Net"] * 12 + ["Teacher"]
    assert [s.step for s in evals] == [4] * 4 + [8] * 4 + [12] * 5
    assert [s.value == 1 for s in evals] == [False] * 4 + [True] * 8 + [False], "a teacher never alternates"
    assert len([s for s in trainer.of(Phase.FORWARD) if s.mode is Mode.TRAIN]) == 12
    loaders = trainer.facts["loader"]
    assert [(fact["index"], fact["batch_size"], fact["kind"]) for fact in loaders] == [
        (0, 8, "single"),
        (1, 4, "single"),
    ]
    assert len([s for s in trainer.of(Phase.DATA_LOADING, "next batch") if s.value == 1.0]) == 3 * 5


def test_a_second_training_in_the_same_process(record):
    trainer = record("""
        class Other(Net): pass
        for cls in (Net, Other):
            model = cls()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in DataLoader(data(), batch_size=4):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
    """).trainer
    assert len(trainer.of(Phase.STEP)) == 16
    assert [s.name for s in trainer.of(Phase.FORWARD)] == ["Net"] * 8 + ["Other"] * 8


def test_a_loss_that_is_not_a_number_is_recorded_as_it_is(record):
    trainer = record("""
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in range(4):
            optimizer.zero_grad()
            (model(torch.randn(2, 8)).sum() * float("nan" if i == 2 else 1)).backward()
            optimizer.step()
    """).trainer
    assert [math.isnan(v) for v in trainer.scalars("loss")][:3] == [False, False, True]


def test_an_optimizer_inside_another_and_a_closure(record):
    trainer = record("""
        class Outer(torch.optim.Optimizer):
            def __init__(self, params):
                params = list(params)
                super().__init__(params, {"lr": 0.5})
                self.inner = torch.optim.SGD(params, lr=0.1)
            def step(self, closure=None):
                with torch.enable_grad():
                    loss = closure()
                self.inner.step()
                return loss
        model = Net()
        optimizer = Outer(model.parameters())
        for x, y in DataLoader(data(), batch_size=4):
            def closure():
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                return loss
            optimizer.step(closure)
    """).trainer
    assert len(trainer.of(Phase.STEP)) == 8
    assert {s.name for s in trainer.of(Phase.OPTIMIZER)} == {"Outer"}
    for phase in (Phase.OPTIMIZER, Phase.FORWARD, Phase.LOSS, Phase.BACKWARD):
        assert trainer.per_step(phase) == [1] * 8


@pytest.mark.parametrize("kind", ["torch.jit.script", "torch.fx.symbolic_trace", "nn.DataParallel"])
def test_models_of_generated_classes(record, kind):
    trainer = record(f"""
        model = {kind}(Net())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in DataLoader(data(), batch_size=4):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    """).trainer
    assert trainer.per_step(Phase.FORWARD) == [1] * 8


def test_a_teacher_and_losses_with_parts(record):
    trainer = record("""
        class PerceptualLoss(nn.Module):
            def __init__(self):
                super().__init__()
                self.features = nn.Linear(2, 2).requires_grad_(False)
            def forward(self, a, b):
                return (self.features(a) - self.features(b)).pow(2).mean()
        student, teacher, criterion = Net(), Net().eval(), nn.CrossEntropyLoss(weight=torch.ones(2))
        optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
        for x, y in DataLoader(data(), batch_size=4):
            optimizer.zero_grad()
            with torch.no_grad():
                target = teacher(x)
            criterion(student(x), y).backward()
            optimizer.step()
    """).trainer
    assert {s.name for s in trainer.of(Phase.FORWARD)} == {"Net"}
    assert trainer.per_step(Phase.FORWARD) == [2] * 8
    modes = [s.mode for s in trainer.of(Phase.FORWARD)]
    assert modes == [Mode.EVAL, Mode.TRAIN] * 8
